import time as real_time

import adafruit_scd30
import pytest

from growd_drivers.errors import DeviceMissingError, NotReadyError, SettingError
from support.chip_bench import AirBench

SET_INTERVAL, SET_SELF_CALIBRATION, SET_OFFSET = b"\x46\x00", b"\x53\x06", b"\x54\x03"


def started(**settings):
    bench = AirBench("scd30", **settings)
    bench.start()
    return bench


def settings_written(bench, command):
    return [data for data in bench.chip.written if data[:2] == command and len(data) == 5]


def test_each_measurement_is_read_once():
    bench = started()
    assert bench.next()
    with pytest.raises(
        NotReadyError, match="SCD30 at 0x61 on I2C bus 1 has no new measurement yet"
    ) as caught:
        bench.driver.read()
    assert caught.value.device == "SCD30"
    assert bench.next()


def test_the_chip_is_started_without_ambient_pressure_and_only_settings_that_differ_are_written():
    bench = started()
    assert list(bench.chip.written)[:2] == [b"", bytes.fromhex("0010000081")]
    assert settings_written(bench, SET_INTERVAL) == settings_written(bench, SET_SELF_CALIBRATION) == []
    other = AirBench("scd30", interval_s=5, temperature_offset_degc=1.5, altitude_m=340)
    memory = other.chip.memory
    memory.self_calibration = 1
    other.start()
    other.next()
    assert (memory.interval_s, memory.self_calibration) == (5, 0)
    assert (memory.temperature_offset, memory.altitude_m) == (150, 340)
    assert len(settings_written(other, SET_INTERVAL)) == 1
    assert len(settings_written(other, SET_SELF_CALIBRATION)) == 1


def test_settings_that_outlive_a_power_cut_are_not_written_after_it():
    bench = started(interval_s=5, self_calibration=True, temperature_offset_degc=1.5)
    bench.disconnect()  # long enough to be noticed
    with pytest.raises(DeviceMissingError):
        bench.driver.read()
    bench.chip.power_cycle()
    bench.connect()
    assert bench.next()
    lasting = (SET_INTERVAL, SET_SELF_CALIBRATION, SET_OFFSET)
    assert [len(settings_written(bench, command)) for command in lasting] == [1, 1, 1]
    assert bench.chip.memory.self_calibration == 1


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
        AirBench("scd30", **settings)


def test_waiting_is_done_on_the_sleep_handed_in_and_adafruits_module_keeps_its_own_for_others():
    bench = started()
    bench.clock.advance(2)
    before = bench.clock.now
    bench.driver.read()
    assert bench.clock.now - before == pytest.approx(0.06)  # 10 ms for data-ready, 50 ms for the values
    assert adafruit_scd30.time is real_time
