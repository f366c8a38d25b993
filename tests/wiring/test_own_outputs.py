"""Outputs with drivers of other packages: the same actuator, safe states and interlocks as growd's own."""

import asyncio
import importlib
import threading
from contextlib import asynccontextmanager

import pytest

from growd import own_kinds
from growd.config import ConfigError, chambers_of, load
from growd.config.outputs import OwnOutput
from growd.wiring.outputs import place_of_output
from growd.wiring.rest import Outcome, make_others_safe
from growd_hwsim.driver_trials import results_until_hung
from growd_hwsim.faults import Fault
from growd_hwsim.hardware import WiredChip, Wiring
from growd_hwsim.output_trials import trials_of_output
from growd_simulation.driver_trials import output_subject_of
from growd_simulation.fault_services import fault_places
from growd_simulation.simulated_hardware import chip_fault
from support.machine import SleepingTime, simulated
from support.own_packages import importable, written
from support.relay_board import SOURCE
from support.rig import rigged

CHAMBER = """
[simulator]
enabled = true

[[sensor]]
name = "air"
kind = "scd30"

[[output]]
name = "heating"
kind = "relay_board"
drives = ["air_temperature"]
"""


@pytest.fixture
def board(tmp_path):
    """Install the package with replacements in its source."""

    def install(**replacements):
        source = SOURCE
        for old, new in replacements.items():
            assert old in source
            source = source.replace(old, new)
        written(tmp_path / "board", "growd-board", {"relay_board": "KIND"}, source, "growd.outputs")

    with importable(tmp_path / "board"):
        yield install


def loaded(tmp_path, further="", chamber=CHAMBER):
    file = tmp_path / "growd.toml"
    file.write_text(chamber + further)
    warnings = []
    return load(file, environ={}, with_drivers=True, warn=warnings.append), warnings


def command(rig, level):
    client = rig.bus.find_node("client") if "client" in rig.bus.node_names() else rig.bus.node("client")
    client.publish_arguments("environment_1/desired/air_heater", [level])


@asynccontextmanager
async def heating(tmp_path, further=""):
    """A chamber whose heater is commanded on, and the warnings about its configuration."""
    config, warnings = await asyncio.to_thread(loaded, tmp_path, further)
    async with rigged(config) as rig:
        await rig.clock.advance(30)
        command(rig, 1)
        await rig.clock.advance(30)
        yield rig, warnings


async def test_an_output_is_driven_over_the_bus_and_safe_at_the_end(board, tmp_path):
    board()
    async with heating(tmp_path, "relay = 2\naddress = 0x21\n") as (rig, warnings):
        assert warnings == []
        chip = rig.machine.chips[1, 0x21]
        assert rig.machine.chamber.level("heater") == 1
        assert chip.written[-1] == bytes([0b1111_1011])
        assert rig.device("actuators/heating")["state"] == "ok"
        before = len(chip.written)
        await rig.clock.advance(60)
        assert len(chip.written) - before >= 5  # repeated, since the board has no timer
    assert rig.machine.chamber.level("heater") == 0
    assert rig.complaints == []


async def test_an_output_is_safe_while_its_sensor_is_not_known_and_failed_while_it_does_not_answer(
    board, tmp_path
):
    board()
    async with heating(tmp_path) as (rig, _):
        assert rig.machine.chamber.level("heater") == 1
        rig.machine.faults.inject(Fault("absent", "scd30"))
        await rig.clock.advance(60)
        assert rig.machine.chamber.level("heater") == 0
        rig.machine.faults.clear()
        command(rig, 0)
        await rig.clock.advance(60)
        rig.machine.faults.inject(Fault("absent", "relay_board"))
        command(rig, 1)
        await rig.clock.advance(30)
        assert rig.device("actuators/heating")["state"] == "failed"
        assert rig.machine.chamber.level("heater") == 0
        rig.machine.faults.clear()
        await rig.clock.advance(90)
        assert rig.device("actuators/heating")["state"] == "ok"


def test_outputs_of_packages_are_made_safe_without_the_daemon(board, tmp_path):
    board()
    config, _ = loaded(tmp_path)
    wiring = Wiring(i2c=(WiredChip("relay_board", 1, 0x20, "heater"),), lamp_pins={})
    machine = simulated(SleepingTime(), wiring=wiring)
    machine.chamber.set_actuator("heater", 1.0)
    outcome = Outcome()
    make_others_safe(config, outcome, lambda **_: machine)
    assert (outcome.told, outcome.failures) == (["heating: was driven to its safe state"], [])
    assert machine.chamber.level("heater") == 0
    machine.close()


def test_a_driver_that_does_not_load_is_a_warning_and_growd_safe_names_its_output(board, tmp_path):
    board(**{"KIND = OutputKind(": "raise SystemExit(3)\nKIND = OutputKind("})
    reason = "the driver relay_board of growd-board 2.0 can't be loaded"
    config, _ = loaded(tmp_path)
    outcome = Outcome()
    machine = simulated(SleepingTime())
    make_others_safe(config, outcome, lambda **_: machine)
    (failure,) = outcome.failures
    assert failure.startswith(f"heating: {reason}")
    _, warnings = loaded(tmp_path, "", CHAMBER.replace("air_temperature", "air_carbon_dioxide"))
    assert f"heating has failed: {reason}" in warnings[1]  # of a valve too, whose timer is not known


FAILING = {
    "self._bus.writeto(self._address, bytes": "raise SystemExit(3, ",
    "KIND = OutputKind(": "raise SystemExit(3)\nKIND = OutputKind(",
    "    1,\n    addresses=": "    2,\n    addresses=",
}


@pytest.mark.parametrize("old", FAILING)
async def test_a_driver_that_fails_is_a_failed_output_that_may_not_be_safe(old, board, tmp_path):
    board(**{old: FAILING[old]})
    async with heating(tmp_path, "further = 3\n" if "write" not in old else "") as (rig, _):
        assert rig.device("actuators/heating")["state"] == "failed"
        assert rig.device("samplers/air")["state"] == "ok"
        assert rig.machine.chamber.level("heater") == 0
    assert any("the output heating" in complaint for complaint in rig.complaints)


async def test_an_output_without_a_simulated_chip_only_moves_the_chamber(board, tmp_path):
    board(**{'chip="growd_board:SimulatedPcf8574"': 'chip=""', "self._bus.writeto(": "raise KeyError("})
    async with heating(tmp_path) as (rig, _):
        assert rig.machine.chamber.level("heater") == 1


def test_options_of_a_kind_of_output_are_checked(board, tmp_path, said):
    board()
    output = loaded(tmp_path, "relay = 7\n")[0].output[0]
    assert isinstance(output, OwnOutput)
    assert output.own == {"bus": 1, "address": 0x20, "relay": 7}
    assert (output.line, output.can_dim, output.has_timer) == ("i2c-1", False, False)
    assert output.lease.renewed_s == 10.0
    for line in ("relay = 8", "rely = 1", "pin = 5"):
        with said.raises(ConfigError):
            loaded(tmp_path, line + "\n")


def test_a_valve_needs_a_device_with_a_timer(board, tmp_path, said):
    board()
    chamber = CHAMBER.replace("air_temperature", "air_carbon_dioxide")
    with said.raises(ConfigError):
        loaded(tmp_path, "", chamber)
    loaded(tmp_path, "may_stay_on = true\n", chamber)
    with said.raises(ConfigError):  # with the kinds of installed packages
        loaded(tmp_path, "", CHAMBER.replace('"relay_board"', '"relais"'))


def test_levels_timer_and_repetition_are_those_of_the_kind(board, tmp_path):
    board(**{"    1,\n    addresses=": "    1,\n    can_dim=True,\n    timer_s=40.0,\n    addresses="})
    (output,) = loaded(tmp_path)[0].output
    assert (output.can_dim, output.has_timer, output.lease.renewed_s) == (True, True, 10.0)
    (fan,) = loaded(tmp_path, 'variable = "air_flush_on"\ndirection = "lowers"\n')[0].output
    assert not fan.can_dim  # its variable is on or off


BESIDE = """
[[output]]
name = "fan"
kind = "relay_board"
drives = ["air_temperature"]
direction = "lowers"
relay = 1
"""


def test_two_devices_at_one_address_are_refused(board, tmp_path, said):
    board()
    with said.raises(ConfigError):
        loaded(tmp_path, BESIDE)
    assert loaded(tmp_path, BESIDE + "address = 0x21\n")[0].output[1].name == "fan"
    with said.raises(ConfigError):
        loaded(tmp_path, "address = 0x61\n")


def test_an_output_is_described_and_can_have_faults_where_it_is(board, tmp_path):
    board()
    config, _ = loaded(tmp_path, "address = 0x21\n")
    assert place_of_output(config.output[0]) == "PCF8574 at 0x21 on I2C bus 1"
    chambers = chambers_of(config)
    assert chip_fault(own_kinds.output_kind("relay_board"), "relay_board") == ""
    places = fault_places(config)
    for place in ("relay_board", "i2c-1:0x21"):
        assert places[place] == [f"{chambers[0].environment}/heating"]


def test_a_driver_that_hangs_fails_its_trial_and_ends_the_others(board):
    board(**{"    def write(self, level):": "    def write(self, level):\n        held.wait()"})
    module = importlib.import_module("growd_board")
    module.held = threading.Event()
    assert chip_fault(own_kinds.output_kind("relay_board"), "relay_board") == ""
    subject = output_subject_of("relay_board")
    opens, hangs = results_until_hung(trials_of_output(subject), subject, 1.0)
    assert opens.failure == ""
    assert (hangs.name, hangs.failure) == ("drives on and off", "it did not end within 1 s")
    module.held.set()
    for thread in threading.enumerate():
        if thread.name == "trial":
            thread.join()


@pytest.mark.parametrize("opens", ["gpio", "serial"])
def test_an_output_opens_what_growd_gives_it(opens, board):
    board(**{'chip="': f'opens="{opens}", chip="'})
    kind = own_kinds.output_kind("relay_board")
    expected = {
        "gpio": "it opens 'gpio'; expected one of i2c, serial, none",
        "serial": "it opens 'serial', where it can't have a simulated chip; it can on i2c",
    }
    assert own_kinds.reason_of(kind).endswith(expected[opens])


def failures():
    """What is wrong with the installed driver, by the names of the trials."""
    assert chip_fault(own_kinds.output_kind("relay_board"), "relay_board") == ""
    subject = output_subject_of("relay_board")
    rows = [trial.result(subject) for trial in trials_of_output(subject)]
    assert len(rows) > 10
    return {row.name: row.failure for row in rows if row.failure}


def test_the_board_stands_all_faults(board):
    board()
    assert failures() == {}


SUPPRESSED = """    def write(self, level):
        try:
            self.send(level)
        except OSError:
            pass

    def send(self, level):"""
MISTAKES = {
    "if level else 0": ("if not level else 0", "drives on and off", "the output is at 1 after write(0)"),
    "    def write(self, level):": (
        SUPPRESSED,
        "fault absent",
        "write() raised no error, and the device did not answer",
    ),
    "        pass": (
        "        self.write(1)",
        "stays off when it is closed",
        "the output is at 1 after close()",
    ),
    "1 << relay\n": (
        "1 << relay\n        self._bus.writeto(address, bytes(1))\n",
        "opens without its device",
        "it raised DeviceMissingError",
    ),
    "1 << relay": ("[1 << relay][relay]", "takes the ends of its options", "it raised IndexError"),
}


@pytest.mark.long
@pytest.mark.parametrize("old", MISTAKES)
def test_a_mistake_of_a_driver_fails_its_trial(old, board):
    new, trial, words = MISTAKES[old]
    board(**{old: new})
    found = failures()
    assert words in found.get(trial, ""), found
