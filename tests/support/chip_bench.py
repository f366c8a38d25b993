"""A simulated chip on an I2C bus under its real driver."""

import inspect
from contextlib import suppress
from pkgutil import resolve_name

from growd.device_kinds import SENSOR_KINDS
from growd_drivers.errors import NotReadyError
from growd_drivers.i2c import I2CBus
from growd_hwsim.chamber import Air
from growd_hwsim.chip import SENSORS
from growd_hwsim.faults import Faults
from growd_hwsim.i2c import I2CAdapter, I2CKernel, smbus_over
from support.machine import SleepingTime

NEXT_S = 5.1
"""Any sensor of the air has a new measurement after this time."""


class ChipBench:
    """The driver of a kind of sensor, and at its address the chip of this or of another kind."""

    def __init__(self, kind, truth, *, chip="", chip_options=None, **options):
        self.clock = SleepingTime()
        self.chip = SENSORS[chip or kind](truth, self.clock.monotonic, **(chip_options or {}))
        self.faults = Faults(sleep=self.clock.sleep, monotonic=self.clock.monotonic)
        self.adapter = I2CAdapter(1, wire=self.faults.wire)
        self.address = SENSOR_KINDS[kind].addresses[0]
        self.connect()
        self.bus = I2CBus(smbus_over(I2CKernel({1: self.adapter})), number=1, speed_hz=lambda _: 50_000)
        driver = resolve_name(SENSOR_KINDS[kind].driver)
        if "monotonic" in inspect.signature(driver).parameters:
            options["monotonic"] = self.clock.monotonic
        self.driver = driver(self.bus, sleep=self.clock.sleep, **options)

    def connect(self):
        self.adapter.attach(self.address, self.chip)

    def disconnect(self):
        self.adapter.detach(self.address)


class AirBench(ChipBench):
    """A sensor of the air, and the air around it."""

    def __init__(self, kind, **options):
        self.air = Air(800.0, 25.0, 60.0)
        super().__init__(kind, lambda: self.air, **options)
        self.chip.follow_at_once()

    def start(self):
        """Let the driver set the chip up; then its first measurement is done."""
        with suppress(NotReadyError):
            self.driver.read()
        self.clock.advance(NEXT_S)

    def next(self):
        """The next sample."""
        self.clock.advance(NEXT_S)
        return self.driver.read()


class LightBench(ChipBench):
    """A light sensor, and the light that falls on it."""

    def __init__(self, kind, **chip_options):
        self.lux = 0.0
        super().__init__(kind, lambda: self.lux, chip_options=chip_options)

    def read(self, lux):
        """What the driver measures in this light."""
        self.lux = lux
        return self.driver.read().illuminance_lux

    def seconds(self, lux):
        """How long a measurement in this light takes."""
        before = self.clock.now
        self.read(lux)
        return self.clock.now - before
