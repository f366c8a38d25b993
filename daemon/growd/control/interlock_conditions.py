"""What each interlock goes by: when it trips, what it holds an output at, and when it lets go. No bus here.

The limit of CO2 is that for people, who open the door and breathe what comes out: 5000 ppm as an average of
eight hours is the permissible exposure limit of OSHA (29 CFR 1910.1000, table Z-1), the recommended one of
NIOSH (Pocket Guide to Chemical Hazards, carbon dioxide; of ten hours) and the threshold limit value of ACGIH
(TLV-TWA). For 15 minutes NIOSH and ACGIH allow 30 000 ppm (STEL). No crop gains by more than some 1500 ppm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from growd.control.calibration import MOST_PPM, SHUT_S, UNKNOWN, Correction
from growd.control.open_times import HOUR_S, DayHours, OpenTimes, RollingDose
from growd.runtime.text import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import tzinfo

    from growd.control.calibration import Calibration

CARBON_DIOXIDE: Final = "air_carbon_dioxide"
TEMPERATURE: Final = "air_temperature"
VALVE: Final = "air_carbon_dioxide_valve_on"
FAN: Final = "air_flush_on"

RELEASE_SHARE: Final = 0.9  # of the dose per hour: below it the valve may open again, and for a while
SAVED_SHARE: Final = 0.1  # of a limit: what may have been given since it was kept last
FORGET_S: Final = 900.0  # a valve that has been shut for so long begins anew to show that CO2 rises
SMOOTHED: Final = 3  # readings of which the middle one counts against noise and a spike
SEEN: Final = 5  # readings at least before it is said that CO2 did not rise
MARGIN_PPM: Final = 50.0  # below the set point by more than this, or than this share of it, is too low:
MARGIN_SHARE: Final = 0.05  # what a controller at work stays within
ENRICHED_PPM: Final = 700.0  # above that, CO2 comes from the valve; below it no set point proves that it does
HELD_SHARE: Final = 0.5  # of the time: a valve that is open for more of it does not hold so little,
HELD_LIMIT: Final = 2.0  # and times the limit, for CO2 that is almost there rises slowly
DAY_HOURS: Final = 24.0
QUIET_S: Final = 300.0  # of an input that is not known yet: the longest warm-up, an MH-Z19's, takes 240 s
_NEVER: Final[tuple[float | None, float]] = (None, 0.0)
WORTH_TELLING: Final = 0.8  # of the ceiling: that it trips at a reading below is told
UNREAD: Final = "what happened before the start has not been read yet"
CONFIRMED: Final = 2  # readings above the temperature, so that a spike switches no light

_UNCALIBRATED: Final = Correction()


class Readings:
    """What the sensors said last. What is not ok, or older than the limit of its variable, is not known."""

    def __init__(self, stale_after_s: Mapping[str, float]) -> None:
        self._stale_after = dict(stale_after_s)
        self._last: dict[str, dict[str, tuple[float | None, float]]] = {name: {} for name in stale_after_s}

    def take(self, variable: str, device: str, value: float | None, now: float) -> None:
        """Note what a sensor of a variable said, or, with `device` "", all of them together."""
        self._last[variable][device] = (value, now)

    def known(self, variable: str, now: float) -> dict[str, float]:
        """All that is known of a variable, by device."""
        limit = self._stale_after[variable]
        return {
            device: value
            for device, (value, came) in self._last[variable].items()
            if value is not None and now - came <= limit
        }

    def of(self, variable: str, now: float) -> float | None:
        """What the sensors say together, None if that is not known."""
        value, came = self._last[variable].get("", _NEVER)
        return value if value is not None and now - came <= self._stale_after[variable] else None


class Interlock(ABC):
    """One reason to hold outputs (`holds`, by their names) against whoever commands them.

    `reason` tells in plain words why it has tripped, and is "" while it has not. `reset_hint` says who resets
    it after what, for one that stays tripped until then. Times are seconds of a monotonic clock, `wall` is
    UNIX seconds.
    """

    reset_hint = ""

    def __init__(self, name: str, holds: Iterable[str], limits: Mapping[str, tuple[float, str]]) -> None:
        self.name = name
        self.holds = frozenset(holds)
        self.limits = dict(limits)
        """What it is configured to, with its unit: for people to read."""
        self.reason = ""
        self.is_quiet = False
        """It has tripped for no other reason than that growd has just started."""

    @property
    def needs_reset(self) -> bool:
        """Whether it holds until somebody resets it."""
        return bool(self.reason and self.reset_hint)

    @abstractmethod
    def update(self, now: float, wall: float) -> None:
        """Trip or let go, as things are now."""

    def hold(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002  what others go by
        """The level that an output has in place of `level` while this has tripped."""
        return 0.0

    def why_no_reset(self, now: float) -> str:  # noqa: ARG002  what others go by
        """Why nobody can reset it now, or ""."""
        return f"{self.name} lets go by itself"

    def reset(self) -> None:  # noqa: B027  most let go by themselves
        """Let go, as someone asks."""

    @property
    def problem(self) -> str:
        """What somebody should see to though it has not tripped, or ""."""
        return ""


class KeptInterlock(Interlock):
    """One whose state outlasts a restart. Until `restore` was called it has tripped."""

    def __init__(self, name: str, holds: Iterable[str], limits: Mapping[str, tuple[float, str]]) -> None:
        super().__init__(name, holds, limits)
        self._is_restored = False
        self._trip_unread(UNREAD)
        self.is_quiet = True

    @property
    def is_restored(self) -> bool:
        return self._is_restored

    @property
    def needs_reset(self) -> bool:
        return self._is_restored and super().needs_reset  # nobody can reset what is not known yet

    def unreadable(self, why: str) -> None:
        """What was kept can't be read so far."""
        if not self._is_restored:
            self._trip_unread(f"what happened before the start can't be read: {why}")
            self.is_quiet = False

    def restore(
        self, kept: Any, now: float, away: float, *, was_clean: bool, lost: str = "it can't be understood"
    ) -> bool:
        """Go on from what was kept `away` seconds ago (None: nothing), at the end of a run or in its midst.

        False if it can't be understood: the worst is assumed then, for the reason `lost`.
        """
        self._is_restored = True
        self.reason = ""
        self.is_quiet = False
        try:
            if kept is not None:
                self._restore(kept, now, away, was_clean=was_clean)
        except (TypeError, ValueError):
            self._assume_worst(now, lost)
            return False
        return True

    @abstractmethod
    def kept(self, now: float, *, as_reset: bool = False) -> Any:
        """What is to be kept, as JSON, or what would be after a reset."""

    @abstractmethod
    def note_kept(self) -> None:
        """What `kept` returned last is on the disk."""

    @abstractmethod
    def is_worth_keeping(self) -> bool:
        """Whether so much has happened since the last that is on the disk that this should be again."""

    @abstractmethod
    def _restore(self, kept: Any, now: float, away: float, *, was_clean: bool) -> None: ...

    @abstractmethod
    def _assume_worst(self, now: float, why: str) -> None: ...

    def _trip_unread(self, reason: str) -> None:
        self.reason = reason


class Ceiling(KeptInterlock):
    """CO2 above what people may breathe: the valve is shut, the exhaust fan runs.

    One sensor that says so is enough, or would say so without its calibrations: what a calibration took away
    is added again, here and for nobody else, and a restart does not forget it. It lets go when all that are
    known are below by the hysteresis. `sensors` are the names of the sensors of CO2.
    """

    def __init__(
        self,
        readings: Readings,
        holds: Iterable[str],
        ceiling_ppm: float,
        hysteresis_ppm: float,
        sensors: Sequence[str],
    ) -> None:
        limits = {"limit": (ceiling_ppm, "ppm"), "hysteresis": (hysteresis_ppm, "ppm")}
        self._is_high = False
        super().__init__("carbon_dioxide_ceiling", holds, limits)
        self._readings = readings
        self._ceiling = ceiling_ppm
        self._release = ceiling_ppm - hysteresis_ppm
        self._sensors = tuple(sensors)
        self._corrections: dict[str, Correction] = {}
        self._asked = self._on_disk = self._corrections

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        values = self._readings.known(CARBON_DIOXIDE, now)
        judged = {device: self._judged(device, value) for device, value in values.items()}
        highest = max(judged, key=judged.__getitem__, default=None)
        if highest is None:
            return  # it stays as it is: the valve is shut anyway while CO2 is not known
        if judged[highest] >= self._ceiling and not self._is_high:
            self._is_high, self.is_quiet = True, False
            self.reason = self._words(values[highest], judged[highest])
        elif judged[highest] < self._release and self._is_high:
            self._is_high, self.reason = False, ""
            if not self._is_restored:
                self._trip_unread(UNREAD)

    def hold(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        if output == FAN:
            return 1.0 if self._is_high else level
        return 0.0

    def judges(self, device: str) -> bool:
        """Whether it goes by this sensor."""
        return device in self._sensors

    def why_no_calibration(self, device: str, calibration: Calibration) -> str:
        """Why a sensor may not be calibrated so, or ""."""
        if not calibration.lowers or self._of(device).after(calibration).is_within():
            return ""
        return (
            f"all calibrations of {device} would take away more than {MOST_PPM:g} ppm or half of its "
            "readings, or are not known: replace the sensor, and give the new one another name in [[sensor]]"
        )

    def calibrated(self, device: str, calibration: Calibration) -> None:
        """Note that a sensor has been, or may have been, calibrated."""
        self._corrections = {**self._corrections, device: self._of(device).after(calibration)}

    def forget(self, corrections: Mapping[str, Correction]) -> None:
        """Go back to these, for the last calibration is not done."""
        self._corrections = dict(corrections)

    @property
    def corrections(self) -> Mapping[str, Correction]:
        """What calibrations did, by sensor."""
        return self._corrections

    @property
    def problem(self) -> str:
        trips = {name: self._of(name).reading_of(self._ceiling) for name in self._sensors}
        low = {name: ppm for name, ppm in trips.items() if ppm < WORTH_TELLING * self._ceiling}
        if not low:
            return ""
        where = " and ".join(f"{ppm:.0f} ppm of {name}" for name, ppm in low.items())
        return (
            f"the ceiling of {self._ceiling:g} ppm trips at {where}, because calibrations lowered its "
            "readings that much, or may have if their record is lost; check the sensor in fresh air, or "
            "replace it, and then give it another name in [[sensor]]"
        )

    def kept(self, now: float, *, as_reset: bool = False) -> Any:  # noqa: ARG002  it lets go by itself
        self._asked = self._corrections
        return {name: each.lines for name, each in self._corrections.items()}

    def note_kept(self) -> None:
        self._on_disk = self._asked

    def is_worth_keeping(self) -> bool:
        return self._corrections != self._on_disk

    def _restore(self, kept: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        if not isinstance(kept, dict):
            raise TypeError("corrections that are no table")
        self._corrections = {name: Correction.restored(lines) for name, lines in kept.items()}
        self._on_disk = self._corrections
        self._is_high = False

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self._corrections = dict.fromkeys(self._sensors, UNKNOWN)
        self._is_high = False

    def _trip_unread(self, reason: str) -> None:
        if not self._is_high:
            super()._trip_unread(reason)

    def _of(self, device: str) -> Correction:
        return self._corrections.get(device, _UNCALIBRATED)

    def _judged(self, device: str, value: float) -> float:
        """What is judged of a reading; that of several sensors together is one of theirs."""
        if not self._is_restored:
            return UNKNOWN.judged(value)
        if not device and len(self._sensors) == 1:
            device = self._sensors[0]
        return self._of(device).judged(value)

    def _words(self, value: float, judged: float) -> str:
        without = f", or {judged:.0f} ppm without its calibrations" if judged > value else ""
        return f"{CARBON_DIOXIDE} is {value:.0f} ppm{without}, and {self._ceiling:g} ppm is the most"


class OpenTooLong(Interlock):
    """The valve was open for too long at a stretch: it is shut for a rest."""

    def __init__(self, times: OpenTimes, longest_s: float, rest_s: float) -> None:
        limits = {"limit": (longest_s, "s"), "rest": (rest_s, "s")}
        super().__init__("valve_open_too_long", [VALVE], limits)
        self._times = times
        self._longest = longest_s
        self._rest = rest_s

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        if self._times.stretch(now) >= self._longest:
            self.reason = (
                f"the valve {_was_open(self._times, now, self._longest)} for {self._longest:g} s at a "
                "stretch, which is the longest; "
                f"it stays shut for {self._rest:g} s"
            )
        elif self._times.rest(now) >= self._rest:
            self.reason = ""


def _was_open(times: OpenTimes, now: float, within_s: float) -> str:
    """What can be said of a valve, of which nobody knows whether it is open while its pin refuses."""
    return "may have been open (its output failed)" if times.doubt(now) < within_s else "was open"


class DosePerHour(KeptInterlock):
    """The valve was open for too many seconds of the last hour, of all valves together.

    From `UNLIMITED_S` on there is no limit. With the flow of a valve (l/min) it is told in litres too. What
    may have been given since it was kept last counts as given after a run that did not end well.
    """

    UNLIMITED_S: Final = 3600.0

    def __init__(self, times: OpenTimes, limit_s: float, flow_l_min: float | None = None) -> None:
        limits = {"limit": (limit_s, "s")}
        if flow_l_min is not None:
            limits["limit_litres"] = (limit_s * flow_l_min / 60.0, "l")
        super().__init__("dose_per_hour", [VALVE], limits)
        self._times = times
        self._limit = limit_s
        self._flow = flow_l_min
        self._dose = RollingDose()
        self._counted = times.total(0.0)
        self._given = self._given_when_asked = self._given_when_kept = 0.0
        self._assumed = ""

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._count(now)
        if not self._is_restored or self._limit >= self.UNLIMITED_S:
            return
        dose = self._dose.within_hour(now)
        if dose >= self._limit and not self.reason:
            most = self._in_words(self._limit)
            self.reason = self._assumed or (
                f"the valve {_was_open(self._times, now, HOUR_S)} for {self._in_words(dose)} of the last "
                f"hour, and {most} is the most"
            )
        elif dose < RELEASE_SHARE * self._limit:
            self.reason = self._assumed = ""

    def why_not_shut(self, now: float) -> str:
        """Why a calibration has to wait, for the valve was open lately or may have been, or ""."""
        self._count(now)
        shut = 0.0 if self._times.is_open else self._dose.since(now)
        if shut >= SHUT_S:
            return ""
        return (
            f"the valve has been shut for {shut:.0f} s, and a calibration takes air that has been steady for "
            f"{SHUT_S:.0f} s: stop the recipe or release the set point, and wait"
        )

    def kept(self, now: float, *, as_reset: bool = False) -> Any:  # noqa: ARG002  it lets go by itself
        self._given_when_asked = self._given
        return self._dose.kept(now)

    def note_kept(self) -> None:
        self._given_when_kept = self._given_when_asked

    def is_worth_keeping(self) -> bool:
        return self._given - self._given_when_kept >= SAVED_SHARE * self._limit

    def _restore(self, kept: Any, now: float, away: float, *, was_clean: bool) -> None:
        self._dose.restore(kept, now, away)
        if not was_clean:
            self._dose.add(SAVED_SHARE * self._limit, now)

    def _assume_worst(self, now: float, why: str) -> None:
        self._dose.add(self._limit, now)
        self._assumed = (
            f"it is unknown how long the valve was open in the last hour ({why}), so the dose counts as used "
            "up; the valve may open again an hour after the start"
        )

    def _count(self, now: float) -> None:
        total = self._times.total(now)
        self._dose.add(total - self._counted, now)
        self._given += total - self._counted
        self._counted = total

    def _in_words(self, seconds: float) -> str:
        litres = "" if self._flow is None else f" ({seconds * self._flow / 60.0:.3g} l)"
        return f"{seconds:.0f} s{litres}"


class InputUnknown(Interlock):
    """A variable that outputs need is not known: its sensor is silent, faulty or warms up. They are safe.

    It is quiet about it for the first `QUIET_S`, in which any sensor may still warm up.
    """

    def __init__(self, readings: Readings, variable: str, holds: Iterable[str]) -> None:
        super().__init__(f"{variable}_unknown", holds, {})
        self._readings = readings
        self._variable = variable
        self.reason = f"{variable} has not been measured yet"
        self.is_quiet = True
        self._began: float | None = None

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._began = now if self._began is None else self._began
        if self._readings.of(self._variable, now) is not None:
            self.reason = ""
            self.is_quiet = False
        elif not self.reason or (self.is_quiet and now - self._began >= QUIET_S):
            self.is_quiet = False
            self.reason = f"{self._variable} is not known: its sensor is silent, faulty or warms up"

    def hold(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        return safe


@dataclass(slots=True)
class _Watch:
    """What was seen of CO2 since the valve began to be watched: its lowest, and for how long it was open."""

    lowest: float = math.inf
    open_s: float = 0.0
    readings: int = 0


class NoRise(KeptInterlock):
    """CO2 does not rise although the valve was open: an empty bottle, a stuck valve or an open chamber.

    It adds up the time that the valve was open (of its writes that are certain) since CO2 last rose by
    `rise_ppm` above its lowest, and trips at `open_s`. It counts nothing while all is well: while CO2 is
    above `ENRICHED_PPM` and not below its set point by more than a controller at work leaves it, and while
    CO2 that has risen stays up, for doses that only make good what leaves the chamber raise nothing. Below
    `ENRICHED_PPM` a set point that is met may ask for no more than the room has: there it excuses
    `HELD_SHARE` of the time, and `open_s` is twice as long. What was counted is forgotten when the valve has
    been shut for a quarter of an hour. The middle one of three readings counts, so that neither noise nor a
    spike is taken for a rise. The time in which the exhaust fan (`fans`) runs counts too, for else a fan
    would let a valve stay open in front of an open chamber; the reason names the fan then.
    """

    reset_hint = "check the bottle, its regulator, the valve, the tube and the door, then reset it"

    def __init__(
        self, times: OpenTimes, readings: Readings, *, open_s: float, rise_ppm: float, fans: OpenTimes
    ) -> None:
        limits = {"limit": (open_s, "s"), "rise": (rise_ppm, "ppm")}
        super().__init__("no_rise_after_dose", [VALVE], limits)
        self._times = times
        self._fans = fans
        self._readings = readings
        self._limit = open_s
        self._rise = rise_ppm
        self._counted = times.certain_total(0.0)
        self._recent: deque[float] = deque(maxlen=SMOOTHED)
        self._watch = _Watch()
        self._risen_to: float | None = None
        self._saw_at = 0.0
        self._is_held = False
        self._set_point: float | None = None
        self._reason_when_asked = self._reason_when_kept = ""

    def want(self, set_point: float | None) -> None:
        """Note the set point of CO2 in ppm, None for none."""
        self._set_point = set_point

    def saw(self, value: float, now: float) -> None:
        """Note a reading of CO2 in ppm."""
        self._recent.append(value)
        level = median(self._recent)
        self._count(now)
        since, self._saw_at = now - self._saw_at, now
        if self._risen_to is not None and level >= self._risen_to - self._rise:
            self._risen_to = max(self._risen_to, level)  # what has risen stays up
            self._watch = _Watch()
            return
        self._risen_to = None
        watch = self._watch
        watch.lowest = min(watch.lowest, level)
        watch.readings += 1
        if level >= watch.lowest + self._rise:
            self._risen_to = level
        if self._risen_to is not None or self._is_enough(level):
            self._watch = _Watch(lowest=level)
        self._is_held = self._is_as_wanted(level)
        if self._is_held:
            watch.open_s = max(0.0, watch.open_s - HELD_SHARE * since)

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._count(now)
        limit = self._limit * (HELD_LIMIT if self._is_held else 1.0)
        if self._is_restored and self._watch.open_s >= limit and self._watch.readings >= SEEN:
            self._trip(
                f"the valve was open for {self._watch.open_s:.0f} s, and {CARBON_DIOXIDE} did not rise by "
                f"{self._rise:g} ppm: {self._possible_causes(now)}"
            )

    def _possible_causes(self, now: float) -> str:
        causes = "the bottle may be empty, the valve stuck or the chamber open"
        if self._fans.rest(now) >= FORGET_S:
            return causes
        when = "runs" if self._fans.is_open else f"ran until {duration(self._fans.rest(now))} ago"
        return f"{causes}, or the exhaust fan took the CO2 away, which {when}"

    def why_no_reset(self, now: float) -> str:
        if not self._is_restored:
            return self.reason
        if not self.reason:
            return f"{self.name} has not tripped"
        if self._readings.of(CARBON_DIOXIDE, now) is None:
            return f"{CARBON_DIOXIDE} is not known, so nobody could see it rise"
        return ""

    def reset(self) -> None:
        self.reason = ""
        self._watch, self._risen_to = _Watch(), None

    def kept(self, now: float, *, as_reset: bool = False) -> Any:  # noqa: ARG002
        self._reason_when_asked = "" if as_reset else self.reason
        return self._reason_when_asked

    def note_kept(self) -> None:
        self._reason_when_kept = self._reason_when_asked

    def is_worth_keeping(self) -> bool:
        return self.reason != self._reason_when_kept

    def _restore(self, kept: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        if not isinstance(kept, str):
            raise TypeError("a reason that is no text")
        self.reason = self._reason_when_kept = kept

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self._trip(f"it may have tripped before the start: {why}")

    def _trip(self, reason: str) -> None:
        if not self.reason:
            self.reason = reason

    def _is_enough(self, level: float) -> bool:
        """Whether CO2 is above that of any room, and about where it is wanted if that is anywhere."""
        return level >= ENRICHED_PPM and (self._set_point is None or self._is_as_wanted(level))

    def _is_as_wanted(self, level: float) -> bool:
        wanted = self._set_point
        return wanted is not None and level >= wanted - max(MARGIN_PPM, MARGIN_SHARE * wanted)

    def _count(self, now: float) -> None:
        total = self._times.certain_total(now)
        if self._readings.of(CARBON_DIOXIDE, now) is not None:  # else nobody could see it rise
            self._watch.open_s += total - self._counted
        self._counted = total
        if self._times.rest(now) >= FORGET_S:
            self._watch.open_s = 0.0


class TooWarm(Interlock):
    """The air is too warm for more light: the lamp is off until it has cooled down by the hysteresis."""

    def __init__(
        self, readings: Readings, holds: Iterable[str], limit_degc: float, hysteresis_degc: float
    ) -> None:
        limits = {"limit": (limit_degc, "degC"), "hysteresis": (hysteresis_degc, "degC")}
        super().__init__("light_over_temperature", holds, limits)
        self._readings = readings
        self._limit = limit_degc
        self._release = limit_degc - hysteresis_degc
        self._recent: deque[float] = deque(maxlen=CONFIRMED)

    def saw(self, value: float) -> None:
        """Note a reading of the temperature in degC."""
        self._recent.append(value)

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        value = self._readings.of(TEMPERATURE, now)
        if value is None:
            self._recent.clear()  # one from before an outage confirms none after it
        if value is None or len(self._recent) < CONFIRMED:
            return  # it stays as it is: a lamp that was too warm is not lit because its sensor fails
        if min(self._recent) >= self._limit and not self.reason:
            self.reason = f"{TEMPERATURE} is {value:.1f} degC, and {self._limit:g} degC is the most for light"
        elif max(self._recent) < self._release:
            self.reason = ""


class LitTooLong(KeptInterlock):
    """The light was on for so many hours of the day of `zone` as it may be. From 24 on there is no limit."""

    def __init__(
        self, times: OpenTimes, holds: Iterable[str], hours: float, zone: tzinfo | None = None
    ) -> None:
        super().__init__("light_hours", holds, {"limit": (hours, "h")})
        self._times = times
        self._hours = hours
        self._day = DayHours(zone)
        self._updated = -math.inf
        self._lit = self._lit_when_asked = self._lit_when_kept = 0.0
        self._assumed = ""
        if hours >= DAY_HOURS:
            self._is_restored, self.reason, self.is_quiet = True, "", False

    def update(self, now: float, wall: float) -> None:
        if self._hours >= DAY_HOURS:
            return
        lit = min(now - self._updated, self._times.stretch(now))
        self._updated = now
        self._lit += lit
        self._day.add(lit, wall)
        if not self._is_restored:
            return
        is_over = self._day.seconds(wall) >= self._hours * 3600.0
        if not is_over:
            self.reason = self._assumed = ""
        elif not self.reason:
            self.reason = self._assumed or (
                f"the light was on for {self._hours:g} h of this day, which is the most; it may be again "
                "tomorrow"
            )

    def kept(self, now: float, *, as_reset: bool = False) -> Any:  # noqa: ARG002  it lets go by itself
        self._lit_when_asked = self._lit
        return self._day.kept()

    def note_kept(self) -> None:
        self._lit_when_kept = self._lit_when_asked

    def is_worth_keeping(self) -> bool:
        is_limited = self._hours < DAY_HOURS
        return is_limited and self._lit - self._lit_when_kept >= SAVED_SHARE * self._hours * 3600.0

    def _restore(self, kept: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        self._day.restore(kept)
        if not was_clean:
            self._day.add(SAVED_SHARE * self._hours * 3600.0, 0.0)

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self._day.add(self._hours * 3600.0, 0.0)
        self._assumed = (
            f"it is unknown how long the light was on today ({why}), so its {self._hours:g} h count as used "
            "up; it may be on again tomorrow"
        )
