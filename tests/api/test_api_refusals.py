"""Every bad request is refused with its own status and sentence in the one form, and changes nothing."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from growd.api.operations import Limits
from growd.api.requests import decoded
from growd.bus.parameter_rules import MAX_PARAMETERS
from support.daemon import CALIBRATE, CO2, LIGHT, POSITION, START, STOP, serving
from support.raw_http import raw_client
from support.waiting import until

JSON = {"Content-Type": "application/json"}
PARAM, TOPIC, CALIBRATION = "/param/farm/name", f"/topic/{LIGHT}", f"/service/{CALIBRATE}"


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
    @pytest.mark.parametrize(
        ("body", "code", "said"),
        [
            (b'{"value": 1', "malformed_json", "truncated"),
            (b'{"value": 1} x', "malformed_json", "trailing"),
            (b"{'value': 1}", "malformed_json", "byte 1"),
            (b"[1,]", "malformed_json", ""),
            (b" ", "malformed_json", ""),
            (b"\xef\xbb\xbf[1]", "malformed_json", ""),
            (b'{"value": NaN}', "malformed_json", "invalid character"),
            (b"[NaN]", "malformed_json", "invalid character"),
            (b"[Infinity]", "malformed_json", "invalid character"),
            (b"[-Infinity]", "malformed_json", ""),
            (b"[1e400]", "malformed_json", "out of range"),
            (b"[" + b"9" * 5_000 + b"]", "malformed_json", "out of range"),
            (b'["\\ud800"]', "malformed_json", ""),
            (b'["\xff"]', "invalid_utf8", "not UTF-8"),
            (b'{"value": "\xc3("}', "invalid_utf8", "not UTF-8"),
            (b'{"value": ' + b"[" * 64 + b"]" * 64 + b"}", "too_deep", "64 levels"),
            (b"[" * 65 + b"]" * 65, "too_deep", "64 levels"),
            (b"[" * 40_000, "too_deep", "64 levels"),
            (b'{"a":' * 20_000, "too_deep", "64 levels"),
            (b"true", "invalid_body", "true"),
            (b'"text"', "invalid_body", '"text"'),
            (b"3", "invalid_body", "3"),
        ],
    )
    async def test_not_json(self, daemon, body, code, said):
        for path in (PARAM, TOPIC, f"/service/{START}"):
            sentence = refused(await daemon.post(path, body), 400, code)
            assert sentence.startswith(("the body", "the JSON"))
            assert said in sentence

    @pytest.mark.parametrize("path", [PARAM, TOPIC])
    @pytest.mark.parametrize("body", [b"", b"null"])
    async def test_none_where_one_is_required(self, daemon, path, body):
        sentence = refused(await daemon.post(path, body), 400, "invalid_body")
        assert sentence.endswith(", but it is empty or null")

    async def test_more_arrays_and_objects_than_anybody_needs(self, daemon, said):
        sentence = refused(
            await daemon.post(PARAM, b'{"value":[' + b"[]," * 10_000 + b"[]]}"), 400, "too_complex"
        )
        said(sentence)

    async def test_brackets_in_strings_are_no_arrays(self, daemon):
        text = b'["%b\\"%b"]' % (b"[" * 30_000, b"{" * 30_000)
        refused(await daemon.post(TOPIC, text), 400, "invalid_value")

    async def test_64_levels_are_not_too_deep(self, daemon):
        body = b'{"value":' + b"[" * 63 + b"1" + b"]" * 63 + b"}"
        answer = await daemon.post("/param/sensors/scd30/interval", body)
        assert refused(answer, 400, "invalid_value").endswith("not an array of 1 element")

    @pytest.mark.parametrize(
        ("headers", "code", "said"),
        [
            ({}, "unsupported_media_type", "has no Content-Type"),
            ({"Content-Type": "text/plain"}, "unsupported_media_type", '"text/plain"'),
            ({"Content-Type": "application/x-www-form-urlencoded"}, "unsupported_media_type", "urlencoded"),
            ({"Content-Type": "application/json-patch+json"}, "unsupported_media_type", "json-patch"),
            ({"Content-Type": "application/json; charset=latin-1"}, "unsupported_media_type", "latin-1"),
            ({**JSON, "Content-Encoding": "gzip"}, "unsupported_encoding", "gzip"),
        ],
    )
    async def test_not_declared_json(self, daemon, headers, code, said):
        for path in (PARAM, TOPIC, f"/service/{START}", f"/service/{STOP}"):
            answer = await daemon.ask(
                "POST", path, data=b'{"value": 1}', headers=headers, skip_auto_headers=["Content-Type"]
            )
            assert said in refused(answer, 415, code)

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

    async def test_a_body_at_the_limit_is_taken(self, daemon):
        body = b'{"recipe_id":"%b"}' % (b"a" * 984)
        assert len(body) == 1_000
        refused(await daemon.post(f"/service/{START}", body), 400, "invalid_value")

    async def test_too_large_by_its_length(self, daemon, said):
        answer = await daemon.post(PARAM, b'{"value":"%b"}' % (b"a" * 989))
        said(refused(answer, 413, "too_large"))

    async def test_too_large_by_its_chunks_is_refused_before_it_ends(self, daemon):
        async with raw_client(daemon.port) as client:
            await client.send(post_head(daemon, PARAM, "Transfer-Encoding: chunked"))
            await client.send(b"3e9\r\n" + b" " * 1_001 + b"\r\n")  # and no end
            answer = await client.answer()
            assert answer.status == 413
            assert json.loads(answer.body)["error"] == "too_large"
            assert answer.value(b"Connection") == b"close"

    async def test_a_length_that_is_too_large_is_refused_before_the_body(self, daemon):
        async with raw_client(daemon.port) as client:
            await client.send(post_head(daemon, PARAM, "Content-Length: 1001", "Expect: 100-continue"))
            answer = await client.answer()  # and no 100 before it
            assert answer.status == 413
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

    async def test_a_client_that_sends_no_more(self, said):
        async with serving(Limits(body_stall_s=0.01)) as daemon:
            before = daemon.state()
            async with raw_client(daemon.port) as client:
                await client.send(post_head(daemon, TOPIC, "Content-Length: 6") + b"[800")
                answer = await client.answer()
            assert answer.status == 408
            said(json.loads(answer.body)["ERROR"])
            assert daemon.state() == before

    async def test_a_client_that_sends_on_but_never_comes_to_the_end(self, said):
        async with serving(Limits(body_whole_s=0.05)) as daemon, raw_client(daemon.port) as client:
            await client.send(post_head(daemon, TOPIC, "Content-Length: 100000"))
            sending = asyncio.create_task(byte_by_byte(client))
            answer = await client.answer()
            sending.cancel()
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

    @pytest.mark.parametrize("body", [b"[" * 20_000, b"[" + b" " * 20_000 + b"]", b'{"a":' + b" " * 20_000])
    async def test_a_body_counts_until_it_is_answered(self, daemon, body):
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
    @pytest.mark.parametrize("value", ["5", None, 1, 1_801, True, {"a": 1}])
    async def test_a_declared_parameter(self, daemon, value):
        answer = await daemon.ask("POST", "/param/sensors/scd30/interval", json={"value": value})
        sentence = refused(answer, 400, "invalid_value")
        assert sentence.startswith("sensors/scd30/interval must be a number from 2 to 1800 s, not ")

    @pytest.mark.parametrize(
        ("path", "body", "code", "said"),
        [
            (PARAM, {}, "invalid_arguments", 'the body lacks the field "value"'),
            (PARAM, {"Value": 1}, "invalid_arguments", 'has an unknown field "Value"; known: value'),
            (PARAM, {"value": 1, "x": 2}, "invalid_arguments", 'unknown field "x"'),
            (PARAM, [1], "invalid_body", "must be an object, but it is an array of 1 element"),
            (TOPIC, {"data": 1}, "invalid_body", "must be an array"),
            (TOPIC, [], "invalid_arguments", "std_msgs/Float64 takes 1 argument [data: a number], got 0"),
            (TOPIC, [1, 2], "invalid_arguments", "got 2"),
            (TOPIC, ["8000"], "invalid_value", 'data must be a number from 0 to 200000 lux, not "8000"'),
            (TOPIC, [None], "invalid_value", "not null"),
            (TOPIC, [-0.1], "invalid_value", "not -0.1"),
            (TOPIC, [200_000.1], "invalid_value", "not 200000.1"),
            (TOPIC, [10**400], "invalid_value", "not an integer of"),
            ("/topic/chamber/pressure", [10**400], "invalid_value", "must be a number"),
            ("/topic/chamber/door_open", [1], "invalid_value", "must be true or false, not 1"),
            ("/topic/chamber/starts", [1.5], "invalid_value", "must be a whole number, not 1.5"),
            ("/topic/chamber/starts", [2**63], "invalid_value", "must be a whole number"),
            ("/topic/chamber/starts", [True], "invalid_value", "must be a whole number, not true"),
            ("/topic/environment_1/desired/recipe_start", [5], "invalid_value", "must be a text"),
            (f"/topic/{POSITION}", [1, 2], "invalid_arguments", "takes 3 arguments"),
            (f"/topic/{POSITION}", [1, "2", 3], "invalid_value", 'y must be a number, not "2"'),
            (
                "/topic/diagnostics",
                [4, "a", "b"],
                "invalid_value",
                "level must be a whole number from 0 to 3, not 4",
            ),
            (CALIBRATION, None, "invalid_arguments", "the argument reference is missing"),
            (CALIBRATION, {}, "invalid_arguments", "the argument reference is missing"),
            (CALIBRATION, [], "invalid_arguments", "the argument reference is missing"),
            (CALIBRATION, {"reference": 420, "x": 1}, "invalid_arguments", 'has no argument "x"'),
            (CALIBRATION, [420, 1, True, None, 5], "invalid_arguments", "takes at most 4 arguments, got 5"),
            (CALIBRATION, [399.9], "invalid_value", "must be a number from 400 to 2000 ppm, not 399.9"),
            (CALIBRATION, [420, 1.5], "invalid_value", "rounds must be a whole number"),
            (CALIBRATION, [420, 1, "yes"], "invalid_value", 'force must be true or false, not "yes"'),
        ],
    )
    async def test_values_that_do_not_fit(self, daemon, path, body, code, said):
        assert said in refused(await daemon.ask("POST", path, json=body), 400, code)

    async def test_a_read_only_parameter(self, daemon):
        path = "/param/environment_1/current_recipe"
        answer = await daemon.ask("POST", path, json={"value": "basil"})
        assert "the node scd30 sets it" in refused(answer, 403, "read_only")

    @pytest.mark.parametrize("path", ["/param/environment_1", "/param/sensors/scd30/interval/x"])
    async def test_a_conflict_in_the_tree(self, daemon, path):
        refused(await daemon.ask("POST", path, json={"value": 1}), 409, "conflict")

    async def test_more_parameters_than_there_is_room_for(self, daemon):
        value = {str(number): 0 for number in range(MAX_PARAMETERS)}
        refused(await daemon.ask("POST", "/param/farm", json={"value": value}), 507, "capacity")

    async def test_a_store_that_cannot_keep_it(self, daemon):
        daemon.store.broken = True
        for path in (PARAM, "/param/sensors/scd30/interval"):
            answer = await daemon.ask("POST", path, json={"value": 10})
            assert "the disk is full" in refused(answer, 503, "not_kept")

    @pytest.mark.parametrize(
        "query", ["latest=maybe", "latest=1", "latest=null", "latest=%FF", "latest=" + "[" * 20_000]
    )
    async def test_a_query_that_does_not_fit(self, daemon, query):
        answer = await daemon.ask("GET", f"/topic_stream/{CO2}?{query}")
        assert refused(answer, 400, "invalid_value").startswith("latest must be true or false, not ")

    @pytest.mark.parametrize(
        "query", ["timeout=-1", "timeout=11", "timeout=NaN", "timeout=1e999", "timeout=x"]
    )
    async def test_a_time_limit_that_does_not_fit(self, daemon, query):
        answer = await daemon.ask("GET", f"/topic_data/{CO2}?{query}")
        assert refused(answer, 400, "invalid_value").startswith("timeout must be a number from 0 to 10 s")


INVALID = ["a%2F%2Fb", "a%2F", "%2F%2Fa", "%2F", "a%00b", "a%0Ab", "a%0Db", "%E2%80%AE", "a" * 300]


class TestNames:
    @pytest.mark.parametrize("kind", ["param", "service", "topic", "topic_stream", "topic_data", "node"])
    async def test_an_unknown_one(self, daemon, kind):
        thing = {"param": "parameter"}.get(kind, kind.partition("_")[0])
        answer = await daemon.ask("GET", f"/{kind}/no/such%20%C3%BC")
        assert refused(answer, 404, "not_found") == f'there is no {thing} named "no/such ü"'

    @pytest.mark.parametrize("kind", ["service", "topic"])
    async def test_an_unknown_one_to_post_to(self, daemon, kind):
        refused(await daemon.ask("POST", f"/{kind}/no/such", json=[]), 404, "not_found")

    @pytest.mark.parametrize("kind", ["param", "service", "topic", "topic_stream", "topic_data", "node"])
    async def test_an_invalid_one(self, daemon, kind):
        for name in INVALID:
            answer = await daemon.ask("GET", f"/{kind}/{name}")
            assert "is not valid: " in refused(answer, 400, "invalid_name")

    @pytest.mark.parametrize("kind", ["param", "service", "topic"])
    async def test_one_that_is_not_utf8(self, daemon, kind):
        for name in ("%FF", "a/%C3%28", "%ED%A0%80", "%C3"):
            for method in ("GET", "POST"):
                answer = await daemon.ask(method, f"/{kind}/{name}", json={"value": 1})
                assert "is not UTF-8" in refused(answer, 400, "invalid_name")

    @pytest.mark.parametrize(
        "path", ["/params", "/param2/x", "/openapi", "/openapi.json/x", "/PARAM", "/../0.0.2/param", "/%FF"]
    )
    async def test_an_unknown_path(self, daemon, path):
        answer = await daemon.ask("GET", path)
        assert refused(answer, 404, "not_found").endswith("/_svc/api/0.0.1/openapi.json lists all paths")

    @pytest.mark.parametrize("target", ["/_svc/api", "/_svc/api/0.0.2/param", "/_svc/api/0.0.11/param"])
    async def test_another_version_or_part_of_the_service(self, daemon, target):
        async with daemon.session.get(daemon.origin + target) as response:
            assert response.status == 404
            assert (await response.json())["error"] == "not_found"


class TestMethods:
    @pytest.mark.parametrize(
        ("path", "allowed"),
        [
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
        ],
    )
    async def test_others_are_told_which_are_allowed(self, daemon, path, allowed):
        methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "COPY", "PROPFIND"]
        for method in methods:
            if method in allowed.split(", "):
                continue
            answer = await daemon.ask(method, path, headers=JSON)
            assert answer.status == 405, method
            assert answer.headers["Allow"] == allowed
            if method != "HEAD":
                assert method in refused(answer, 405, "method_not_allowed")

    async def test_one_that_http_does_not_know(self, daemon):
        async with raw_client(daemon.port) as client:
            await client.send(b"BREW /_svc/api/0.0.1/param HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = await client.answer()
        assert answer.status == 405
        assert b"GET" in answer.value(b"Allow")
        assert json.loads(answer.body)["error"] == "method_not_allowed"
