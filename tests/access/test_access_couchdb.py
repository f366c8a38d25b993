"""Users of a database as clients of growd, against a stand-in and, where one is named, a real CouchDB."""

import asyncio
import json
import os
from contextlib import AsyncExitStack
from uuid import uuid4

import aiohttp
import msgspec
import pytest

from growd.access.sessions import SessionLimits
from growd.status.status_node import StatusNode
from growd_cli.client import NOT_ALLOWED
from support.couch_client import COUCHDB_ADDRESS, FILES, client_of
from support.database import named_server
from support.guarded import PARAM, PLAN, RESET, guarded_daemon, users_of
from support.program import said, started
from support.raw_http import raw_client
from support.rows import each
from support.session_server import ADMIN, session_server
from support.waiting import PATIENCE_S, until

STREAMS = [
    f"/_svc/api/0.0.1/{stream}environment_1/measured/air_carbon_dioxide"
    for stream in ("topic_stream/", "stream?topic=")
]
SESSION = "/_svc/api/0.0.1/session"
ELSEWHERE = "192.0.2.7"


@pytest.fixture(params=["stand-in", "couchdb"])
async def users(request):
    async with AsyncExitStack() as stack:
        if request.param == "stand-in":
            url, admin = (await stack.enter_async_context(session_server())).url, ADMIN
        else:
            address = os.environ.get(COUCHDB_ADDRESS)
            if not address:
                pytest.skip(f"{COUCHDB_ADDRESS} names no CouchDB")
            server = named_server(address)
            url, admin = server.url, server.auth
        yield await stack.enter_async_context(users_of(url, admin))


@pytest.fixture
async def daemon(users):
    async with guarded_daemon(users.url) as running:
        yield running


async def guess(ask, name, count, first=0, **options):
    return [(await ask((name, f"guess {first + i}"), **options)).status for i in range(count)]


class TestRoles:
    async def test_nobody_is_refused_and_asked_for_a_login(self, daemon):
        before = daemon.state()
        needed = "a login is required"
        for answer in (
            await daemon.read(),
            await daemon.write(),
            await daemon.call(RESET),
            await daemon.call(PLAN),
        ):
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == 'Basic realm="growd", charset="UTF-8"'
            assert answer.json == {"ERROR": needed, "error": "unauthorized", "reason": needed}
        assert daemon.state() == before

    async def test_each_role_may_what_it_is_for_and_what_the_lower_may(self, daemon, users):
        logins = {
            await users.add("other"): (403, 403, 403, 403, 403),
            await users.add("growd_reader"): (200, 200, 403, 403, 403),
            await users.add("growd_operator"): (200, 200, 200, 200, 403),
            await users.add("growd_admin"): (200, 200, 200, 200, 200),
            users.admin: (200, 200, 200, 200, 200),  # of the database
        }
        for login, statuses in logins.items():
            answers = (
                await daemon.read(login),
                await daemon.call(PLAN, login),
                await daemon.write(login),
                await daemon.call("environment_1/stop_recipe", login),
                await daemon.call(RESET, login),
            )
            assert tuple(answer.status for answer in answers) == statuses, login

    async def test_with_open_reading_everybody_is_a_reader(self, users):
        async with guarded_daemon(users.url, open_reading=True) as daemon:
            other, operator = await users.add("other"), await users.add("growd_operator")
            for login in (None, ("nobody", "wrong"), other):
                assert (await daemon.read(login)).status == 200
                assert await told(daemon, login) == (login[0] if login is other else "", "reader")
            assert (await daemon.call(PLAN)).status == 200
            for service in (RESET, "no_such_service"):
                assert (await daemon.call(service)).status == 401
            assert (await daemon.write()).status == 401
            assert (await daemon.write(other)).status == 403
            assert (await daemon.write(operator)).status == 200
            assert await told(daemon, operator) == (operator[0], "operator")

    async def test_the_role_that_is_missing_is_named(self, daemon, users):
        login = await users.add("growd_reader")
        answer = await daemon.write(login)
        assert "lacks the role growd_operator, required for operating" in answer.json["reason"]
        await users.change(login[0], roles=["growd_operator"])
        daemon.time.now += SessionLimits().answer_s
        answer = await daemon.call(RESET, login)
        assert answer.json["reason"] == f"{login[0]} lacks the role growd_admin, required for administration"
        assert answer.json["error"] == "forbidden"

    async def test_the_alias_of_a_service_takes_the_same_role(self, daemon, users):
        login = await users.add("growd_operator")
        for name in (RESET.replace("/", "%2F"), f"/{RESET}", f"environments/{RESET}"):
            assert (await daemon.call(name, login)).status == 403


class TestLogins:
    async def test_a_wrong_password_and_an_unknown_name_are_told_alike(self, daemon, users):
        name, _ = await users.add("growd_admin")
        wrong = await daemon.read((name, "wrong"))
        unknown = await daemon.read((f"{name}x", "wrong"))
        assert wrong.status == unknown.status == 401
        assert wrong.json == unknown.json
        assert wrong.headers["WWW-Authenticate"].startswith("Basic ")

    async def test_names_and_passwords_in_any_script(self, daemon, users):
        login = await users.add("growd_reader", name="gärtner-温室-", password="Grün: 🌱 ключ ")
        assert (await daemon.read(login)).status == 200
        assert (await daemon.read((login[0], login[1].strip()))).status == 401

    async def test_a_page_that_says_so_makes_no_browser_ask(self, daemon):
        answer = await daemon.read(X_CouchDB_WWW_Authenticate="Cookie")
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Cookie")

    @each(
        ("authorization", "status"),
        [
            ("Basic Xzpf", 401),  # "_:_"
            ("Basic bm9jb2xvbg==", 401),
            ("Basic %%%", 400),
            ("Basic YWRt aW46c2VjcmV0", 400),  # white space within, which CouchDB skips
            ("basic YWRtaW46c2VjcmV0", 401),  # which CouchDB does not read
            ("Bearer e30.e30.e30", 401),
            ("Negotiate abc", 401),
            ("", 401),
        ],
    )
    async def test_what_is_no_login_is_none(self, daemon, authorization, status):
        assert (await daemon.read(Authorization=authorization)).status == status

    async def test_two_logins_in_one_request_are_refused(self, daemon, users):
        headers = [("Authorization", "Basic YWRtaW46c2VjcmV0")] * 2
        async with daemon.session.get(f"{daemon.origin}{PARAM}", headers=headers) as response:
            assert response.status == 400

    async def test_a_huge_login_is_refused_before_anybody_is_asked(self, daemon):
        answer = await daemon.read(("u" * 5_000, "p" * 5_000))
        assert answer.status == 400
        assert "longer than 8192 bytes" in answer.json["reason"]


class TestCookies:
    async def test_a_session_begun_through_the_front_door_is_good_for_the_api(self, daemon, users):
        name, password = await users.add("growd_operator")
        answer = await daemon.request("POST", "/_session", body={"name": name, "password": password})
        assert answer.status == 200
        cookie = answer.headers["Set-Cookie"].partition(";")[0].partition("=")[2]
        assert (await daemon.write(cookie=cookie)).status == 200

    async def test_an_expired_or_forged_cookie_is_no_login(self, daemon, users):
        name, _ = await users.add("growd_admin")
        assert (await daemon.read(cookie=await users.cookie(name, age_s=500))).status == 200
        assert (await daemon.read(cookie=await users.cookie(name, age_s=700))).status == 401
        good = await users.cookie(name)
        forged = good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB")
        assert (await daemon.read(cookie=forged)).status == 401
        answer = await daemon.read(cookie="xyz")
        assert (answer.status, "Malformed AuthSession cookie" in answer.json["reason"]) == (400, True)

    async def test_a_renewed_cookie_reaches_the_client(self, daemon, users):
        name, _ = await users.add("growd_reader")
        old = await users.cookie(name, age_s=120)
        renewed = (await daemon.read(cookie=old)).headers["Set-Cookie"]
        assert renewed.startswith("AuthSession=")
        assert "Set-Cookie" not in (await daemon.read(cookie=old)).headers  # it is not kept
        assert (await daemon.read(cookie=renewed.partition(";")[0].partition("=")[2])).status == 200
        assert "Set-Cookie" not in (await daemon.read(cookie=await users.cookie(name))).headers

    async def test_of_two_kinds_of_login_growd_believes_the_one_that_the_database_does(self, daemon, users):
        reader, operator = await users.add("growd_reader"), await users.add("growd_operator")
        fresh, old = await users.cookie(reader[0]), await users.cookie(reader[0], age_s=700)
        for login, cookie in (
            (operator, fresh),
            ((operator[0], "wrong"), fresh),
            (operator, old),
            ((operator[0], "wrong again"), old),
            (operator, "xyz"),
        ):
            headers = {"Authorization": aiohttp.encode_basic_auth(*login), "Cookie": f"AuthSession={cookie}"}
            async with daemon.session.get(f"{users.url}/_session", headers=headers) as said:
                status, told = said.status, await said.json(content_type=None)
            if status == 200 and told["userCtx"]["name"] != operator[0]:
                status = 403
            assert (await daemon.write(login, cookie=cookie)).status == status


class TestSession:
    """`GET session`, which a page asks before and after a login."""

    async def test_everybody_is_told_user_and_role(self, daemon, users):
        assert await told(daemon) == ("", "")
        for login, role in (
            (await users.add("growd_reader"), "reader"),
            (await users.add("growd_operator", "growd_reader"), "operator"),
            (await users.add("growd_admin"), "admin"),
            (await users.add("other"), ""),
            (users.admin, "admin"),
        ):
            assert await told(daemon, login) == (login[0], role)

    async def test_a_login_that_is_not_valid_is_none(self, daemon, users):
        name, _ = await users.add("growd_admin")
        for cookie in ("xyz", "", await users.cookie(name, age_s=700)):
            assert await told(daemon, cookie=cookie) == ("", "")

    async def test_a_wrong_password_is_no_login_and_counts_as_a_guess(self, daemon, users):
        name, _ = await users.add("growd_admin")
        for guessed in range(4):
            assert await told(daemon, (name, f"guess {guessed}"), address=ELSEWHERE) == ("", "")
        assert (await daemon.read((name, "guess"), address=ELSEWHERE)).status == 429


async def told(daemon, login=None, **options):
    """User and role as a daemon with logins tells them."""
    answer = await daemon.request("GET", SESSION, login, **options)
    assert answer.status == 200
    assert answer.json["access"] == "couchdb"
    return answer.json["user"], answer.json["role"]


class TestChanges:
    async def test_a_deleted_user_is_out_when_the_answer_has_expired(self, daemon, users):
        login = await users.add("growd_operator")
        assert (await daemon.write(login)).status == 200
        await users.delete(login[0])
        daemon.time.now += SessionLimits().answer_s - 1
        assert (await daemon.write(login)).status == 200
        daemon.time.now += 1
        assert (await daemon.write(login)).status == 401

    async def test_a_changed_password_and_changed_roles_hold_from_then_on(self, daemon, users):
        name, old = await users.add("growd_operator")
        assert (await daemon.write((name, old))).status == 200
        await users.change(name, password="new", roles=["growd_reader"])
        assert (await daemon.read((name, "new"))).status == 200
        daemon.time.now += SessionLimits().answer_s
        assert (await daemon.read((name, old))).status == 401
        assert (await daemon.write((name, "new"))).status == 403

    @pytest.mark.parametrize("stream", STREAMS)
    async def test_a_stream_ends_for_who_may_read_no_more(self, users, stream):
        async with guarded_daemon(users.url) as daemon, asyncio.timeout(PATIENCE_S):
            sessions = daemon.api.access._sessions
            sessions.limits = msgspec.structs.replace(sessions.limits, answer_s=0.05)
            for _ in range(2):  # also after a time in which nobody streamed
                login = await users.add("growd_reader")
                auth = {"Authorization": aiohttp.encode_basic_auth(*login)}
                async with daemon.session.get(daemon.origin + stream, headers=auth) as response:
                    assert response.status == 200
                    await users.delete(login[0])
                    daemon.time.now += SessionLimits().answer_s
                    # broken off, so that nobody takes it for the end
                    with pytest.raises(aiohttp.ClientPayloadError):
                        await response.read()
                await until(lambda: not len(daemon.api.streams) and daemon.api.access._watch.done())


class TestGuesses:
    async def test_after_four_the_next_waits_and_the_database_never_locks_the_user(self, daemon, users):
        login = await users.add("growd_reader")
        statuses = await guess(daemon.read, login[0], 6, address=ELSEWHERE)
        assert statuses == [401] * 4 + [429] * 2
        answer = await daemon.read((login[0], "guess"), address=ELSEWHERE)
        assert 0 < int(answer.headers["Retry-After"]) <= 300
        assert answer.json["error"] == "too_many_failures"
        assert await users.status(login, ELSEWHERE) == 200
        for later, status in ((299, 429), (1, 200)):  # until the right password is let in
            daemon.time.now += later
            assert (await daemon.read(login, address=ELSEWHERE)).status == status

    async def test_a_stranger_keeps_nobody_out(self, daemon, users):
        login = await users.add("growd_reader")
        assert (await daemon.read(login, address=ELSEWHERE)).status == 200
        assert 429 in await guess(daemon.read, login[0], 5, address=ELSEWHERE)
        daemon.time.now += SessionLimits().answer_s
        assert (await daemon.read(login, address=ELSEWHERE)).status == 200  # known there
        assert (await daemon.read(login, address="192.0.2.8")).status == 200
        assert (await daemon.read(login)).status == 200

    async def test_as_many_at_once_are_no_more_than_one_after_the_other(self, daemon, users):
        name, _ = await users.add("growd_reader")
        asked = [daemon.read((name, f"guess {i}"), address=ELSEWHERE) for i in range(12)]
        statuses = [answer.status for answer in await asyncio.gather(*asked)]
        assert sorted(statuses) == [401] * 4 + [429] * 8

    async def test_the_own_cookie_makes_no_room_for_guesses_at_another(self, daemon, users):
        (name, _), (own, _) = await users.add("growd_admin"), await users.add("growd_reader")
        await guess(daemon.read, name, 4, address=ELSEWHERE)
        cookie = await users.cookie(own)
        answer = await daemon.read((name, "guess"), address=ELSEWHERE, cookie=cookie)
        assert answer.status == 429
        daemon.time.now += 301
        assert (await daemon.read((name, "guess b"), address=ELSEWHERE, cookie=cookie)).status == 200
        assert await guess(daemon.read, name, 2, first=10, address=ELSEWHERE) == [401, 429]

    async def test_one_wrong_login_that_is_repeated_is_one_guess(self, daemon, users):
        name, _ = await users.add("growd_reader")
        statuses = [(await daemon.read((name, "wrong"), address=ELSEWHERE)).status for _ in range(10)]
        assert statuses == [401] * 10


class TestFrontDoor:
    async def test_no_login_is_added_to_a_request_for_the_database(self, users):
        user, password = users.admin
        with_login = users.url.replace("//", f"//{user}:{password}@")
        async with guarded_daemon(with_login) as daemon:
            answer = await daemon.request("GET", "/_session")
            assert answer.json["userCtx"] == {"name": None, "roles": []}  # nor is it an admin party
            assert (await daemon.request("GET", "/_all_dbs")).status == 401
            assert (await daemon.request("GET", "/_all_dbs", users.admin)).status == 200

    async def test_the_database_decides_for_itself(self, daemon, users):
        login = await users.add("growd_admin")
        said = await daemon.request("GET", "/_session", login)
        assert said.json["userCtx"] == {"name": login[0], "roles": ["growd_admin"]}
        assert (await daemon.request("GET", "/_all_dbs", login)).status == 401

    async def test_guesses_there_count_as_those_at_the_api_do(self, daemon, users):
        login = await users.add("growd_reader")

        async def ask(login, **options):
            return await daemon.request("GET", "/_all_dbs", login, **options)

        assert await guess(ask, login[0], 3, address=ELSEWHERE) == [401] * 3
        assert await guess(daemon.read, login[0], 2, first=3, address=ELSEWHERE) == [401, 429]
        assert (await ask((login[0], "more"), address=ELSEWHERE)).status == 429
        assert await users.status(login, ELSEWHERE) == 200
        assert (await ask(login, address="192.0.2.9")).status == 401  # let through: no server admin

    async def test_post_session_for_pages_tells_by_where_it_sends_them(self, daemon, users):
        name, password = await users.add("growd_reader")

        async def sent(query, password):
            body = {"name": name, "password": password}
            return (await daemon.request("POST", f"/_session?{query}", body=body, address=ELSEWHERE)).status

        assert [await sent("next=/x", password) for _ in range(6)] == [302] * 6
        assert [await sent("fail=/x", "guess") for _ in range(5)] == [302] * 4 + [429]

    @pytest.mark.parametrize(
        ("target", "status"),
        [
            ("/_session", 401),
            ("http://localhost/_session", 401),
            ("/_session#a", 401),
            ("/_session?a=1;fail=/x", 302),
            ("/%5fsession?f%61il=/x", 302),
        ],
    )
    async def test_no_way_to_write_the_target_makes_room_for_guesses(self, daemon, users, target, status):
        login = await users.add("growd_reader")
        statuses = []
        for number in range(6):
            body = json.dumps({"name": login[0], "password": f"guess {number}"})
            head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {ELSEWHERE}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            async with raw_client(daemon.port) as client:
                await client.send((head + body).encode())
                statuses.append((await client.answer()).status)
        assert statuses == [status] * 4 + [429] * 2
        assert await users.status(login, ELSEWHERE) == 200

    @pytest.mark.parametrize("hidden", [("{}", "Cookie"), ('a="x; {}; b="', "keep-alive")])
    async def test_a_cookie_that_the_database_does_not_see_covers_no_guess(self, daemon, users, hidden):
        (name, _), (own, _) = await users.add("growd_admin"), await users.add("growd_reader")
        headers = {"X_Forwarded_For": ELSEWHERE, "Connection": hidden[1]}
        headers["Cookie"] = hidden[0].format(f"AuthSession={await users.cookie(own)}")

        async def ask(login):
            return await daemon.request("GET", "/_session", login, **headers)

        assert await guess(ask, name, 6) == [401] * 4 + [429] * 2

    async def test_a_basic_login_at_post_session_is_a_guess_like_others(self, daemon, users):
        login = await users.add("growd_reader")

        async def ask(login, **options):
            # where its page shall log in, CouchDB answers a wrong one with the way to there
            return await daemon.request("POST", "/_session", login, Accept="text/html", **options)

        assert await guess(ask, login[0], 6, address=ELSEWHERE) == [401] * 4 + [429] * 2
        assert await users.status(login, ELSEWHERE) == 200

    async def test_who_says_to_be_nobody_is_let_through_as_nobody(self, daemon):
        answer = await daemon.request("GET", "/_session", ("_", "_"))
        assert answer.json["userCtx"]["name"] is None


async def test_the_description_says_how_to_log_in(daemon, users):
    login = await users.add("growd_reader")
    described = (await daemon.request("GET", "/_svc/api/0.0.1/openapi.json", login)).json
    assert described["security"] == [{"basic": []}, {"session": []}, {"token": []}]
    assert described["components"]["securitySchemes"]["basic"]["scheme"] == "basic"
    reads = described["paths"]["/param"]["get"]["responses"]
    assert {"401", "403", "429", "503"} <= set(reads)
    assert json.dumps(described).count("#/components/responses/Login") > 50


class TestCommandLine:
    """`growd` as a client, which logs in as its options say."""

    @pytest.fixture
    async def protected(self, daemon):
        StatusNode(daemon.bus, ["environment_1"])
        return daemon

    async def growd(self, daemon, tmp_path, *arguments, login=None):
        options = ["--url", f"{daemon.origin}/_svc"]
        if login is not None:
            file = tmp_path / "password"
            await asyncio.to_thread(file.write_text, f"{login[1]}\n")
            options += ["--user", login[0], "--password-file", str(file)]
        return await asyncio.to_thread(said, *arguments, *options)

    async def test_status_takes_a_login(self, protected, users, tmp_path):
        status, printed = await self.growd(protected, tmp_path, "status")
        assert (status, "without a login" in printed) == (NOT_ALLOWED, True)
        login = await users.add("growd_reader", name="gärtner-")
        status, printed = await self.growd(protected, tmp_path, "status", "--json", login=login)
        assert status != NOT_ALLOWED
        assert json.loads(printed)["devices"] == []
        status, printed = await self.growd(protected, tmp_path, "status", login=(login[0], "wrong"))
        assert (status, "incorrect" in printed) == (NOT_ALLOWED, True)

    async def test_what_writes_takes_the_role_for_it(self, protected, users, tmp_path):
        arguments = ("param", "set", "owner", '"me"')
        reader, operator = await users.add("growd_reader"), await users.add("growd_operator")
        status, printed = await self.growd(protected, tmp_path, *arguments, login=reader)
        assert (status, "lacks the role growd_operator" in printed) == (NOT_ALLOWED, True)
        assert (await self.growd(protected, tmp_path, *arguments, login=operator))[0] == 0
        assert protected.store.kept == {"owner": "me"}


@pytest.mark.timeout(180)
@pytest.mark.skipif(COUCHDB_ADDRESS not in os.environ, reason=f"{COUCHDB_ADDRESS} names no CouchDB")
async def test_the_whole_program_at_a_couchdb(tmp_path):
    server = named_server(os.environ[COUCHDB_ADDRESS])
    prefix = f"access_{uuid4().hex[:8]}_"
    file = tmp_path / "login"
    file.write_text("\n".join(server.auth))
    settings = {"http.access": "couchdb", "couchdb.url": server.url, "couchdb.prefix": prefix}
    settings["couchdb.credentials_file"] = str(file)
    arguments = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    async with client_of(server.url, server.auth) as couch, users_of(server.url, server.auth) as users:
        try:
            async with started(tmp_path / "data", *arguments) as program, aiohttp.ClientSession() as session:
                login = await users.add("growd_reader")

                async def status(path, login=None):
                    headers = {"Authorization": aiohttp.encode_basic_auth(*login)} if login else {}
                    async with session.get(program.address + path, headers=headers) as response:
                        return response.status

                assert await status("/_svc/health") == 200
                assert [await status(path) for path in (PARAM, "/_svc/metrics")] == [401, 401]
                assert [await status(path, login) for path in (PARAM, "/_svc/metrics")] == [200, 200]
                points = f"/{prefix}environmental_data_point"
                # CouchDB lets in its administrators only, until _security says otherwise
                assert [await status(points, who) for who in (None, login, server.auth)] == [401, 403, 200]
        finally:
            for name in (await couch("GET", "/_all_dbs")).json:
                if name.startswith(prefix):
                    await couch("DELETE", f"/{name}")


@pytest.mark.skipif(COUCHDB_ADDRESS not in os.environ, reason=f"{COUCHDB_ADDRESS} names no CouchDB")
async def test_the_files_for_databases_let_readers_read_and_operators_write():
    server = named_server(os.environ[COUCHDB_ADDRESS])
    database = f"/access_{uuid4().hex}"
    async with client_of(server.url, server.auth) as couch, users_of(server.url, server.auth) as users:
        try:
            assert (await couch("PUT", database)).status == 201
            for place, file in (("_security", "security.json"), ("_design/access", "access.json")):
                content = json.loads(await asyncio.to_thread((FILES / "access" / file).read_text))
                assert (await couch("PUT", f"{database}/{place}", content)).status in {200, 201}
            for role, statuses in (
                ("growd_reader", (200, 403)),
                ("growd_operator", (200, 201)),
                ("growd_admin", (200, 201)),
                ("other", (403, 403)),
            ):
                async with client_of(server.url, await users.add(role)) as client:
                    got = (
                        await client("GET", f"{database}/_all_docs"),
                        await client("PUT", f"{database}/{role}", {}),
                    )
                    assert tuple(answer.status for answer in got) == statuses
            async with client_of(server.url) as client:
                assert (await client("GET", f"{database}/_all_docs")).status == 401
        finally:
            await couch("DELETE", database)
