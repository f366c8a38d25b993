"""Outputs in the network when devices, brokers and growd fail."""

import asyncio
from contextlib import asynccontextmanager

import aiomqtt
import pytest
from aiohttp.test_utils import unused_port
from msgspec.structs import replace

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.config import Config, Light, Output, Sensor, Simulator
from growd.config.mqtt import Mqtt
from growd.runtime.clock import RealClock
from growd.wiring.mqtt import mqtt_link
from growd.wiring.rest import keep_run, make_safe
from growd_hwsim.faults import Fault
from growd_simulation.fault_services import fault_places
from support.broker import broker
from support.rig import rigged
from support.switches import served
from support.waiting import until

E = "environment_1"
REAL = Simulator(enabled=False)
PUMP = Output(name="pump", kind="mqtt", variable="air_circulation", topic="home/pump/set", payload_on="run")
PLUG = Output(
    name="plug", kind="http", drives=("air_temperature",), protocol="shelly_gen2", url="http://plug"
)


def chamber_with(*outputs, **options):
    return Config(sensor=(Sensor(name="air", kind="scd30"),), output=outputs, **options)


class Line:
    """The network between growd and a broker, which can be cut."""

    def __init__(self, port):
        self._port = port
        self._writers = []
        self.port = 0

    @asynccontextmanager
    async def open(self):
        server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await server.wait_closed()

    def cut(self):
        for writer in self._writers:
            writer.transport.abort()

    async def _join(self, reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, far_writer]
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(reader, writer):
    try:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()
    except ConnectionError:
        writer.transport.abort()


async def test_the_broker_makes_an_output_safe_when_growd_is_gone(tmp_path):
    async with (
        broker(tmp_path) as port,
        Line(port).open() as line,
        aiomqtt.Client("localhost", port) as device,
    ):
        await device.subscribe(PUMP.topic, qos=1)
        config = chamber_with(PUMP, mqtt=Mqtt(host="127.0.0.1", port=line.port), simulator=REAL)
        bus = Bus(RealClock())
        async with mqtt_link(config, bus, "0123") as link:
            assert link is not None
            assert link.of_output("another") is link
            assert link.of_output(PUMP.topic) is not link
            own = bus.find_node(f"mqtt/{E}/pump")
            await until(lambda: own.information()["broker"]["is_connected"])
            await asyncio.to_thread(link.of_output(PUMP.topic).send, PUMP.topic, b"run")
            assert (await anext(device.messages)).payload == b"run"
            line.cut()
            message = await anext(device.messages)
            assert (message.payload, message.retain) == (b"OFF", False)


async def test_growd_safe_tells_devices_and_names_those_that_are_away(tmp_path):
    async with broker(tmp_path) as port, served("shelly_gen2") as device:
        device.switch.get("/rpc/Switch.Set?id=0&on=true")
        plug = Output(name="plug", kind="http", variable="air_heater", protocol="shelly_gen2", url=device.url)
        away = Output(
            name="away",
            kind="http",
            variable="air_cooler",
            protocol="shelly_gen1",
            url=f"http://127.0.0.1:{unused_port()}",
        )
        config = chamber_with(plug, away, PUMP, mqtt=Mqtt(host="127.0.0.1", port=port), simulator=REAL)
        async with aiomqtt.Client("localhost", port) as listener:
            await listener.subscribe(PUMP.topic, qos=1)
            outcome = await asyncio.to_thread(make_safe, config, tmp_path)
            assert (await anext(listener.messages)).payload == b"OFF"
        assert not device.switch.is_on()
        assert outcome.told == ["plug: was told to be safe", "pump: was told to be safe"]
        (failure,) = outcome.failures
        assert failure.startswith("away can't be reached: ")


async def test_with_an_invalid_configuration_the_devices_of_the_last_run_are_told(tmp_path):
    async with served("shelly_gen2") as device:
        plug = Output(name="plug", kind="http", variable="air_heater", protocol="shelly_gen2", url=device.url)
        real, simulated = chamber_with(plug, simulator=REAL), chamber_with(simulator=Simulator(enabled=True))
        await asyncio.to_thread(keep_run, tmp_path, real, ())
        device.switch.get("/rpc/Switch.Set?id=0&on=true")
        await asyncio.to_thread(keep_run, tmp_path, simulated, ())
        for config in (None, replace(simulated, output=(plug,))):  # in a simulation none is told
            outcome = await asyncio.to_thread(make_safe, config, tmp_path)
            assert (outcome.told, outcome.failures) == ([], [])
        assert device.switch.is_on()
        await asyncio.to_thread(keep_run, tmp_path, real, ())
        outcome = await asyncio.to_thread(make_safe, None, tmp_path)
        assert (outcome.told, outcome.failures) == (["plug: was told to be safe"], [])
        assert not device.switch.is_on()


@pytest.mark.parametrize("variable", [None, "auxiliary_1"])
async def test_a_device_that_goes_away_is_a_failure_and_is_commanded_when_it_is_back(variable):
    plugged = replace(PLUG, variable=variable)
    async with rigged(chamber_with(plugged)) as rig:
        await rig.clock.advance(10)
        client = rig.bus.node("client")
        client.publish_arguments(f"{E}/commanded/{plugged.own_variable}", [1])
        await rig.clock.advance(5)
        heater = rig.machine.chamber.level
        assert heater("heater") == 1
        rig.machine.faults.inject(Fault("absent", "network:http://plug"))
        await rig.clock.advance(20)
        device = rig.device("actuators/plug")
        assert device["state"] == "failed"
        assert "plug can't be reached: connection refused; the heater may be on" in device["message"]
        assert rig.last("outputs/plug").quality is Quality.FAULT
        (plug,) = rig.machine.network.switches.values()
        await rig.clock.advance(60)
        assert not plug.is_on()  # by its own timer
        rig.machine.faults.clear()
        await rig.clock.advance(15)
        assert rig.device("actuators/plug")["state"] == "ok"
        assert plug.is_on()
        assert rig.last("outputs/plug").value == 1


async def test_devices_in_the_network_are_places_of_faults():
    plain = Output(
        name="plain", kind="http", variable="air_cooler", url_on="http://a/on?key=1", url_off="http://a/off"
    )
    places = fault_places(chamber_with(PLUG, PUMP, plain))
    assert places["network:http://plug"] == [f"{E}/plug"]
    assert places["network:home/pump/set"] == [f"{E}/pump"]
    assert places["network:http://a/on"] == [f"{E}/plain"]  # without the query, which may have a token
    async with rigged(chamber_with(PUMP, plain)) as rig:
        for place in ("network:home/pump/set", "network:http://a/on"):
            rig.machine.faults.inject(Fault("absent", place))
        await rig.clock.advance(10)
        client = rig.bus.node("client")
        for variable in ("air_circulation", "air_cooler"):
            client.publish_arguments(f"{E}/commanded/{variable}", [1])
        await rig.clock.advance(5)
        assert rig.machine.chamber.level("circulation") == 0
        assert rig.machine.chamber.level("cooler") == 0
        assert rig.device("actuators/plain")["state"] == "failed"


async def test_a_wrong_password_file_fails_the_device_and_not_the_start():
    plug = Output(
        name="plug",
        kind="http",
        variable="air_heater",
        protocol="tasmota",
        url="http://plug",
        password_file="/nowhere/password",
    )
    async with rigged(chamber_with(plug, light=Light())) as rig:
        await rig.clock.advance(5)
        assert "password_file" in rig.device("actuators/plug")["message"]
        assert rig.device("actuators/light")["state"] == "ok"


@pytest.mark.parametrize(("payload", "body"), [("level", b"0.25"), ("percent", b"25"), ("on_off", b"OFF")])
async def test_a_plain_device_gets_its_payload(payload, body):
    pump = Output(name="pump", kind="mqtt", variable="air_circulation", topic="a/b", payload=payload)
    async with rigged(chamber_with(pump)) as rig:
        await rig.clock.advance(10)
        rig.bus.node("client").publish_arguments(f"{E}/commanded/air_circulation", [0.25])
        await rig.clock.advance(3)
        assert rig.machine.mqtt.history[-1] == ("a/b", body, False)
        assert rig.machine.chamber.level("circulation") == (0.25 if payload != "on_off" else 0)
