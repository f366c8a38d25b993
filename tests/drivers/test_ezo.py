"""EZO circuits: commands, status bytes, set-up, compensation and calibration."""

from types import SimpleNamespace

import pytest

from growd_drivers.errors import (
    DeviceMissingError,
    NotReadyError,
    SettingError,
    TransferError,
    WrongDeviceError,
)
from support.chip_bench import ChipBench

WATER = SimpleNamespace(
    potential_hydrogen=6.2, conductivity_ms_cm=1.8, temperature_degc=21.5, dissolved_oxygen_mg_l=8.1
)
TRUE = {"ezo_ph": 6.2, "ezo_ec": 1.8, "ezo_rtd": 21.5, "ezo_do": 8.1}


class Bench(ChipBench):
    """A circuit in this water."""

    def __init__(self, kind, **options):
        super().__init__(kind, lambda: WATER, **options)

    def read(self):
        return self.driver.read().value

    @property
    def commands(self):
        return [data.decode() for data in self.chip.written if data]


@pytest.mark.parametrize("kind", TRUE)
def test_a_circuit_measures_at_its_address_within_the_time_of_a_reading(kind):
    bench = Bench(kind)
    assert bench.address == bench.driver.ADDRESS
    assert bench.read() == pytest.approx(TRUE[kind], abs=0.05)
    began = bench.clock.monotonic()
    assert bench.read() == pytest.approx(TRUE[kind], abs=0.05)
    assert bench.clock.monotonic() - began == pytest.approx(bench.driver.READ_S)
    assert bench.commands[-1] == "R"


def test_settings_are_read_and_changed_only_if_they_differ(said):
    bench = Bench("ezo_ec")
    bench.read()
    assert bench.commands == ["i", "O,?", "K,?", "R"]
    other = Bench("ezo_ec", probe_k=0.1)
    other.chip.outputs = ["TDS"]
    with said.raises(NotReadyError):
        other.read()
    assert (other.chip.outputs, other.chip.cell_constant) == (["EC", "TDS"], 0.1)
    assert other.read() == pytest.approx(1.8, abs=0.05)
    thermometer = Bench("ezo_rtd")
    thermometer.chip.scale = "k"
    with pytest.raises(NotReadyError):
        thermometer.read()
    assert thermometer.read() == pytest.approx(21.5, abs=0.05)


def test_the_temperature_is_sent_before_each_reading_since_a_power_cut_loses_it():
    bench = Bench("ezo_ph")
    bench.driver.compensate(18.26)
    bench.read()
    assert bench.chip.water_degc == 18.3
    bench.chip.power_cycle()
    bench.read()
    assert bench.chip.water_degc == 18.3
    bench.driver.compensate(None)
    bench.read()
    assert bench.commands[-2:] == ["R", "R"]


def test_another_circuit_is_named_and_one_of_older_firmware_with_dots_is_known(said):
    with said.raises(WrongDeviceError):
        Bench("ezo_ph", chip="ezo_ec").read()
    older = Bench("ezo_do")
    older.chip.identity = "D.O."
    assert older.read() == pytest.approx(8.1, abs=0.05)


def test_a_circuit_that_comes_back_is_set_up_again():
    bench = Bench("ezo_ph")
    bench.read()
    bench.disconnect()
    with pytest.raises(DeviceMissingError):
        bench.read()
    bench.connect()
    bench.read()
    assert bench.commands == ["i", "R", "i", "R"]


def test_a_busy_circuit_is_asked_again_and_then_left(said):
    bench = Bench("ezo_ph")
    bench.read()
    bench.chip.read_s = 1.2
    bench.read()
    bench.chip.read_s = 5.0
    with said.raises(TransferError):
        bench.read()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (bytes([1]) + b"*ER", TransferError, r"sent '\*ER' instead of a number"),
        (bytes([1]), TransferError, "instead of a number"),
        (bytes([255]), TransferError, "has no answer to the command R"),
        (bytes([0x41]), TransferError, "sent no valid answer"),
        (bytes([2]), SettingError, "refuses the command R"),
    ],
)
def test_what_is_no_reading_is_refused(answer, error, words):
    bench = Bench("ezo_ph")
    bench.read()
    bench.chip.on_read = lambda length: answer.ljust(length, b"\0")
    with pytest.raises(error, match=words):
        bench.read()


@pytest.mark.parametrize(
    ("kind", "method", "arguments", "command"),
    [
        ("ezo_ph", "calibrate_mid", (7.0,), "Cal,mid,7"),
        ("ezo_ph", "calibrate_low", (4.01,), "Cal,low,4.01"),
        ("ezo_ph", "calibrate_high", (10.01,), "Cal,high,10.01"),
        ("ezo_ec", "calibrate_dry", (), "Cal,dry"),
        ("ezo_ec", "calibrate_low", (1.413,), "Cal,low,1413"),
        ("ezo_ec", "calibrate_high", (12.88,), "Cal,high,12880"),
        ("ezo_rtd", "calibrate_temperature", (25.0,), "Cal,25"),
        ("ezo_do", "calibrate_air", (), "Cal"),
        ("ezo_do", "calibrate_no_oxygen", (), "Cal,0"),
    ],
)
def test_calibrations_have_the_commands_of_the_datasheet(kind, method, arguments, command):
    bench = Bench(kind)
    getattr(bench.driver, method)(*arguments)
    assert command in bench.commands
    assert len(bench.chip.calibrated) == 1


def test_a_calibration_of_ph_says_the_slope_of_the_probe():
    bench = Bench("ezo_ph")
    assert bench.driver.calibrate_low(4.0) == "its probe has 100 % of the slope of an ideal one"
    bench.chip.slopes_percent = (92.0, 81.4)
    assert bench.driver.calibrate_low(4.0) == "its probe has 92 % of the slope of an ideal one"
    assert bench.driver.calibrate_high(10.0) == (
        "its probe has 81 % of the slope of an ideal one: it is worn, replace it"
    )
    bench.chip.slopes_percent = ("", "")
    assert bench.driver.calibrate_high(10.0) == ""


@pytest.mark.parametrize("point", ["calibrate_low", "calibrate_high"])
def test_the_middle_point_of_ph_comes_first(point):
    bench = Bench("ezo_ph")
    bench.chip.known_points = set()
    with pytest.raises(SettingError, match="has no middle point yet: calibrate it first"):
        getattr(bench.driver, point)(4.0)
    assert bench.chip.calibrated == []
    bench.driver.calibrate_mid(7.0)
    getattr(bench.driver, point)(4.0)
    assert len(bench.chip.calibrated) == 2


def test_a_calibrated_probe_reads_the_reference():
    bench = Bench("ezo_ph")
    bench.chip._error = 0.4
    assert bench.read() == pytest.approx(6.6, abs=0.05)
    bench.driver.calibrate_mid(6.2)
    bench.chip.power_cycle()
    assert bench.read() == pytest.approx(6.2, abs=0.05)
