from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growd_drivers.bh1750 import MAXIMUM_LUX, Bh1750
from growd_drivers.errors import DeviceMissingError, OutOfRangeError
from growd_drivers.i2c import I2CBus
from growd_hwsim.chips.bh1750 import SimulatedBh1750
from growd_hwsim.i2c import I2CAdapter, I2CKernel, smbus_over
from support.machine import SleepingTime


class Bench:
    def __init__(self) -> None:
        self.clock = SleepingTime()
        self.lux = 0.0
        self.chip = SimulatedBh1750(lambda: self.lux, self.clock.monotonic)
        self.adapter = I2CAdapter(1)
        self.adapter.attach(0x23, self.chip)
        self.bus = I2CBus(smbus_over(I2CKernel({1: self.adapter})), number=1)
        self.driver = Bh1750(self.bus, sleep=self.clock.sleep)

    def read(self, lux: float) -> float:
        self.lux = lux
        return self.driver.read().illuminance_lux


@settings(deadline=None)
@given(st.lists(st.floats(0, 118_000), min_size=1, max_size=6))
def test_any_light_after_any_other_is_read(lights):
    bench = Bench()
    for lux in lights:
        # one step of the range that the light falls in, and the chip's noise of five deviations
        step = 0.12 if lux < 3_700 else 0.9 if lux < 27_000 else 2.0
        assert bench.read(lux) == pytest.approx(lux, abs=step + 0.01 * lux)
    bench.bus.close()


def test_darkness_is_zero():
    assert Bench().read(0.0) == 0.0


def test_saturation_is_an_error_and_not_a_number():
    bench = Bench()
    bench.read(10.0)
    with pytest.raises(OutOfRangeError, match="BH1750 at 0x23 on I2C bus 1 is saturated") as caught:
        bench.read(MAXIMUM_LUX * 1.05)
    assert caught.value.maximum == pytest.approx(121_557, abs=1)
    assert bench.read(500.0) == pytest.approx(500.0, rel=0.01)


def test_steady_light_takes_one_measurement_a_reading():
    bench = Bench()
    bench.read(20_000.0)
    before = bench.clock.now
    bench.read(20_000.0)
    assert bench.clock.now - before == pytest.approx(0.180)


def test_a_chip_that_lost_power_between_readings_is_read_right():
    bench = Bench()
    bench.read(300.0)
    bench.chip.power_cycle()
    assert bench.read(300.0) == pytest.approx(300.0, rel=0.01)


def test_light_that_jumps_while_the_range_is_searched_is_still_a_reading():
    bench = Bench()
    lights = iter([100.0, 60_000.0, 60_000.0])
    bench.chip._illuminance = lambda: next(lights)
    assert bench.driver.read().illuminance_lux == pytest.approx(100.0, abs=3)
    assert bench.driver.read().illuminance_lux == pytest.approx(60_000.0, rel=0.01)


def test_an_absent_chip_is_missing_until_it_is_connected_again():
    bench = Bench()
    bench.adapter.detach(0x23)
    with pytest.raises(DeviceMissingError, match="BH1750"):
        bench.read(100.0)
    bench.adapter.attach(0x23, bench.chip)
    assert bench.read(100.0) == pytest.approx(100.0, rel=0.01)
