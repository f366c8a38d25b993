"""SCD4x, SHT3x, SHT4x and BME280 on the wire, without our drivers."""

import struct

import pytest

from growd_hwsim.chamber import Air
from growd_hwsim.chip import SENSORS
from growd_hwsim.chips.bme280 import CTRL_HUM, CTRL_MEAS, DATA, RESET, STATUS
from growd_hwsim.i2c import NoAcknowledgeError
from growd_hwsim.sensirion import crc8, with_crcs
from support.machine import SleepingTime

START, STOP, READY, READ = b"\x21\xb1", b"\x3f\x86", b"\xe4\xb8", b"\xec\x05"
GET_SELF_CALIBRATION, PERSIST, SERIAL = b"\x23\x13", b"\x36\x15", b"\x36\x82"
SHT3X_SINGLE_SHOT, SHT3X_STATUS, SHT4X_HIGH = b"\x24\x00", b"\xf3\x2d", b"\xfd"


class Bench:
    def __init__(self, name, **options):
        self.clock = SleepingTime()
        self.air = Air(1_000.0, 25.0, 60.0)
        self.chip = SENSORS[name](lambda: self.air, self.clock.monotonic, **options)

    def send(self, data, after_s=0.5):
        self.chip.receive(data)
        self.clock.advance(after_s)

    def ask(self, data, length, after_s=0.02):
        self.send(data, after_s)
        return self.chip.on_read(length)

    def words(self, data, count=1):
        answer = self.ask(data, 3 * count)
        assert all(crc8(answer[at : at + 2]) == answer[at + 2] for at in range(0, 3 * count, 3))
        return tuple(int.from_bytes(answer[at : at + 2], "big") for at in range(0, 3 * count, 3))


def setting(command, value):
    return struct.pack(">H", command) + with_crcs(struct.pack(">H", value))


def test_an_scd4x_measures_each_five_seconds_once_it_is_started():
    bench = Bench("scd4x")
    bench.clock.advance(60)
    assert bench.words(READY) == (0x8000,)
    bench.send(START, 4.9)
    assert bench.words(READY) == (0x8000,)
    bench.clock.advance(0.1)
    assert bench.words(READY)[0] & 0x07FF
    ppm, degc, percent = bench.words(READ, 3)
    assert ppm == pytest.approx(1_000, abs=11)
    assert -45 + 175 * degc / 65535 == pytest.approx(25.0, abs=0.11)
    assert 100 * percent / 65535 == pytest.approx(60.0, abs=0.41)
    assert bench.words(READY) == (0x8000,)


def test_an_scd4x_follows_the_air_with_the_response_time_of_the_data_sheet():
    bench = Bench("scd4x")
    bench.send(START, 5)
    bench.words(READ, 3)
    bench.air = Air(2_000.0, 25.0, 60.0)
    for _ in range(12):
        bench.clock.advance(4.98)
        (ppm, *_) = bench.words(READ, 3)
    assert ppm == pytest.approx(1_632, abs=25)


def test_an_scd4x_takes_no_settings_while_it_measures_and_is_deaf_for_half_a_second_after_a_stop():
    bench = Bench("scd4x")
    wrong = setting(0x2427, 500)
    wrong = wrong[:-1] + bytes([wrong[-1] ^ 1])
    with pytest.raises(NoAcknowledgeError):
        bench.chip.receive(wrong)
    bench.send(START)
    for command in (GET_SELF_CALIBRATION, SERIAL, PERSIST, setting(0x2427, 500)):
        with pytest.raises(NoAcknowledgeError):
            bench.chip.receive(command)
    bench.send(setting(0xE000, 950))
    assert bench.chip.pressure_hpa == 950
    bench.send(STOP, 0.4)
    with pytest.raises(NoAcknowledgeError):
        bench.chip.receive(START)
    bench.clock.advance(0.1)
    bench.send(setting(0x2427, 500))
    assert bench.chip.settings.altitude_m == 500


def test_an_scd4x_keeps_over_a_power_cut_what_was_persisted_and_nothing_else():
    bench = Bench("scd4x")
    bench.send(setting(0x2427, 500))
    bench.send(PERSIST, 1.0)
    bench.send(setting(0x2416, 0))
    bench.send(START)
    bench.chip.power_cycle()
    with pytest.raises(NoAcknowledgeError):  # it starts up
        bench.chip.receive(READY)
    bench.clock.advance(1.0)
    assert bench.words(GET_SELF_CALIBRATION) == (1,)
    assert (bench.chip.settings.altitude_m, bench.chip.is_measuring) == (500, False)


@pytest.mark.parametrize(
    ("name", "command", "early_s"), [("sht3x", SHT3X_SINGLE_SHOT, 0.014), ("sht4x", SHT4X_HIGH, 0.008)]
)
def test_an_sht_measures_on_request_and_answers_once(name, command, early_s):
    bench = Bench(name)
    with pytest.raises(NoAcknowledgeError):
        bench.chip.receive(b"\x77\x77")  # an unknown command
    bench.send(command, early_s)
    with pytest.raises(NoAcknowledgeError):
        bench.chip.on_read(6)
    bench.clock.advance(0.002)
    answer = bench.chip.on_read(6)
    assert crc8(answer[:2]) == answer[2]
    assert crc8(answer[3:5]) == answer[5]
    assert -45 + 175 * int.from_bytes(answer[:2], "big") / 65535 == pytest.approx(25.0, abs=0.1)
    with pytest.raises(NoAcknowledgeError):
        bench.chip.on_read(6)


def test_an_sht3x_says_that_it_was_reset():
    bench = Bench("sht3x")
    bench.send(b"\x30\x41")
    assert bench.words(SHT3X_STATUS) == (0,)
    bench.chip.power_cycle()
    bench.clock.advance(1)
    assert bench.words(SHT3X_STATUS) == (0x0010,)


def test_a_bme280_measures_once_in_forced_mode():
    bench = Bench("bme280")
    bench.send(bytes([CTRL_HUM, 0x01]), 0)
    bench.send(bytes([CTRL_MEAS, 0x55]), 0)
    assert bench.ask(bytes([STATUS]), 1, 0) == b"\x08"
    assert bench.ask(bytes([DATA]), 8, 0) == bytes.fromhex("8000008000008000")
    bench.clock.advance(0.05)
    assert bench.ask(bytes([STATUS]), 1, 0) == b"\x00"
    measured = bench.ask(bytes([DATA]), 8, 0)
    assert measured != bytes.fromhex("8000008000008000")
    assert bench.chip.registers[CTRL_MEAS] == 0x54  # asleep again
    bench.clock.advance(60)
    assert bench.ask(bytes([DATA]), 8, 0) == measured


def test_a_bme280_skips_what_has_no_oversampling_and_takes_humidity_only_with_the_next_control():
    bench = Bench("bme280")
    bench.send(bytes([CTRL_MEAS, 0x21]), 0)
    bench.send(bytes([CTRL_HUM, 0x01]), 0.05)
    data = bench.ask(bytes([DATA]), 8, 0)
    assert (data[:3], data[6:]) == (b"\x80\x00\x00", b"\x80\x00")
    assert data[3:6] != b"\x80\x00\x00"


def test_a_bme280_forgets_settings_and_measurement_with_its_power_and_after_a_reset():
    bench = Bench("bme280")
    for forget in (bench.chip.power_cycle, lambda: bench.chip.receive(bytes([RESET, 0xB6]))):
        bench.send(bytes([CTRL_HUM, 0x01, CTRL_MEAS, 0x55]), 0.05)
        assert bench.ask(bytes([DATA]), 8, 0) != bytes.fromhex("8000008000008000")
        forget()
        assert bench.ask(bytes([STATUS]), 1, 0) == b"\x01"
        assert bench.ask(bytes([CTRL_HUM]), 3, 0.01) == b"\x00\x00\x00"
        assert bench.ask(bytes([DATA]), 8, 0) == bytes.fromhex("8000008000008000")
