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
from growd_drivers.ezo import EzoDo, EzoEc, EzoPh, EzoRtd
from growd_drivers.i2c import I2CBus
from growd_hwsim.chips.ezo import SimulatedEzoDo, SimulatedEzoEc, SimulatedEzoPh, SimulatedEzoRtd
from growd_hwsim.i2c import I2CAdapter, I2CKernel, smbus_over
from support.machine import SleepingTime

WATER = SimpleNamespace(
    potential_hydrogen=6.2, conductivity_ms_cm=1.8, temperature_degc=21.5, dissolved_oxygen_mg_l=8.1
)
PAIRS = {
    EzoPh: (SimulatedEzoPh, 0x63, 6.2),
    EzoEc: (SimulatedEzoEc, 0x64, 1.8),
    EzoRtd: (SimulatedEzoRtd, 0x66, 21.5),
    EzoDo: (SimulatedEzoDo, 0x61, 8.1),
}


class Bench:
    """A circuit on a bus."""

    def __init__(self, driver, *, chip=None, water=WATER, **settings):
        self.clock = SleepingTime()
        simulated, self.address, self.true = PAIRS[driver]
        self.chip = (chip or simulated)(lambda: water, self.clock.monotonic)
        self.adapter = I2CAdapter(1)
        self.adapter.attach(self.address, self.chip)
        bus = I2CBus(smbus_over(I2CKernel({1: self.adapter})), number=1)
        self.driver = driver(bus, sleep=self.clock.sleep, **settings)

    def read(self):
        return self.driver.read().value

    @property
    def commands(self):
        return [data.decode() for data in self.chip.written if data]


@pytest.mark.parametrize("driver", PAIRS)
def test_a_circuit_measures_at_its_address_within_the_time_of_a_reading(driver):
    bench = Bench(driver)
    assert bench.address == driver.ADDRESS
    assert bench.read() == pytest.approx(bench.true, abs=0.05)
    began = bench.clock.monotonic()
    assert bench.read() == pytest.approx(bench.true, abs=0.05)
    assert bench.clock.monotonic() - began == pytest.approx(driver.READ_S)
    assert bench.commands[-1] == "R"


def test_settings_are_read_and_changed_only_if_they_differ(said):
    bench = Bench(EzoEc)
    bench.read()
    assert bench.commands == ["i", "O,?", "K,?", "R"]
    other = Bench(EzoEc, probe_k=0.1)
    other.chip.outputs = ["TDS"]
    with said.raises(NotReadyError):
        other.read()
    assert (other.chip.outputs, other.chip.cell_constant) == (["EC", "TDS"], 0.1)
    assert other.read() == pytest.approx(1.8, abs=0.05)
    thermometer = Bench(EzoRtd)
    thermometer.chip.scale = "k"
    with pytest.raises(NotReadyError):
        thermometer.read()
    assert thermometer.read() == pytest.approx(21.5, abs=0.05)


def test_the_temperature_is_sent_before_each_reading_since_a_power_cut_loses_it():
    bench = Bench(EzoPh)
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
        Bench(EzoPh, chip=SimulatedEzoEc).read()
    older = Bench(EzoDo)
    older.chip.identity = "D.O."
    assert older.read() == pytest.approx(8.1, abs=0.05)


def test_a_circuit_that_comes_back_is_set_up_again():
    bench = Bench(EzoPh)
    bench.read()
    bench.adapter.detach(bench.address)
    with pytest.raises(DeviceMissingError):
        bench.read()
    bench.adapter.attach(bench.address, bench.chip)
    bench.read()
    assert bench.commands == ["i", "R", "i", "R"]


def test_a_busy_circuit_is_asked_again_and_then_left(said):
    bench = Bench(EzoPh)
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
    bench = Bench(EzoPh)
    bench.read()
    bench.chip.on_read = lambda length: answer.ljust(length, b"\0")
    with pytest.raises(error, match=words):
        bench.read()


@pytest.mark.parametrize(
    ("driver", "method", "arguments", "command"),
    [
        (EzoPh, "calibrate_mid", (7.0,), "Cal,mid,7"),
        (EzoPh, "calibrate_low", (4.01,), "Cal,low,4.01"),
        (EzoPh, "calibrate_high", (10.01,), "Cal,high,10.01"),
        (EzoEc, "calibrate_dry", (), "Cal,dry"),
        (EzoEc, "calibrate_low", (1.413,), "Cal,low,1413"),
        (EzoEc, "calibrate_high", (12.88,), "Cal,high,12880"),
        (EzoRtd, "calibrate_temperature", (25.0,), "Cal,25"),
        (EzoDo, "calibrate_air", (), "Cal"),
        (EzoDo, "calibrate_no_oxygen", (), "Cal,0"),
    ],
)
def test_calibrations_have_the_commands_of_the_datasheet(driver, method, arguments, command):
    bench = Bench(driver)
    getattr(bench.driver, method)(*arguments)
    assert command in bench.commands
    assert len(bench.chip.calibrated) == 1


def test_a_calibration_of_ph_says_the_slope_of_the_probe():
    bench = Bench(EzoPh)
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
    bench = Bench(EzoPh)
    bench.chip.known_points = set()
    with pytest.raises(SettingError, match="has no middle point yet: calibrate it first"):
        getattr(bench.driver, point)(4.0)
    assert bench.chip.calibrated == []
    bench.driver.calibrate_mid(7.0)
    getattr(bench.driver, point)(4.0)
    assert len(bench.chip.calibrated) == 2


def test_a_calibrated_probe_reads_the_reference():
    bench = Bench(EzoPh)
    bench.chip._error = 0.4
    assert bench.read() == pytest.approx(6.6, abs=0.05)
    bench.driver.calibrate_mid(6.2)
    bench.chip.power_cycle()
    assert bench.read() == pytest.approx(6.2, abs=0.05)
