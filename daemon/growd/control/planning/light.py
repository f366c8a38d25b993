"""The set point of the lamp that gives a day its light."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from growd.control.attainment import Attainment
from growd.control.derived.daylight import bin_at
from growd.control.planning.light_day import UMOL, LightStep, Window, level_for, level_in_the_dark, light_mol
from growd.control.planning.planner import Planner
from growd.variables import DAILY_LIGHT_INTEGRAL, ILLUMINANCE, PPFD

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus import Bus
    from growd.config.lamp_light import LampLight
    from growd.control.derived.node import Derivations

PERIOD_S: Final = 60.0
STEP: Final = 0.005  # of full light
TOLERANCE: Final = 0.02
"""The share of the set point of a day's light by which it may be missed."""

_PRESSED: Final = 0.8
"""The share of the lamp's light from which on the plan prefers too early over too late."""

_FULL: Final = 0.99
_SETTLED_S: Final = 60.0


class LightPlanner(Planner):
    """Gives the lamp the set point (lux) that follows from a set point of PPFD or of the daily integral.

    A day's light is planned for `window`, and for the times at which its set point is above 0, each minute
    anew. The lamp fills daylight up to a level which, with the brightest daylight of the last days, just
    gives what is missing: daylight cannot be taken back, but the lamp can be lit later. As far as it would
    have to be at its limit later, it is lit earlier. While the light is not known, the plan counts its own.

    The lamp is dark outside the window, and between `least` and `most` (PPFD) in it. `full_lux` returns its
    measured light at full level. A lamp that `is_switched` is at full light or dark.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        known: Derivations,
        lamp: LampLight,
        *,
        full_lux: Callable[[], float],
        window: Window | None = None,
        least: float = 0.0,
        most: float | None = None,
        is_switched: bool = False,
    ) -> None:
        self._known = known
        self._lamp = lamp
        self._full_lux = full_lux
        sources = [PPFD, DAILY_LIGHT_INTEGRAL]
        step = STEP * max(1.0, full_lux())
        super().__init__(bus, environment, ILLUMINANCE, sources, step=step, period_s=PERIOD_S)
        self.node.describe("attainment", self._attainment)
        self._window = window or Window()
        self._least = least
        self._most = most
        self._is_switched = is_switched
        self._is_on = False
        self._set_point_at: Callable[[str, float], float | None] = lambda source, _: self._wanted.get(source)
        self._strength = 1.0  # of the lamp, as a share of what it is configured or calibrated to
        self._full_since: float | None = None
        self._level = 0.0  # in force now
        self._assumed = 0.0  # mol/m2 of today while the light was not known
        self._planned_at = self._clock.monotonic()
        self._time_of_day = known.light.time_of_day_s
        self._bright: list[LightStep] = []  # the rest of the day with the brightest daylight
        self._usual: list[LightStep] = []  # with the daylight to expect

    def outlook_by(self, set_point_at: Callable[[str, float], float | None]) -> None:
        """Plan by the set points of the rest of the day that this returns, such as those of a recipe."""
        self._set_point_at = set_point_at

    def expected_mol(self) -> float | None:
        """The light that the day will have, None without a set point of it in force."""
        target = self._target()
        if target is None:
            return None
        return min(self._able_mol(), max(target, self._so_far() + light_mol(self._usual, self._least)))

    def _target(self) -> float | None:
        if self._is_direct or PPFD in self._wanted:
            return None
        return self._wanted.get(DAILY_LIGHT_INTEGRAL)

    def _set_point(self) -> float | None:
        self._follow_time()
        level = self._wanted.get(PPFD)
        if level is None:
            target = self._target()
            if target is None:
                return None
            self._look_ahead()
            level = self._level_now(target)
        self._level = level
        return self._lamp.lux(level, self._known.daylight_ppfd())

    def _follow_time(self) -> None:
        now, time_of_day = self._clock.monotonic(), self._known.light.time_of_day_s
        passed, self._planned_at = min(now - self._planned_at, 2 * PERIOD_S), now
        if time_of_day < self._time_of_day:
            self._assumed = 0.0
        self._time_of_day = time_of_day
        ppfd = self._known.ppfd()
        if ppfd is None:
            self._assumed += self._level * passed * UMOL
        self._judge_lamp(ppfd, now)

    def _judge_lamp(self, ppfd: float | None, now: float) -> None:
        """Learn how strong the lamp is while it is at full light; daylight can only make it look stronger."""
        if ppfd is None or self._known.lamp_share() < _FULL:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        elif now - self._full_since >= _SETTLED_S:
            self._strength = min(1.0, ppfd / self._full_ppfd())

    def _lamp_ppfd(self) -> float:
        """The light of the lamp at full level."""
        return self._full_lux() / self._lamp.lux_per_umol(self._lamp.usual_levels)

    def _full_ppfd(self) -> float:
        """The same, at most `most`."""
        return self._lamp_ppfd() if self._most is None else min(self._lamp_ppfd(), self._most)

    def _so_far(self) -> float:
        return self._known.light.integral_mol + self._assumed

    def _able_mol(self) -> float:
        """The light that the day has with the lamp at full light from now on, and the daylight to expect."""
        return self._so_far() + light_mol(self._usual, self._full_ppfd() * self._strength)

    def _look_ahead(self) -> None:
        brightest, expected = self._known.daylight.brightest(), self._known.daylight.expected()
        self._bright, self._usual = [], []
        for middle, seconds in self._window.steps(self._known.light.time_of_day_s):
            share, number = self._share(middle), bin_at(middle)
            self._bright.append(LightStep(seconds, share, brightest[number]))
            self._usual.append(LightStep(seconds, share, expected[number]))

    def _share(self, time_of_day: float) -> float:
        """The share of the level at a time of day, 0 while the lamp has to be dark."""
        share = self._window.share(time_of_day)
        if not share:
            return 0.0
        light = self._known.light
        wanted = self._set_point_at(DAILY_LIGHT_INTEGRAL, light.wall + time_of_day - light.time_of_day_s)
        return share if wanted else 0.0

    def _level_now(self, target: float) -> float:
        share = self._share(self._known.light.time_of_day_s)
        if not share:
            return 0.0
        missing, full = target - self._so_far(), self._full_ppfd()
        level = level_for(self._bright, missing, full)
        burden = level_in_the_dark(self._bright, missing) / (full * self._strength)
        pressed = min(1.0, max(0.0, (burden - _PRESSED) / (1.0 - _PRESSED)))
        level += pressed * (full - level)
        if self._is_switched:
            self._is_on = level > (0.0 if self._is_on else TOLERANCE * full)
            return full if self._is_on else 0.0
        return max(level, self._least) * share

    def _trouble(self) -> str:
        level, reached = self._wanted.get(PPFD, 0.0), self._lamp_ppfd() + self._known.daylight_ppfd()
        if (1.0 - TOLERANCE) * level > reached:
            wanted, most = self._shown(PPFD, level), self._shown(PPFD, reached)
            return f"{PPFD} cannot reach its set point {wanted}: with the lamp at full light it is {most}"
        target = self._target()
        if target is None or (able := self._able_mol()) >= (1.0 - TOLERANCE) * target:
            return ""
        least, most = self._shown(DAILY_LIGHT_INTEGRAL, able).split()[0], self._shown(PPFD, self._full_ppfd())
        wanted = self._shown(DAILY_LIGHT_INTEGRAL, target)
        weak = f" and gives {100 * self._strength:.0f} % of it" if self._strength < 1.0 - TOLERANCE else ""
        return (
            f"{DAILY_LIGHT_INTEGRAL} will reach {least} of {wanted} today: "
            f"the lamp has {most} at full light{weak}"
        )

    def _attainment(self) -> list[dict[str, Any]]:
        """Whether the set point of the day's light can be reached, if it is in force."""
        target = self._target()
        if target is None:
            return []
        text = (trouble := self._trouble()) or f"{DAILY_LIGHT_INTEGRAL} will reach its set point"
        state = Attainment.MISSED if trouble else Attainment.SETTLING
        numbers = {"value": self._known.light.integral_mol, "set_point": target, "is_lasting": bool(trouble)}
        about = {"environment": self._environment, "variable": DAILY_LIGHT_INTEGRAL}
        return [{**about, "state": str(state), "text": f"{self._environment}: {text}", **numbers}]
