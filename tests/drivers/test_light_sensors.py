"""The BH1750, and what the drivers of the light sensors have in common."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_drivers.bh1750 import MAXIMUM_LUX
from growd_drivers.errors import OutOfRangeError
from support.chip_bench import LightBench


@pytest.mark.parametrize("kind", ["bh1750", "tsl2591"])
def test_darkness_and_light_that_jumps_while_the_range_is_searched_are_readings(kind):
    assert LightBench(kind).read(0.0) == 0.0
    bench = LightBench(kind)
    lights = iter([100.0, 60_000.0, 60_000.0])
    bench.chip._truth = lambda: next(lights)
    assert bench.driver.read().illuminance_lux == pytest.approx(100.0, abs=5)
    assert bench.driver.read().illuminance_lux == pytest.approx(60_000.0, rel=0.01)


@given(st.lists(st.floats(0, 118_000), min_size=1, max_size=6))
def test_any_light_after_any_other_is_read(lights):
    bench = LightBench("bh1750")
    for lux in lights:
        # one step of the range that the light falls in, and the chip's noise of five deviations
        step = 0.12 if lux < 3_700 else 0.9 if lux < 27_000 else 2.0
        assert bench.read(lux) == pytest.approx(lux, abs=step + 0.01 * lux)
    bench.bus.close()


def test_saturation_is_an_error_and_not_a_number():
    bench = LightBench("bh1750")
    bench.read(10.0)
    with pytest.raises(OutOfRangeError, match="BH1750 at 0x23 on I2C bus 1 is saturated") as caught:
        bench.read(MAXIMUM_LUX * 1.05)
    assert caught.value.maximum == pytest.approx(121_557, abs=1)
    assert bench.read(500.0) == pytest.approx(500.0, rel=0.01)


def test_steady_light_takes_one_measurement_a_reading():
    bench = LightBench("bh1750")
    bench.read(20_000.0)
    assert bench.seconds(20_000.0) == pytest.approx(0.180)
