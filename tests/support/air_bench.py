"""A sensor of the air under its real driver, on a simulated bus."""

import inspect
from contextlib import suppress

from growd_drivers.bme280 import Bme280
from growd_drivers.errors import NotReadyError
from growd_drivers.i2c import I2CBus
from growd_drivers.scd4x import Scd4x
from growd_drivers.scd30 import Scd30
from growd_drivers.sht3x import Sht3x
from growd_drivers.sht4x import Sht4x
from growd_hwsim.chamber import Air
from growd_hwsim.chip import SENSORS
from growd_hwsim.faults import Faults
from growd_hwsim.i2c import I2CAdapter, I2CKernel, smbus_over
from support.machine import SleepingTime

DRIVERS = {"scd30": Scd30, "scd4x": Scd4x, "sht3x": Sht3x, "sht4x": Sht4x, "bme280": Bme280}
"""By the name of the simulated chip."""

NEXT_S = 5.1
"""Any of them has a new measurement after this time."""


class AirBench:
    """The chip, its driver, and the air around it."""

    def __init__(self, name, *, chip_options=None, **options):
        self.clock = SleepingTime()
        self.air = Air(800.0, 25.0, 60.0)
        self.chip = SENSORS[name](lambda: self.air, self.clock.monotonic, **(chip_options or {}))
        self.chip.follow_at_once()
        self.faults = Faults(sleep=self.clock.sleep, monotonic=self.clock.monotonic)
        self.adapter = I2CAdapter(1, wire=self.faults.wire)
        driver = DRIVERS[name]
        parameters = inspect.signature(driver).parameters
        self.address = parameters["address"].default
        self.connect()
        self.bus = I2CBus(smbus_over(I2CKernel({1: self.adapter})), number=1, speed_hz=lambda _: 50_000)
        if "monotonic" in parameters:
            options["monotonic"] = self.clock.monotonic
        self.driver = driver(self.bus, sleep=self.clock.sleep, **options)

    def connect(self):
        self.adapter.attach(self.address, self.chip)

    def disconnect(self):
        self.adapter.detach(self.address)

    def start(self):
        """Let the driver set the chip up; then its first measurement is done."""
        with suppress(NotReadyError):
            self.driver.read()
        self.clock.advance(NEXT_S)

    def next(self):
        """The next sample."""
        self.clock.advance(NEXT_S)
        return self.driver.read()
