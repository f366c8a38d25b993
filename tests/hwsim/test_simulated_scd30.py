import struct

import adafruit_scd30
import pytest
from hypothesis import given
from hypothesis import strategies as st
from smbus2 import i2c_msg

from growd_drivers.i2c import I2CBus
from growd_hwsim.chamber import Air
from growd_hwsim.chips.scd30 import SimulatedScd30
from growd_hwsim.i2c import I2CAdapter, I2CKernel, NoAcknowledgeError, smbus_over
from growd_hwsim.sensirion import crc8, with_crcs
from growd_hwsim.sensors import INSTANT
from support.machine import SleepingTime

READ, DATA_READY, INTERVAL, STOP = b"\x03\x00", b"\x02\x02", b"\x46\x00", b"\x01\x04"
START = bytes.fromhex("0010000081")


def command(word, argument):
    return word + with_crcs(struct.pack(">H", argument))


class Bench:
    def __init__(self, **options):
        self.clock = SleepingTime()
        self.air = Air(1000.0, 25.0, 60.0)
        self.chip = SimulatedScd30(lambda: self.air, self.clock.monotonic, **options)

    def ask(self, word, length=3):
        self.chip.receive(word)
        self.clock.advance(0.004)
        return self.chip.on_read(length)

    def number(self, word):
        return int.from_bytes(self.ask(word)[:2], "big")

    def ready(self):
        return bool(self.number(DATA_READY))

    def carbon_dioxide(self):
        frame = self.ask(READ, 18)
        return struct.unpack(">f", frame[0:2] + frame[3:5])[0]


@pytest.fixture
def bench():
    bench = Bench()
    bench.chip.receive(START)
    return bench


@given(st.binary(min_size=2, max_size=2), st.integers(0, 15))
def test_the_checksum_is_that_of_the_interface_description_and_shows_any_flipped_bit(word, bit):
    assert crc8(b"\xbe\xef") == 0x92  # its example
    flipped = (int.from_bytes(word, "big") ^ 1 << bit).to_bytes(2, "big")
    assert crc8(flipped) != crc8(word)


def test_a_measurement_is_ready_once_an_interval_also_after_a_long_pause(bench):
    assert not bench.ready()
    for pause in (2, 1_000_000.5):
        bench.clock.advance(pause)
        assert bench.ready()
        bench.carbon_dioxide()
        assert not bench.ready()
    bench.chip.receive(command(INTERVAL, 30))
    bench.clock.advance(29)
    assert not bench.ready()
    bench.clock.advance(1)
    assert bench.ready()


def test_it_does_not_measure_after_a_stop_and_forgets_its_measurement_with_a_soft_reset(bench):
    bench.clock.advance(2)
    assert bench.ready()
    bench.chip.receive(b"\xd3\x04")
    bench.clock.advance(0.1)
    assert not bench.ready()
    bench.chip.receive(STOP)
    bench.clock.advance(60)
    assert not bench.ready()


def test_a_step_of_the_air_shows_with_the_response_times_of_the_data_sheet(bench):
    bench.clock.advance(2)
    bench.carbon_dioxide()
    bench.air = Air(2000.0, 35.0, 90.0)
    seen = {}
    for second in range(2, 122, 2):
        bench.clock.advance(2)
        words = bench.ask(READ, 18)
        values = [words[at : at + 2] + words[at + 3 : at + 5] for at in (0, 6, 12)]
        seen[second] = [struct.unpack(">f", value)[0] for value in values]
    assert seen[20][0] == pytest.approx(1632, abs=15)
    assert seen[10][1] == pytest.approx(31.3, abs=0.2)
    assert seen[8][2] == pytest.approx(79.0, abs=0.2)
    assert seen[120] == pytest.approx([2000, 35.0, 90.0], abs=15)


def test_a_sensor_without_a_lag_follows_at_once():
    bench = Bench(response_s=INSTANT)
    bench.chip.receive(START)
    bench.clock.advance(2)
    bench.carbon_dioxide()
    bench.air = Air(2000.0, 35.0, 90.0)
    bench.clock.advance(2)
    assert bench.carbon_dioxide() == pytest.approx(2000, abs=10)


def test_noise_stays_within_the_repeatability_of_the_datasheet(bench):
    values = []
    for _ in range(500):
        bench.clock.advance(2)
        values.append(bench.carbon_dioxide())
    assert max(values) <= 1010.001
    assert min(values) >= 989.999
    assert len(set(values)) > 400
    assert sum(values) / len(values) == pytest.approx(1000, abs=1)


def test_an_answer_takes_3_ms_and_a_stop_between_command_and_answer(bench):
    bench.chip.receive(DATA_READY)
    with pytest.raises(NoAcknowledgeError):
        bench.chip.on_read(3)
    adapter = I2CAdapter(1)
    adapter.attach(0x61, bench.chip)
    with smbus_over(I2CKernel({1: adapter}))(1) as bus, pytest.raises(OSError, match="Remote I/O error"):
        bus.i2c_rdwr(i2c_msg.write(0x61, DATA_READY), i2c_msg.read(0x61, 3))


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",  # half a command
        bytes.fromhex("0010000082"),  # wrong CRC
        command(INTERVAL, 1),
        command(INTERVAL, 1801),
        command(b"\x00\x10", 699),  # ambient pressure
        command(b"\x53\x06", 2),  # automatic self-calibration
        command(b"\x52\x04", 399),  # forced recalibration
        command(b"\x12\x34", 0),  # no such command
    ],
)
def test_invalid_data_is_not_acknowledged(bench, data):
    before = bench.chip.memory.interval_s
    with pytest.raises(NoAcknowledgeError):
        bench.chip.receive(data)
    assert bench.chip.memory.interval_s == before


def test_settings_outlive_power_but_pressure_does_not(bench):
    bench.chip.receive(command(b"\x00\x10", 950))
    bench.chip.receive(command(INTERVAL, 10))
    bench.chip.receive(command(b"\x53\x06", 1))
    bench.chip.receive(command(b"\x54\x03", 150))
    bench.chip.receive(command(b"\x51\x02", 340))
    assert bench.number(b"\x00\x10") == 950
    bench.chip.power_cycle()
    assert [
        bench.number(word) for word in (b"\x00\x10", INTERVAL, b"\x53\x06", b"\x54\x03", b"\x51\x02")
    ] == [0, 10, 1, 150, 340]
    bench.clock.advance(10)
    assert bench.ready()  # it goes on measuring by itself


def test_forced_recalibration_takes_the_error_out():
    bench = Bench(error_ppm=80.0)
    bench.chip.receive(START)
    bench.clock.advance(2)
    assert bench.carbon_dioxide() == pytest.approx(1080, abs=11)
    bench.chip.receive(command(b"\x52\x04", 1000))
    bench.clock.advance(2)
    assert bench.carbon_dioxide() == pytest.approx(1000, abs=11)


def test_adafruits_driver_reads_all_its_registers(bench, monkeypatch):
    monkeypatch.setattr(adafruit_scd30, "time", bench.clock)
    adapter = I2CAdapter(1)
    adapter.attach(0x61, bench.chip)
    bus = I2CBus(smbus_over(I2CKernel({1: adapter})), number=1)
    chip = adafruit_scd30.SCD30(bus, ambient_pressure=1010)
    chip.temperature_offset = 2.5
    chip.altitude = 100
    chip.forced_recalibration_reference = 1000
    assert (chip.ambient_pressure, chip.temperature_offset, chip.altitude) == (1010, 2.5, 100)
    assert (chip.measurement_interval, chip.self_calibration_enabled) == (2, False)
    assert (chip.forced_recalibration_reference, chip.firmware_version) == (1000, "3.66")
    bench.clock.advance(2)
    assert pytest.approx(1000, abs=11) == chip.CO2
    assert chip.temperature == pytest.approx(22.5, abs=0.15)
    assert chip.relative_humidity == pytest.approx(60, abs=0.15)
    bus.close()
