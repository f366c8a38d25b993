"""Outputs end by themselves, whatever becomes of growd: the whole program on pins that outlive it."""

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest

from growd.wiring.store import FREEZE_S, LOOK_S
from growd_drivers.last_run import FILE_NAMES, last_run
from support.lasting_pins import LastingPins
from support.program import failed, home_on, started
from support.waiting import until_found

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

LIBRARIES = ("gpiod", pytest.param("RPi.GPIO", marks=pytest.mark.nightly))
"""`tests/drivers/test_kept_pins.py` has both each day."""
STALLING = Path(__file__).parents[1] / "support" / "stalling.py"
VALVE, HEATER, ACID = 23, 25, 22
REST = {VALVE: 1, HEATER: 0, ACID: 0}  # the relay of the valve is on at a low pin
ON = {VALVE: 0, HEATER: 1, ACID: 1}
DOSE_S, ML_S = 3.0, 0.5
NEAR_S = 0.5  # of times, on a machine that is busy with other tests
CONFIGURATION = """
[simulator]
enabled = false

[gpio]
library = "{library}"

[environment]
keep_set_points = false

[[sensor]]
name = "co2"
kind = "topic"
variable = "air_carbon_dioxide"
stale_after_s = 3600

[[sensor]]
name = "air"
kind = "topic"
variable = "air_temperature"
stale_after_s = 3600

[[sensor]]
name = "ph"
kind = "topic"
variable = "water_potential_hydrogen"
stale_after_s = 3600

[[output]]
name = "valve"
pin = 23
variable = "air_carbon_dioxide_valve_on"
active = "low"

[[output]]
name = "heater"
pin = 25
drives = ["air_temperature"]

[[output]]
name = "acid"
pin = 22
drives = ["water_potential_hydrogen"]
direction = "lowers"
flow_ml_min = 30.0

[control.water_potential_hydrogen]
lowering_ml_per_unit_litre = 10.0
most_ml = 1.5

[interlock]
mixing_pause_s = 0
"""


class Chamber:
    """A running growd, the pins that it drives, and its API."""

    def __init__(self, program, pins):
        self.program = program
        self.pins = pins

    @property
    def keeper(self):
        """The process of the pin keeper: the one that drove a pin last."""
        return self.pins.writes()[-1].process

    async def post(self, topic, value):
        await self.program.ask("POST", f"topic/environment_1/{topic}", [value])

    async def node(self, name):
        return await self.program.ask("GET", f"node/{name}")

    async def output(self, name):
        """An output in the status."""
        status = (await self.node("status"))["status"]
        return next(each for each in status["outputs"] if each["name"] == name)

    async def turn_on(self):
        """Open the valve, and turn the heater on."""
        await self.post("desired/air_carbon_dioxide_valve_on", 1)
        await self.post("desired/air_heater", 1)
        await self.until(ON | {ACID: 0})

    async def until(self, levels):
        await until_found(lambda: _is(self.pins.levels() == levels))

    def stall(self):
        """Block the event loop for good."""
        self.program.process.send_signal(signal.SIGUSR1)

    @asynccontextmanager
    async def events(self):
        url = f"{self.program.api}/topic_stream/environment_1/events"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            assert response.status == 200
            yield (json.loads(line)["value"] async for line in response.content)


def times_on(pins, pin):
    """For how long a pin was at its other level than that of rest, in s, each time."""
    writes = [each for each in pins.writes() if each.pin == pin]
    pairs = pairwise(writes)
    return [after.at - each.at for each, after in pairs if each.level == ON[pin]]


async def _is(found):
    return found


@pytest.fixture(params=LIBRARIES)
def config(request, tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(CONFIGURATION.format(library=request.param))
    return file


@pytest.fixture
def pins(tmp_path):
    return LastingPins(tmp_path)


@asynccontextmanager
async def running(config, pins, server, *arguments):
    """growd with these pins, whose sensors have values."""
    async with (
        home_on(server, shared=True) as home,
        started(
            config.with_name("data"),
            *("--config", str(config), *home.arguments, *arguments),
            environment=pins.environment,
            inside=(sys.executable, str(STALLING)),
        ) as program,
    ):
        chamber = Chamber(program, pins)
        for sensor, value in (("co2", 600), ("air", 22), ("ph", 6.8)):
            await chamber.post(f"posted/{sensor}", value)
        yield chamber


# growd stalls, or ends


async def test_outputs_rest_and_a_dose_keeps_its_length_while_growd_is_stopped_or_its_loop_is_blocked(
    config, pins, database_server
):
    async with running(config, pins, database_server) as chamber:
        await chamber.turn_on()
        await chamber.post("desired/water_potential_hydrogen", 6.0)
        await chamber.until(ON)
        chamber.program.process.send_signal(signal.SIGSTOP)
        await chamber.until(REST)  # while it is stopped
        await asyncio.sleep(DOSE_S)  # a dose that began again would be twice as long
        chamber.program.process.send_signal(signal.SIGCONT)
        await chamber.until(ON | {ACID: 0})
        (given_s,) = times_on(pins, ACID)
        assert given_s == pytest.approx(DOSE_S, abs=NEAR_S)
        doses = await until_found(lambda: given(chamber))
        assert doses["acid"]["given_s"] == pytest.approx(given_s, abs=NEAR_S)
        assert doses["acid"]["commanded_s"] == pytest.approx(DOSE_S, abs=NEAR_S)
        acid, heater = await chamber.output("acid"), await chamber.output("heater")
        assert acid["on_s"] == pytest.approx(given_s, abs=NEAR_S)
        assert acid["volume_l"] == pytest.approx(given_s * ML_S / 1_000, abs=NEAR_S * ML_S / 1_000)
        again_s = time.monotonic() - next(each.at for each in reversed(pins.writes()) if each.pin == HEATER)
        # the pause in which it was off is not in it
        assert heater["on_s"] < sum(times_on(pins, HEATER)) + again_s + 1.0
        chamber.program.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LOOK_S + FREEZE_S + 1)
        chamber.program.process.send_signal(signal.SIGCONT)
        assert await until_found(lambda: frozen(chamber))
        chamber.stall()
        await chamber.until(REST)
        assert chamber.program.process.returncode is None


async def frozen(chamber):
    answer = await chamber.program.ask("GET", "history/environment_1?series=false")
    return [each for each in answer["events"] if each["kind"] == "fault" and "stood still" in each["message"]]


async def given(chamber):
    return (await chamber.node("environment_1/doses"))["doses"]


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0), (signal.SIGABRT, -signal.SIGABRT)],
    ids=["kill -9", "systemctl stop", "watchdog"],
)
async def test_outputs_rest_after_growd_has_ended(number, status, config, pins, database_server):
    async with running(config, pins, database_server) as chamber:
        await chamber.turn_on()
        await chamber.post("desired/water_potential_hydrogen", 6.0)
        await chamber.until(ON)
        keeper = chamber.keeper
        if number is not signal.SIGKILL:
            os.kill(keeper, number)  # as systemd, which signals all processes of a service
        assert (await chamber.program.end(number))[0] == status
        await chamber.until(REST)
        await until_found(lambda: _is(not Path(f"/proc/{keeper}").exists()))
        assert {each.process for each in pins.writes()} == {keeper}


# the keeper dies, or hangs


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_a_new_keeper_brings_all_pins_to_rest_with_an_event_and_a_failure(
    number, config, pins, database_server
):
    async with running(config, pins, database_server) as chamber, chamber.events() as events:
        await chamber.turn_on()
        await chamber.post("commanded/nutrient_ph_down", 1)
        await chamber.until(ON)
        keeper, before = chamber.keeper, len(pins.writes())
        os.kill(keeper, number)
        async with asyncio.timeout(60):
            event = await anext(each async for each in events if each["source"] == "pins")
        assert event["kind"] == "fault"
        await until_found(lambda: _is(REST.items() <= set(pins.history()[before:])))
        assert keeper not in {each.process for each in pins.writes()[before:]}
        told = await chamber.node("pins")
        assert told["pins"]["restarts"] >= 1
        assert told["problems"][0]["is_failure"]
        assert told["problems"][0]["text"] in str((await chamber.node("status"))["status"]["problems"])
        await chamber.until(ON)  # what is commanded goes on


# start and end


async def test_outputs_left_on_rest_although_the_configuration_and_a_file_of_outputs_are_damaged(
    config, pins, database_server
):
    data = config.with_name("data")
    async with running(config, pins, database_server) as chamber:
        await chamber.turn_on()
        await chamber.program.end(signal.SIGTERM)
    damage(config, data)
    arguments = ("--data", str(data), "--config", str(config))
    for command, expected in (
        (("safe", *arguments), 0),
        (("run", *arguments), 1),
        (("run", *arguments, "--nonsense"), 2),  # before an option is read
    ):
        pins.left(ON)
        status, printed = await failed(*command, environment=pins.environment)
        assert status == expected, printed
        assert pins.levels() == REST


def damage(config, data):
    config.write_text("[[output]\n")
    outputs = data / FILE_NAMES[0]
    outputs.write_bytes(outputs.read_bytes().replace(b"valve", b"va\xecve"))


async def test_a_start_that_fails_without_pins_disturbs_no_simulated_one(config, pins, database_server):
    data = config.with_name("data")
    nowhere = pins.environment | {"PINS_CHIPS": "{}"}
    real = ("--data", str(data), "--config", str(config))
    status, printed = await failed("run", *real, "--port", "0", environment=nowhere)
    assert status == 1, printed
    assert last_run(data)[0].outputs == []
    simulated = ("--profile", "sim")
    async with (
        home_on(database_server, shared=True) as home,
        started(data, *simulated, *home.arguments, environment=nowhere) as program,
    ):
        status, printed = await program.end(signal.SIGTERM)
        assert (status, "ERROR" in program.printed + printed) == (0, False), program.printed + printed
    status, printed = await failed("safe", "--data", str(data), *simulated, environment=nowhere)
    assert status == 0, printed
    assert pins.levels() == {}
