"""Who may come in: what the configuration has to decide, and what holds while the database is silent."""

import asyncio
import json
import logging

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.access import attempts, sessions
from growd.access.attempts import Attempts
from growd.api.monitoring import add_monitoring
from growd.api.operation import Operation
from growd.bus.fields import Field, Kind
from growd.bus.messages import FLOAT64
from growd.config import Access, Config, ConfigError, Couchdb, Http, load
from growd.config.web import is_loopback
from growd.config.web_checks import what_is_open
from growd.server.errors import ApiError
from growd.server.json_answer import json_answer
from growd.status.status_node import StatusNode
from growd.wiring.access import access_control
from growd_web.part import PageFiles
from support.checkout import ROOT
from support.daemon import serving
from support.guarded import PARAM, Time, guarded_daemon, users_of
from support.program import started
from support.rows import each
from support.session_server import ADMIN, answering, holding, session_server
from support.waiting import until

STALE_S = 30.0  # when the answer of a moment ago is asked for again
OUTAGE_S = 3_600.0
SESSION = "/_svc/api/0.0.1/session"
READER = {"ok": True, "userCtx": {"name": "somebody", "roles": ["growd_reader"]}}


@pytest.fixture
async def database():
    async with session_server() as server:
        yield server


@pytest.fixture
async def users(database):
    async with users_of(database.url, ADMIN) as known:
        yield known
        database.instead = None  # for what is tidied up


@pytest.fixture
async def daemon(database):
    async with guarded_daemon(database.url) as running:
        yield running


class TestDecision:
    @each("host", ["127.0.0.1", "[::1]", "localhost", "::ffff:127.0.0.1"])
    def test_on_the_loopback_nothing_is_to_be_decided(self, host):
        assert load(None, (f"http.host={host}",)).http.access == ""
        assert what_is_open(Config(http=Http(host=host))) == ""

    @each("host", ["0.0.0.0", "::", "growd.local", "localhost.evil.example"])  # noqa: S104
    def test_beyond_it_the_start_stops_and_says_what_would_be_right(self, host, tmp_path):
        file = tmp_path / "growd.toml"
        file.write_text(f'[http]\nhost = "{host}"\n')
        with pytest.raises(ConfigError) as told:
            load(file)
        sentence = str(told.value)
        for word in (str(file), "[http]", "access", host, '"couchdb"', '"open"', "127.0.0.1"):
            assert word in sentence
        assert load(file, ("http.access=open",)).http.access == "open"

    def test_the_embedded_database_knows_no_users(self, said):
        access = "http.access=couchdb"
        with said.raises(ConfigError):
            load(None, (access,))
        assert load(None, (access, "couchdb.url=http://127.0.0.1:5985")).http.access == "couchdb"

    @given(st.ip_addresses())
    def test_of_addresses_those_of_the_loopback_are(self, address):
        assert is_loopback(str(address)) is address.is_loopback

    @pytest.mark.long
    @pytest.mark.parametrize(("option", "status"), [("false", 403), ("true", 201)])
    async def test_it_warns_in_one_sentence_of_what_is_open(self, tmp_path, option, status):
        values = ("http.host=0.0.0.0", "http.access=open", f"couchdb.client_design_documents={option}")
        settings = [word for value in values for word in ("--set", value)]
        async with started(tmp_path, *settings) as program, aiohttp.ClientSession() as session:
            assert program.printed.count("everybody who reaches 0.0.0.0 may") == 1
            assert "read, write and delete everything in the database" in program.printed
            assert ("so they may also run programs as growd" in program.printed) == (option == "true")
            await program.until_there("recipes/_design/svc")
            async with session.put(f"{program.address}/recipes/_design/x", json={}) as answer:
                assert answer.status == status
            async with session.get(f"{program.api}/session") as answer:
                assert await answer.json() == {"access": "open", "user": "", "role": "admin"}

    def test_open_with_a_couchdb_says_what_that_asks_for(self, caplog):
        config = Config(http=Http(host="192.168.1.5", access="open"), couchdb=Couchdb(url="http://h:5984"))
        assert access_control(config, None, "/_svc") is None
        assert "which has its own users" in caplog.text
        assert caplog.records[0].levelno == logging.WARNING

    async def test_on_this_machine_alone_everybody_is_an_administrator(self):
        assert access_control(Config(), None, "/_svc") is None
        async with serving() as daemon:
            answer = await daemon.ask("GET", "/session")
        assert answer.json == {"access": "local", "user": "", "role": "admin"}


class TestQuestions:
    async def test_the_database_gets_the_login_and_where_it_is_from_and_nothing_else(self, daemon, database):
        await daemon.read(
            ("a", "b"), address="192.0.2.1", cookie="c", Accept="x/y", X_Auth_CouchDB_UserName="z"
        )
        (headers,) = database.asked
        assert headers == {
            "Host": database.url.removeprefix("http://"),
            "Authorization": "Basic YTpi",
            "Cookie": "AuthSession=c",
            "X-Forwarded-For": "192.0.2.1",
        }

    async def test_a_token_is_asked_for_as_it_is(self, daemon, database):
        database.instead = answering(200, json.dumps(READER))
        assert (await daemon.read(Authorization="Bearer a.b.c")).status == 200
        assert database.asked[0]["Authorization"] == "Bearer a.b.c"

    async def test_an_answer_is_remembered_for_its_time(self, daemon, database, users):
        login = await users.add("growd_operator")
        asked = len(database.asked)
        for _ in range(5):
            assert (await daemon.write(login)).status == 200
        assert len(database.asked) == asked + 1
        daemon.time.now += STALE_S
        await daemon.read(login)
        assert len(database.asked) == asked + 2

    async def test_who_asks_at_the_same_time_waits_for_one_answer(self, daemon, database, users):
        login = await users.add("growd_reader")
        asked = len(database.asked)
        answers = await asyncio.gather(*(daemon.read(login) for _ in range(20)))
        assert {answer.status for answer in answers} == {200}
        assert len(database.asked) == asked + 1

    async def test_a_client_that_goes_takes_the_question_from_nobody(self, daemon, database, users):
        login = await users.add("growd_reader")
        release = asyncio.Event()
        handle = database._session

        async def slow(request, user):
            await release.wait()
            return await handle(request, user)

        database._session = slow
        asked = len(database.asked)
        first = asyncio.create_task(daemon.read(login))
        await until(lambda: len(database.asked) > asked)
        second = asyncio.create_task(daemon.read(login))
        first.cancel()
        await asyncio.wait([first])
        release.set()
        assert (await second).status == 200
        assert len(database.asked) == asked + 1

    async def test_a_refusal_is_remembered_shortly_without_request_and_password(self, daemon, database):
        for asked in (1, 2):
            for _ in range(3):
                assert (await daemon.read(("a", "b"))).status == 401
            assert len(database.asked) == asked
            ((_, refusal),) = daemon.api.access._sessions._refused.values()
            assert refusal.__traceback__ is None  # of a raised one it leads to all that was at hand
            daemon.time.now += sessions.REFUSED_S

    async def test_what_is_remembered_is_bounded_and_strangers_push_out_nobody(self, daemon, database, users):
        known = daemon.api.access._sessions
        known._known._most = known._refused._most = 10
        login = await users.add("growd_reader")
        assert (await daemon.read(login)).status == 200
        asked = len(database.asked)
        for i in range(30):
            assert (await daemon.read(cookie=f"{i:08}", address=f"192.0.2.{i}")).status == 400
        assert len(known) == 11
        assert (await daemon.read(login)).status == 200
        assert len(database.asked) == asked + 30

    async def test_strangers_do_not_keep_those_waiting_who_are_known(self, daemon, database, users):
        daemon.api.access._sessions.limits = sessions.SessionLimits(waiting=6)
        login = await users.add("growd_reader")
        assert (await daemon.read(login)).status == 200
        daemon.time.now += STALE_S
        release, answered = asyncio.Event(), database._answer

        async def slow_for_strangers(request, user):
            if user is None:
                await release.wait()
            return await answered(request, user)

        database._answer = slow_for_strangers
        asked = len(database.asked)
        strangers = [
            asyncio.create_task(daemon.read(Authorization=f"Bearer {i}", address=f"192.0.2.{i}"))
            for i in range(6)
        ]
        await until(lambda: len(database.asked) == asked + sessions.SessionLimits().at_once)
        assert (await daemon.read(login)).status == 200
        busy = await daemon.read(Authorization="Bearer more")
        assert (busy.status, busy.json["error"]) == (503, "busy")
        release.set()
        assert {answer.status for answer in await asyncio.gather(*strangers)} == {401}

    def test_what_is_remembered_can_not_be_compared_with_that_of_another_process(self):
        login = sessions.Credentials("Basic YTpi", "", "a")
        one, other = (sessions.Sessions(answering(500), Access(), Attempts(), Time()) for _ in range(2))
        assert one._key(login) == one._key(login) != other._key(login)
        assert one._key(login) != one._key(sessions.Credentials("", "Basic YTpi", ""))

    async def test_no_password_is_written_anywhere(self, daemon, users, caplog, database):
        caplog.set_level(logging.DEBUG)
        name, _ = login = await users.add("growd_reader", password="correct horse")
        await daemon.read(login)
        await daemon.read((name, "battery staple"))
        database.instead = answering(500)
        daemon.time.now += STALE_S
        await daemon.read(login)
        encoded = ("correct horse", "battery staple", "Y29ycmVjdCBob3JzZQ", "Basic ")
        remembered = repr(daemon.api.access._sessions.__dict__)
        assert not any(word in caplog.text or word in remembered for word in encoded)


class TestDatabaseThatDoesNotAnswer:
    async def test_who_cannot_be_checked_is_told_so(self, daemon, database, users):
        database.instead = answering(500)
        answer = await daemon.request("GET", SESSION, ("somebody", "password"))
        assert (answer.status, answer.json["error"]) == (503, "login_unknown")
        assert (await daemon.request("GET", SESSION)).json["role"] == ""

    async def outage(self, daemon, known):
        """What must hold in any: who was known stays so for the stated time, nobody else gets in."""
        for _ in range(2):
            assert (await daemon.write(known)).status == 200
            stranger = await daemon.read(("stranger", "x"))
            assert (stranger.status, stranger.json["error"]) == (503, "login_unknown")
            assert int(stranger.headers["Retry-After"]) > 0
            assert (await daemon.read()).status == 401
        daemon.time.now += OUTAGE_S - STALE_S - 1
        assert (await daemon.write(known)).status == 200
        daemon.time.now += 1
        answer = await daemon.write(known)
        assert (answer.status, answer.json["error"]) == (503, "login_unknown")

    async def test_down(self, daemon, database, users, caplog):
        known = await users.add("growd_operator")
        assert (await daemon.write(known)).status == 200
        daemon.time.now += STALE_S
        await database.close()
        await self.outage(daemon, known)
        assert caplog.text.count("the database does not answer about logins") == 1
        await database.open()
        assert (await daemon.write(known)).status == 200
        assert (await daemon.read(("stranger", "x"))).status == 401

    @each(
        "answer",
        [
            answering(500, '{"error":"unknown_error","reason":"x"}'),
            answering(404, '{"error":"not_found"}'),
            answering(302, Location="http://192.0.2.1/"),
            answering(200, "nonsense"),
            answering(200, ""),
            answering(200, "[" * 100_000),
            answering(200, '{"ok":true}'),
            answering(200, '{"userCtx":{"name":["x"],"roles":["_admin"]}}'),
            answering(200, '{"userCtx":{"name":"x","roles":"_admin"}}'),
            answering(200, '{"userCtx":{"name":"x","roles":["_admin"]},"more":"%s"}' % ("x" * 70_000)),
            answering(200, "\xff"),
        ],
    )  # fmt: skip
    async def test_failing_or_talking_nonsense(self, daemon, database, users, answer):
        database.instead = None
        known = await users.add("growd_operator")
        assert (await daemon.write(known)).status == 200
        daemon.time.now += STALE_S
        database.instead = answer
        await self.outage(daemon, known)

    async def test_silent(self, daemon, database, users):
        known = await users.add("growd_operator")
        release = asyncio.Event()
        assert (await daemon.write(known)).status == 200
        daemon.time.now += STALE_S
        known_sessions = daemon.api.access._sessions
        known_sessions.limits = msgspec.structs.replace(known_sessions.limits, question_s=0.02)
        database.instead = holding(release)
        await self.outage(daemon, known)
        release.set()

    async def test_a_known_login_is_asked_for_once_and_what_nobody_answers_is_no_guess(
        self, daemon, database, users
    ):
        known, other = await users.add("growd_reader"), await users.add("growd_reader")
        await daemon.read(known)
        daemon.time.now += STALE_S
        database.instead = answering(500)
        asked = len(database.asked)
        for _ in range(10):
            assert (await daemon.read(known)).status == 200
        assert len(database.asked) == asked + 1
        for _ in range(10):
            assert (await daemon.read(other)).status == 503
        database.instead = None
        assert (await daemon.read(other)).status == 200

    async def test_a_refusal_ends_what_was_known(self, daemon, database, users):
        known = await users.add("growd_reader")
        await daemon.read(known)
        await users.change(known[0], password="other")
        daemon.time.now += STALE_S
        assert (await daemon.read(known)).status == 401
        database.instead = answering(500)
        daemon.time.now += STALE_S
        assert (await daemon.read(known)).status == 503

    async def test_through_the_front_door_no_guess_goes_past_a_question_without_answer(
        self, daemon, database
    ):
        failing, reached = answering(500), []

        async def noted(request):
            reached.append(request.path)
            return await failing(request)

        database.instead = noted
        answer = await daemon.request("GET", "/_all_dbs", ("admin", "guess"))
        assert (answer.status, answer.json["error"]) == (503, "login_unknown")
        assert reached == ["/_session"]
        await database.close()
        answer = await daemon.request("GET", "/recipes")
        assert (answer.status, answer.json["error"]) == (503, "service_unavailable")


class TestUnusualAnswers:
    async def test_an_admin_party_lets_nobody_in(self, daemon, database):
        party = {"ok": True, "userCtx": {"name": None, "roles": ["_admin"]}}
        database.instead = answering(200, json.dumps(party))
        assert (await daemon.read(("a", "b"))).status == 401
        assert (await daemon.read()).status == 401

    async def test_a_lock_of_the_database_is_told_and_ends_what_was_known(self, daemon, database, users):
        known = await users.add("growd_reader")
        await daemon.read(known)
        database.instead = answering(403, '{"error":"forbidden","reason":"Account is temporarily locked"}')
        daemon.time.now += STALE_S
        answer = await daemon.read(known)
        assert (answer.status, answer.json["reason"]) == (429, "Account is temporarily locked")
        session = await daemon.request("GET", SESSION, known)  # not "nobody is logged in"
        for each_ in (answer, session):
            assert (each_.status, each_.headers["Retry-After"]) == (429, "300")


async def test_health_and_ready_are_answered_to_everybody_with_a_word(daemon, users):
    add_monitoring(daemon.api, daemon.server, StatusNode(daemon.bus, []))
    health, ready = [await daemon.request("GET", f"/_svc/{page}") for page in ("health", "ready")]
    assert (health.status, health.body) == (200, b"ok\n")
    assert (ready.status, ready.body) == (503, b"no\n")
    assert (await daemon.request("GET", "/_svc/metrics")).status == 401
    assert (await daemon.request("GET", "/_svc//health/")).body == b"ok\n"
    assert (await daemon.request("GET", "/_svc/api/0.0.1/nothing")).status == 401


async def test_open_reading_changes_while_it_runs(daemon):
    assert (await daemon.read()).status == 401
    await daemon.api.access.reconfigure(Config(access=Access(open_reading=True)))
    assert (await daemon.read()).status == 200


class TestAttempts:
    def tried(self, ledger, address="192.0.2.1", user="u", *, fails=True):
        with ledger.attempt(address, user) as attempt:
            attempt.has_failed = fails

    def wait(self, ledger, *args):
        with pytest.raises(ApiError) as told:
            self.tried(ledger, *args)
        return float(told.value.headers["Retry-After"])

    def test_waits_grow_up_to_a_limit_and_are_forgotten(self):
        now = Time()
        ledger = Attempts(now)
        for _ in range(attempts.FREE):
            self.tried(ledger)
        waits = []
        for _ in range(6):
            waits.append(self.wait(ledger))
            now.now += waits[-1]
            self.tried(ledger)
        assert waits == [300, 600, 1_200, 2_400, 3_600, 3_600]
        now.now += attempts.LONGEST_S + attempts.FORGOTTEN_S
        self.tried(ledger)
        self.tried(ledger)

    def test_what_was_no_failure_leaves_nothing(self):
        ledger = Attempts(Time())
        for _ in range(100):
            self.tried(ledger, fails=False)
        assert len(ledger) == 0

    def test_an_address_that_tries_many_names_waits_too_and_of_ipv6_the_network_counts(self):
        ledger = Attempts(Time())
        for i in range(attempts.FREE_OF_ADDRESS):
            self.tried(ledger, "192.0.2.1", f"user{i}")
        assert self.wait(ledger, "192.0.2.1", "another") == 300
        self.tried(ledger, "192.0.2.2", "another")
        for i in range(attempts.FREE):
            self.tried(ledger, f"2001:db8::{i + 1:x}")
        assert self.wait(ledger, "2001:db8::ffff") == 300
        self.tried(ledger, "2001:db8:0:1::1")

    def test_memory_is_bounded(self, monkeypatch):
        monkeypatch.setattr(attempts, "MOST", 50)
        ledger = Attempts(Time())
        for i in range(500):
            self.tried(ledger, f"192.0.{i // 250}.{i % 250}", "u" * 100_000)
        assert len(ledger) == 100
        assert all(len(name) <= 128 for _, name in ledger._users._failures)

    @given(st.lists(st.tuples(st.booleans(), st.floats(0, 400)), max_size=60))
    def test_fewer_fail_in_a_row_than_couchdb_locks_a_user_for(self, tries):
        now, failures = Time(), []
        ledger = Attempts(now)
        for fails, pause in tries:
            now.now += pause
            try:
                self.tried(ledger, fails=fails)
            except ApiError:
                continue
            if fails:
                failures.append(now.now)
        # CouchDB: 5 failures, forgotten 300 s after the first
        for first in failures:
            assert sum(first <= at < first + 300 for at in failures) < 5


async def test_nothing_of_the_api_is_reached_around_the_guard(daemon):
    for target in (PARAM, f"{PARAM}/", f"/{PARAM}", "/_svc/%68ealth", "/_svc/page", "//_svc/metrics/"):
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "COPY"):
            assert (await daemon.request(method, target)).status == 401, (method, target)


async def test_the_addresses_of_the_page_are_open_for_reading_alone(daemon):
    PageFiles(daemon.api, ROOT / "page", ROOT / "docs", is_edited=False)
    for target in ("/_svc", "/_svc/", "/_svc/page/x/main.js"):
        for method in ("GET", "HEAD"):
            assert (await daemon.request(method, target)).status in {200, 404}, (method, target)
        for method in ("POST", "PUT", "DELETE", "COPY"):
            assert (await daemon.request(method, target)).status == 401, (method, target)


async def test_the_keeper_of_a_topic_learns_the_user_and_its_words_are_the_hint(daemon, users):
    noted = []

    async def keep(message, who):
        noted.append((message.value, who))
        return "it holds"

    topic = daemon.bus.topics.declare("e/desired/air_temperature", FLOAT64, is_open=True, note="idle")
    topic.keeper = keep
    login = await users.add("growd_operator")
    path = f"{daemon.api.prefix}/topic/{topic.name}?by=ben"  # a login is not overridden
    answer = await daemon.request("POST", path, login, body=[21])
    assert json.loads(answer.body) == {"message": "Posted message to topic", "hint": "it holds"}
    assert noted == [(21.0, login[0])]


async def test_a_service_learns_the_user_whatever_name_is_given(daemon, users):
    asked = []

    async def answer(who):
        asked.append(who)
        return {"success": True, "message": ""}

    by = Field("by", Kind.STRING, default="")
    daemon.bus.node("work").serve("e/work", "growd/By", answer, arguments=(by,), names_caller=True)
    login = await users.add("growd_operator")
    for arguments in ({"by": "ben"}, ["ben"], {}):
        await daemon.request("POST", f"{daemon.api.prefix}/service/e/work", login, body=arguments)
    assert asked == [login[0]] * 3


async def test_an_administrative_call_needs_an_administrator(daemon, users):
    async def done(_, __):
        return json_answer({})

    daemon.api.offer([Operation("POST", "setup_scan", "", "Scan", done, is_administrative=True)])
    for role, status in (("growd_operator", 403), ("growd_admin", 200)):
        answer = await daemon.request("POST", f"{daemon.api.prefix}/setup_scan", await users.add(role))
        assert answer.status == status
