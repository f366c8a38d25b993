"""What a page of another site, or one whose name was bound to this address, tries: nothing comes of it."""

import json
import re
import socket

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given, settings
from hypothesis import strategies as st

from growd.access.origins import OriginGuard
from growd.config import Http
from growd.server.client_request import SECURITY_HEADERS
from growd.server.errors import ApiError
from support.daemon import CO2, LIGHT, NAMES, START, STOP, serving
from support.exporting import POINTS, front_door
from support.raw_http import RawUpstream, answering, raw_client

API = b"/_svc/api/0.0.1"
NODES = API + b"/node"
STREAM = API + b"/topic_stream/" + CO2.encode()
PUBLISH = API + b"/topic/" + LIGHT.encode()
MACHINE = socket.gethostname().lower()
LABEL = MACHINE.partition(".")[0]
FOREIGN = b"Origin: https://evil.example"
PANEL = "https://panel.example"
NAMED = Http(hosts=NAMES, origins=(PANEL, "http://Shop.example:80"))
ANY = Http(hosts=NAMES, origins=("*", PANEL))
JSON = b"Content-Type: application/json"
FORM_TYPES = ("", "text/plain", "text/plain;charset=UTF-8", "multipart/form-data; boundary=x", "TEXT/Plain")


def request(method, target, *headers, host=b"x", body=b""):
    lines = [
        b"%b %b HTTP/1.1" % (method, target),
        *([b"Host: " + host] if host is not None else []),
        *headers,
    ]
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join((*lines, b"", body))


async def ask(daemon, *args, **options):
    method = args[0]
    async with raw_client(daemon.port) as client:
        await client.send(request(*args, **options))
        return await client.answer(method.decode())


async def begin(daemon, *args):
    """The head of an answer that does not end."""
    async with raw_client(daemon.port) as client:
        await client.send(request(*args))
        return (await client.head()).lower()


def refused(answer, status, code):
    found = json.loads(answer.body)
    assert (answer.status, found["error"]) == (status, code)
    assert answer.value(b"Access-Control-Allow-Origin") is None
    return found["ERROR"]


OWN_HOSTS = [
    "127.0.0.1", "192.168.0.7:5984", "[::1]", "[fe80::1]:5984", "localhost", "LOCALHOST:80",
    "localhost.",
    MACHINE, f"{MACHINE}:5984", f"{LABEL}.local", f"{LABEL}-2.local.",
    "farm.example", "FARM.example:", "inside.lan",
]  # fmt: skip
OTHER_HOSTS = [
    "evil.example", f"{MACHINE}.evil.example", "127.0.0.1.evil.example", "localhost.evil.example",
    "0x7f.1", "2130706433", "evil.example:5984", f"{MACHINE}-x.local", "growd.local.evil",
    f"{LABEL}-local",
]  # fmt: skip


NO_HOSTS = (b"a b", b"a@x", b"http://x", b"x/y", b"x:80:90", b"[::1", b"x:abc", b"", b"x:" + b"8" * 5_000)


class TestHost:
    @pytest.mark.parametrize("target", [NODES, b"/recipes"])
    async def test_its_own_names(self, target):
        policy = Http(host="inside.lan", hosts=("Farm.example.",))
        async with serving(policy=policy) as daemon:
            for host in OWN_HOSTS:
                for _ in range(2):  # and when it is known
                    assert (await ask(daemon, b"GET", target, host=host.encode())).status == 200, host

    @pytest.mark.parametrize("target", [NODES, STREAM, b"/_svc", b"/recipes/_all_docs", b"/"])
    async def test_a_name_that_was_bound_to_this_address_reads_nothing(self, daemon, target):
        before = daemon.state()
        for host in OTHER_HOSTS:
            answer = await ask(daemon, b"GET", target, host=host.encode())
            said = refused(answer, 421, "misdirected_request")
            assert host.partition(":")[0] in said
            assert "[http] hosts" in said
            assert daemon.state() == before

    async def test_nor_does_it_write(self, daemon):
        before = daemon.state()
        for target in (PUBLISH, b"/recipes/_bulk_docs"):
            answer = await ask(daemon, b"POST", target, JSON, host=b"evil.example", body=b"[1]")
            refused(answer, 421, "misdirected_request")
            assert answer.value(b"Connection") == b"close"
        assert daemon.state() == before

    async def test_what_is_no_host(self, daemon):
        for host in NO_HOSTS:
            assert (await ask(daemon, b"GET", NODES, host=host)).status == 400, host

    async def test_a_request_says_it_once(self, daemon):
        refused(await ask(daemon, b"GET", NODES, host=None), 400, "bad_request")
        for target, other in ((NODES, b"x"), (b"/recipes", b"evil.example")):
            assert (await ask(daemon, b"GET", target, b"Host: " + other, host=b"x")).status == 400
        async with raw_client(daemon.port) as client:  # an old client may leave it out
            await client.send(b"GET " + NODES + b" HTTP/1.0\r\n\r\n")
            assert (await client.answer()).status == 200

    @pytest.mark.parametrize("target", [NODES, b"/recipes"])
    async def test_a_target_in_absolute_form_is_what_counts(self, daemon, target):
        answer = await ask(daemon, b"GET", b"http://evil.example" + target)
        refused(answer, 421, "misdirected_request")
        assert (await ask(daemon, b"GET", b"http://x" + target, host=b"evil.example")).status == 200

    async def test_another_policy_holds_at_once(self, daemon):
        assert (await ask(daemon, b"GET", NODES)).status == 200
        daemon.server.guard.reconfigure(Http(hosts=("other.example",)))
        assert (await ask(daemon, b"GET", NODES)).status == 421
        assert (await ask(daemon, b"GET", NODES, host=b"other.example")).status == 200

    async def test_what_is_remembered_is_bounded(self, daemon):
        async with raw_client(daemon.port) as client:
            for number in range(300):
                await client.send(request(b"GET", NODES, host=b"10.0.%d.%d" % divmod(number, 256)))
                assert (await client.answer()).status == 200
        assert len(daemon.server.guard._known) == 256


ORIGINS = ["https://evil.example", "null", "http://x.evil.example", "http://x:81", "file://", "x", ""]


class TestOtherSites:
    @pytest.mark.parametrize("target", [PUBLISH, b"/recipes/_bulk_docs"])
    async def test_one_that_is_refused_before_its_body_came_is_the_last(self, daemon, target):
        begun = request(b"POST", target, FOREIGN, b"Content-Type: text/plain", b"Content-Length: 1000")
        async with raw_client(daemon.port) as client:
            await client.send(begun)
            answer = await client.answer()
            refused(answer, 403, "cross_site")
            assert answer.value(b"Connection") == b"close"

    @pytest.mark.parametrize(
        ("method", "target", "body"),
        [
            (b"POST", PUBLISH, b"[1]"),
            (b"POST", API + b"/service/" + START.encode(), b'["basil"]'),
            (b"POST", API + b"/service/" + STOP.encode(), b""),
            (b"POST", API + b"/param/sensors/scd30/interval", b'{"value": 9}'),
            (b"PUT", PUBLISH, b"[1]"),
            (b"DELETE", PUBLISH, b""),
            (b"GET", NODES, b""),
            (b"GET", STREAM, b""),
            (b"OPTIONS", PUBLISH, b""),
        ],
    )
    async def test_their_pages_neither_drive_nor_read(self, daemon, method, target, body):
        before = daemon.state()
        for origin in ORIGINS:
            headers = (b"Origin: " + origin.encode(), JSON, b"Access-Control-Request-Method: POST")
            said = refused(await ask(daemon, method, target, *headers, body=body), 403, "cross_site")
            assert f'"{origin}"' in said
            assert "[http] origins" in said
            assert daemon.state() == before

    @pytest.mark.parametrize(
        ("host", "origin", "status"),
        [
            ("x", "http://x", 200),
            ("x", "https://x", 200),
            ("x", "HTTP://X", 403),  # browsers write lower case
            ("x:80", "http://x", 200),
            ("X", "http://x", 200),
            ("[::1]:5984", "http://[::1]:5984", 200),
            ("x:443", "https://x", 200),
        ],
    )
    async def test_its_own_pages_do_at_each_address(self, daemon, host, origin, status):
        header = b"Origin: " + origin.encode()
        answer = await ask(daemon, b"POST", PUBLISH, header, JSON, host=host.encode(), body=b"[1]")
        assert answer.status == status

    @pytest.mark.parametrize(
        ("method", "rest"),
        [
            (b"GET", (b"Sec-Fetch-Mode: no-cors", b"Sec-Fetch-Dest: image")),
            (b"GET", (b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: iframe")),
            (b"GET", ()),
            (b"POST", (b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: document")),
        ],
    )
    async def test_a_browser_that_names_no_origin_says_that_it_is_another(self, daemon, method, rest):
        before = daemon.state()
        target = API + b"/service/" + STOP.encode() if method == b"POST" else NODES
        for site in (b"cross-site", b"same-site", b"anything"):
            answer = await ask(daemon, method, target, b"Sec-Fetch-Site: " + site, *rest)
            refused(answer, 403, "cross_site")
            assert daemon.state() == before

    @pytest.mark.parametrize(
        "headers",
        [
            (b"Sec-Fetch-Site: same-origin",),
            (b"Sec-Fetch-Site: none",),
            (b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: document"),
        ],
    )
    async def test_a_link_may_lead_here(self, daemon, headers):
        assert (await ask(daemon, b"GET", NODES, *headers)).status == 200

    async def test_more_than_one_origin(self, daemon):
        assert (await ask(daemon, b"GET", NODES, b"Origin: http://x", FOREIGN)).status == 400

    @settings(max_examples=50)
    @given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40))
    def test_no_other_origin_is_taken_for_its_own(self, text):
        guard = OriginGuard(NAMED)
        for origin in (text, f"http://{text}", f"http://x{text}", f"{text}http://x"):
            if origin not in {"http://x", "https://x", *guard._named}:
                assert not admitted(guard, origin)


def admitted(guard, origin):
    asked = make_mocked_request("POST", "/_svc", headers={"Host": "x", "Origin": origin})
    try:
        return guard.admit(asked, is_api=True) is None
    except ApiError:
        return False


class TestDatabase:
    @pytest.mark.parametrize(
        "who", [FOREIGN, b"Origin: null", b"Origin: http://x:81", b"Sec-Fetch-Site: cross-site"]
    )
    async def test_a_form_on_another_site_writes_nothing(self, daemon, who):
        for target in (b"/db/_bulk_docs", b"/_replicate", b"/_session", b"/db"):
            for declared in FORM_TYPES:
                headers = (who, *([b"Content-Type: " + declared.encode()] if declared else []))
                refused(await ask(daemon, b"POST", target, *headers, body=b"{}"), 403, "cross_site")
                assert daemon.database.targets == [], declared

    @pytest.mark.parametrize("method", [b"PUT", b"DELETE", b"COPY", b"POST"])
    async def test_nor_does_what_its_browser_may_have_asked_leave_for(self, daemon, method):
        for who in (FOREIGN, b"Sec-Fetch-Site: same-site"):
            refused(await ask(daemon, method, b"/db/doc", who, JSON, body=b"{}"), 403, "cross_site")
        assert daemon.database.targets == []

    @pytest.mark.parametrize("who", [b"Origin: http://x", b"Sec-Fetch-Site: same-origin", b"X: y"])
    async def test_a_form_of_its_own_does(self, daemon, who):
        form = b"Content-Type: application/x-www-form-urlencoded"
        assert (await ask(daemon, b"POST", b"/_session", who, form, body=b"name=a")).status == 200

    @pytest.mark.parametrize(
        ("method", "headers"),
        [
            (b"OPTIONS", (b"Access-Control-Request-Method: PUT",)),
            (b"GET", ()),
            (b"GET", (b"Sec-Fetch-Site: cross-site",)),
        ],
    )
    async def test_what_they_may_read_is_couchdbs_to_decide(self, daemon, method, headers):
        answer = await ask(daemon, method, b"/db", FOREIGN, *headers)
        assert answer.status == 200
        assert answer.value(b"X-Database") == b"1"
        assert answer.value(b"Access-Control-Allow-Origin") is None

    async def test_a_named_site_may(self):
        async with serving(policy=NAMED) as daemon:
            panel = b"Origin: " + PANEL.encode()
            assert (await ask(daemon, b"POST", b"/db/_bulk_docs", panel, body=b"{}")).status == 200


class TestCors:
    @pytest.mark.parametrize("origin", [PANEL, "http://shop.example"])
    async def test_pages_that_are_named_do_all_with_credentials(self, origin):
        async with serving(policy=NAMED) as daemon:
            header = b"Origin: " + origin.encode()
            for asked in (
                await ask(daemon, b"POST", PUBLISH, header, JSON, body=b"[1]"),
                await ask(daemon, b"POST", PUBLISH, header, JSON, body=b"[NaN]"),
                await ask(daemon, b"GET", API + b"/node/unknown", header),
            ):
                assert asked.values(b"Access-Control-Allow-Origin") == [origin.encode()]
                assert asked.value(b"Access-Control-Allow-Credentials") == b"true"
                assert asked.values(b"Vary") == [b"Origin"]
            head = await begin(daemon, b"GET", STREAM, header)
            assert b"access-control-allow-origin: " + origin.encode() in head
            assert b"vary: origin" in head

    async def test_they_are_given_leave(self):
        async with serving(policy=NAMED) as daemon:
            origin = b"Origin: " + PANEL.encode()
            asked = (origin, b"Access-Control-Request-Method: POST")
            answer = await ask(daemon, b"OPTIONS", PUBLISH, *asked)
            assert answer.status == 204
            assert answer.value(b"Access-Control-Allow-Origin") == PANEL.encode()
            assert answer.value(b"Access-Control-Allow-Methods") == b"GET, HEAD, POST, DELETE"
            assert b"Content-Type" in answer.value(b"Access-Control-Allow-Headers").split(b", ")
            assert answer.value(b"Access-Control-Max-Age") == b"600"
            assert answer.value(b"Vary") == b"Origin"
            assert answer.value(b"Access-Control-Allow-Private-Network") is None
            wanted = b"Access-Control-Request-Private-Network: true"
            private = await ask(daemon, b"OPTIONS", PUBLISH, *asked, wanted)
            assert private.value(b"Access-Control-Allow-Private-Network") == b"true"
            other = await ask(daemon, b"OPTIONS", PUBLISH, origin)  # no preflight
            assert (other.status, other.value(b"Allow")) == (405, b"GET, HEAD, POST")

    async def test_any_page_may_read_without_credentials(self):
        async with serving(policy=ANY) as daemon:
            leave = await ask(daemon, b"OPTIONS", NODES, FOREIGN, b"Access-Control-Request-Method: GET")
            assert (leave.status, leave.value(b"Access-Control-Allow-Methods")) == (204, b"GET, HEAD")
            for answer in (leave, await ask(daemon, b"GET", NODES, FOREIGN)):
                assert answer.values(b"Access-Control-Allow-Origin") == [b"*"]
                assert answer.value(b"Access-Control-Allow-Credentials") is None
            assert b"access-control-allow-origin: *" in await begin(daemon, b"GET", STREAM, FOREIGN)

    async def test_but_no_page_may_write_by_that(self):
        async with serving(policy=ANY) as daemon:
            before = daemon.state()
            refused(await ask(daemon, b"POST", PUBLISH, FOREIGN, JSON, body=b"[1]"), 403, "cross_site")
            asked = (FOREIGN, b"Access-Control-Request-Method: POST")
            refused(await ask(daemon, b"OPTIONS", PUBLISH, *asked), 403, "cross_site")
            refused(await ask(daemon, b"POST", b"/db/_bulk_docs", FOREIGN, body=b"{}"), 403, "cross_site")
            assert daemon.state() == before
            named = b"Origin: " + PANEL.encode()  # besides
            answer = await ask(daemon, b"POST", PUBLISH, named, JSON, body=b"[1]")
            assert (answer.status, answer.value(b"Access-Control-Allow-Credentials")) == (200, b"true")

    async def test_without_names_nothing_is_said_of_it(self, daemon):
        answer = await ask(daemon, b"GET", NODES, b"Origin: http://x")
        assert not re.search(rb"Access-Control|Vary", b"".join(name for name, _ in answer.headers))


DOCUMENT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%bContent-Length: 2\r\n\r\n{}"


class TestCorsOfTheDatabase:
    """`origins` holds for what comes from the database as well."""

    @pytest.mark.parametrize("method", [b"PUT", b"DELETE", b"COPY", b"GET"])
    async def test_named_pages_are_given_leave_without_asking_the_database(self, method):
        async with serving(policy=NAMED) as daemon:
            asked = (b"Origin: " + PANEL.encode(), b"Access-Control-Request-Method: " + method)
            leave = await ask(daemon, b"OPTIONS", b"/recipes/a", *asked)
            assert leave.status == 204
            assert method in leave.value(b"Access-Control-Allow-Methods").split(b", ")
            assert b"If-Match" in leave.value(b"Access-Control-Allow-Headers").split(b", ")
            assert leave.value(b"Access-Control-Allow-Origin") == PANEL.encode()
            assert daemon.database.targets == []

    @pytest.mark.parametrize(
        ("policy", "origin", "own", "expected"),
        [
            (NAMED, PANEL, b"", [PANEL.encode()]),
            (NAMED, "https://evil.example", b"", []),
            (NAMED, PANEL, b"Access-Control-Allow-Origin: https://c.example\r\n", [b"https://c.example"]),
            (ANY, "https://evil.example", b"", [b"*"]),
            (Http(hosts=NAMES), PANEL, b"", []),
        ],
    )
    async def test_answers_say_who_may_read_them(self, policy, origin, own, expected):
        async with (
            RawUpstream(answering(DOCUMENT % own)) as upstream,
            front_door(upstream.url, policy=policy) as door,
            raw_client(door.port) as client,
        ):
            await client.send(request(b"GET", b"/recipes/a", b"Origin: " + origin.encode()))
            answer = await client.answer()
        assert answer.values(b"Access-Control-Allow-Origin") == expected
        has_credentials = answer.value(b"Access-Control-Allow-Credentials") == b"true"
        assert has_credentials == (expected == [PANEL.encode()])

    async def test_so_does_the_csv_that_growd_makes(self):
        rows = b'{"total_rows":0,"offset":0,"rows":[]}'
        page = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(rows), rows)
        target = b"/%b/_design/svc/_list/csv/by_variable?reduce=false" % POINTS.encode()
        async with (
            RawUpstream(answering(page)) as upstream,
            front_door(upstream.url, policy=NAMED) as door,
            raw_client(door.port) as client,
        ):
            await client.send(request(b"GET", target, b"Origin: " + PANEL.encode()))
            answer = await client.answer()
        assert answer.value(b"Content-Type").startswith(b"text/csv")
        assert answer.values(b"Access-Control-Allow-Origin") == [PANEL.encode()]

    async def test_growds_own_errors_do_as_well(self):
        async with front_door("http://127.0.0.1:9", policy=NAMED) as door, raw_client(door.port) as client:
            await client.send(request(b"GET", b"/recipes/a", b"Origin: " + PANEL.encode()))
            answer = await client.answer()
        assert (answer.status, answer.value(b"Access-Control-Allow-Origin")) == (503, PANEL.encode())

    async def test_any_page_may_read_and_not_write(self):
        async with serving(policy=ANY) as daemon:
            for method, status in ((b"GET", 204), (b"PUT", 200)):
                asked = (FOREIGN, b"Access-Control-Request-Method: " + method)
                leave = await ask(daemon, b"OPTIONS", b"/recipes/a", *asked)
                assert leave.status == status  # 200 is the database's, which gives no leave


class TestSecurityHeaders:
    async def test_each_answer_has_them_once(self, daemon):
        for target in (NODES, API + b"/node/unknown", b"/_svc", API + b"/openapi.json"):
            has_security_headers(await ask(daemon, b"GET", target))
        for options in ({"host": b"evil.example"}, {"host": None}):
            has_security_headers(await ask(daemon, b"GET", NODES, **options))
        has_security_headers(await ask(daemon, b"GET", NODES, FOREIGN))
        async with raw_client(daemon.port) as client:
            await client.send(b"no HTTP\r\n\r\n")
            has_security_headers(await client.answer())
        head = await begin(daemon, b"GET", STREAM)
        for name, value in (*SECURITY_HEADERS, ("cache-control", "no-store")):
            assert head.count(f"{name}: {value}".lower().encode()) == 1

    async def test_nothing_is_added_to_the_databases_answers(self):
        """Its own pages, Fauxton and the control panel, are scripts and styles."""
        page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n<>"
        async with (
            RawUpstream(answering(page)) as upstream,
            front_door(upstream.url) as door,
            raw_client(door.port) as client,
        ):
            await client.send(request(b"GET", b"/_utils/"))
            names = {name for name, _ in (await client.answer()).headers}
        assert names == {b"Content-Type", b"Content-Length", b"Date", b"Server"}


def has_security_headers(answer):
    for name, value in (*SECURITY_HEADERS, ("Cache-Control", "no-store")):
        assert answer.values(name.encode()) == [value.encode()]
