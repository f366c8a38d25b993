from __future__ import annotations

import errno
import math
import struct
import time as real_time

import adafruit_scd30
import pytest

from growd_drivers.errors import (
    DeviceMissingError,
    NotReadyError,
    OutOfRangeError,
    SettingError,
    TransferError,
)
from growd_drivers.i2c import I2CBus
from growd_drivers.scd30 import Scd30
from growd_hwsim.chips.scd30 import SimulatedScd30
from growd_hwsim.faults import Fault
from growd_hwsim.i2c import I2CAdapter, I2CKernel, smbus_over
from support.machine import SleepingTime, simulated

SET_INTERVAL, SET_SELF_CALIBRATION, START = b"\x46\x00", b"\x53\x06", b"\x00\x10"
SET_OFFSET, SET_ALTITUDE, RECALIBRATE = b"\x54\x03", b"\x51\x02", b"\x52\x04"


class Bench:
    def __init__(self, **settings) -> None:
        self.clock = SleepingTime()
        self.machine = simulated(self.clock)
        self.driver = Scd30(self.machine.i2c(1), sleep=self.machine.sleep, **settings)

    def start(self):
        """The read that starts the chip, before its first measurement."""
        with pytest.raises(NotReadyError, match="SCD30 at 0x61 on I2C bus 1 has no new measurement yet"):
            self.driver.read()

    def read_next(self):
        self.clock.advance(self.machine.sensor("scd30").memory.interval_s)
        return self.driver.read()

    def lose_power(self):
        """Long enough to be noticed."""
        self.machine.adapters[1].detach(0x61)
        with pytest.raises(DeviceMissingError):
            self.driver.read()
        self.machine.sensor("scd30").power_cycle()
        self.machine.adapters[1].attach(0x61, self.machine.sensor("scd30"))

    def settings_written(self, command):
        return [
            data for data in self.machine.sensor("scd30").written if data[:2] == command and len(data) == 5
        ]


@pytest.fixture
def bench():
    bench = Bench()
    bench.start()
    yield bench
    bench.machine.close()


def test_a_reading_is_the_air_of_the_chamber(bench):
    sample = bench.read_next()
    air = bench.machine.chamber.air()
    assert sample.carbon_dioxide_ppm == pytest.approx(air.carbon_dioxide_ppm, abs=10.5)
    assert sample.temperature_degc == pytest.approx(air.temperature_degc, abs=0.15)
    assert sample.humidity_percent == pytest.approx(air.humidity_percent, abs=0.15)


def test_each_measurement_is_read_once(bench):
    bench.read_next()
    with pytest.raises(NotReadyError) as caught:
        bench.driver.read()
    assert caught.value.device == "SCD30"
    assert bench.read_next()


def test_the_chip_is_probed_and_started_without_ambient_pressure(bench):
    assert list(bench.machine.sensor("scd30").written)[:2] == [b"", bytes.fromhex("0010000081")]


def test_settings_that_the_chip_has_are_not_written_again(bench):
    assert bench.settings_written(SET_INTERVAL) == []
    assert bench.settings_written(SET_SELF_CALIBRATION) == []


def test_settings_that_differ_are_written_once():
    bench = Bench(interval_s=5, temperature_offset_degc=1.5, altitude_m=340)
    memory = bench.machine.sensor("scd30").memory
    memory.self_calibration = 1
    bench.start()
    bench.read_next()
    assert (memory.interval_s, memory.self_calibration) == (5, 0)
    assert (memory.temperature_offset, memory.altitude_m) == (150, 340)
    assert len(bench.settings_written(SET_INTERVAL)) == 1
    assert len(bench.settings_written(SET_SELF_CALIBRATION)) == 1


def test_settings_that_outlive_a_power_cut_are_not_written_after_it():
    bench = Bench(
        interval_s=5,
        self_calibration=True,
        temperature_offset_degc=1.5,
        ambient_pressure_hpa=950,
    )
    bench.start()
    bench.lose_power()
    assert bench.read_next()
    lasting = (SET_INTERVAL, SET_SELF_CALIBRATION, SET_OFFSET)
    assert [len(bench.settings_written(command)) for command in lasting] == [1, 1, 1]
    assert len(bench.settings_written(START)) == 2  # the ambient pressure goes with it
    memory = bench.machine.sensor("scd30").memory
    assert (memory.self_calibration, bench.machine.sensor("scd30").ambient_pressure_hpa) == (1, 950)


@pytest.mark.parametrize("offset", [0.29, 1.15, 1.505, 2.675, 20.0])
def test_an_offset_between_two_steps_of_the_chip_is_not_written_again_and_again(offset):
    bench = Bench(temperature_offset_degc=offset)
    bench.start()
    assert bench.machine.sensor("scd30").memory.temperature_offset == pytest.approx(offset * 100, abs=0.51)
    bench.lose_power()
    assert bench.read_next()
    assert len(bench.settings_written(SET_OFFSET)) == 1


@pytest.mark.parametrize("kind", ["bad_crc", "wrong_order"])
def test_a_wrong_checksum_is_an_error_and_never_a_value(bench, kind):
    bench.machine.faults.inject(Fault(kind, "scd30"))
    with pytest.raises(TransferError, match="a wrong checksum, at 50 kHz") as caught:
        bench.read_next()
    assert (caught.value.errno, caught.value.address) == (errno.EBADMSG, 0x61)
    bench.machine.faults.clear()
    assert bench.read_next().carbon_dioxide_ppm > 300


def test_the_driver_below_is_loaded_once_however_often_the_chip_is_missing(bench, monkeypatch):
    monkeypatch.setattr("growd_drivers.adafruit.private_copy", lambda *_, **__: pytest.fail("loaded again"))
    for _ in range(2):
        bench.lose_power()
    assert bench.read_next()


def test_an_absent_chip_is_missing_until_it_is_connected():
    bench = Bench()
    bench.machine.faults.inject(Fault("absent", "scd30"))
    for _ in range(2):
        with pytest.raises(DeviceMissingError, match="does not answer") as caught:
            bench.driver.read()
        assert caught.value.errno == errno.EREMOTEIO
    bench.machine.faults.clear()
    bench.start()
    assert bench.read_next()


@pytest.mark.parametrize(("kind", "number"), [("bus_error", errno.EIO), ("timeout", errno.ETIMEDOUT)])
@pytest.mark.parametrize("at_start", [True, False])
def test_a_transient_failure_has_its_errno_and_ends(kind, number, at_start):
    bench = Bench()
    if not at_start:
        bench.start()
    bench.machine.faults.inject(Fault(kind, "scd30"))
    with pytest.raises(TransferError) as caught:
        bench.driver.read()
    assert caught.value.errno == number
    assert not isinstance(caught.value, DeviceMissingError)
    bench.machine.faults.clear()
    if at_start:
        bench.start()
    assert bench.read_next()


def test_a_measurement_without_ambient_pressure_is_dropped():
    bench = Bench(ambient_pressure_hpa=950)
    bench.start()
    assert bench.read_next()
    bench.machine.sensor("scd30").power_cycle()
    with pytest.raises(NotReadyError, match="had lost its ambient pressure, and so its power"):
        bench.read_next()
    assert bench.machine.sensor("scd30").ambient_pressure_hpa == 950
    assert bench.read_next()
    assert len(bench.settings_written(START)) == 2


def test_a_chip_that_repeats_itself_has_no_new_measurement(bench):
    last = bench.read_next()
    bench.machine.faults.inject(Fault("frozen", "scd30"))
    for _ in range(3):
        with pytest.raises(NotReadyError, match="repeated its last measurement"):
            bench.read_next()
    bench.machine.faults.clear()
    assert bench.read_next() != last


def test_no_measurement_of_a_chip_in_steady_air_is_that_before(bench):
    samples = [bench.read_next() for _ in range(300)]
    assert len(set(samples)) == len(samples)


def test_full_scale_is_saturation_and_never_a_reading(bench):
    bench.machine.faults.inject(Fault("saturated", "scd30"))
    with pytest.raises(OutOfRangeError, match="40000, the end of its range: it is saturated") as caught:
        bench.read_next()
    assert (caught.value.value, caught.value.maximum) == (40_000, 40_000)


def test_forced_recalibration_sets_the_reading(bench):
    bench.read_next()
    bench.driver.recalibrate(800)
    assert bench.read_next().carbon_dioxide_ppm == pytest.approx(800, abs=21)
    assert len(bench.settings_written(RECALIBRATE)) == 1
    bench.lose_power()
    bench.start()
    assert bench.read_next().carbon_dioxide_ppm == pytest.approx(800, abs=21)
    assert len(bench.settings_written(RECALIBRATE)) == 1


@pytest.mark.parametrize("reference", [399, 2001])
def test_a_reference_that_the_chip_does_not_take_is_refused(bench, reference):
    bench.read_next()
    with pytest.raises(SettingError, match=f"carbon_dioxide_ppm must be 400..2000, not {reference}"):
        bench.driver.recalibrate(reference)
    assert bench.settings_written(RECALIBRATE) == []


def test_a_chip_that_has_not_measured_is_not_calibrated(bench):
    with pytest.raises(NotReadyError, match="SCD30 at 0x61 on I2C bus 1 has not measured yet"):
        bench.driver.recalibrate(800)
    bench.read_next()
    bench.lose_power()
    with pytest.raises(NotReadyError, match="has not measured yet"):
        bench.driver.recalibrate(800)
    assert bench.settings_written(RECALIBRATE) == []


def test_a_recalibration_that_the_wire_does_not_carry_is_an_error(bench):
    bench.read_next()
    bench.machine.faults.inject(Fault("bus_error", "scd30"))
    with pytest.raises(TransferError, match="broke off the transfer"):
        bench.driver.recalibrate(800)


def test_it_works_on_an_adapter_that_refuses_empty_messages():
    clock = SleepingTime()
    machine = simulated(clock)
    chip = SimulatedScd30(machine.chamber.air, clock.monotonic)
    adapter = I2CAdapter(3, zero_length=False)
    bus = I2CBus(smbus_over(I2CKernel({3: adapter})), number=3)
    driver = Scd30(bus, sleep=clock.sleep)
    with pytest.raises(DeviceMissingError, match="bus 3"):
        driver.read()
    adapter.attach(0x61, chip)
    with pytest.raises(NotReadyError):
        driver.read()
    clock.advance(2)
    assert driver.read()
    bus.close()


@pytest.mark.parametrize(
    ("values", "value"),
    [
        ((0.0, 20.0, 50.0), 0.0),
        ((math.nan, 20.0, 50.0), math.nan),
        ((420.0, 99.0, 50.0), 99.0),
        ((420.0, 20.0, 101.0), 101.0),
        ((math.inf, 20.0, 50.0), math.inf),
    ],
)
def test_impossible_values_are_refused(bench, values, value):
    bench.machine.sensor("scd30")._measured = lambda: struct.pack(">fff", *values)
    with pytest.raises(OutOfRangeError, match="is impossible") as caught:
        bench.read_next()
    assert caught.value.value == pytest.approx(value, nan_ok=True)
    assert caught.value.minimum < caught.value.maximum


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"interval_s": 1}, "interval_s must be 2..1800, not 1"),
        ({"ambient_pressure_hpa": 600}, "ambient_pressure_hpa must be 700..1400, not 600"),
        ({"temperature_offset_degc": -1}, "temperature_offset_degc must be 0..655.35, not -1"),
        ({"altitude_m": 70_000}, "altitude_m must be 0..65535, not 70000"),
        ({"ambient_pressure_hpa": 950, "altitude_m": 0}, "only one of ambient_pressure_hpa and altitude_m"),
    ],
)
def test_a_setting_the_chip_does_not_have_is_refused_by_name(settings, words):
    with pytest.raises(SettingError, match=words):
        Bench(**settings)


def test_adafruits_module_keeps_its_own_sleep_for_others(bench):
    bench.read_next()
    assert adafruit_scd30.time is real_time


def test_waiting_is_done_on_the_sleep_handed_in(bench):
    bench.clock.advance(2)
    before = bench.clock.now
    bench.driver.read()
    assert bench.clock.now - before == pytest.approx(0.06)  # 10 ms for data-ready, 50 ms for the values
