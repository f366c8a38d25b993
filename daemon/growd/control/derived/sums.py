"""Sums over time: the light of a day, and the degree days of a run of a recipe."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from growd.control.interlocks.wall_time import OnTimeOfDay, SteadyWallClock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

    from growd.runtime.clock import Clock

DAY_S: Final = 86_400.0
_UMOL: Final = 1e-6  # mol
DAY_UMOL: Final = 2.0
"""PPFD from which on it is day for plants, in umol/m2/s."""

_MOST_DEGREE_DAYS: Final = 1e5


class LightOfDay:
    """The light since local midnight in `zone` (None: the machine's), and the time without a known PPFD.

    It continues over restarts. The time for which growd was not running, or the light was not known, is not
    made up: it counts as missing.
    """

    def __init__(self, clock: Clock, zone: tzinfo | None) -> None:
        self._clock = clock
        self._zone = zone
        self._wall = SteadyWallClock(clock)
        self._photons, self._lit, self._missing = (OnTimeOfDay(zone) for _ in range(3))
        self._add_missing(self.time_of_day_s)  # before growd ran for the first time

    def follow(self) -> None:
        """Follow the wall clock. Call it often."""
        self._wall.follow()

    @property
    def wall(self) -> float:
        """UNIX seconds now."""
        return self._wall.time(self._clock.monotonic())

    @property
    def time_of_day_s(self) -> float:
        """Seconds since local midnight, as a clock shows them."""
        local = datetime.fromtimestamp(self.wall, self._zone)
        return local.hour * 3_600.0 + local.minute * 60.0 + local.second + local.microsecond * 1e-6

    @property
    def integral_mol(self) -> float:
        """The photons so far, in mol/m2."""
        return self._photons.seconds(self.wall)

    @property
    def lit_h(self) -> float:
        """The hours of light so far."""
        return self._lit.seconds(self.wall) / 3_600.0

    @property
    def missing_s(self) -> float:
        """The seconds of this day whose light is not in the sums."""
        return self._missing.seconds(self.wall)

    def add(self, ppfd: float, seconds: float) -> None:
        """Add the light (umol/m2/s) of the seconds that end now."""
        self._photons.add(ppfd * seconds * _UMOL, self.wall)
        self._lit.add(seconds if ppfd >= DAY_UMOL else 0.0, self.wall)

    def add_unknown(self, seconds: float) -> None:
        """Add seconds that end now, whose light is not known."""
        self._add_missing(min(seconds, self.time_of_day_s))

    def state(self) -> dict[str, Any]:
        """The state to save."""
        sums = {"photons": self._photons.state(), "lit": self._lit.state(), "missing": self._missing.state()}
        return {"clock": self._wall.state(), **sums}

    def restore(self, saved: Mapping[str, Any]) -> float:
        """Continue from a saved state. Returns the seconds that growd was away, 0 where that is unknown.

        Raises KeyError, TypeError or ValueError if the state is invalid.
        """
        photons, lit, missing = (OnTimeOfDay(self._zone) for _ in range(3))
        photons.restore(saved["photons"])
        lit.restore(saved["lit"])
        missing.restore(saved["missing"])
        away = self._wall.restore(saved["clock"])
        self._photons, self._lit, self._missing = photons, lit, missing
        self.add_unknown(away)
        return away

    def _add_missing(self, seconds: float) -> None:
        self._missing.add(seconds, self.wall)


class DegreeDays:
    """Growing degree days of a run: the integral of the temperature above a base (degC d).

    McMaster and Wilhelm (1997, Agric. For. Meteorol. 87:291) with the mean of each moment in place of that of
    a day's extremes; a temperature below the base adds nothing.
    """

    def __init__(self, base_degc: float) -> None:
        self._base = base_degc
        self.total = 0.0
        self.missing_s = 0.0
        self.run = 0.0
        """The start of the run (UNIX seconds) that it counts, 0 before the first."""

    def begin(self, run: float, missing_s: float = 0.0) -> None:
        """Count from 0, for the run that began at `run`."""
        self.run, self.total, self.missing_s = run, 0.0, missing_s

    def add(self, temperature_degc: float, seconds: float) -> None:
        """Add seconds at a temperature."""
        self.total += max(0.0, temperature_degc - self._base) * seconds / DAY_S

    def add_unknown(self, seconds: float) -> None:
        """Add seconds without a known temperature."""
        self.missing_s += seconds

    def state(self) -> list[float]:
        """The state to save."""
        return [self.run, self.total, self.missing_s]

    def restore(self, saved: Any) -> None:
        """Continue from a saved state. Raises TypeError or ValueError if it is invalid."""
        run, total, missing_s = map(float, saved)
        if not (0 <= total < _MOST_DEGREE_DAYS and missing_s >= 0):
            raise ValueError("the sum is out of range")
        self.run, self.total, self.missing_s = run, total, missing_s
