import time as real_time

import adafruit_scd30
import pytest

from growd_drivers.errors import DeviceMissingError, NotReadyError, SettingError
from growd_drivers.scd30 import Scd30
from support.machine import SleepingTime, simulated

SET_INTERVAL, SET_SELF_CALIBRATION, START = b"\x46\x00", b"\x53\x06", b"\x00\x10"
SET_OFFSET, SET_ALTITUDE, RECALIBRATE = b"\x54\x03", b"\x51\x02", b"\x52\x04"


class Bench:
    def __init__(self, **settings):
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


def test_each_measurement_is_read_once(bench):
    bench.read_next()
    with pytest.raises(NotReadyError) as caught:
        bench.driver.read()
    assert caught.value.device == "SCD30"
    assert bench.read_next()


def test_the_chip_is_started_without_ambient_pressure_and_only_settings_that_differ_are_written(bench):
    assert list(bench.machine.sensor("scd30").written)[:2] == [b"", bytes.fromhex("0010000081")]
    assert bench.settings_written(SET_INTERVAL) == bench.settings_written(SET_SELF_CALIBRATION) == []
    other = Bench(interval_s=5, temperature_offset_degc=1.5, altitude_m=340)
    memory = other.machine.sensor("scd30").memory
    memory.self_calibration = 1
    other.start()
    other.read_next()
    assert (memory.interval_s, memory.self_calibration) == (5, 0)
    assert (memory.temperature_offset, memory.altitude_m) == (150, 340)
    assert len(other.settings_written(SET_INTERVAL)) == 1
    assert len(other.settings_written(SET_SELF_CALIBRATION)) == 1


def test_settings_that_outlive_a_power_cut_are_not_written_after_it():
    bench = Bench(interval_s=5, self_calibration=True, temperature_offset_degc=1.5)
    bench.start()
    bench.lose_power()
    assert bench.read_next()
    lasting = (SET_INTERVAL, SET_SELF_CALIBRATION, SET_OFFSET)
    assert [len(bench.settings_written(command)) for command in lasting] == [1, 1, 1]
    assert bench.machine.sensor("scd30").memory.self_calibration == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"interval_s": 1}, "interval_s must be 2..1800, not 1"),
        ({"temperature_offset_degc": -1}, "temperature_offset_degc must be 0..655.35, not -1"),
        ({"altitude_m": 70_000}, "altitude_m must be 0..65535, not 70000"),
    ],
)
def test_a_setting_the_chip_does_not_have_is_refused_by_name(settings, words):
    with pytest.raises(SettingError, match=words):
        Bench(**settings)


def test_waiting_is_done_on_the_sleep_handed_in_and_adafruits_module_keeps_its_own_for_others(bench):
    bench.clock.advance(2)
    before = bench.clock.now
    bench.driver.read()
    assert bench.clock.now - before == pytest.approx(0.06)  # 10 ms for data-ready, 50 ms for the values
    assert adafruit_scd30.time is real_time
