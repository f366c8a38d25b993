"""Devices that are added, tried, renamed and removed while growd runs, in a growd of simulated hardware."""

import asyncio
import contextlib
import tomllib
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest

from growd.api.api import Api
from growd.api.operation import Call
from growd.config import Config, Light, Output, load
from growd.config.profiles import profile_path
from growd.parts import ConfigurationFile, Devices
from growd.server.errors import ApiError
from growd_cli.run import RESTART
from growd_machine.setup.changes import DeviceChange, changed, why_not
from growd_machine.setup.part import SetupCalls
from growd_machine.setup.trying import output_tried
from support.ports import held_port
from support.program import started
from support.rig import rigged
from support.service_manager import Notified
from support.waiting import PATIENCE_S

EMPTY = """\
# An empty chamber.
sensor = []

[simulator]
enabled = true
unconfigured = ["sht4x", "mhz19", "ds18b20"]   # wired already
"""
USUAL = '[simulator]\nenabled = true\nunconfigured = ["sht4x", "mhz19"]\n'
"""Without a list of sensors the usual ones are there."""
UNIT = Path(__file__).parents[2] / "systemd/growd.service"
AIR = {"name": "air", "kind": "sht4x", "bus": 1, "address": 0x44}
FAN = {"name": "fan", "pin": 24, "variable": "air_flush_on"}


class Chamber:
    """A growd with a file of its own, and a client."""

    def __init__(self, program, session, file):
        self.program = program
        self.session = session
        self.file = file

    async def read(self):
        async with self.session.get(f"{self.program.api}/setup") as answer:
            return await answer.json()

    async def post(self, call, section="sensor", **members):
        body = {"environment": "environment_1", "section": section, **members}
        async with self.session.post(f"{self.program.api}/{call}", json=body) as answer:
            return answer.status, await answer.json()

    async def scan(self):
        async with self.session.post(f"{self.program.api}/setup_scan") as answer:
            return await answer.json()

    async def started_again(self):
        printed = await asyncio.wait_for(self.program.process.stdout.readuntil(b"Ctrl-C.\n"), PATIENCE_S)
        return printed.decode()


@asynccontextmanager
async def chamber(folder, text=EMPTY, *arguments, **options):
    file = folder / "growd.toml"
    file.write_text(text)
    with held_port() as port:
        given = ("--config", str(file), "--port", str(port), *arguments)
        async with started(folder / "data", *given, **options) as program, aiohttp.ClientSession() as session:
            yield Chamber(program, session, file)


class Ending:
    """The part of an `Api` that brings calls to their end."""

    def __init__(self):
        self._calls = set()

    to_end = Api.to_end
    _forget = Api._forget


@pytest.fixture
def usual_file(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(USUAL)
    return file


async def test_a_sensor_is_found_tried_added_and_removed(tmp_path):
    async with chamber(tmp_path) as it:
        found = (await it.scan())["found"]
        assert {"place": "I2C 1, 0x44", "options": {"bus": 1, "address": 0x44},
                "kinds": ["sht3x", "sht4x"], "device": ""} in found  # fmt: skip
        (water,) = [each for each in found if each["kinds"] == ["ds18b20"]]
        status, tried = await it.post(
            "setup_trial", options={"name": "water", "kind": "ds18b20", **water["options"]}
        )
        assert (status, {*tried["values"]}) == (200, {"water_temperature"})
        status, tried = await it.post("setup_trial", options=AIR)
        assert status == 200
        assert {*tried["values"]} == {"air_temperature", "air_humidity"}
        assert it.file.read_text() == EMPTY

        assert (await it.post("setup", options=AIR))[0] == 200
        assert "growd starts again." in await it.started_again()
        text = it.file.read_text()
        assert tomllib.loads(text)["sensor"] == [AIR]
        assert "# wired already" in text
        assert it.file.with_name("growd.toml.before").read_text() == EMPTY
        found = (await it.scan())["found"]
        assert [each["device"] for each in found if each["options"].get("address") == 0x44] == ["air"]

        assert (await it.post("setup", name="air", options=None))[0] == 200
        await it.started_again()
        assert (await it.read())["devices"] == []
        assert tomllib.loads(it.file.read_text()) == tomllib.loads(EMPTY)


async def test_trials_and_changes_that_are_refused_and_one_that_ends_a_service(tmp_path):
    manager = Notified()
    notified = {"NOTIFY_SOCKET": manager.address}
    async with chamber(tmp_path, USUAL, "--speed", "10", environment=notified) as it:
        for call in ("setup_trial", "setup"):
            status, answer = await it.post(call, options={**AIR, "name": "a b", "address": 200})
            assert (status, answer["error"]) == (400, "invalid_device")
            assert {*answer["fields"]} == {"name", "address"}
            assert "'a b'" in answer["fields"]["name"]
        for members in ({"options": None}, {"options": [1]}, {"options": {}}, {"name": "no", "options": None},
                        {"name": "", "options": {"name": 1}}):  # fmt: skip
            assert (await it.post("setup", **members))[0] == 400, members

        status, answer = await it.post("setup_trial", options={**AIR, "kind": "sht3x"})
        assert (status, answer["error"]) == (409, "not_tried")
        port = next(each for each in (await it.scan())["found"] if "mhz19" in each["kinds"])["options"]
        for _ in range(2):  # the port is free again after a trial
            status, answer = await it.post("setup_trial", options={"name": "co2", "kind": "mhz19", **port})
            assert (status, answer["values"]) == (200, {})
            assert "warming up" in answer["message"]

        assert 24 in (await it.scan())["pins"]
        status, answer = await it.post("setup_trial", "output", options=FAN)
        assert status == 200, answer
        valve = {"name": "valve", "pin": 23, "variable": "air_carbon_dioxide_valve_on"}
        assert (await it.post("setup_trial", "output", options=valve))[1]["error"] == "not_tried"
        async with it.session.post(f"{it.program.api}/service/hold/set", json={"reason": "cleaning"}) as held:
            assert held.ok, await held.text()
        assert (await it.post("setup_trial", "output", options=FAN))[1]["error"] == "held"
        assert it.file.read_text() == USUAL

        assert (await it.post("setup", "output", options=FAN))[0] == 200
        assert await asyncio.wait_for(it.program.process.wait(), PATIENCE_S) == RESTART
        assert "RestartForceExitStatus=75" in UNIT.read_text()
    manager.close()


def test_the_usual_sensors_stay_when_one_is_added_to_a_file_without_any(usual_file):
    file = usual_file
    wanted = DeviceChange("environment_1", "sensor", "", AIR)
    change = changed(file, lambda text: load(file, text=text, environ={}), load(file, environ={}), wanted)
    assert [sensor.name for sensor in change.config.sensor] == ["scd30_1", "bh1750_1", "air"]


@pytest.mark.parametrize("file", [None, profile_path("minimal")])
def test_without_a_file_of_ones_own_nothing_changes(file):
    assert "--config" in why_not(file)


@pytest.mark.parametrize(
    ("access", "address", "status"),
    [("", "127.0.0.1", 200), ("open", "127.0.0.1", 200), ("open", "::1", 200), ("open", "192.0.2.7", 403)],
)
async def test_without_logins_only_the_machine_itself_changes_devices(usual_file, access, address, status):
    file, restarts = usual_file, []
    config = await asyncio.to_thread(load, file, (f"http.access={access}",), environ={})
    around = SimpleNamespace(
        present=lambda: config,
        file=ConfigurationFile(file, lambda text: load(file, text=text, environ={})),
        restart=lambda: restarts.append(True),
    )
    calls = SetupCalls(around)
    assert all(each.is_administrative for each in calls.operations if each.method == "POST")
    body = {"environment": "environment_1", "section": "sensor", "name": "", "options": AIR}
    call = Call(SimpleNamespace(remote=address), "", {}, body)
    if status == 200:
        api = Ending()
        begun = asyncio.create_task(calls.change(api, call))
        while not api._calls:  # noqa: ASYNC110  it begins after a thread
            await asyncio.sleep(0)
        begun.cancel()  # the client goes away: what was begun goes on
        with contextlib.suppress(asyncio.CancelledError):
            await begun
        await asyncio.gather(*api._calls)
        await asyncio.sleep(0)
        assert restarts == [True]
        assert tomllib.loads(file.read_text())["sensor"][-1] == AIR
    else:
        with pytest.raises(ApiError) as refused:
            await calls.change(Ending(), call)
        assert refused.value.status == status
        assert restarts == []


async def test_a_client_that_goes_away_leaves_the_tried_pin_at_rest_and_free():
    fan = Output(name="fan", pin=24, variable="air_flush_on")
    async with rigged(Config(sensor=(), light=Light(enabled=False))) as rig:
        devices = Devices(rig.machine, rig.chambers.workers, str)
        trial = asyncio.create_task(output_tried(devices, fan, rig.clock))
        await rig.clock.advance(0.5)
        assert rig.machine.pins.high(24)
        trial.cancel()
        await asyncio.wait([trial])
        assert not rig.machine.pins.high(24)
        again = asyncio.create_task(output_tried(devices, fan, rig.clock))
        await rig.clock.advance(2)
        assert (await again)["values"] == {}
