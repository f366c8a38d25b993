"""The connection to the broker of sensors and outputs, against a real broker."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

import aiomqtt
import msgspec
import pytest

from growd.bus import Bus
from growd.config import Config, Simulator
from growd.config.mqtt import Mqtt
from growd.host.mqtt import Broker, MqttLink
from growd.runtime.clock import RealClock
from growd.runtime.pauses import Pauses
from growd.wiring.mqtt import mqtt_link, read_broker
from support.broker import PASSWORD, USER, broker
from support.tls_door import CA_FILE
from support.waiting import PATIENCE_S, until

SOON = Pauses(0.05, 0.1)
TOPIC = "greenhouse/tank"


class Line:
    """A link that runs, and what came on its topics."""

    def __init__(self, where):
        self.bus = Bus(RealClock())
        where = Broker("localhost", where, None, PATIENCE_S) if isinstance(where, int) else where
        self.link = MqttLink(self.bus, where, "growd-test", pauses=SOON)
        self.came = []

    def listen(self, topic=TOPIC):
        self.link.subscribe(topic, lambda body, is_retained: self.came.append((body, is_retained)))

    @property
    def is_up(self):
        return bool(self.bus.find_node("mqtt").information()["broker"]["is_connected"])

    @property
    def problem(self):
        return "".join(each["text"] for each in self.bus.find_node("mqtt").information()["problems"])

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.link.run(), name="mqtt")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_messages_come_and_retained_ones_are_marked(tmp_path):
    async with broker(tmp_path) as port, aiomqtt.Client("localhost", port) as device:
        await device.publish(TOPIC, b"old", qos=1, retain=True)
        line = Line(port)
        line.listen()
        async with line.running():
            await until(lambda: line.came == [(b"old", True)])
            await device.publish(TOPIC, b"new", qos=1, retain=True)
            await device.publish("greenhouse/other", b"not asked for", qos=1)
            await device.publish(TOPIC, b"newer", qos=1)
            await until(lambda: line.came[1:] == [(b"new", False), (b"newer", False)])


async def test_a_topic_can_be_subscribed_while_the_connection_is_up_and_a_worker_thread_publishes(tmp_path):
    async with broker(tmp_path) as port, aiomqtt.Client("localhost", port) as device:
        line = Line(port)
        async with line.running():
            await until(lambda: line.is_up)
            await device.publish(TOPIC, b"retained", qos=1, retain=True)
            line.listen()
            await until(lambda: line.came == [(b"retained", True)])
            await device.subscribe("pump", qos=1)
            await asyncio.to_thread(line.link.send, "pump", b"ON", retain=True)
            assert (await anext(device.messages)).payload == b"ON"


async def test_a_topic_that_the_broker_refuses_does_not_end_the_connection(tmp_path):
    async with broker(tmp_path, prohibits=True) as port, aiomqtt.Client("localhost", port) as device:
        line = Line(port)
        line.listen("prohibited")
        line.listen()
        async with line.running():
            await until(lambda: bool(line.problem))
            assert line.is_up
            assert f"the MQTT broker localhost:{port} refuses the topic prohibited (" in line.problem
            await device.publish(TOPIC, b"1", qos=1)
            await until(lambda: line.came == [(b"1", False)])


async def test_after_an_outage_the_topics_are_subscribed_again_and_no_old_command_is_sent(
    tmp_path, own_port, monkeypatch
):
    monkeypatch.setattr("growd.host.mqtt._LASTING_S", 0.0)
    line = Line(own_port)
    line.listen()
    async with line.running():
        async with broker(tmp_path, port=own_port):
            await until(lambda: line.is_up)
            assert line.problem == ""
        await until(lambda: not line.is_up)
        assert line.problem.startswith(f"the MQTT broker localhost:{own_port} can't be reached: ")
        with pytest.raises(ConnectionError):
            await line.link.publish(TOPIC, b"old")
        async with broker(tmp_path, port=own_port), aiomqtt.Client("localhost", own_port) as device:
            await until(lambda: line.is_up)
            await device.publish(TOPIC, b"1", qos=1)
            await until(lambda: line.came == [(b"1", False)])
            assert line.problem == ""
            await until(lambda: not line.link.reason)


async def test_without_a_connection_publishing_fails_at_once(own_port, said):
    line = Line(own_port)
    with said.raises(ConnectionError):
        await asyncio.to_thread(line.link.send, TOPIC, b"ON")
    async with line.running():
        await until(lambda: bool(line.problem))
        with pytest.raises(ConnectionError, match=f"localhost:{own_port} can't be reached: "):
            await asyncio.to_thread(line.link.send, TOPIC, b"ON")


@asynccontextmanager
async def silent(*, answers=1_000, drops=False, dropped=None):
    """A broker that gives so many answers, to the connection and to UNSUBSCRIBE, and then may drop."""

    async def accept(reader, writer):
        given = 0
        with contextlib.suppress(ConnectionError):
            while (given < answers or not drops) and (packet := await reader.read(4096)):
                kind = packet[0] if given < answers else None
                if kind == 0x10:  # CONNECT: CONNACK
                    writer.write(b"\x20\x02\x00\x00")
                elif kind == 0xA2:  # UNSUBSCRIBE: UNSUBACK
                    writer.write(b"\xb0\x02" + packet[2:4])
                given += kind in (0x10, 0xA2)
        writer.close()
        if dropped is not None:
            dropped.append(given)

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield Broker("127.0.0.1", server.sockets[0].getsockname()[1], None, PATIENCE_S)


async def test_a_broker_that_accepts_and_drops_is_one_outage_and_another_client_may_have_the_id(caplog):
    async with silent(answers=2, drops=True) as where:
        line = Line(where)
        with caplog.at_level("INFO"):
            async with line.running():
                await until(lambda: "another client may have the id growd-test" in line.link.reason)
    assert len([each for each in caplog.records if each.name == "growd.host.mqtt"]) == 1


async def test_a_connection_that_is_lost_while_it_opens_is_not_taken_for_one():
    """aiomqtt overlooks the loss if it comes together with the broker's acceptance."""
    dropped = []
    async with silent(answers=1, drops=True, dropped=dropped) as where:
        line = Line(where)
        async with line.running():
            await until(lambda: len(dropped) >= 20)
            assert line.link.connections == 0


async def test_a_broker_that_does_not_answer_is_left_at_the_end():
    async with silent(answers=0) as where:
        line = Line(msgspec.structs.replace(where, timeout_s=0.1))
        async with line.running():
            await until(lambda: bool(line.problem))


async def test_messages_that_a_broker_does_not_acknowledge_are_bounded():
    async with silent() as where:
        line = Line(where)
        async with line.running():
            await until(lambda: line.is_up)
            waiting = [asyncio.create_task(line.link.publish("pump", b"ON")) for _ in range(200)]
            await until(lambda: sum(each.done() for each in waiting) == 100)
            assert {type(each.exception()) for each in waiting if each.done()} == {ConnectionError}
            for each in waiting:
                each.cancel()
            await asyncio.wait(waiting)


async def test_login_and_certificates_come_from_files(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(0o600)
    async with broker(tmp_path, tls=True, login=True) as port:
        options = Mqtt(
            host="localhost",
            port=port,
            security="tls",
            ca_file=str(CA_FILE),
            user=USER,
            password_file=str(secret),
        )
        line = Line(await asyncio.to_thread(read_broker, options))
        async with line.running():
            await until(lambda: line.is_up)
        secret.write_text("wrong\n")
        line = Line(await asyncio.to_thread(read_broker, options))
        async with line.running():
            await until(lambda: "authori" in line.problem)


@pytest.mark.parametrize("config", [Config(), Config(mqtt=Mqtt(host="x"), simulator=Simulator(enabled=True))])
async def test_without_a_broker_and_in_a_simulation_nothing_connects(config):
    bus = Bus(RealClock())
    async with mqtt_link(config, bus, "device") as link:
        assert link is None
        assert bus.node_names() == []
