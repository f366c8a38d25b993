import pytest
from smbus2 import i2c_msg

from growd_hwsim.chips.tsl2591 import WHITE_LED_INFRARED_SHARE, SimulatedTsl2591
from growd_hwsim.i2c import I2CAdapter, I2CKernel, NoAcknowledgeError, smbus_over
from support.machine import SleepingTime

ENABLE, CONTROL, PERSIST, ID, STATUS, DATA = (0xA0 | register for register in (0, 1, 0x0C, 0x12, 0x13, 0x14))
OFF, ON, MEASURE = 0x00, 0x01, 0x03
PER_LUX = 1 / 408 / (1 - 1.64 * WHITE_LED_INFRARED_SHARE)  # counts per ms and lux at gain 1


class Bench:
    def __init__(self, **options):
        self.clock = SleepingTime()
        self.lux = 1000.0
        self.chip = SimulatedTsl2591(lambda: self.lux, self.clock.monotonic, **options)

    def write(self, register, *values):
        self.chip.receive(bytes([register, *values]))

    def read(self, register, length=1):
        self.chip.receive(bytes([register]))
        return self.chip.on_read(length)

    def counts(self):
        data = self.read(DATA, 4)
        return int.from_bytes(data[:2], "little"), int.from_bytes(data[2:], "little")

    def measure(self, control):
        self.write(ENABLE, OFF)
        self.write(CONTROL, control)
        self.write(ENABLE, MEASURE)
        self.clock.advance(0.65)
        return self.counts()


@pytest.fixture
def bench():
    return Bench()


def test_registers_are_written_and_read_one_after_another_but_for_read_only_ones(bench):
    bench.write(0xA4, *range(1, 9))  # the interrupt thresholds
    assert bench.read(0xA4, 8) == bytes(range(1, 9))
    bench.write(PERSIST, 0x05)
    assert bench.read(PERSIST, 7) == bytes([5, 0, 0, 0, 0, 0, 0x50])
    bench.write(ID, 0x00, 0xFF, 0xFF)
    assert bench.read(ID, 3) == b"\x50\x00\x00"
    bench.measure(0x11)
    before = bytes(bench.chip.registers)
    bench.chip.receive(b"\xe7")  # clears an interrupt
    assert bytes(bench.chip.registers) == before


def test_a_cycle_is_valid_after_its_time_with_power_and_converter_on(bench):
    for enable in (OFF, ON, 0x02):
        bench.write(ENABLE, enable)
        bench.clock.advance(1)
        assert (bench.counts(), bench.read(STATUS)) == ((0, 0), b"\x00")
    bench.write(CONTROL, 0x02)  # 300 ms
    bench.write(ENABLE, MEASURE)
    bench.clock.advance(0.29)
    assert (bench.counts(), bench.read(STATUS)) == ((0, 0), b"\x00")
    bench.clock.advance(0.02)
    assert bench.counts()[0] > 0
    assert bench.read(STATUS) == b"\x01"


def test_it_measures_until_it_is_switched_off(bench):
    before = bench.measure(0x00)[0]
    bench.lux = 4000.0
    bench.clock.advance(0.1)
    after = bench.counts()[0]
    assert after == pytest.approx(4 * before, rel=0.02)
    bench.write(ENABLE, OFF)
    bench.lux = 100.0
    bench.clock.advance(1)
    assert (bench.counts()[0], bench.read(STATUS)) == (after, b"\x00")


@pytest.mark.parametrize(
    ("control", "milliseconds", "gains"),
    [
        (0x00, 100, (1, 1)),
        (0x05, 600, (1, 1)),
        (0x11, 200, (24.5, 24.5)),
        (0x22, 300, (400, 400)),
        (0x30, 100, (9200, 9900)),
    ],
)
def test_counts_of_both_channels_follow_gain_and_time(bench, control, milliseconds, gains):
    bench.lux = 8000.0 / gains[0]
    full, infrared = bench.measure(control)
    rate = bench.lux * PER_LUX * milliseconds
    assert full == pytest.approx(rate * gains[0], rel=0.011, abs=1)
    assert infrared == pytest.approx(rate * gains[1] * WHITE_LED_INFRARED_SHARE, rel=0.011, abs=1)


def test_the_infrared_share_of_the_light_is_what_channel_1_has():
    full, infrared = Bench(infrared_share=0.5).measure(0x11)
    assert infrared == pytest.approx(full / 2, abs=1)


@pytest.mark.parametrize(("control", "highest"), [(0x30, 36_863), (0x31, 65_535), (0x35, 65_535)])
def test_each_channel_saturates_for_itself_and_sooner_in_a_short_time(bench, control, highest):
    bench.lux = 100.0
    assert bench.measure(control) == (highest, highest)
    bench.lux = 5.0
    full, infrared = bench.measure(0x35)
    assert infrared < full == 65_535  # channel 0 alone


def test_reset_and_loss_of_power_forget_all(bench):
    for forget in (bench.chip.power_cycle, lambda: bench.write(CONTROL, 0x80)):
        bench.measure(0x11)
        forget()
        assert bench.read(ENABLE, 2) == b"\x00\x00"
        bench.clock.advance(1)
        assert (bench.counts(), bench.read(STATUS), bench.read(ID)) == ((0, 0), b"\x00", b"\x50")


@pytest.mark.parametrize("data", [b"\x00\x03", b"\x14", b"\x80\x03", b"\xc0"])
def test_a_command_without_its_bits_is_not_acknowledged(bench, data):
    with pytest.raises(NoAcknowledgeError):
        bench.chip.receive(data)
    assert not bench.chip.is_measuring


def test_smbus2_reads_it_after_a_repeated_start(bench):
    adapter = I2CAdapter(1)
    adapter.attach(0x29, bench.chip)
    with smbus_over(I2CKernel({1: adapter}))(1) as bus:
        bus.i2c_rdwr(i2c_msg.write(0x29, [ENABLE, MEASURE]))
        bench.clock.advance(0.1)
        answer = i2c_msg.read(0x29, 5)
        bus.i2c_rdwr(i2c_msg.write(0x29, [STATUS]), answer)
    status, *data = bytes(answer)
    assert status == 1
    assert int.from_bytes(data[:2], "little") == pytest.approx(1000 * PER_LUX * 100, rel=0.011)
    assert list(bench.chip.written) == [bytes([ENABLE, MEASURE]), bytes([STATUS])]


def test_the_same_seed_gives_the_same_values():
    def values(seed):
        bench = Bench(seed=seed)
        return [bench.measure(0x11)[0] for _ in range(5)]

    assert values(3) == values(3)
    assert values(3) != values(4)
