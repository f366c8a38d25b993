"""What the drivers of the light sensors have in common."""

import pytest

from support.light_bench import bh1750_bench, tsl2591_bench


@pytest.fixture(params=[bh1750_bench, tsl2591_bench], ids=["BH1750", "TSL2591"])
def bench(request):
    return request.param()


def test_darkness_is_zero(bench):
    assert bench.read(0.0) == 0.0


def test_light_that_jumps_while_the_range_is_searched_is_still_a_reading(bench):
    lights = iter([100.0, 60_000.0, 60_000.0])
    bench.chip._truth = lambda: next(lights)
    assert bench.driver.read().illuminance_lux == pytest.approx(100.0, abs=5)
    assert bench.driver.read().illuminance_lux == pytest.approx(60_000.0, rel=0.01)
