"""A simulated machine whose time passes only during sleeps."""

from growd_hwsim.chamber import SimulatedChamber
from growd_hwsim.hardware import SimulatedHardware
from growd_hwsim.parameters import ChamberParameters


class SleepingTime:
    """`sleep` and `monotonic` for drivers and simulated chips; sleeping takes no real time."""

    def __init__(self, now=5_000.0):
        self.now = now

    def advance(self, seconds):
        """Let time pass."""
        self.now += seconds

    def sleep(self, seconds):
        """Let time pass, as drivers call it."""
        self.advance(seconds)

    def monotonic(self):
        return self.now


def simulated(time, *, daylight_lux=0.0, **options):
    """A machine in a chamber, without daylight by default."""
    chamber = SimulatedChamber(time.monotonic, ChamberParameters(daylight_lux=daylight_lux))
    return SimulatedHardware(chamber, sleep=time.sleep, monotonic=time.monotonic, **options)
