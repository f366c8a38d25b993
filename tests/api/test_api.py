"""Every row of the REST API 0.0.1, over real sockets."""

import asyncio
import json

import pytest

from growd.api.operation import Limits
from growd.bus.fields import Field, Kind
from growd.bus.messages import FLOAT64, Quality
from growd.bus.services import refused
from growd.control.topics import NOTE
from growd.runtime.sentence import Sentence
from support.daemon import CALIBRATE, CO2, LIGHT, POSITION, START, STOP, TOPICS, serving
from support.waiting import PATIENCE_S, until


class TestParameters:
    async def test_any_json_value_comes_back_as_it_was_set(self, daemon):
        texts, numbers = ("", "Grün 🌱\n\x00"), (0, -1.5, 1e300, 10**25)
        for value in (None, True, *numbers, *texts, [], [1, [None]], {}, {"x/y": 1}, {"": 0}):
            posted = await daemon.ask("POST", "/param/farm/value", json={"value": value})
            assert (posted.status, posted.json) == (200, {"result": value})
            got = await daemon.ask("GET", "/param/farm/value")
            assert (got.status, got.json) == (200, {"result": value})
            assert daemon.store.kept["farm/value"] == value

    async def test_a_branch_is_answered_as_its_subtree_and_a_missing_one_refused(self, daemon):
        await daemon.ask("POST", "/param/farm", json={"value": {"rows": {"a": 1, "b": 2}, "name": "x"}})
        answer = await daemon.ask("GET", "/param/farm/rows")
        assert answer.json == {"result": {"a": 1, "b": 2}}
        answer = await daemon.ask("GET", "/param/no/such")
        assert answer.status == 404
        sentence = 'there is no parameter named "no/such"'
        assert answer.json == {"ERROR": sentence, "error": "not_found", "reason": sentence}

    async def test_a_name_that_a_node_does_not_know_has_to_be_asked_for(self, daemon):
        declared = Field("trim_time", Kind.FLOAT64, default=60.0)
        daemon.bus.node("lamp").declare("lamp/trim_time", declared)
        answer = await daemon.ask("POST", "/param/lamp/trim_tim", json={"value": 61})
        assert (answer.status, answer.json["error"]) == (409, "undeclared")
        assert answer.json["ERROR"].endswith("did you mean lamp/trim_time?")
        answer = await daemon.ask("POST", "/param/lamp/trim_tim?new=true", json={"value": 61})
        assert answer.json == {"result": 61}

    async def test_a_declared_one_takes_effect_at_once_until_it_is_deleted(self, daemon):
        await daemon.ask("POST", "/param/my/own", json={"value": 1})
        assert (await daemon.ask("DELETE", "/param/my/own")).json == {"result": None}
        assert (await daemon.ask("DELETE", "/param/my/own")).status == 404
        path, declared = (
            "/param/sensors/scd30/interval",
            daemon.bus.parameters.declared("sensors/scd30/interval"),
        )
        assert (await daemon.ask("POST", path, json={"value": 10})).json == {"result": 10.0}
        assert declared.value == 10.0
        assert (await daemon.ask("DELETE", path)).json == {"result": 5.0}
        assert declared.value == 5.0

    async def test_names_with_or_without_a_leading_slash_and_percent_encoded(self, daemon):
        for name in ("a/b", "/a/b", "%2Fa/b", "a%2Fb", "%61%2fb"):
            path = f"/param/{name}"
            await daemon.ask("POST", path, json={"value": path})
            assert daemon.bus.parameters.get("a/b") == path
            assert (await daemon.ask("GET", path)).json == {"result": path}
        await daemon.ask("POST", "/param/gr%C3%BCn%20%3F%23%25", json={"value": 1})
        assert (await daemon.ask("GET", "/param")).json["results"][2] == "grün ?#%"
        # the control panel's other order is not for parameters
        await daemon.ask("POST", "/param/environments/e/x/y", json={"value": 1})
        assert daemon.bus.parameters.get("environments/e/x/y") == 1


class TestServices:
    async def test_what_a_service_is(self, daemon):
        for name in (CALIBRATE, "/" + CALIBRATE, CALIBRATE.replace("/", "%2F")):
            answer = await daemon.ask("GET", f"/service/{name}")
            assert answer.status == 200
            assert answer.json == {
                "request_type": "growd/Calibrate",
                "node": "recipe_runner",
                "args": ["reference", "rounds", "force", "notes"],
            }

    async def test_arguments_are_given_by_name_or_in_order_and_filled_in(self, daemon):
        for body in ({"recipe_id": "basil"}, ["basil"]):
            answer = await daemon.ask("POST", f"/service/{START}", json=body)
            assert (answer.status, answer.json) == (200, {"success": True, "message": "started basil"})
        answer = await daemon.ask("POST", f"/service/{CALIBRATE}", json=[420, 2.0])
        assert answer.json == {"success": True, "message": "calibrated", "offset": 20.0}
        assert daemon.runner.calls == [
            (START, {"recipe_id": "basil"}),
            (START, {"recipe_id": "basil"}),
            (CALIBRATE, {"reference": 420.0, "rounds": 2, "force": False, "notes": None}),
        ]

    async def test_no_arguments_in_any_form(self, daemon):
        for body in (b"", b"null", b"[]", b"{}", b" null "):
            answer = await daemon.post(f"/service/{STOP}", body)
            assert answer.json == {"success": True, "message": "stopped"}
        assert (await daemon.ask("POST", f"/service/{STOP}")).status == 200  # and without a content type

    async def test_a_refusal_is_no_2xx_and_has_the_reply_and_the_error(self, daemon):
        answer = await daemon.ask("POST", f"/service/{START}", json=["unknown"])
        assert answer.status == 400
        sentence = "there is no recipe named unknown"
        same = dict.fromkeys(("message", "ERROR", "reason"), sentence)
        assert answer.json == {"success": False, "error": "refused", **same}

    async def test_a_refusal_in_a_sentence_has_its_code_and_fields(self, daemon):
        async def refusing():
            return refused(Sentence("scd30 is busy", "device_busy", device="scd30"))

        daemon.bus.node("x").serve("e/a/b", "t", refusing)
        answer = (await daemon.ask("POST", "/service/e/a/b")).json
        assert (answer["error"], answer["ERROR"]) == ("refused", "scd30 is busy")
        assert (answer["code"], answer["fields"]) == ("device_busy", {"device": "scd30"})

    async def test_the_control_panels_names(self, daemon):
        for prefix in ("environments/", "/environments/", "environments%2F"):
            assert (await daemon.ask("POST", f"/service/{prefix}{START}", json=["basil"])).status == 200
            assert (await daemon.post(f"/service/{prefix}{STOP}", b"null")).status == 200
            assert (await daemon.ask("GET", f"/service/{prefix}{STOP}")).json["node"] == "recipe_runner"
        # a name of three segments keeps their order
        daemon.bus.node("x").serve("e/a/b", "t", _succeeding)
        assert (await daemon.ask("POST", "/service/environments/e/a/b")).status == 200

    async def test_a_handler_that_fails_or_breaks_its_promise_is_at_fault(self, daemon, caplog):
        async def failing():
            raise ConnectionRefusedError(111, "the database is down")

        async def lying():
            return {"success": "yes", "message": ""}

        node = daemon.bus.node("x")
        node.serve("failing", "t", failing)
        node.serve("lying", "t", lying)
        answer = await daemon.ask("POST", "/service/failing")
        assert (answer.status, answer.json["error"]) == (500, "internal_error")
        assert "database" not in answer.json["ERROR"]
        assert "the database is down" in caplog.text
        answer = await daemon.ask("POST", "/service/lying")
        assert (answer.status, answer.json["error"]) == (500, "invalid_answer")
        assert "the service lying gave an invalid answer" in caplog.text

    async def test_a_call_goes_on_when_its_client_goes_away(self, daemon):
        begun, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow():
            begun.set()
            await go_on.wait()
            ended.set()
            return {"success": True, "message": ""}

        daemon.bus.node("x").serve("slow", "t", slow)
        client = asyncio.create_task(daemon.ask("POST", "/service/slow"))
        await begun.wait()
        client.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client
        assert (await daemon.ask("GET", "/service")).status == 200
        go_on.set()
        await ended.wait()

    async def test_a_call_that_does_not_end_is_ended_with_the_server(self):
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def endless():
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        async with serving() as daemon:
            daemon.bus.node("x").serve("endless", "t", endless)
            client = asyncio.create_task(daemon.ask("POST", "/service/endless"))
            await begun.wait()
            await daemon.server.close()
            assert cancelled.is_set()
            await asyncio.wait([client])
            assert client.exception() is not None


async def _succeeding():
    return {"success": True, "message": ""}


class TestTopics:
    async def test_what_a_topic_is(self, daemon):
        with daemon.bus.node("reader").subscribe(POSITION):
            for name in (POSITION, "/" + POSITION, "%2fchamber%2Fposition"):
                answer = await daemon.ask("GET", f"/topic/{name}")
                assert answer.status == 200
                assert answer.json == {"type": "geometry_msgs/Vector3", "subs": ["reader"], "pubs": ["scd30"]}

    async def test_while_growd_starts_nothing_is_taken_that_could_not_be_saved_nor_said_to_be_unknown(
        self, daemon
    ):
        daemon.api.is_starting = True
        for method, path in (
            ("POST", f"/topic/{LIGHT}"),
            ("GET", "/photos/e"),
            ("POST", "/service/alerts/test"),
        ):
            answer = await daemon.ask(method, path, json=None if method == "GET" else [8000])
            assert (answer.status, answer.json["error"]) == (503, "starting")
            assert (answer.headers["Retry-After"], answer.headers["Refresh"]) == ("1", "1")
        assert daemon.bus.topics.get(LIGHT).last is None

    async def test_publishing_constructor_arguments(self, daemon):
        fault = {"level": 2, "name": "scd30", "message": "no answer"}
        for topic, arguments, value in (
            (LIGHT, [200_000], 200_000.0),
            ("chamber/pressure", [-1e300], -1e300),
            ("chamber/door_open", [True], True),
            ("chamber/starts", [-(2**63)], -(2**63)),
            ("environment_1/desired/recipe_start", ["basil\n"], "basil\n"),
            (POSITION, [1, 2.5, -3], {"x": 1.0, "y": 2.5, "z": -3.0}),
            ("diagnostics", [*fault.values()], fault),
        ):
            answer = await daemon.ask("POST", f"/topic/{topic}", json=arguments)
            assert (answer.status, answer.json) == (200, {"message": "Posted message to topic"})
            last = daemon.bus.topics.get(topic).last
            assert (last.value, last.node, last.quality, last.number) == (value, "http", Quality.OK, 1)
            assert type(last.value) is type(value)
            assert "http" in (await daemon.ask("GET", f"/topic/{topic}")).json["pubs"]

    async def test_a_time_in_the_past_and_an_author(self, daemon):
        topic = daemon.bus.topics.declare("e/notes", NOTE, is_open=True)
        authors = []

        async def keep(message, who):
            authors.append((message.time, who))
            return ""

        topic.keeper, topic.takes_past = keep, True
        assert (
            await daemon.ask("POST", "/topic/e/notes?time=1500000000.5000004&by=Ada", json=["watered"])
        ).status == 200
        assert authors == [(1500000000.5, "Ada")]
        assert topic.last.time == 1500000000.5
        for query, field in ("time=1e12", "time"), ("time=-1", "time"), (f"by={'x' * 101}", "by"):
            answer = await daemon.ask("POST", f"/topic/e/notes?{query}", json=["watered"])
            assert (answer.status, answer.json["error"]) == (400, "invalid_value")
            assert answer.json["ERROR"].startswith(f"{field} must be ")
        refused = await daemon.ask("POST", f"/topic/{LIGHT}?time=1500000000.5", json=[8000])
        assert (refused.status, daemon.bus.topics.get(LIGHT).last) == (400, None)

    async def test_a_topic_of_a_node_refuses_clients_and_names_the_node(self, daemon):
        answer = await daemon.ask("POST", f"/topic/{CO2}", json=[400])
        assert (answer.status, answer.json["error"]) == (403, "not_open")
        assert answer.json["ERROR"].endswith("it belongs to the node scd30")
        older = "/topic/environments/environment_1/air_carbon_dioxide/measured"
        assert (await daemon.ask("POST", older, json=[400])).status == 403
        assert daemon.bus.topics.get(CO2).last is None

    async def test_the_answer_says_why_a_message_has_no_effect(self, daemon):
        daemon.bus.topics.declare("e/desired/x", FLOAT64, is_open=True, note="nothing in e controls x")
        answer = await daemon.ask("POST", "/topic/e/desired/x", json=[1])
        assert answer.json == {"message": "Posted message to topic", "hint": "nothing in e controls x"}
        daemon.bus.topics.open("e/desired/x")
        answer = await daemon.ask("POST", "/topic/e/desired/x", json=[1])
        assert answer.json == {"message": "Posted message to topic"}

    async def test_the_control_panels_names_and_switches(self, daemon):
        path = "/topic/environments/environment_1/air_flush_on/commanded"
        for said, value in (("true", 1.0), ("false", 0.0), ("0.7", 0.7)):
            assert (await daemon.post(path, f"[{said}]")).status == 200
            last = daemon.bus.topics.get("environment_1/commanded/air_flush_on").last
            assert (last.value, type(last.value)) == (value, float)
        assert (await daemon.ask("GET", path)).json["type"] == "std_msgs/Float64"

    async def test_json_may_be_declared_with_its_charset(self, daemon):
        for declared in ("application/json; charset=utf-8", 'APPLICATION/JSON;charset="UTF-8"'):
            headers = {"Content-Type": declared}
            assert (await daemon.ask("POST", f"/topic/{LIGHT}", data=b"[1]", headers=headers)).status == 200


class TestNextMessage:
    async def test_the_last_one_is_there_at_once(self, daemon):
        answer = await daemon.ask("GET", f"/topic_data/{CO2}?last=true")
        assert (answer.status, answer.json["error"]) == (404, "no_message")
        daemon.sensor[CO2].publish(400, time=1.5)
        for flag in ("true", "True", "TRUE", ""):  # as programs spell it
            answer = await daemon.ask("GET", f"/topic_data/{CO2}?last={flag}")
            assert answer.json == {"result": 400.0, "time": 1.5, "quality": "ok", "node": "scd30"}

    async def test_it_is_the_next_and_not_the_last(self, daemon):
        daemon.sensor[CO2].publish(400)
        asked = asyncio.create_task(daemon.ask("GET", f"/topic_data/{CO2}"))
        await waiting(daemon, 1)
        daemon.sensor[CO2].publish(None, Quality.FAULT, time=1.5)
        answer = await asked
        assert answer.status == 200
        assert answer.json == {"result": None, "time": 1.5, "quality": "fault", "node": "scd30"}
        assert len(daemon.api.streams) == 0

    async def test_it_has_time_limits_of_the_client_and_of_the_server(self, daemon):
        answer = await daemon.ask("GET", f"/topic_data/{CO2}?timeout=0")
        assert (answer.status, answer.json["error"]) == (404, "no_message")
        assert answer.json["ERROR"] == f"no message arrived on the topic {CO2} within 0 s"
        async with serving(Limits(topic_data_s=0.01)) as other:
            answer = await other.ask("GET", f"/topic_data/{CO2}")
            assert "within 0.01 s" in answer.json["ERROR"]
            assert other.bus.topics.get(CO2).subscribers == []
            assert await described_timeout(other) == (0.01, 0.01)

    async def test_a_client_that_goes_away_is_forgotten(self, daemon):
        asked = asyncio.create_task(daemon.ask("GET", f"/topic_data/{CO2}"))
        await waiting(daemon, 1)
        asked.cancel()
        await waiting(daemon, 0)
        assert daemon.bus.topics.get(CO2).subscribers == []

    async def test_it_ends_when_the_server_does(self, daemon, monkeypatch):
        monkeypatch.setattr("growd.server.listener.CLOSE_S", PATIENCE_S)  # after which it is broken off
        asked = asyncio.create_task(daemon.ask("GET", f"/topic_data/{CO2}"))
        await waiting(daemon, 1)
        await daemon.server.close()
        answer = await asked
        assert (answer.status, answer.json["error"]) == (503, "closing")


async def described_timeout(daemon):
    """Default and maximum, as the OpenAPI document has them."""
    described = (await daemon.ask("GET", "/openapi.json")).json["paths"]["/topic_data/{topic}"]["get"]
    schema = next(each["schema"] for each in described["parameters"] if each["name"] == "timeout")
    bounds = next((part for part in schema.get("anyOf", ()) if "maximum" in part), schema)
    return schema["default"], bounds["maximum"]


async def waiting(daemon, count):
    """Wait until so many clients wait for messages."""
    await until(lambda: len(daemon.api.streams) == count)


class TestNodes:
    async def test_what_a_node_does(self, daemon):
        daemon.bus.node("reader").declare("reader/on", Field("on", Kind.BOOL, default=True))
        with daemon.bus.find_node("reader").subscribe(CO2):
            answer = await daemon.ask("GET", "/node/%2Freader")
        assert answer.json == {
            "node_name": "reader",
            "pubs": [],
            "subs": [CO2],
            "srvs": [],
            "params": ["reader/on"],
        }
        services = (await daemon.ask("GET", "/node/recipe_runner")).json["srvs"]
        assert services == sorted([START, STOP, CALIBRATE])


class TestRequests:
    async def test_all_names_are_listed_sorted(self, daemon):
        await daemon.ask("POST", "/param/b", json={"value": 1})
        await daemon.ask("POST", "/param/a/c", json={"value": 1})
        declared = ["environment_1/current_recipe", "sensors/scd30/interval"]
        for path, names in (
            ("/param", ["a/c", "b", *declared]),
            ("/service", [START, STOP, CALIBRATE]),
            ("/topic", sorted(TOPICS)),
            ("/node", ["http", "recipe_runner", "scd30"]),
        ):
            answer = await daemon.ask("GET", path)
            assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
            assert answer.json == {"results": names}

    async def test_head_has_the_length_of_get_and_no_body(self, daemon):
        for path in ("/param", "/param/", "/service", "/topic/", "/node", "/openapi.json", f"/topic/{LIGHT}"):
            got, head = await daemon.ask("GET", path), await daemon.ask("HEAD", path)
            assert head.status == got.status == 200
            assert head.body == b""
            assert head.headers["Content-Length"] == got.headers["Content-Length"]

    async def test_get_may_declare_json_send_a_body_and_have_unknown_fields_in_its_query(self, daemon):
        headers = {"Content-Type": "application/json"}
        assert (await daemon.ask("GET", "/param", headers=headers)).status == 200
        assert (await daemon.ask("GET", "/param", headers=headers, data=b"{no json")).status == 200
        assert (await daemon.ask("GET", '/param?_=1&a=["environment_1",{}]&b=%FF')).status == 200

    async def test_a_body_in_chunks(self, daemon):
        async def pieces():
            for piece in json.dumps([8000]):
                yield piece.encode()

        headers = {"Content-Type": "application/json"}
        answer = await daemon.ask("POST", f"/topic/{LIGHT}", data=pieces(), headers=headers)
        assert answer.status == 200
        assert daemon.bus.topics.get(LIGHT).last.value == 8000.0
