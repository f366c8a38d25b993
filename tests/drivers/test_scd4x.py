import pytest

from growd_drivers.errors import DeviceMissingError, NotReadyError, SettingError, TransferError
from growd_hwsim.faults import Fault
from support.chip_bench import AirBench

SET_OFFSET, SET_ALTITUDE, RECALIBRATE, PERSIST = b"\x24\x1d", b"\x24\x27", b"\x36\x2f", b"\x36\x15"


def started(**options):
    bench = AirBench("scd4x", **options)
    bench.start()
    return bench


def commands(bench, word):
    return [data for data in bench.chip.written if data[:2] == word]


def steady(bench, seconds=180.0):
    for _ in range(int(seconds / 5.1) + 2):
        bench.next()


def test_each_measurement_is_read_once(said):
    bench = started()
    assert bench.driver.read()
    with said.raises(NotReadyError):
        bench.driver.read()
    assert bench.next()


def test_self_calibration_is_off_although_the_chip_starts_with_it():
    bench = AirBench("scd4x")
    assert bench.chip.settings.self_calibration == 1
    bench.start()
    assert bench.chip.settings.self_calibration == 0
    assert started(self_calibration=True).chip.settings.self_calibration == 1


def test_settings_that_are_given_go_into_the_chip_but_not_into_its_eeprom():
    bench = started(temperature_offset_degc=2.0, altitude_m=340)
    assert bench.chip.settings.temperature_offset == pytest.approx(2.0 * 65535 / 175, abs=1)
    assert bench.chip.settings.altitude_m == 340
    assert bench.next().temperature_degc == pytest.approx(27.0, abs=0.15)  # 4 degC of heat, less 2
    assert commands(bench, PERSIST) == []
    bench = started()
    assert commands(bench, SET_OFFSET) == commands(bench, SET_ALTITUDE) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"altitude_m": 3_001}, "altitude_m must be 0..3000, not 3001"),
        ({"temperature_offset_degc": 21.0}, "temperature_offset_degc must be 0..20, not 21"),
    ],
)
def test_a_setting_beyond_its_range_is_refused(options, words):
    with pytest.raises(SettingError, match=words):
        AirBench("scd4x", **options)


def test_a_sensor_that_is_read_once_a_minute_is_not_set_up_each_time():
    bench = started()
    for _ in range(5):
        bench.clock.advance(60.0)
        assert bench.driver.read()
    assert len(commands(bench, b"\x21\xb1")) == 1


def test_forced_recalibration_sets_the_reading_and_lasts():
    bench = started(chip_options={"error_ppm": 120.0})
    steady(bench)
    assert bench.next().carbon_dioxide_ppm == pytest.approx(920, abs=11)
    bench.driver.recalibrate(800)
    bench.start()
    assert bench.next().carbon_dioxide_ppm == pytest.approx(800, abs=11)
    bench.disconnect()
    with pytest.raises(DeviceMissingError):
        bench.driver.read()
    bench.chip.power_cycle()
    bench.connect()
    bench.clock.advance(1.0)
    bench.start()
    assert bench.next().carbon_dioxide_ppm == pytest.approx(800, abs=11)
    assert len(commands(bench, RECALIBRATE)) == 1


def test_a_calibration_that_the_chip_refuses_is_told_and_it_measures_on(said):
    bench = started(chip_options={"error_ppm": 120.0})
    bench.next()
    with said.raises(NotReadyError):
        bench.driver.recalibrate(800)
    bench.start()
    assert bench.next().carbon_dioxide_ppm == pytest.approx(920, abs=11)


@pytest.mark.parametrize(("kind", "words"), [("bad_crc", "wrong checksum"), ("bus_error", "broke off")])
def test_a_recalibration_that_the_wire_does_not_carry_is_an_error(kind, words):
    bench = started()
    steady(bench)
    bench.faults.inject(Fault(kind, "scd4x"))
    with pytest.raises(TransferError, match=words):
        bench.driver.recalibrate(800)
    bench.faults.clear()
    bench.start()
    assert bench.next()


def test_a_reference_beyond_the_range_and_a_chip_that_has_not_measured_are_refused(said):
    bench = started()
    with said.raises(NotReadyError):
        bench.driver.recalibrate(800)
    bench.next()
    for reference in (399, 2001):
        with pytest.raises(SettingError, match=f"must be 400..2000, not {reference}"):
            bench.driver.recalibrate(reference)
    assert commands(bench, RECALIBRATE) == []
