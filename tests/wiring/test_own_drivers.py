"""Drivers of other packages: loaded when the configuration names them, and contained when they fail."""

import asyncio
import re
import sys
import threading
from contextlib import asynccontextmanager

import pytest

from growd import own_kinds
from growd.bus.messages import Quality
from growd.config import ConfigError, load, load_outputs
from growd.config.devices import OwnSensor
from growd.wiring.own_drivers import OwnDriverGuard
from growd_cli.hardware_check import described
from growd_drivers.errors import DriverError
from growd_drivers.kinds import UnloadedKind
from support.own_packages import EXAMPLE, KIND, importable, unpacked, wheel_of, written
from support.program import said as said_by
from support.rig import rigged

CHAMBER = """
[simulator]
enabled = true

[[sensor]]
name = "light_meter"
kind = "bh1750"

[[sensor]]
name = "air"
kind = "{kind}"
"""

GOOD = """
from types import SimpleNamespace
from growd_drivers.kinds import DriverOption, SensorKind

class Driver:
    def __init__(self, *, name, sleep, monotonic, **options):
        self.options = options
    def read(self):
        return SimpleNamespace(celsius=21.5)

KIND = SensorKind("Good", "growd_odd:Driver", {"celsius": "air_temperature"}, opens="none", api=1)
"""
VALVE = '\n[[output]]\nname = "valve"\npin = 21\nvariable = "air_carbon_dioxide_valve_on"\n'


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    return unpacked(wheel_of(EXAMPLE, folder), folder / "installed")


@pytest.fixture
def installed(example):
    with importable(example):
        yield


@pytest.fixture
def odd(tmp_path):
    """Install a package of this source with the kind `odd`."""
    with importable(tmp_path / "odd"):
        yield lambda source, **kinds: written(tmp_path / "odd", "growd-odd", kinds or {"odd": "KIND"}, source)


def file_of(tmp_path, further="", kind=KIND):
    file = tmp_path / "growd.toml"
    file.write_text(CHAMBER.format(kind=kind) + further)
    return file


def loaded(tmp_path, further="", kind=KIND, **options):
    warnings = []
    read = load(
        file_of(tmp_path, further, kind), environ={}, with_drivers=True, warn=warnings.append, **options
    )
    return read, warnings


@asynccontextmanager
async def measuring(tmp_path, seconds=10.0, further=""):
    """A chamber with a sensor of the kind `odd`, which has run for so long."""
    config, _ = await asyncio.to_thread(loaded, tmp_path, further, kind="odd")
    async with rigged(config) as rig:
        await rig.clock.advance(seconds)
        yield rig


async def failing(tmp_path, words, further=""):
    """The chamber runs, its light is measured, and the sensor has failed with these words."""
    async with measuring(tmp_path, further=further) as rig:
        assert rig.last("measured/light_illuminance").quality is Quality.OK
        state = rig.device("samplers/air")
        assert state["state"] == "failed"
        assert words in state["message"]


# the example: configuration, reading, faults


def test_options_of_a_kind_are_read_and_checked_beside_the_others(installed, tmp_path):
    config, _ = loaded(tmp_path, 'repeatability = "low"\naddress = 0x45\n')
    sensor = config.sensor[1]
    assert isinstance(sensor, OwnSensor)
    assert sensor.driver_options == {"repeatability": "low"}
    assert sensor.i2c_address == 0x45
    assert loaded(tmp_path)[0].sensor[1].driver_options == {"repeatability": "high"}
    for line, reason in (
        ('repeatability = "best"', 'must be one of "high", "low", "medium", got \'best\''),
        ('repeatabilty = "low"', "unknown option; is it repeatability?"),
        ("range_ppm = 2000", "air is a sht31_example; this is for mhz19, mhz16 only: remove it"),
    ):
        with pytest.raises(ConfigError) as caught:
            loaded(tmp_path, line + "\n")
        place = re.escape(f"{tmp_path}/growd.toml:12: [sensor]")
        assert re.match(rf"{place}( air\.| ){line.split()[0]}: ", str(caught.value))
        assert str(caught.value).endswith(reason)


def test_an_option_without_a_default_must_be_given(odd, tmp_path, said):
    declared = 'own_options=(DriverOption("gain", int, "Gain.", least=1, most=4),), api=1)'
    odd(GOOD.replace("api=1)", declared))
    for further in ("", "gain = 5\n"):
        with said.raises(ConfigError):
            loaded(tmp_path, further, kind="odd")
    assert loaded(tmp_path, "gain = 4\n", kind="odd")[0].sensor[1].driver_options == {"gain": 4}
    with said.raises(ConfigError):  # with the command that installs a kind
        loaded(tmp_path, kind="dht22")


# what is imported, and when


def test_only_what_the_configuration_names_is_imported(odd, tmp_path):
    odd("raise SystemExit(3)")
    assert [str(offer) for offer in own_kinds.offers(own_kinds.SENSORS)] == ["odd of growd-odd 2.0"]
    loaded(tmp_path, further="address = 0x5C\n", kind="bh1750")
    config = load_outputs(file_of(tmp_path, "gain = 3\n", kind="odd"))  # which needs no drivers
    assert config.sensor[1].driver_options == {"gain": 3}
    assert load(file_of(tmp_path, kind="odd"), environ={}).sensor[1].kind == "odd"
    assert "growd_odd" not in sys.modules


CANNOT = "the driver odd of growd-odd 2.0 can't be loaded: "
NOT_MEASURED = (
    "which no sensor measures; add a [[sensor]] for it, or "
    'set needs = "" if the valve may open without a sensor'
)
UNUSABLE = {
    "raise SystemExit(3)": "its import failed: SystemExit: 3",
    "import not_installed_at_all": "its import failed: ModuleNotFoundError: No module named 'not_installed",
    "KIND = 3": "growd_odd:KIND is no SensorKind",
    GOOD.replace("api=1", "api=2"): "it was written for version 2 of growd's interface for drivers",
    GOOD.replace("api=1", "api=1, colour=3"): "unexpected keyword argument 'colour'",
    GOOD.replace("air_temperature", "air_colour"): "it measures air_colour, which growd does not know",
    GOOD.replace("growd_odd:Driver", "growd_odd:Missing"): "growd_odd:Missing can't be imported",
    GOOD.replace('{"celsius": "air_temperature"}', "{}"): "it measures no variable",
    GOOD.replace('"none"', '"messages"'): "it opens 'messages'; expected one of i2c, serial, gpio, none",
    GOOD.replace("api=1", "api=1, chip='growd_odd:Chip'"): "it opens 'none', where it can't have a simulated",
    GOOD.replace("DriverOption,", "CalibrationKind,").replace(
        "api=1", "api=1, calibrations=(CalibrationKind('zero', 'zero', '', 5.0),)"
    ): "its calibration zero is in ppm, and it measures in degC",
    GOOD.replace("api=1", "api=1, ranges={'kelvin': (0, 300)}"): "its ranges is not as growd_drivers.kinds",
    GOOD.replace("api=1", "api=1, range_option='label'"): "its range_option is not as growd_drivers.kinds",
    GOOD.replace("api=1", "api=1, own_options=(DriverOption('name', str, ''),)"): "growd uses this one",
}


@pytest.mark.parametrize("source", UNUSABLE, ids=range(len(UNUSABLE)))
def test_a_driver_that_does_not_load_is_a_warning(source, odd, tmp_path):
    odd(source)
    _, (warning,) = loaded(tmp_path, "gain = 3\n", kind="odd")
    assert warning.startswith(f"{tmp_path}/growd.toml:11: [sensor] kind: air has failed: {CANNOT}")
    assert UNUSABLE[source] in warning


async def test_an_import_that_does_not_end_is_given_up(odd, tmp_path, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(own_kinds, "LOAD_S", 0.2)
    sys.modules["growd_held_back"] = release
    odd("import growd_held_back\ngrowd_held_back.wait()")
    try:
        _, (warning,) = await asyncio.to_thread(loaded, tmp_path, kind="odd")
        assert warning.endswith("its import failed: it took longer than 0.2 s")
        await failing(tmp_path, "it took longer than 0.2 s")
    finally:
        release.set()
        for thread in threading.enumerate():
            if thread.name == "load driver":
                thread.join()
        del sys.modules["growd_held_back"]


def test_kinds_are_imported_side_by_side(odd, tmp_path):
    waits = "import growd_both_here\ngrowd_both_here.wait(10)\n"
    sys.modules["growd_both_here"] = threading.Barrier(2)
    try:
        folder = odd(waits + GOOD)
        written(folder, "growd-even", {"even": "KIND"}, waits + GOOD.replace("growd_odd", "growd_even"))
        further = '[chamber.shelf_2]\n[[chamber.shelf_2.sensor]]\nname = "air"\nkind = "even"\n'
        _, warnings = loaded(tmp_path, further, kind="odd")
        assert warnings == []
    finally:
        del sys.modules["growd_both_here"]


def test_two_packages_with_one_kind_and_one_with_a_kind_of_growd_are_refused(odd, tmp_path):
    folder = odd(GOOD)
    written(folder, "growd-even", {"odd": "KIND"}, GOOD)
    _, (warning,) = loaded(tmp_path, kind="odd")
    assert "growd-even and growd-odd both have this kind; uninstall one of them" in warning
    written(folder, "growd-third", {"bh1750": "KIND"}, "raise SystemExit(3)")
    config, warnings = loaded(tmp_path, kind="bh1750", further="address = 0x5C\n")
    assert warnings == []
    assert not isinstance(config.sensor[1], OwnSensor)
    (offer,) = (each for each in own_kinds.offers(own_kinds.SENSORS) if str(each).startswith("bh1750"))
    kind = own_kinds.loaded([offer])
    assert isinstance(kind, UnloadedKind)
    assert "growd has a kind of this name" in kind.reason


async def test_a_driver_that_does_not_load_is_a_failed_device_and_what_depends_on_it_is_safe(
    odd, tmp_path, said
):
    odd("raise SystemExit(3)")
    config, warnings = await asyncio.to_thread(loaded, tmp_path, VALVE, kind="odd")
    assert [warning.partition(": ")[2] for warning in warnings] == [
        f"[sensor] kind: air has failed: {CANNOT}its import failed: SystemExit: 3",
        f"[output] needs: valve is a valve for CO2, {NOT_MEASURED}",
    ]
    assert config.output[0].name == "valve"
    await failing(tmp_path, "its import failed: SystemExit: 3", VALVE)
    async with measuring(tmp_path, 30, VALVE) as rig:
        client = rig.bus.node("client")
        client.publish_arguments("environment_1/desired/air_carbon_dioxide_valve_on", [1])
        await rig.clock.advance(30)
        assert rig.last("commanded/air_carbon_dioxide_valve_on").value == 1
        assert rig.machine.pins.high(21) == 0
        assert rig.device("actuators/valve")["state"] == "ok"
    with said.raises(ConfigError):
        await asyncio.to_thread(loaded, tmp_path, VALVE.replace("21", "2"), kind="odd")


# what a driver does when it is read

BROKEN = {
    "raise SystemExit(3)": "SystemExit: 3",
    "raise StopIteration": "StopIteration",
    "return None": "AttributeError: 'NoneType' object has no attribute 'celsius'",
    "return SimpleNamespace(celsius='21')": "TypeError: air_temperature must be a number, got '21'",
    "return SimpleNamespace(celsius=True)": "TypeError: air_temperature must be a number, got True",
    "return SimpleNamespace(celsius=10**400)": "OverflowError: int too large to convert to float",
}


@pytest.mark.parametrize("statement", BROKEN)
async def test_any_error_of_a_driver_is_a_failure_of_its_device(statement, odd, tmp_path):
    odd(GOOD.replace("return SimpleNamespace(celsius=21.5)", statement))
    await failing(tmp_path, f"the driver of air failed: {BROKEN[statement]}")


HOSTILE = {
    "raise ValueError('\\x1b[2J\\n' + 100_000 * 'x')": r"ValueError: \x1b[2J xxx",
    "raise DriverError('\\x1b[2J\\n' + 100_000 * 'x', device='a')": r"\x1b[2J xxx",
    "raise WrongDeviceError('\\x1b[2J\\n' + 100_000 * 'x', device='a', found=1, expected=2)": r"\x1b[2J xxx",
    "raise type('E', (Exception,), {'__str__': lambda _: 1 / 0})": "the driver of air failed: E",
}


@pytest.mark.parametrize("statement", HOSTILE)
async def test_an_error_with_hostile_text_is_one_short_printable_line(statement, odd, tmp_path, caplog):
    source = GOOD.replace("return SimpleNamespace(celsius=21.5)", statement)
    odd(f"from growd_drivers.errors import DriverError, WrongDeviceError\n{source}")
    async with measuring(tmp_path) as rig:
        device, told = rig.device("samplers/air"), rig.last("diagnostics/air").value["message"]
        assert device["state"] == "failed"
        assert HOSTILE[statement] in device["message"]
        for text in (device["message"], device["counters"]["last_error"], told):
            assert text.isprintable()
            assert len(text) < 2_000
        (line,) = (record for record in caplog.records if "environment_1/air" in record.getMessage())
        assert len(line.getMessage()) < 2_000


REJECTED = {
    **{value: ("21.5", value, "") for value in ("float('nan')", "1e300")},
    "at its end": ("api=1", "api=1, ranges={'celsius': (0, 21.5)}", "the end of its range"),
    "never twice": ("api=1", "api=1, same_for_s=0", "no new reading"),
    "a value of the warm-up": ("api=1", "api=1, warm_up_values=(21.5,)", "no new reading"),
}


@pytest.mark.parametrize("name", REJECTED)
async def test_a_reading_is_judged_by_its_variable_and_the_facts_of_its_kind(name, odd, tmp_path):
    old, new, words = REJECTED[name]
    odd(GOOD.replace(old, new))
    async with measuring(tmp_path, 60) as rig:
        assert rig.last("raw/air_temperature").quality is Quality.FAULT
        assert rig.last("raw/air_temperature").value is None
        assert words in rig.device("samplers/air")["message"]
        assert rig.last("measured/light_illuminance").quality is Quality.OK


def test_a_driver_whose_calls_hang_for_good_is_not_called_any_more(said):
    guard, release = OwnDriverGuard("air"), threading.Event()
    threads = [threading.Thread(target=guard.call, args=(release.wait,)) for _ in range(2)]
    for number, thread in enumerate(threads):
        assert guard.call(lambda number=number: number) == number
        thread.start()
    with said.raises(DriverError):
        guard.call(lambda: 1)
    release.set()
    for thread in threads:
        thread.join()
    assert guard.call(lambda: 1) == 1


async def test_a_driver_without_a_bus_measures_and_its_calibration_is_of_the_variable_in_its_unit(
    odd, tmp_path, said
):
    calibration = (
        'CalibrationKind("set_humidity", "correct", "", 10.0, reference_range=(10, 90), unit="percent", '
    )
    odd(
        GOOD.replace("SensorKind\n", "CalibrationKind, SensorKind\n")
        .replace("celsius=21.5", "celsius=21.5, share=51.0")
        .replace('{"celsius": "air_temperature"}', '{"celsius": "air_temperature", "share": "air_humidity"}')
        .replace("api=1)", f"api=1, calibrations=({calibration}most_off=20),))")
        .replace("    def read", "    def correct(self, reference): return 'noted'\n    def read")
    )
    async with measuring(tmp_path, 30) as rig:
        assert rig.last("measured/air_temperature").value == 21.5
        (state,) = rig.bus.find_node("environment_1/samplers/air").information()["calibrations"]
        assert (state["reading"], state["reason"]) == (51.0, "")
        answer = await rig.call("samplers/air/set_humidity", {"reference": 55.0}, "grower")
        said(answer["message"])
    assert dict(described(rig.config))["air"] == "Good: air_temperature, air_humidity"  # without a place


# chips


CHIPLESS = {
    'chip="growd_odd:Missing"': "growd_odd:Missing can't be imported",
    'chip="growd_odd:Driver"': "must have the name 'odd'",
    "chip=''": "its package has no simulated chip",
    'chip="growd_odd:Plain"': "its simulated chip growd_odd:Plain must be a subclass of I2CSlave",
}


@pytest.mark.parametrize("chip", CHIPLESS)
async def test_a_sensor_without_a_usable_simulated_chip_does_not_answer(chip, odd, tmp_path, caplog):
    source = GOOD.replace('opens="none"', f"addresses=(0x44,), {chip}")
    source = source.replace("*, name, sleep, monotonic", "bus, *, address, sleep")
    source += "class Plain:\n    name, measurement = 'odd', 1\n    def __init__(self, *_, seed): pass\n"
    odd(
        source.replace(
            "return SimpleNamespace", "self.bus.writeto(self.address, b'1')\n        return SimpleNamespace"
        ).replace("self.options = options", "self.bus, self.address = bus, address")
    )
    await failing(tmp_path, "does not answer")
    assert CHIPLESS[chip] in caplog.text


# `growd check`


def test_growd_check_reads_the_example_over_the_simulated_bus(installed, tmp_path):
    status, printed = said_by("check", "--config", str(file_of(tmp_path)), "--hardware")
    assert (status, "2 of 2 devices answer" in printed) == (0, True), printed


def test_growd_check_warns_of_a_driver_that_does_not_load(odd, tmp_path):
    odd("raise SystemExit(3)")
    check = ("check", "--config", str(file_of(tmp_path, kind="odd")))
    status, printed = said_by(*check)
    assert (status, "warning: " in printed) == (0, True), printed
    assert "air has failed: the driver odd of growd-odd 2.0 can't be loaded" in printed
    status, printed = said_by(*check, "--hardware")
    assert (status, "1 of 2 devices answer" in printed) == (1, True), printed
