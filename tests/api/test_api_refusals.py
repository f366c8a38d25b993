"""Every bad request is refused with its own status and sentence in the one form, and changes nothing."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from growd.api.operation import Limits
from growd.api.requests import decoded
from growd.bus.parameter_rules import MAX_PARAMETERS
from support.daemon import CALIBRATE, CO2, LIGHT, POSITION, START, STOP, serving
from support.raw_http import raw_client
from support.waiting import until

JSON = {"Content-Type": "application/json"}
PARAM, TOPIC, CALIBRATION = "/param/farm/name", f"/topic/{LIGHT}", f"/service/{CALIBRATE}"
RECIPE = f"/service/{START}"


def refused(answer, status, code):
    """Check the form of a refusal; returns its sentence."""
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/json"
    found = answer.json
    assert found["error"] == code
    assert found["ERROR"] == found["reason"]
    assert "Traceback" not in found["ERROR"]
    return found["ERROR"]


@pytest.fixture(autouse=True)
async def nothing_changes(daemon):
    before = daemon.state()
    yield
    assert daemon.state() == before


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog):
    yield
    assert caplog.records == []


class TestBodies:
    async def test_not_json(self, daemon):
        for code, start, *bodies in (
            (
                "malformed_json",
                "the body is not well-formed JSON: ",
                *(b'{"value": 1', b'{"value": 1} x', b"{'value': 1}", b"[1,]", b" ", b"\xef\xbb\xbf[1]"),
                *(b'{"value": NaN}', b"[NaN]", b"[Infinity]", b"[-Infinity]", b"[1e400]"),
                *(b"[" + b"9" * 5_000 + b"]", b'["\\ud800"]'),
            ),
            ("invalid_utf8", "the body is not UTF-8: ", b'["\xff"]', b'{"value": "\xc3("}'),
            (
                "too_deep",
                "the JSON nests deeper than 64 levels",
                *(b'{"value": ' + b"[" * 64 + b"]" * 64 + b"}", b"[" * 65 + b"]" * 65),
                *(b"[" * 40_000, b'{"a":' * 20_000),
            ),
            ("too_complex", "the JSON has more than 10000 ", b'{"value":[' + b"[]," * 10_000 + b"[]]}"),
            ("invalid_body", "the body must be an ", b"true", b'"text"', b"3"),
        ):
            for body in bodies:
                for path in (PARAM, TOPIC, RECIPE):
                    sentence = refused(await daemon.post(path, body), 400, code)
                    assert sentence.startswith(start), body

    async def test_none_where_one_is_required(self, daemon):
        for path in (PARAM, TOPIC):
            for body in (b"", b"null"):
                sentence = refused(await daemon.post(path, body), 400, "invalid_body")
                assert sentence.endswith(", but it is empty or null")

    async def test_brackets_in_strings_are_no_arrays(self, daemon):
        text = b'["%b\\"%b"]' % (b"[" * 30_000, b"{" * 30_000)
        refused(await daemon.post(TOPIC, text), 400, "invalid_value")

    async def test_64_levels_are_not_too_deep(self, daemon):
        body = b'{"value":' + b"[" * 63 + b"1" + b"]" * 63 + b"}"
        answer = await daemon.post("/param/sensors/scd30/interval", body)
        assert refused(answer, 400, "invalid_value").endswith("not an array of 1 element")

    async def test_not_declared_json(self, daemon, said):
        for kind in (
            None,
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json-patch+json",
            "application/json; charset=latin-1",
        ):
            headers = {} if kind is None else {"Content-Type": kind}
            options = {"data": b'{"value": 1}', "headers": headers, "skip_auto_headers": ["Content-Type"]}
            (sentence,) = {
                refused(await daemon.ask("POST", path, **options), 415, "unsupported_media_type")
                for path in (PARAM, TOPIC, RECIPE, f"/service/{STOP}")
            }
            said(sentence)
        packed = {**JSON, "Content-Encoding": "gzip"}
        said(
            refused(await daemon.ask("POST", PARAM, data=b"{}", headers=packed), 415, "unsupported_encoding")
        )

    async def test_chunks_that_are_not_declared_json(self, daemon):
        async def pieces():
            yield b"[8000]"

        answer = await daemon.ask("POST", TOPIC, data=pieces(), headers={"Content-Type": "text/plain"})
        refused(answer, 415, "unsupported_media_type")


class TestSize:
    @pytest.fixture
    async def daemon(self):
        async with serving(Limits(body_bytes=1_000)) as running:
            yield running

    async def test_a_body_has_a_limit(self, daemon, said):
        body = b'{"recipe_id":"%b"}' % (b"a" * 984)
        assert len(body) == 1_000
        refused(await daemon.post(RECIPE, body), 400, "invalid_value")  # it was read
        said(refused(await daemon.post(RECIPE, body + b" "), 413, "too_large"))

    async def test_a_body_that_is_too_large_is_refused_before_it_ends(self, daemon):
        for headers, begun in (
            (("Transfer-Encoding: chunked",), b"3e9\r\n" + b" " * 1_001 + b"\r\n"),
            (("Content-Length: 1001", "Expect: 100-continue"), b""),
        ):
            async with raw_client(daemon.port) as client:
                await client.send(post_head(daemon, PARAM, *headers) + begun)
                answer = await client.answer()  # and no 100 before it
            assert answer.status == 413
            assert json.loads(answer.body)["error"] == "too_large"
            assert answer.value(b"Connection") == b"close"


def post_head(daemon, path, *headers, declared="application/json"):
    lines = [f"POST {daemon.api.prefix}{path} HTTP/1.1", "Host: x", f"Content-Type: {declared}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class TestBrokenBodies:
    @pytest.mark.long
    @pytest.mark.parametrize("at_once", [True, False])
    async def test_malformed_chunks(self, at_once):
        limits = Limits(body_stall_s=0.05)  # what comes behind a malformed chunk is not read as a body
        async with serving(limits) as daemon, raw_client(daemon.port) as client:
            head = post_head(daemon, PARAM, "Transfer-Encoding: chunked")
            begun = head + b"5\r\n[1,2,\r\n"
            if at_once:
                await client.send(begun + b"no size\r\n")
            else:
                await client.send(begun)
                await handling(daemon)
                await client.send(b"no size\r\n")
            answer = await client.answer()
            assert answer.status == (400 if at_once else 408)
            await client.gone()

    async def test_a_client_that_sends_no_more_or_never_comes_to_the_end(self, said):
        async with serving(Limits(body_stall_s=0.01)) as daemon:
            before = daemon.state()
            async with raw_client(daemon.port) as client:
                await client.send(post_head(daemon, TOPIC, "Content-Length: 6") + b"[800")
                stalled = await client.answer()
            assert daemon.state() == before
        async with serving(Limits(body_whole_s=0.05)) as daemon, raw_client(daemon.port) as client:
            await client.send(post_head(daemon, TOPIC, "Content-Length: 100000"))
            sending = asyncio.create_task(byte_by_byte(client))
            endless = await client.answer()
            sending.cancel()
        for answer in (stalled, endless):
            assert answer.status == 408
            said(json.loads(answer.body)["ERROR"])

    async def test_bodies_that_are_too_large_together(self, daemon, monkeypatch):
        monkeypatch.setattr("growd.api.requests.MAX_HELD", 50_000)
        body = b'["%b"]' % (b"a" * 39_996)
        head = post_head(daemon, TOPIC, "Content-Length: 40000")
        async with raw_client(daemon.port) as first, raw_client(daemon.port) as second:
            await first.send(head + body[:30_000])
            await held(daemon, 30_000)
            await second.send(head + body[:30_000])
            answer = await second.answer()
            assert answer.status == 503
            assert json.loads(answer.body)["error"] == "busy"
            assert answer.value(b"Retry-After") == b"2"
            refused(await daemon.post(TOPIC, b'["%b"]' % (b"a" * 10_000)), 400, "invalid_value")  # small
            await held(daemon, 30_000)
            await first.send(body[30_000:])
            assert json.loads((await first.answer()).body)["error"] == "invalid_value"  # it was read
        assert daemon.api.bodies.held == 0

    async def test_a_body_counts_until_it_is_answered(self, daemon):
        for body in (b"[" * 20_000, b"[" + b" " * 20_000 + b"]", b'{"a":' + b" " * 20_000):
            await daemon.post(TOPIC, body)
            assert daemon.api.bodies.held == 0

    async def test_large_bodies_that_come_together_are_decoded_in_turns_of_their_own(
        self, daemon, monkeypatch
    ):
        turn, decoded_at = 0, []

        def noted(body):
            decoded_at.append(turn)
            return decoded(body)

        async def count_turns():
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        monkeypatch.setattr("growd.api.requests.decoded", noted)
        counting = asyncio.create_task(count_turns())
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(raw_client(daemon.port)) for _ in range(4)]
            for client in clients:
                await client.send(post_head(daemon, TOPIC, "Content-Length: 20000") + b"[" + b" " * 19_998)
            await held(daemon, 4 * 19_999)
            for client in clients:
                client.writer.write(b"]")
            for client in clients:
                assert (await client.answer()).status == 400
        counting.cancel()
        assert len(set(decoded_at)) == len(decoded_at) == 4

    async def test_a_client_that_goes_away_in_the_middle(self, daemon):
        async with raw_client(daemon.port) as client:
            await client.send(post_head(daemon, TOPIC, "Content-Length: 6") + b"[8000")
            await handling(daemon)
        await until(lambda: not daemon.server.listener.requests)


async def byte_by_byte(client):
    while True:
        await client.send(b" ")
        await asyncio.sleep(0)


async def held(daemon, size):
    """Wait until so many bytes of bodies that are not whole are held."""
    await until(lambda: daemon.api.bodies.held == size)


async def handling(daemon):
    """Wait until a request is being handled."""
    await until(lambda: daemon.server.listener.requests)


class TestValues:
    async def test_a_declared_parameter(self, daemon):
        for value in ("5", None, 1, 1_801, True, {"a": 1}):
            answer = await daemon.ask("POST", "/param/sensors/scd30/interval", json={"value": value})
            sentence = refused(answer, 400, "invalid_value")
            assert sentence.startswith("sensors/scd30/interval must be a number from 2 to 1800 s, not ")

    async def test_values_that_do_not_fit(self, daemon, said):
        """What each type takes is tested in tests/bus."""
        for code, path, *bodies in (
            ("invalid_arguments", PARAM, {}, {"Value": 1}, {"value": 1, "x": 2}),
            ("invalid_body", PARAM, [1]),
            ("invalid_body", TOPIC, {"data": 1}),
            ("invalid_arguments", TOPIC, [], [1, 2]),
            ("invalid_value", TOPIC, ["8000"], [None], [200_000.1], [10**400]),
            ("invalid_arguments", f"/topic/{POSITION}", [1, 2]),
            ("invalid_value", f"/topic/{POSITION}", [1, "2", 3]),
            (
                "invalid_arguments",
                CALIBRATION,
                None,
                {},
                [],
                {"reference": 420, "x": 1},
                [420, 1, True, None, 5],
            ),
            ("invalid_value", CALIBRATION, [399.9], [420, 1.5], [420, 1, "yes"]),
        ):
            for body in bodies:
                said(refused(await daemon.ask("POST", path, json=body), 400, code))

    async def test_a_read_only_parameter_a_conflict_in_the_tree_and_too_many(self, daemon, said):
        many = {str(number): 0 for number in range(MAX_PARAMETERS)}
        for path, value, status, code in (
            ("environment_1/current_recipe", "basil", 403, "read_only"),
            ("environment_1", 1, 409, "conflict"),
            ("sensors/scd30/interval/x", 1, 409, "conflict"),
            ("farm", many, 507, "capacity"),
        ):
            answer = await daemon.ask("POST", f"/param/{path}", json={"value": value})
            said(refused(answer, status, code))

    async def test_a_store_that_cannot_keep_it(self, daemon):
        daemon.store.broken = True
        for path in (PARAM, "/param/sensors/scd30/interval"):
            answer = await daemon.ask("POST", path, json={"value": 10})
            assert "the disk is full" in refused(answer, 503, "not_kept")

    async def test_a_query_that_does_not_fit(self, daemon):
        for value in ("maybe", "1", "null", "%FF", "[" * 20_000):
            answer = await daemon.ask("GET", f"/topic_stream/{CO2}?latest={value}")
            assert refused(answer, 400, "invalid_value").startswith("latest must be true or false, not ")
        for value in ("-1", "11", "NaN", "1e999", "x"):
            answer = await daemon.ask("GET", f"/topic_data/{CO2}?timeout={value}")
            sentence = refused(answer, 400, "invalid_value")
            assert sentence.startswith("timeout must be a number from 0 to 10 s")


INVALID = ["a%2F%2Fb", "a%2F", "%2F%2Fa", "%2F", "a%00b", "a%0Ab", "a%0Db", "%E2%80%AE", "a" * 300]


class TestNames:
    async def test_an_unknown_or_invalid_one(self, daemon):
        for kind in ("param", "service", "topic", "topic_stream", "topic_data", "node"):
            thing = {"param": "parameter"}.get(kind, kind.partition("_")[0])
            answer = await daemon.ask("GET", f"/{kind}/no/such%20%C3%BC")
            assert refused(answer, 404, "not_found") == f'there is no {thing} named "no/such ü"'
            for name in INVALID:
                answer = await daemon.ask("GET", f"/{kind}/{name}")
                assert "is not valid: " in refused(answer, 400, "invalid_name")
        for kind in ("service", "topic"):
            refused(await daemon.ask("POST", f"/{kind}/no/such", json=[]), 404, "not_found")

    async def test_one_that_is_not_utf8(self, daemon):
        for kind in ("param", "service", "topic"):
            for name in ("%FF", "a/%C3%28", "%ED%A0%80", "%C3"):
                for method in ("GET", "POST"):
                    answer = await daemon.ask(method, f"/{kind}/{name}", json={"value": 1})
                    assert "is not UTF-8" in refused(answer, 400, "invalid_name")

    async def test_an_unknown_path_version_or_part_of_the_service(self, daemon):
        paths = ("/params", "/param2/x", "/openapi", "/openapi.json/x", "/PARAM", "/../0.0.2/param", "/%FF")
        for path in paths:
            sentence = refused(await daemon.ask("GET", path), 404, "not_found")
            assert sentence.endswith("/_svc/api/0.0.1/openapi.json lists all paths")
        for target in ("/_svc/api", "/_svc/api/0.0.2/param", "/_svc/api/0.0.11/param"):
            async with daemon.session.get(daemon.origin + target) as response:
                assert (response.status, (await response.json())["error"]) == (404, "not_found")


class TestMethods:
    async def test_others_are_told_which_are_allowed(self, daemon):
        methods = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "COPY", "PROPFIND"}
        for path, allowed in (
            ("/param", "GET, HEAD"),
            (PARAM, "GET, HEAD, POST, DELETE"),
            ("/service", "GET, HEAD"),
            (f"/service/{STOP}", "GET, HEAD, POST"),
            ("/topic", "GET, HEAD"),
            (TOPIC, "GET, HEAD, POST"),
            (f"/topic_stream/{CO2}", "GET"),
            (f"/topic_data/{CO2}", "GET"),
            ("/node", "GET, HEAD"),
            ("/node/http", "GET, HEAD"),
            ("/openapi.json", "GET, HEAD"),
        ):
            for method in methods - {*allowed.split(", ")}:
                answer = await daemon.ask(method, path, headers=JSON)
                assert (answer.status, answer.headers["Allow"]) == (405, allowed), f"{method} {path}"
                if method != "HEAD":
                    assert method in refused(answer, 405, "method_not_allowed")

    async def test_one_that_http_does_not_know(self, daemon):
        async with raw_client(daemon.port) as client:
            await client.send(b"BREW /_svc/api/0.0.1/param HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = await client.answer()
        assert answer.status == 405
        assert b"GET" in answer.value(b"Allow")
        assert json.loads(answer.body)["error"] == "method_not_allowed"
