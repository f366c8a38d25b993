"""The interlocks of the CO2 valve.

The CO2 ceiling protects people, who open the door and breathe the air. 5000 ppm averaged over eight hours is
the permissible exposure limit of OSHA (29 CFR 1910.1000, table Z-1), the recommended limit of NIOSH (Pocket
Guide to Chemical Hazards, carbon dioxide; ten hours) and the threshold limit value of ACGIH (TLV-TWA). For 15
minutes NIOSH and ACGIH allow 30 000 ppm (STEL). No crop gains above some 1500 ppm.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from growd.control.calibration import MOST_PPM, SHUT_S, UNKNOWN, Correction
from growd.control.interlocks.base import SAVED_SHARE, UNREAD, Interlock, PersistentInterlock
from growd.control.interlocks.on_times import HOUR_S, RollingDose
from growd.runtime.text import duration
from growd.variables import CARBON_DIOXIDE, FAN, VALVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from growd.control.calibration import Calibration
    from growd.control.interlocks.base import SensorReadings
    from growd.control.interlocks.on_times import OnTimes

RELEASE_SHARE: Final = 0.9
"""Share of the dose per hour: below it the valve may open again, so that it does not chatter at the limit."""
FORGET_S: Final = 900.0  # a valve shut for this long starts the count of `NoRise` again
SMOOTHED: Final = 3  # readings in the running median, against noise and spikes
MIN_READINGS: Final = 5  # before "did not rise" is concluded
MARGIN_PPM: Final = 50.0
MARGIN_SHARE: Final = 0.05
"""CO2 counts as too low if it is below its set point by more than the larger of the two margins. A working
controller stays within them."""
ENRICHED_PPM: Final = 700.0
"""Above this, CO2 must come from the valve. Below, a met set point proves nothing."""
HELD_SHARE: Final = 0.5  # share of the time credited while the set point is met below `ENRICHED_PPM`
HELD_LIMIT: Final = (
    2.0  # the limit is this many times longer there, since CO2 near its set point rises slowly
)
NOTABLE_SHARE: Final = 0.8  # of the ceiling: a trip below this reading is reported as a problem

_UNCALIBRATED: Final = Correction()
_UNSAVED: Final = "growd ended without saving how long"
_EARLIER: Final = "it was not known for sure before the last start"


class CarbonDioxideCeiling(PersistentInterlock):
    """CO2 above the limit for people: the valve is shut and the exhaust fan runs.

    One sensor above the limit is enough, also if only its reading without calibrations is above. It releases
    when all known readings are below the limit by the hysteresis. The corrections for calibrations survive a
    restart. `sensors` are the names of the CO2 sensors.
    """

    def __init__(
        self,
        readings: SensorReadings,
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
        self._in_state = self._saved = self._corrections

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        values = self._readings.known(CARBON_DIOXIDE, now)
        judged = {device: self._judged(device, value) for device, value in values.items()}
        highest = max(judged, key=judged.__getitem__, default=None)
        if highest is None:
            return  # unchanged: the valve is shut anyway while CO2 is unknown
        if judged[highest] >= self._ceiling and not self._is_high:
            self._is_high, self.is_quiet = True, False
            self.reason = self._why(values[highest], judged[highest])
        elif judged[highest] < self._release and self._is_high:
            self._is_high, self.reason = False, ""
            if not self._is_restored:
                self._trip_unread(UNREAD)

    def hold(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        if output == FAN:
            return 1.0 if self._is_high else level
        return 0.0

    def uses(self, device: str) -> bool:
        """Whether it judges the readings of this sensor."""
        return device in self._sensors

    def why_no_calibration(self, device: str, calibration: Calibration) -> str:
        """Why a sensor may not be calibrated like this, or ""."""
        if not calibration.lowers or self._correction(device).after(calibration).is_within():
            return ""
        return (
            f"all calibrations of {device} together would lower its readings by more than {MOST_PPM:g} ppm "
            "or by half, or they are unknown: replace the sensor, and give the new one another name in "
            "[[sensor]]"
        )

    def calibrated(self, device: str, calibration: Calibration) -> None:
        """Record that a sensor was calibrated, or may have been."""
        self._corrections = {**self._corrections, device: self._correction(device).after(calibration)}

    def undo_calibration(self, corrections: Mapping[str, Correction]) -> None:
        """Return to earlier corrections, since the last calibration was not done."""
        self._corrections = dict(corrections)

    @property
    def corrections(self) -> Mapping[str, Correction]:
        """The effect of all calibrations, by sensor."""
        return self._corrections

    @property
    def calibrations(self) -> dict[str, dict[str, float]]:
        """The line from the reading of each calibrated sensor to the uncalibrated one, as its manual says."""
        lines = {name: each.lines[2] for name, each in self._corrections.items()}
        return {name: {"slope": slope, "offset_ppm": offset} for name, (slope, offset) in lines.items()}

    @property
    def problem(self) -> str:
        trips = {name: self._correction(name).reading_of(self._ceiling) for name in self._sensors}
        low = {name: ppm for name, ppm in trips.items() if ppm < NOTABLE_SHARE * self._ceiling}
        if not low:
            return ""
        where = " and ".join(f"{ppm:.0f} ppm of {name}" for name, ppm in low.items())
        return (
            f"the ceiling of {self._ceiling:g} ppm trips at {where}, because calibrations lowered its "
            "readings, or because their record is lost; check the sensor in fresh air, or replace it and "
            "give the new one another name in [[sensor]]"
        )

    def state(self, now: float, *, as_reset: bool = False) -> Any:  # noqa: ARG002  releases by itself
        self._in_state = self._corrections
        return {name: each.lines for name, each in self._corrections.items()}

    def mark_saved(self) -> None:
        self._saved = self._in_state

    def needs_saving(self) -> bool:
        return self._corrections != self._saved

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        if not isinstance(saved, dict):
            raise TypeError("the corrections are not an object")
        self._corrections = {name: Correction.restored(lines) for name, lines in saved.items()}
        self._saved = self._corrections
        self._is_high = False

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self._corrections = dict.fromkeys(self._sensors, UNKNOWN)
        self._is_high = False

    def _trip_unread(self, reason: str) -> None:
        if not self._is_high:
            super()._trip_unread(reason)

    def _correction(self, device: str) -> Correction:
        return self._corrections.get(device, _UNCALIBRATED)

    def _judged(self, device: str, value: float) -> float:
        """The CO2 to assume for a reading, in ppm."""
        if not self._is_restored:
            return UNKNOWN.judged(value)
        if not device and len(self._sensors) == 1:
            device = self._sensors[0]
        return self._correction(device).judged(value)

    def _why(self, value: float, judged: float) -> str:
        without = f" ({judged:.0f} ppm without its calibrations)" if judged > value else ""
        return (
            f"{CARBON_DIOXIDE} was {value:.0f} ppm{without} at the trip; the limit is {self._ceiling:g} ppm; "
            f"releases below {self._release:g} ppm"
        )


class ValveOpenTooLong(Interlock):
    """The valve was open for too long without a pause: it is shut for a rest."""

    def __init__(self, times: OnTimes, longest_s: float, rest_s: float) -> None:
        limits = {"limit": (longest_s, "s"), "rest": (rest_s, "s")}
        super().__init__("valve_open_too_long", [VALVE], limits)
        self._times = times
        self._longest = longest_s
        self._rest = rest_s
        self._trip = ""  # what happened, "" before a trip

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        if self._times.stretch(now) >= self._longest:
            was_open = _was_open(self._times, now, self._longest)
            self._trip = f"the valve {was_open} for {self._longest:g} s without a pause, which is the limit"
        elif self._times.rest(now) >= self._rest:
            self._trip = ""
        self.reason = f"{self._trip}; {self._outlook(now)}" if self._trip else ""

    def _outlook(self, now: float) -> str:
        if self._times.doubt(now) > 0:
            return f"it stays closed for {self._rest:g} s"
        return (
            f"it may be open until its output works: close the bottle; it is then closed for {self._rest:g} s"
        )


def _was_open(times: OnTimes, now: float, within_s: float) -> str:
    """A valve whose pin refuses writes may be open or shut."""
    return "may have been open (its output failed)" if times.doubt(now) < within_s else "was open"


class DosePerHour(PersistentInterlock):
    """All valves together were open for too many seconds of the last hour.

    `UNLIMITED_S` or more means no limit. With `flow_l_min` the messages name litres too. After an unclean end
    the dose since the last save counts as given.
    """

    UNLIMITED_S: Final = 3600.0

    def __init__(self, times: OnTimes, limit_s: float, flow_l_min: float | None = None) -> None:
        limits = {"limit": (limit_s, "s")}
        if flow_l_min is not None:
            limits["limit_litres"] = (limit_s * flow_l_min / 60.0, "l")
        super().__init__("dose_per_hour", [VALVE], limits)
        self._times = times
        self._limit = limit_s
        self._flow = flow_l_min
        self._dose = RollingDose()
        self._counted = times.total(0.0)
        self._given = self._given_in_state = self._given_when_saved = 0.0
        self._assumed = ""
        self._uncertain_at = -math.inf  # monotonic, when a part of the dose was assumed
        self._uncertain_why = _UNSAVED

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._count(now)
        if not self._is_restored or self._limit >= self.UNLIMITED_S:
            return
        dose = self._dose.within_hour(now)
        if dose >= self._limit and not self.reason:
            self.reason = self._assumed or (
                f"the valve {self._was_open(now)} for {self._amount(dose)} of the last hour at the trip; "
                f"the limit is {self._amount(self._limit)}; "
                f"releases below {self._amount(RELEASE_SHARE * self._limit)}"
            )
        elif dose < RELEASE_SHARE * self._limit:
            self.reason = self._assumed = ""

    def shut_in_s(self, now: float) -> float | None:
        """How long a calibration has to wait, if the valve stays shut; None while it is open."""
        self._count(now)
        return None if self._times.is_on else max(0.0, SHUT_S - self._dose.since(now))

    def why_not_shut(self, now: float) -> str:
        """Why a calibration has to wait after the valve was open, or ""."""
        self._count(now)
        shut = 0.0 if self._times.is_on else self._dose.since(now)
        if shut >= SHUT_S:
            return ""
        state = f"has been closed for {shut:.0f} s"
        if self._times.is_on:
            state = "is open" if self._times.doubt(now) > 0 else "may be open (its output failed)"
        return (
            f"the valve {state}, and a calibration needs steady air for {SHUT_S:.0f} s: "
            "stop the recipe or release the set point, and wait"
        )

    def state(self, now: float, *, as_reset: bool = False) -> Any:  # noqa: ARG002  releases by itself
        self._given_in_state = self._given
        age = min(now - self._uncertain_at, self._times.doubt(now))
        doubt = [[age, 0.0]] if age < HOUR_S else []  # an amount of 0 marks an uncertain dose
        return [*self._dose.state(now), *doubt]

    def mark_saved(self) -> None:
        self._given_when_saved = self._given_in_state

    def needs_saving(self) -> bool:
        return self._given - self._given_when_saved >= SAVED_SHARE * self._limit

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:
        self._dose.restore((each for each in saved if each[1:] != [0.0]), now, away)
        ages = [float(age) for age, amount in saved if amount == 0]
        if not was_clean:
            self._dose.add(SAVED_SHARE * self._limit, now)
            self._uncertain_at = now
        elif ages:
            self._uncertain_at, self._uncertain_why = now - away - min(ages), _EARLIER

    def _assume_worst(self, now: float, why: str) -> None:
        self._dose.add(self._limit, now)
        self._assumed = (
            f"how long the valve was open in the last hour is unknown ({why}), so the dose counts as used "
            "up; the valve can open again an hour after the start"
        )

    def _was_open(self, now: float) -> str:
        if now - self._uncertain_at < HOUR_S:
            return f"may have been open ({self._uncertain_why})"
        return _was_open(self._times, now, HOUR_S)

    def _count(self, now: float) -> None:
        total = self._times.total(now)
        self._dose.add(total - self._counted, now)
        self._given += total - self._counted
        self._counted = total

    def _amount(self, seconds: float) -> str:
        litres = "" if self._flow is None else f" ({seconds * self._flow / 60.0:.3g} l)"
        return f"{seconds:.0f} s{litres}"


@dataclass(slots=True)
class _Watch:
    """The lowest CO2 since the watch began, in ppm, and how long the valve was open meanwhile."""

    lowest: float = math.inf
    open_s: float = 0.0
    readings: int = 0


class NoRise(PersistentInterlock):
    """CO2 does not rise although the valve was open: an empty bottle, a stuck valve or an open chamber.

    It adds up the time that the valve was certainly open since CO2 last rose by `rise_ppm` above its lowest,
    and trips at `open_s`. The count starts again
    - while CO2 is above `ENRICHED_PPM` and near its set point,
    - while CO2 that has risen stays up (doses that only replace losses raise nothing),
    - after the valve was shut for `FORGET_S`.
    Below `ENRICHED_PPM` a met set point may need no more CO2 than the room has: there `HELD_SHARE` of the
    time is credited, and the limit is `HELD_LIMIT` times as long. The median of three readings counts,
    against noise and spikes. Time with the exhaust fan on (`fans`) counts too, and the reason names the fan:
    otherwise a fan would let the valve stay open in an open chamber.
    """

    reset_hint = "check the bottle, its regulator, the valve, the tube and the door, then reset it"

    def __init__(
        self, times: OnTimes, readings: SensorReadings, *, open_s: float, rise_ppm: float, fans: OnTimes
    ) -> None:
        limits = {"limit": (open_s, "s"), "rise": (rise_ppm, "ppm")}
        super().__init__("no_rise_after_dose", [VALVE], limits)
        self.reads = self.follows = frozenset({CARBON_DIOXIDE})
        self._times = times
        self._fans = fans
        self._readings = readings
        self._limit = open_s
        self._rise = rise_ppm
        self._counted = times.certain_total(0.0)
        self._recent: deque[float] = deque(maxlen=SMOOTHED)
        self._watch = _Watch()
        self._risen_to: float | None = None
        self._read_at = 0.0
        self._is_held = False
        self._set_point: float | None = None
        self._reason_in_state = self._reason_when_saved = ""

    def on_set_point(self, variable: str, value: float | None) -> None:  # noqa: ARG002  it follows one
        self._set_point = value

    def on_reading(self, variable: str, device: str, value: float | None, now: float) -> None:  # noqa: ARG002
        if value is None or device:
            return
        self._recent.append(value)
        level = median(self._recent)
        self._count(now)
        since, self._read_at = now - self._read_at, now
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
        if self._risen_to is not None or self._is_enriched(level):
            self._watch = _Watch(lowest=level)
        self._is_held = self._is_near_set_point(level)
        if self._is_held:
            watch.open_s = max(0.0, watch.open_s - HELD_SHARE * since)

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._count(now)
        limit = self._limit * (HELD_LIMIT if self._is_held else 1.0)
        if self._is_restored and self._watch.open_s >= limit and self._watch.readings >= MIN_READINGS:
            self._trip(
                f"the valve was open for {self._watch.open_s:.0f} s, and {CARBON_DIOXIDE} did not rise by "
                f"{self._rise:g} ppm: {self._possible_causes(now)}"
            )

    def why_no_reset(self, now: float) -> str:
        if not self._is_restored:
            return self.reason
        if not self.reason:
            return f"{self.name} has not tripped"
        if self._readings.combined(CARBON_DIOXIDE, now) is None:
            return f"{CARBON_DIOXIDE} is unknown, so a rise could not be seen"
        return ""

    def reset(self) -> None:
        self.reason = ""
        self._watch, self._risen_to = _Watch(), None

    def state(self, now: float, *, as_reset: bool = False) -> Any:  # noqa: ARG002
        self._reason_in_state = "" if as_reset else self.reason
        return self._reason_in_state

    def mark_saved(self) -> None:
        self._reason_when_saved = self._reason_in_state

    def needs_saving(self) -> bool:
        return self.reason != self._reason_when_saved

    def _possible_causes(self, now: float) -> str:
        causes = "the bottle may be empty, the valve stuck or the chamber open"
        if self._fans.rest(now) >= FORGET_S:
            return causes
        when = "is on" if self._fans.is_on else f"was on until {duration(self._fans.rest(now))} ago"
        return f"{causes}, or the exhaust fan removed the CO2; it {when}"

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        if not isinstance(saved, str):
            raise TypeError("the reason is not a string")
        self.reason = self._reason_when_saved = saved

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self._trip(f"it may have tripped before the start: {why}")

    def _trip(self, reason: str) -> None:
        if not self.reason:
            self.reason = reason

    def _is_enriched(self, level: float) -> bool:
        """Whether CO2 is above that of any room, and near its set point if there is one."""
        return level >= ENRICHED_PPM and (self._set_point is None or self._is_near_set_point(level))

    def _is_near_set_point(self, level: float) -> bool:
        wanted = self._set_point
        return wanted is not None and level >= wanted - max(MARGIN_PPM, MARGIN_SHARE * wanted)

    def _count(self, now: float) -> None:
        total = self._times.certain_total(now)
        if self._readings.combined(CARBON_DIOXIDE, now) is not None:  # a rise cannot be seen otherwise
            self._watch.open_s += total - self._counted
        self._counted = total
        if self._times.rest(now) >= FORGET_S:
            self._watch.open_s = 0.0
