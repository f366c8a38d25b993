"""A light sensor under its real driver, on a simulated bus."""

from functools import partial

from growd_drivers.bh1750 import Bh1750
from growd_drivers.i2c import I2CBus
from growd_drivers.tsl2591 import Tsl2591
from growd_hwsim.chips.bh1750 import SimulatedBh1750
from growd_hwsim.chips.tsl2591 import SimulatedTsl2591
from growd_hwsim.faults import Faults
from growd_hwsim.i2c import I2CAdapter, I2CKernel, smbus_over
from support.machine import SleepingTime


class LightBench:
    """The chip, its driver, and the light that falls on it."""

    def __init__(self, chip, driver, address, **options):
        self.clock = SleepingTime()
        self.lux = 0.0
        self.chip = chip(lambda: self.lux, self.clock.monotonic, **options)
        self.faults = Faults(sleep=self.clock.sleep, monotonic=self.clock.monotonic)
        self.adapter = I2CAdapter(1, wire=self.faults.wire)
        self.address = address
        self.connect()
        self.bus = I2CBus(smbus_over(I2CKernel({1: self.adapter})), number=1)
        self.driver = driver(self.bus, sleep=self.clock.sleep)

    def connect(self):
        self.adapter.attach(self.address, self.chip)

    def read(self, lux):
        """What the driver measures in this light."""
        self.lux = lux
        return self.driver.read().illuminance_lux

    def seconds(self, lux):
        """How long a measurement in this light takes."""
        before = self.clock.now
        self.read(lux)
        return self.clock.now - before


bh1750_bench = partial(LightBench, SimulatedBh1750, Bh1750, 0x23)
tsl2591_bench = partial(LightBench, SimulatedTsl2591, Tsl2591, 0x29)
