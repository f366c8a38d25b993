"""The ADS1115: inputs, ranges, the line through two points, and what is refused."""

import pytest

from growd_drivers.ads1115 import CHANNELS, RANGES_MV, Ads1115
from growd_drivers.errors import OutOfRangeError, SettingError, TransferError
from growd_drivers.i2c import I2CBus
from growd_hwsim.chips.ads1115 import SimulatedAds1115
from growd_hwsim.i2c import I2CAdapter, I2CKernel, smbus_over
from support.machine import SleepingTime

VOLTS = ((0.0, 0.0), (5.0, 5.0))


class Bench:
    """A chip on a bus, whose inputs have these voltages."""

    def __init__(self, **volts):
        self.clock = SleepingTime()
        self.chip = SimulatedAds1115(lambda: None, self.clock.monotonic)
        for name, value in volts.items():
            self.chip.connect(name[1:], lambda value=value: value)
        adapter = I2CAdapter(1)
        adapter.attach(0x48, self.chip)
        self.bus = I2CBus(smbus_over(I2CKernel({1: adapter})), number=1)

    def input(self, channel="0", **options):
        chosen = {"points": VOLTS, **options}
        return Ads1115(self.bus, sleep=self.clock.sleep, channel=channel, **chosen)

    def volts(self, channel, **options):
        return self.input(channel, **options).read().value


def test_each_input_is_converted_by_itself_and_a_difference_of_two_has_a_sign():
    bench = Bench(a0=0.5, a1=1.5, a2=2.5, a3=3.0)
    for _ in range(2):
        assert [bench.volts(each) for each in "0123"] == pytest.approx([0.5, 1.5, 2.5, 3.0], abs=0.001)
        bench.chip.power_cycle()  # after which the settings are written again
    points = {"points": ((-4.0, -4.0), (4.0, 4.0))}
    found = [bench.volts(each, **points) for each in ("0-1", "0-3", "1-3", "2-3")]
    assert found == pytest.approx([-1.0, -2.5, -1.5, -0.5], abs=0.001)
    assert set(CHANNELS) == {"0", "1", "2", "3", "0-1", "0-3", "1-3", "2-3"}


@pytest.mark.parametrize("range_mv", RANGES_MV)
def test_every_range_measures_the_points_that_are_in_it(range_mv):
    end_v = range_mv / 1000 / 1.05
    bench = Bench(a0=0.9 * end_v, a1=1.2 * end_v)
    points = ((0.0, 0.0), (end_v, end_v))
    assert bench.volts("0", points=points) == pytest.approx(0.9 * end_v, rel=0.001)
    with pytest.raises(OutOfRangeError, match=r"input 1 of ADS1115 at 0x48 .* is saturated at"):
        bench.volts("1", points=points)


@pytest.mark.parametrize(
    ("volts", "value"), [(2.8, 0), (1.2, 100), (2.0, 50), (2.85, 0), (1.15, 100), (2.4, 25)]
)
def test_the_value_is_on_the_line_through_the_points_and_ends_there(volts, value):
    points = ((2.8, 0.0), (1.2, 100.0))
    assert Bench(a0=volts).input(points=points).read().value == pytest.approx(value, abs=0.02)


@pytest.mark.parametrize("volts", [0.0, 1.0, 3.3])
def test_a_value_far_beyond_the_points_is_a_broken_wire(volts):
    with pytest.raises(OutOfRangeError, match=r"beyond its points: is a wire broken\?"):
        Bench(a0=volts).input(points=((2.8, 0.0), (1.2, 100.0))).read()


def test_a_chip_that_another_program_uses_gives_no_reading(said):
    bench = Bench(a0=1.0)
    device = bench.input()

    def steal(seconds):
        bench.clock.sleep(seconds)
        bench.bus.writeto(0x48, bytes((1, 0xE3, 0x83)))  # starts another input

    device._sleep = steal
    with said.raises(TransferError):
        device.read()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"channel": "4"}, "channel must be one of"),
        ({"points": ((1.0, 0.0), (1.0, 100.0))}, "both points have 1 V"),
    ],
)
def test_wrong_settings_are_refused(options, words):
    with pytest.raises(SettingError, match=words):
        Bench().input(**options)
