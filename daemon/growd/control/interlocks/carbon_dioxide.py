"""The interlocks of the CO2 valve.

The CO2 ceiling protects people, who open the door and breathe the air. 5000 ppm averaged over eight hours is
the permissible exposure limit of OSHA (29 CFR 1910.1000, table Z-1), the recommended limit of NIOSH (Pocket
Guide to Chemical Hazards, carbon dioxide; ten hours) and the threshold limit value of ACGIH (TLV-TWA). For 15
minutes NIOSH and ACGIH allow 30 000 ppm (STEL). No crop gains above some 1500 ppm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import NotKeptError
from growd.control.calibration import MOST_PPM, SHUT_S, UNKNOWN, Correction
from growd.control.interlocks.base import UNREAD, Interlock, PersistentInterlock
from growd.control.interlocks.limits import Use, UseLimit, Words
from growd.control.interlocks.no_effect import Effect, NoEffect
from growd.control.interlocks.saved_states import SAVE_ERRORS
from growd.runtime.sentence import Sentence
from growd.runtime.text import duration, told_apart
from growd.variables import CARBON_DIOXIDE, VALVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from growd.bus.nodes import Node
    from growd.control.calibration import Calibration
    from growd.control.interlocks.base import SensorReadings
    from growd.control.interlocks.on_times import OnTimes
    from growd.control.interlocks.saved_states import SavedStates
    from growd.runtime.clock import Clock

ENRICHED_PPM: Final = 700.0
"""Above this, CO2 must come from the valve. Below, a met set point proves nothing."""
NOTABLE_SHARE: Final = 0.8  # of the ceiling: a trip below this reading is reported as a problem

_UNCALIBRATED: Final = Correction()
VALVE_WORDS: Final = Words("the valve", "open", "closed", "close the bottle")


class CarbonDioxideCeiling(PersistentInterlock):
    """CO2 above the limit for people: the valve is shut and the exhaust fans (`fans`) run.

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
        *,
        sensors: Sequence[str],
        fans: Iterable[str],
    ) -> None:
        limits = {"limit": (ceiling_ppm, "ppm"), "hysteresis": (hysteresis_ppm, "ppm")}
        self._is_high = False
        self._fans = frozenset(fans)
        super().__init__("carbon_dioxide_ceiling", self._fans.union(holds), limits)
        self.reads = frozenset({CARBON_DIOXIDE})
        self._readings = readings
        self._ceiling = ceiling_ppm
        self._release = ceiling_ppm - hysteresis_ppm
        self._sensors = tuple(sensors)
        self._corrections: dict[str, Correction] = {}

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

    def held_level(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        if output in self._fans:
            return 1.0 if self._is_high else level
        return 0.0

    def uses(self, device: str) -> bool:
        """Whether it judges the readings of this sensor."""
        return device in self._sensors

    def why_no_calibration(self, device: str, calibration: Calibration) -> str:
        """Why a sensor may not be calibrated like this, or ""."""
        if not calibration.lowers or self._correction(device).after(calibration).is_within():
            return ""
        text = (
            f"all calibrations of {device} together would lower its readings by more than {MOST_PPM:g} ppm "
            "or by half, or they are unknown: replace the sensor, and give the new one another name in "
            "[[sensor]]"
        )
        return Sentence(text, "calibrated_too_far", device=device)

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
        text = (
            f"the ceiling of {self._ceiling:g} ppm trips at {where}, because calibrations lowered its "
            "readings, or because their record is lost; check the sensor in fresh air, or replace it and "
            "give the new one another name in [[sensor]]"
        )
        return Sentence(text, "ceiling_trips_early", device=[*low])

    def _mark(self, *, as_reset: bool = False) -> Any:  # noqa: ARG002  releases by itself
        return self._corrections

    def _state(self, now: float, *, as_reset: bool) -> Any:  # noqa: ARG002  releases by itself
        return {name: each.lines for name, each in self._corrections.items()}

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        if not isinstance(saved, dict):
            raise TypeError("the corrections are not an object")
        self._corrections = {name: Correction.restored(lines) for name, lines in saved.items()}
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
        shown, limit = told_apart(value, self._ceiling)
        without = f" ({judged:.0f} ppm without its calibrations)" if judged > value else ""
        text = (
            f"{CARBON_DIOXIDE} was {shown} ppm{without} at the trip; the limit is {limit} ppm; "
            f"releases below {self._release:g} ppm"
        )
        fields = {"value": float(shown), "limit": self._ceiling, "release": self._release, "unit": "ppm"}
        return Sentence(text, "over_limit", variable=CARBON_DIOXIDE, **fields)


class StaysHigh(Interlock):
    """CO2 is still at the ceiling `AFTER_S` after the valve was closed: the valve may be stuck open.

    growd cannot end that. The reason is renewed when CO2 has risen further by a quarter.
    """

    AFTER_S: Final = 300.0
    GROWTH: Final = 1.25

    def __init__(
        self,
        readings: SensorReadings,
        times: OnTimes,
        holds: Iterable[str],
        ceiling_ppm: float,
        hysteresis_ppm: float,
    ) -> None:
        limits = {"limit": (ceiling_ppm, "ppm"), "after": (self.AFTER_S, "s")}
        super().__init__("carbon_dioxide_stays_high", holds, limits)
        self.reads = frozenset({CARBON_DIOXIDE})
        self._readings = readings
        self._times = times
        self._ceiling = ceiling_ppm
        self._release = ceiling_ppm - hysteresis_ppm
        self._since: float | None = None
        self._told_ppm = 0.0

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        value = max(self._readings.known(CARBON_DIOXIDE, now).values(), default=None)
        if value is None:
            return
        if value < self._release:
            self._since, self._told_ppm, self.reason = None, 0.0, ""
        elif value >= self._ceiling and self._since is None:
            self._since = now
        if self._since is None or min(now - self._since, self._times.rest(now)) < self.AFTER_S:
            return
        if value >= self.GROWTH * self._told_ppm:
            self._told_ppm = value
            text = (
                f"{CARBON_DIOXIDE} was {value:.0f} ppm although the valve is written off: it may be stuck "
                "open; close the bottle, and air the room"
            )
            self.reason = Sentence(text, "valve_stuck_open", value=round(value), unit="ppm")

    @property
    def stays_on(self) -> bool:
        return bool(self.reason)


class DosePerHour(UseLimit):
    """All valves together were open for too many seconds of the last hour.

    `UNLIMITED_S` or more means no limit. With `flow_l_min` the messages name litres too.
    """

    UNLIMITED_S: Final = 3600.0

    def __init__(
        self, times: OnTimes, limit_s: float, flow_l_min: float | None = None, holds: Iterable[str] = (VALVE,)
    ) -> None:
        self._flow = flow_l_min
        use = Use(times.total, self._amount)
        super().__init__("dose_per_hour", holds, times, use=use, limit=limit_s, words=VALVE_WORDS)
        if flow_l_min is not None:
            self.limits["limit_litres"] = (limit_s * flow_l_min / 60.0, "l")

    def why_not_shut(self, now: float) -> tuple[str, float | None]:
        """Why a calibration has to wait, or "", and for how long; None while the valve is open."""
        self._count(now)
        left_s: float | None = None
        if self._times.is_on:
            state = "is open" if self._times.doubt(now) > 0 else "may be open (its output failed)"
        else:
            shut = self._dose.since(now)
            left_s = max(0.0, SHUT_S - shut)
            state = f"has been closed for {shut:.0f} s"
        if left_s == 0:
            return "", 0.0
        text = (
            f"the valve {state}, and a calibration needs steady air for {SHUT_S:.0f} s: "
            "stop the recipe or release the set point, and wait"
        )
        return Sentence(text, "valve_not_shut", needed=SHUT_S, unit="s"), left_s

    @property
    def _is_unlimited(self) -> bool:
        return self._limit >= self.UNLIMITED_S

    def _amount(self, seconds: float) -> str:
        litres = "" if self._flow is None else f" ({seconds * self._flow / 60.0:.3g} l)"
        return f"{seconds:.0f} s{litres}"


class NoRise(NoEffect):
    """CO2 does not rise although the valve was open: an empty bottle, a stuck valve or an open chamber.

    Time with the exhaust fan on (`fans`) counts too, and the reason names the fan: otherwise a fan would let
    the valve stay open in an open chamber.
    """

    reset_hint = Sentence(
        "check the bottle, its regulator, the valve, the tube and the door, then reset it", "check_bottle"
    )

    def __init__(
        self,
        times: OnTimes,
        readings: SensorReadings,
        *,
        open_s: float,
        rise_ppm: float,
        fans: OnTimes,
        holds: Iterable[str] = (VALVE,),
    ) -> None:
        effect = Effect(
            CARBON_DIOXIDE, rise_ppm, "ppm", margin=50.0, margin_share=0.05, proof_from=ENRICHED_PPM
        )
        super().__init__("no_rise_after_dose", holds, times, effect, readings, limit=open_s)
        self._fans = fans

    def _why(self, used: float, now: float) -> str:
        return (
            f"the valve was open for {used:.0f} s, and {CARBON_DIOXIDE} did not rise by "
            f"{self._effect.change:g} ppm: {self._possible_causes(now)}"
        )

    def _possible_causes(self, now: float) -> str:
        causes = "the bottle may be empty, the valve stuck or the chamber open"
        if self._fans.rest(now) >= self._effect.forget_s:
            return causes
        when = "is on" if self._fans.is_on else f"was on until {duration(self._fans.rest(now))} before"
        return f"{causes}, or the exhaust fan removed the CO2; it {when}"


class SensorCalibrations:
    """Asked before a CO2 sensor is calibrated, and informed afterwards.

    `doses` is the record of open valves, None without a valve.
    """

    def __init__(
        self,
        node: Node,
        saved: SavedStates,
        clock: Clock,
        ceiling: CarbonDioxideCeiling,
        doses: DosePerHour | None,
    ) -> None:
        self._saved = saved
        self._clock = clock
        self._ceiling = ceiling
        self._doses = doses
        node.describe("calibrations", lambda: ceiling.calibrations)

    def judges(self, device: str) -> bool:
        """Whether the ceiling uses the readings of this sensor."""
        return self._ceiling.uses(device)

    async def begin_calibration(self, device: str, calibration: Calibration) -> str:
        """Why the device may not be calibrated now, or ""; one that lowers readings then counts as done.

        A calibration that lowers the readings is on the disk before it is done. Raises `NotKeptError`.
        """
        if not self._saved.is_loaded:
            raise NotKeptError(UNREAD)
        refusal = self._ceiling.why_no_calibration(device, calibration) or self.why_no_calibration()[0]
        if refusal or not calibration.lowers:
            return refusal
        async with self._saved.exclusive():
            before = self._ceiling.corrections
            self._ceiling.calibrated(device, calibration)
            try:
                await self._saved.save()
            except SAVE_ERRORS as error:
                self._ceiling.undo_calibration(before)
                words = f"{device} was not calibrated, because the calibration could not be saved: {error}"
                raise NotKeptError(words) from error
            refusal = self.why_no_calibration()[0]  # again: the disk may have been slow
            if refusal:
                self._ceiling.undo_calibration(before)
        return refusal

    def why_no_calibration(self) -> tuple[str, float | None]:
        """Why none is permitted now, or "", and for how many more seconds, None if that is not known."""
        if not self._saved.is_loaded:
            return UNREAD, None
        return ("", 0.0) if self._doses is None else self._doses.why_not_shut(self._clock.monotonic())

    def end_calibration(self, device: str, calibration: Calibration) -> None:
        """The calibration was done. One that raises the readings is saved with the next update."""
        if not calibration.lowers:
            self._ceiling.calibrated(device, calibration)
