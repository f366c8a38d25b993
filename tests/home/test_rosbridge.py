"""rosbridge over a real websocket: operations, forms of messages, refusals, bounds, hostile clients."""

import asyncio
import json
import re
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import WSMsgType

from growd.api.operation import Limits
from growd.api.requests import SMALL
from growd.bus.messages import Quality
from growd.config import Http
from growd.server.client_limits import ClientLimits, Clients
from growd_home.rosbridge import MOST_CALLS, MOST_SUBSCRIPTIONS, ROSAPI
from support.checkout import ROOT
from support.clock import ManualClock
from support.daemon import CALIBRATE, CO2, LIGHT, NAMES, POSITION, START, STOP, serving
from support.waiting import PATIENCE_S, until

OTHER_SITE = "http://shop.example"

REFUSED = [
    ("publish", {"topic": CO2, "msg": {"data": 1}}),
    ("advertise", {"topic": CO2}),
    ("publish", {"topic": LIGHT, "msg": {"data": -1}}),
    ("publish", {"topic": LIGHT, "msg": {}}),
    ("publish", {"topic": LIGHT, "msg": {"data": 1, "x": 2}}),
    ("publish", {"topic": LIGHT, "msg": 5}),
    ("publish", {"topic": LIGHT}),
    ("publish", {"topic": "nothing", "msg": {}}),
    ("subscribe", {"topic": "nothing"}),
    ("subscribe", {"topic": 5}),
    ("subscribe", {}),
    ("subscribe", {"topic": CO2, "type": "a/B"}),
    ("advertise", {"topic": LIGHT, "type": "a/B"}),
    ("subscribe", {"topic": CO2, "compression": "cbor"}),
    ("subscribe", {"topic": CO2, "fragment_size": 500}),
    ("subscribe", {"topic": CO2, "throttle_rate": -1}),
    ("subscribe", {"topic": CO2, "queue_length": "all"}),
    ("set_level", {"level": "debug"}),
]


class Ros:
    """A client that speaks rosbridge."""

    def __init__(self, socket):
        self.socket = socket

    async def send(self, op, **members):
        await self.socket.send_str(json.dumps({"op": op, **members}))

    async def next(self):
        message = await self.socket.receive(PATIENCE_S)
        assert message.type is WSMsgType.TEXT, message
        return json.loads(message.data)

    async def ask(self, op, **members):
        """The answer to an operation."""
        await self.send(op, **members)
        return await self.next()

    async def call(self, service, args=None):
        """The values and the result of a service."""
        answer = await self.ask("call_service", id="c", service=service, args=args)
        assert answer.keys() == {"op", "id", "service", "values", "result"}
        assert (answer["op"], answer["id"], answer["service"]) == ("service_response", "c", service)
        return answer["values"], answer["result"]

    async def refused(self, op, **members):
        """The sentence of a refusal."""
        answer = await self.ask(op, id="x", **members)
        assert answer.keys() == {"op", "id", "level", "msg"}
        assert (answer["op"], answer["id"], answer["level"]) == ("status", "x", "error")
        return answer["msg"]

    async def answered(self):
        """Everything that was sent before was done."""
        assert (await self.call("/rosapi/nodes"))[1]


@asynccontextmanager
async def connected(daemon, **options):
    url = f"{daemon.origin}/_svc/rosbridge"
    async with daemon.session.ws_connect(url, max_msg_size=0, **options) as socket:
        yield Ros(socket)


async def refused_handshake(daemon, **headers):
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with connected(daemon, headers=headers):
            pass
    return caught.value.status


class TestTopics:
    async def test_a_subscriber_gets_the_last_message_and_all_that_follow(self, daemon):
        daemon.sensor[CO2].publish(612.5)
        async with connected(daemon) as ros:
            first = await ros.ask("subscribe", id="s", topic=f"/{CO2}", type="std_msgs/Float64")
            assert first == {"op": "publish", "topic": f"/{CO2}", "msg": {"data": 612.5}}
            daemon.sensor[CO2].publish(613.0)
            assert (await ros.next())["msg"] == {"data": 613.0}

    async def test_an_unusable_value_is_never_a_number(self, daemon):
        async with connected(daemon) as ros:
            await ros.send("subscribe", topic=CO2)
            await ros.answered()
            for quality in (Quality.FAULT, Quality.STALE, Quality.WARM_UP):
                for value in (None, 612.5):
                    daemon.sensor[CO2].publish(value, quality)
                    assert (await ros.next())["msg"] == {"data": None, "quality": quality}

    async def test_two_subscriptions_of_a_topic_get_each_message_once(self, daemon):
        async with connected(daemon) as ros:
            await ros.send("subscribe", id="a", topic=CO2)
            await ros.send("subscribe", id="b", topic=CO2)
            await ros.answered()
            daemon.sensor[CO2].publish(1.0)
            assert (await ros.next())["msg"] == {"data": 1.0}
            await ros.send("unsubscribe", id="a", topic=CO2)
            assert (await ros.next())["msg"] == {"data": 1.0}  # as to a new subscriber
            await ros.send("unsubscribe", id="b", topic=CO2)
            await ros.answered()
            daemon.sensor[CO2].publish(2.0)
            await ros.answered()
            assert "http" not in daemon.bus.topics.get(CO2).subscribers

    async def test_a_throttle_keeps_the_newest_message_or_a_queue(self):
        clock = ManualClock()
        for options, kept in (({}, [4.0]), ({"queue_length": 2}, [3.0, 4.0])):
            async with serving(clock=clock) as daemon, connected(daemon) as ros:
                daemon.sensor[CO2].publish(1.0)
                first = await ros.ask("subscribe", topic=CO2, throttle_rate=2000, **options)
                assert first["msg"] == {"data": 1.0}
                for value in (2.0, 3.0, 4.0):
                    daemon.sensor[CO2].publish(value)
                for expected in kept:
                    await ros.answered()
                    await clock.advance(2)
                    assert (await ros.next())["msg"] == {"data": expected}

    async def test_publish(self, daemon):
        daemon.bus.topics.get(LIGHT).is_releasable = True
        async with connected(daemon) as ros:
            topic, kind = f"/{LIGHT}", "std_msgs/Float64"
            await ros.send("advertise", topic=topic, type=kind, latch=True, queue_size=100)
            await ros.send("publish", topic=topic, msg={"data": 8000})
            await ros.send("unadvertise", topic=topic)
            await ros.answered()
            assert daemon.bus.topics.get(LIGHT).last.value == 8000.0
            await ros.send("publish", topic=POSITION, msg={"z": 3, "x": 1, "y": 2})
            await ros.send("publish", topic=LIGHT, msg={"data": None})  # a release
            await ros.answered()
            assert daemon.bus.topics.get(POSITION).last.value == {"x": 1.0, "y": 2.0, "z": 3.0}
            assert daemon.bus.topics.get(LIGHT).last.value is None

    async def test_a_hint_is_a_warning(self, daemon):
        daemon.bus.topics.get(LIGHT).note = "there is no lamp"
        async with connected(daemon) as ros:
            answer = await ros.ask("publish", id="p", topic=LIGHT, msg={"data": 1})
            assert answer == {"op": "status", "id": "p", "level": "warning", "msg": "there is no lamp"}
            await ros.send("set_level", level="error")
            await ros.send("publish", id="p", topic=LIGHT, msg={"data": 1})
            await ros.answered()

    async def test_refusals(self, daemon, said):
        before = daemon.state()["topics"]
        async with connected(daemon) as ros:
            for operation, members in REFUSED:
                said(await ros.refused(operation, **members))
            for unknown in ("fragment", "auth"):
                said((await ros.ask(unknown, data="x"))["msg"])
            await ros.answered()
        assert daemon.state()["topics"] == before


class TestServices:
    async def test_arguments_by_name_and_in_order(self, daemon):
        async with connected(daemon) as ros:
            expected = {"success": True, "message": "started demo_day"}
            assert await ros.call(f"/{START}", {"recipe_id": "demo_day"}) == (expected, True)
            assert await ros.call(START, ["demo_day"]) == (expected, True)
            assert await ros.call(STOP) == ({"success": True, "message": "stopped"}, True)
        assert len(daemon.runner.calls) == 3

    async def test_refusals(self, daemon, said):
        async with connected(daemon) as ros:
            for service, args in (
                (START, {"recipe_id": "unknown"}),
                (START, {}),
                (START, [1]),
                (CALIBRATE, [10]),
                ("nothing", None),
                ("rosapi/nothing", None),
                ("rosapi/topic_type", None),
                ("rosapi/topic_type", {"topic": "nothing"}),
                ("rosapi/get_param", ["nothing"]),
                ("rosapi/set_param", {"name": "sensors/scd30/interval", "value": "0.1"}),
                ("rosapi/set_param", {"name": "a", "value": "{"}),
            ):
                sentence, result = await ros.call(service, args)
                assert not result
                said(sentence)

    async def test_a_slow_service_holds_up_nothing_else(self, daemon):
        go_on = asyncio.Event()

        async def wait():
            await go_on.wait()
            return {"success": True, "message": ""}

        daemon.bus.node("slow").serve("slow", "std_srvs/Trigger", wait)
        async with connected(daemon) as ros:
            for _ in range(MOST_CALLS):
                await ros.send("call_service", id="slow", service="slow")
            values, result = await ros.call(STOP)
            assert not result
            assert values == f"{MOST_CALLS} calls of services by this connection are under way, the maximum"
            await ros.send("publish", topic=LIGHT, msg={"data": 5})
            await until(lambda: daemon.bus.topics.get(LIGHT).last)
            go_on.set()
            assert [(await ros.next())["id"] for _ in range(MOST_CALLS)] == ["slow"] * MOST_CALLS
            assert (await ros.call(STOP))[1]

    async def test_a_defect_of_a_service_ends_no_connection(self, daemon):
        async def fail():
            raise RuntimeError("a defect")

        daemon.bus.node("defective").serve("defective", "std_srvs/Trigger", fail)
        async with connected(daemon) as ros:
            assert await ros.call("defective") == ("internal error; see growd's log", False)
            await ros.answered()

    def test_the_documentation_names_all_services_of_rosapi(self):
        text = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
        (sentence,) = re.findall(
            r"Of `rosapi` there is what roslib calls: (.*?); calls of others are refused", text
        )
        named = re.findall(r"`(\w+)`", sentence)
        assert [f"rosapi/{name}" for name in named] == list(ROSAPI)


class TestBounds:
    async def test_other_requests_get_an_http_answer(self, daemon):
        async with daemon.session.get(f"{daemon.origin}/_svc/rosbridge") as answer:
            assert answer.status == 426
            assert (await answer.json())["error"] == "upgrade_required"
        async with daemon.session.post(f"{daemon.origin}/_svc/rosbridge") as answer:
            assert answer.status == 405
        assert await refused_handshake(daemon, Host="evil.example") == 421

    async def test_pages_of_other_sites_get_no_websocket(self):
        for origins in ((), ("*",), ("http://else.example",)):
            async with serving(policy=Http(hosts=NAMES, origins=origins)) as daemon:
                assert await refused_handshake(daemon, Origin=OTHER_SITE) == 403
                assert await refused_handshake(daemon, Origin="null") == 403
                assert len(daemon.api.streams) == 0

    async def test_pages_of_growd_and_of_named_origins_may(self):
        async with serving(policy=Http(hosts=NAMES, origins=(OTHER_SITE, "*"))) as daemon:
            for origin in (OTHER_SITE, daemon.origin):
                async with connected(daemon, headers={"Origin": origin}) as ros:
                    await ros.answered()

    async def test_garbage_is_refused_and_the_connection_stays(self, daemon):
        texts = ("", "{", "[]", "5", "null", '{"op": []}', '{"op": 1}', "[" * 5000, '{"op": "\\ud800"}')
        async with connected(daemon) as ros:
            for text in texts:
                await ros.socket.send_str(text)
                answer = await ros.next()
                assert (answer["op"], answer["level"]) == ("status", "error")
            await ros.socket.send_bytes(b"\x00\x01")
            assert (await ros.next())["msg"].startswith("a message must be JSON in a text frame")
            for strange in ({"id": {}}, {"id": "x" * 257}, {"id": 5}):
                await ros.send("subscribe", topic=CO2, **strange)
                assert (await ros.next())["msg"].startswith("id must be a text of at most 256 characters")
            await ros.answered()

    async def test_a_message_that_is_too_large_ends_the_connection(self, daemon):
        async with connected(daemon) as ros:
            await ros.socket.send_str("x" * (SMALL + 1))
            message = await ros.socket.receive(PATIENCE_S)
            assert (message.type, message.data) == (WSMsgType.CLOSE, 1009)
        await until(lambda: len(daemon.api.streams) == 0)

    async def test_more_bytes_than_may_wait_behind_a_request(self, daemon):
        async with connected(daemon) as ros:
            for value in range(1000):
                await ros.send("publish", topic=LIGHT, msg={"data": value}, padding="x" * 100)
            await ros.answered()
        assert daemon.bus.topics.get(LIGHT).last.value == 999

    async def test_subscriptions_of_a_connection(self, daemon, said):
        async with connected(daemon) as ros:
            for number in range(MOST_SUBSCRIPTIONS):
                await ros.send("subscribe", id=f"{number}", topic=CO2)
            said(await ros.refused("subscribe", topic=LIGHT))
            for number in range(300):
                await ros.send("subscribe", id=f"more {number}", topic=LIGHT)
                assert (await ros.next())["level"] == "error"
            assert len(daemon.bus.topics.get(CO2)._subscriptions) == 1
        await until(lambda: not daemon.bus.topics.get(CO2).subscribers)

    async def test_a_connection_is_a_stream(self):
        async with serving(limits=Limits(streams=1)) as daemon, connected(daemon) as ros:
            assert await refused_handshake(daemon) == 429
            await ros.answered()

    async def test_messages_count_as_requests(self):
        limits = ClientLimits(requests_hz=1)
        clients = Clients(limits, is_own=lambda _: False, monotonic=lambda: 0.0)
        async with serving(clients=clients) as daemon, connected(daemon) as ros:
            await ros.answered()
            assert await ros.call(STOP) == ("127.0.0.1 sends more than 1 requests a second", False)
        assert daemon.runner.calls == []

    async def test_a_slow_reader_loses_the_oldest_messages_and_is_told(self, said):
        async with serving(limits=Limits(stream_queue=3)) as daemon, connected(daemon) as ros:
            await ros.send("subscribe", topic=CO2)
            await ros.answered()
            for value in range(10):  # in one turn of the loop
                daemon.sensor[CO2].publish(float(value))
            told = await ros.next()
            assert (told["op"], told["level"]) == ("status", "warning")
            said(told["msg"])
            assert [(await ros.next())["msg"]["data"] for _ in range(3)] == [7.0, 8.0, 9.0]

    async def test_a_client_that_reads_nothing_uses_little_memory(self):
        text = "environment_1/desired/recipe_start"
        async with serving() as daemon, connected(daemon) as ros:
            await ros.send("subscribe", topic=text)
            await ros.answered()
            ros.socket._response.connection.transport.pause_reading()
            for number in range(2_000):
                daemon.sensor[text].publish(f"{number} {'x' * 10_000}")
                await asyncio.sleep(0)
            (subscription,) = daemon.bus.topics.get(text)._subscriptions
            assert len(subscription) <= daemon.api.limits.stream_queue
            assert subscription.dropped > 0
            ros.socket._response.connection.transport.resume_reading()
            texts = []
            while not texts or not texts[-1].startswith("1999 "):
                message = await ros.next()
                if message["op"] == "publish":
                    texts.append(message["msg"]["data"])
            assert len(texts) < 2_000

    @pytest.mark.long
    async def test_pings_are_answered_and_a_client_that_answers_none_is_disconnected(self):
        limits = Limits(heartbeat_s=1.0)
        async with serving(limits=limits) as daemon, connected(daemon, autoping=False) as ros:
            await ros.socket.ping(b"there?")
            message = await ros.socket.receive(PATIENCE_S)
            assert (message.type, message.data) == (WSMsgType.PONG, b"there?")
            assert (await ros.socket.receive(PATIENCE_S)).type is WSMsgType.PING
            ends = {WSMsgType.CLOSED, WSMsgType.ERROR, WSMsgType.CLOSE}
            assert (await ros.socket.receive(PATIENCE_S)).type in ends
            await until(lambda: len(daemon.api.streams) == 0)

    async def test_the_end_of_growd_or_of_a_client_leaves_nothing(self, daemon):
        async with connected(daemon) as vanishing:
            await vanishing.send("subscribe", topic=CO2)
            await vanishing.answered()
            vanishing.socket._response.connection.transport.abort()
        await until(lambda: len(daemon.api.streams) == 0)
        await until(lambda: not daemon.bus.topics.get(CO2).subscribers)
        async with connected(daemon) as ros:
            await ros.send("subscribe", topic=CO2)
            await ros.answered()
            daemon.api.end_streams()
            message = await ros.socket.receive(PATIENCE_S)
            assert (message.type, message.data) == (WSMsgType.CLOSE, 1001)
        await until(lambda: not daemon.bus.topics.get(CO2).subscribers)
