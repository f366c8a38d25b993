import pytest

from growd_hwsim.chips.bh1750 import SimulatedBh1750
from growd_hwsim.i2c import NoAcknowledgeError
from support.machine import SleepingTime

CONTINUOUS, CONTINUOUS_2, LOW, ONE_TIME = 0x10, 0x11, 0x13, 0x20


class Bench:
    def __init__(self):
        self.clock = SleepingTime()
        self.lux = 1000.0
        self.chip = SimulatedBh1750(lambda: self.lux, self.clock.monotonic)

    def send(self, *opcodes):
        for opcode in opcodes:
            self.chip.receive(bytes([opcode]))

    def count(self):
        return int.from_bytes(self.chip.on_read(2), "big")


@pytest.fixture
def bench():
    return Bench()


def test_a_conversion_takes_its_time_and_power_down_stops_it(bench):
    bench.clock.advance(10)
    assert bench.count() == 0
    bench.send(ONE_TIME, 0x00)
    bench.clock.advance(1)
    assert bench.count() == 0
    bench.send(0x01, ONE_TIME)
    bench.clock.advance(0.1)
    assert bench.count() == 0
    bench.clock.advance(0.05)
    assert bench.count() == pytest.approx(1200, rel=0.01)
    bench.lux = 60_000.0
    bench.send(CONTINUOUS)
    bench.clock.advance(1)
    assert bench.count() == 0xFFFF


@pytest.mark.parametrize(
    ("opcodes", "counts"),
    [
        ([CONTINUOUS], 1200),
        ([CONTINUOUS_2], 2400),
        ([LOW], 1200),
        ([0x40 | 31 >> 5, 0x60 | 31 & 31, CONTINUOUS], 1200 * 31 / 69),
        ([0x40 | 254 >> 5, 0x60 | 254 & 31, CONTINUOUS], 1200 * 254 / 69),
    ],
)
def test_counts_follow_mode_and_measurement_time(bench, opcodes, counts):
    bench.send(*opcodes)
    bench.clock.advance(0.7)
    assert bench.count() == pytest.approx(counts, rel=0.01)


def test_continuous_mode_goes_on_and_one_time_does_not(bench):
    for mode, follows in ((CONTINUOUS, True), (ONE_TIME, False)):
        bench.lux = 1000.0
        bench.send(mode)
        bench.clock.advance(1)
        first = bench.count()
        bench.lux = 4000.0
        bench.clock.advance(1)
        assert (bench.count() > 3 * first) is follows
    assert not bench.chip.powered


def test_reset_clears_the_register_only_with_power_on(bench):
    bench.send(ONE_TIME)
    bench.clock.advance(1)
    assert bench.count() > 0
    bench.send(0x00, 0x07)
    assert bench.count() > 0
    bench.send(0x01, 0x07)
    assert bench.count() == 0


def test_losing_power_forgets_all_and_two_bytes_in_one_write_are_not_acknowledged(bench):
    bench.send(0x47, 0x7E, CONTINUOUS)
    bench.clock.advance(1)
    bench.chip.power_cycle()
    with pytest.raises(NoAcknowledgeError):
        bench.chip.receive(b"\x01\x20")
    bench.clock.advance(1)
    assert bench.count() == 0
    assert bench.chip.measurement_time == 69
