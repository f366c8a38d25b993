"""The interlocks of heaters, coolers, humidifiers, pumps and other outputs, by class and by option."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.control.interlocks.conditions import Threshold, WhileBeyond, is_on, level_of, state_of
from growd.control.interlocks.exclusions import MixingPause, NeverTogether
from growd.control.interlocks.feedback import NotConfirmed
from growd.control.interlocks.heat import OverTemperature, StillRising
from growd.control.interlocks.limits import DAY_S, MinimumOff, MinimumOn, OnTooLong, Use, UseLimit
from growd.control.interlocks.no_effect import Effect, Unmoved
from growd.control.interlocks.on_times import HOUR_S, OnTimes
from growd.control.interlocks.words import Words
from growd.control.topics import feedback
from growd.device_kinds import OutputClass
from growd.variables import (
    ACIDITY,
    CONDUCTIVITY,
    FAN,
    HUMIDITY,
    TEMPERATURE,
    VALVE,
    VARIABLES,
    WATER_LEVEL,
    WATER_TEMPERATURE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from growd.config import Chamber, Output
    from growd.config.conditions import Condition
    from growd.control.interlocks.base import Interlock, SensorReadings
    from growd.control.interlocks.node import Interlocks

_PAIRS: Final = (
    ("air_heater", "air_cooler"),
    ("water_heater", "water_cooler"),
    ("air_humidifier", "air_dehumidifier"),
    ("water_fill", "water_drain"),
)
_FILL: Final = "water_fill"
_TIMED_PUMPS: Final = (_FILL, "water_drain", "water_irrigation")
_WET: Final = ("water_circulation", "water_irrigation", "water_heater", "water_cooler")
"""What must not work without water, with the dosing pumps."""

_NO_LIMIT_S: Final = 86_400.0
_REST_S: Final = 60.0
_PROBE_S: Final = 600.0
_OVERFLOW_S: Final = 120.0
_FORGET_DOSES_S: Final = 21_600.0
_MARGINS: Final = {
    TEMPERATURE: 0.5,
    WATER_TEMPERATURE: 0.3,
    HUMIDITY: 3.0,
    ACIDITY: 0.15,
    CONDUCTIVITY: 0.1,
    WATER_LEVEL: 2.0,
}
"""How near the set point a working controller stays."""


class OutputInterlocks:
    """The interlocks of all outputs but the CO2 valve's and the lamp's own.

    `channels` has the times of each channel of the lamp, `lamps` those of all together.
    """

    def __init__(
        self, chamber: Chamber, readings: SensorReadings, channels: Mapping[str, OnTimes], lamps: OnTimes
    ) -> None:
        self._chamber = chamber
        self._limits = chamber.options.interlock
        self._readings = readings
        self._channels = channels
        self._lamps = lamps
        self._by_variable = {each.own_variable: OnTimes() for each in chamber.outputs}
        self._by_name = {each.name: OnTimes() for each in chamber.outputs}
        self._of_several: list[tuple[OnTimes, frozenset[str]]] = []
        self._feedbacks: dict[str, NotConfirmed] = {}

    def first(self) -> Iterator[Interlock]:
        """Those that may switch an output on; all others can then switch it off again."""
        for output in self._chamber.outputs:
            if output.minimum_on_s:
                yield self._single(output, MinimumOn, "minimum_on", minimum_s=output.minimum_on_s)
        yield from (self._condition(each) for each in self._chamber.options.condition)
        for output in self._chamber.outputs:
            yield from self._confirmed(output)
        limits = self._limits
        yield from self._still_rising(TEMPERATURE, limits.heater_off_rise_degc, [FAN])
        yield from self._still_rising(WATER_TEMPERATURE, limits.water_heater_off_rise_degc, [])

    def others(self) -> Iterator[Interlock]:
        """Those that switch outputs off."""
        yield from self._exclusive()
        for output in self._chamber.outputs:
            yield from self._of_output(output)
        yield from self._heat()
        yield from self._without_effect()
        yield from self._water()

    def track(self, interlocks: Interlocks) -> None:
        """Let `interlocks` record the times of the outputs."""
        for variable, times in self._by_variable.items():
            interlocks.track(times, [variable])
        for output in self._chamber.outputs:
            interlocks.track(self._by_name[output.name], [output.own_variable], output.name)
        for times, variables in self._of_several:
            interlocks.track(times, variables)

    # single outputs

    def _single(self, output: Output, kind: Callable[..., Interlock], name: str, **options: Any) -> Interlock:
        """An interlock of one output, named after it."""
        times = self._by_name[output.name]
        interlock = kind(f"{output.name}_{name}", [output.own_variable], times, **options)
        interlock.devices = frozenset({output.name})
        return interlock

    def _of_output(self, output: Output) -> Iterator[Interlock]:
        words = Words(output.name)
        if off_s := self._minimum_off_s(output):
            yield self._single(output, MinimumOff, "minimum_off", minimum_s=off_s)
        longest_s, rest_s = self._longest_s(output)
        if longest_s < _NO_LIMIT_S:
            yield self._single(
                output, OnTooLong, "on_too_long", longest_s=longest_s, rest_s=rest_s, words=words
            )
        times, limit = self._by_name[output.name], partial(self._single, output, UseLimit, words=words)
        if output.share_per_hour < 1:
            use = Use(times.total, "{:.0f} s".format)
            yield limit("share_per_hour", use=use, limit=output.share_per_hour * HOUR_S)
        if output.starts_per_hour:
            use = Use(lambda _: float(times.starts), "{:.0f} starts".format, "starts", begins=True)
            yield limit("starts_per_hour", use=use, limit=float(output.starts_per_hour))
        yield from self._volumes(output)

    def _volumes(self, output: Output) -> Iterator[Interlock]:
        """Dosing pumps of one own variable, whose options agree, give one liquid and share the limits."""
        flow, variable = output.flow_ml_min, output.own_variable
        if flow is None:
            return
        times, names = self._by_name[output.name], [output.name]
        is_dosing = _is(output, OutputClass.DOSING)
        if is_dosing:
            times = self._by_variable[variable]
            names = [each.name for each in self._chamber.outputs if each.own_variable == variable]
        if output.name != names[0]:
            return
        use = Use(lambda now: times.full_total(now) * flow / 60.0, "{:.4g} ml".format, "ml")
        for option, window_s in (("ml_per_hour", HOUR_S), ("ml_per_day", DAY_S)):
            default = getattr(self._limits, f"dosing_{option}") if is_dosing else None
            most = getattr(output, option) or default
            if most is not None:
                limit = UseLimit(
                    f"{output.name}_{option}",
                    [variable],
                    times,
                    use=use,
                    limit=most,
                    words=Words(" and ".join(names)),
                    window_s=window_s,
                )
                limit.devices = frozenset(names)
                yield limit

    def _minimum_off_s(self, output: Output) -> float:
        if output.minimum_off_s is not None:
            return output.minimum_off_s
        has_compressor = _is(output, OutputClass.COOLER, OutputClass.DEHUMIDIFIER) and not output.can_dim
        return self._limits.cooler_minimum_off_s if has_compressor else 0.0

    def _longest_s(self, output: Output) -> tuple[float, float]:
        """The longest time for which an output may be on, and its rest after that."""
        is_pump = output.own_variable in _TIMED_PUMPS
        longest_s = self._limits.pump_on_s if is_pump else _NO_LIMIT_S
        rest_s = self._limits.pump_rest_s if is_pump else _REST_S
        return output.longest_on_s or longest_s, output.rest_s or rest_s

    def _confirmed(self, output: Output) -> Iterator[Interlock]:
        if not self._chamber.confirming(output.name):
            return
        chamber = self._chamber
        counter = _COUNTER.get(output.own_variable, "")
        made = NotConfirmed(
            output.name,
            feedback(chamber.environment, output.name),
            self._by_name[output.name],
            confirm_s=chamber.scaled(output.confirm_s),
            above=output.confirm_above,
            stale_after_s=chamber.feedback_stale_after_s(output.name),
            counter={counter} & chamber.own_variables,
        )
        self._feedbacks[output.name] = made
        yield made

    def _condition(self, condition: Condition) -> Interlock:
        holds, devices = set[str](), set[str]()
        for output in self._chamber.outputs:
            if output.name in condition.outputs:
                holds.add(output.own_variable)
                devices.add(output.name)
        if "light" in condition.outputs:
            holds.update(self._channels)
            devices.add("light")
        return WhileBeyond(
            f"condition_{condition.name}",
            holds,
            [self._limit_of(condition)],
            level={"off": 0.0, "on": 1.0, "safe": None}[condition.hold],
            after_s=condition.after_s,
            holds_unknown=condition.unknown == "hold",
            devices=devices,
            is_expected=not condition.alert,
        )

    def _limit_of(self, condition: Condition) -> Threshold:
        variable = condition.variable
        times = self._by_variable.get(variable) or self._channels.get(
            variable.removeprefix("light_intensity_")
        )
        if condition.on is not None:
            read = state_of(times) if times is not None else self._reader(variable)
            return is_on(variable, read, on=condition.on)
        given = {"above": condition.above, "below": condition.below}
        sides = {side: limit for side, limit in given.items() if limit is not None}
        read = level_of(times) if times is not None else self._reader(variable)
        unit = VARIABLES[variable].unit if variable in VARIABLES else ""
        return Threshold(variable, read, hysteresis=condition.hysteresis, unit=unit, **sides)

    def _reader(self, variable: str) -> Callable[[float], float | None]:
        return partial(self._readings.combined, variable)

    # several outputs

    def _exclusive(self) -> Iterator[Interlock]:
        times = self._by_variable
        for pair in _PAIRS:
            if times.keys() >= {*pair}:
                of_both = {variable: times[variable] for variable in pair}
                yield NeverTogether(f"{'_or_'.join(pair)}", of_both, self._limits.changeover_s)
        doses = {each.own_variable: moves(each) for each in self._chamber.outputs_of(OutputClass.DOSING)}
        if doses:
            yield MixingPause(
                {variable: times[variable] for variable in doses},
                doses,
                pause_s=self._limits.mixing_pause_s,
                longest_s=self._limits.dose_longest_s,
            )

    def _heat(self) -> Iterator[Interlock]:
        limits = self._limits
        for variable, place, limit_degc, hysteresis_degc in (
            (TEMPERATURE, "", limits.heater_off_degc, limits.heater_hysteresis_degc),
            (WATER_TEMPERATURE, "water_", limits.water_heater_off_degc, limits.water_heater_hysteresis_degc),
        ):
            heaters = self._that(variable, raises=True)
            if heaters and variable in self._chamber.measured:
                yield OverTemperature(
                    f"{place}heater_over_temperature",
                    heaters,
                    self._readings,
                    variable,
                    limit_degc=limit_degc,
                    hysteresis_degc=hysteresis_degc,
                    subject="heaters",
                )

    def _still_rising(self, variable: str, rise_degc: float, also: Iterable[str]) -> Iterator[Interlock]:
        heaters = self._that(variable, raises=True)
        if not heaters or variable not in self._chamber.measured:
            return
        coolers = self._that(variable, raises=False) | ({*also} & self._chamber.own_variables)
        named = [each.name for each in self._chamber.outputs if each.own_variable in heaters]
        yield StillRising(
            variable,
            heaters,
            coolers,
            self._times_of(heaters),
            self._readings,
            lamps=self._lamps,
            cooling=self._times_of(coolers),
            chilling=self._times_of(coolers - {FAN}),
            window_s=self._limits.heater_off_s,
            rise_degc=rise_degc,
            suspects=[partial(_stuck, self._feedbacks[name]) for name in named if name in self._feedbacks],
        )

    def _without_effect(self) -> Iterator[Interlock]:
        limits = self._limits
        heat = "it may be broken, or the sensor may have fallen out of place"
        yield from self._unmoved(TEMPERATURE, limits.heater_rise_degc, limits.heater_on_s, heat)
        yield from self._unmoved(
            WATER_TEMPERATURE, limits.water_heater_rise_degc, limits.water_heater_on_s, heat
        )
        dry = "it may be empty or broken, or the sensor may have fallen out of place"
        yield from self._unmoved(HUMIDITY, limits.humidifier_rise_percent, limits.humidifier_on_s, dry)
        if WATER_LEVEL in self._chamber.measured and _FILL in self._chamber.own_variables:
            yield self._unfilled()
        for variable, change in ((ACIDITY, limits.no_effect_ph), (CONDUCTIVITY, limits.no_effect_ms_cm)):
            for raises in (True, False):
                yield from self._undosed(variable, change, raises=raises)

    def _unmoved(self, variable: str, rise: float, on_s: float, causes: str) -> Iterator[Interlock]:
        holds = self._that(variable, raises=True)
        if not holds or variable not in self._chamber.measured:
            return
        is_humidity = variable == HUMIDITY
        effect = Effect(
            variable,
            rise,
            VARIABLES[variable].unit,
            margin=_MARGINS[variable],
            # a met temperature proves nothing where the room is as warm
            proof_from=float("-inf") if is_humidity else float("inf"),
            proves_without_set_point=False,
            held_share=0.9,
            held_limit=1.0,
            drift_per_s=rise / on_s,
            probe_s=_PROBE_S,
        )
        subject = "the humidifier" if is_humidity else "the heater"
        yield Unmoved(
            holds, self._times_of(holds), effect, self._readings, limit=on_s, subject=subject, causes=causes
        )

    def _unfilled(self) -> Interlock:
        limits, holds = self._limits, frozenset({_FILL})
        effect = Effect(
            WATER_LEVEL,
            limits.fill_rise_percent,
            VARIABLES[WATER_LEVEL].unit,
            margin=_MARGINS[WATER_LEVEL],
            proves_without_set_point=False,
            proof_from=float("inf"),
            held_share=0.9,
            held_limit=1.0,
            forget_s=_FORGET_DOSES_S,
        )
        return Unmoved(
            holds,
            self._times_of(holds),
            effect,
            self._readings,
            limit=limits.fill_on_s,
            subject="the filling valve",
            causes="the tank or a drain may leak, the tap may be shut, or the level sensor has failed",
        )

    def _undosed(self, variable: str, change: float, *, raises: bool) -> Iterator[Interlock]:
        dosing = {each.own_variable for each in self._chamber.outputs_of(OutputClass.DOSING)}
        holds = self._that(variable, raises=raises) & dosing
        if not holds or variable not in self._chamber.measured:
            return
        times = self._times_of(holds)
        effect = Effect(
            variable,
            change,
            VARIABLES[variable].unit,
            raises,
            margin=_MARGINS[variable],
            proves_without_set_point=False,
            held_share=0.0,
            held_limit=1.0,
            forget_s=_FORGET_DOSES_S,
            stays=False,
        )
        yield Unmoved(
            holds,
            times,
            effect,
            self._readings,
            limit=float(self._limits.no_effect_doses),
            subject="the dosing pump",
            causes="its bottle may be empty, or the probe out of the water",
            used=lambda _: float(times.starts),
            unit="doses",
        )

    def _water(self) -> Iterator[Interlock]:
        """The water is too low for pumps, or high enough for the inflow."""
        limits, own = self._limits, self._chamber.own_variables
        dosing = {each.own_variable for each in self._chamber.outputs_of(OutputClass.DOSING)}
        hysteresis = limits.level_hysteresis_percent
        for name, holds, switch, sides in (
            ("water_too_low", own & {*_WET, *dosing}, "water_level_low", {"below": limits.level_low_percent}),
            (
                "water_too_high",
                own & {_FILL},
                "water_level_high",
                {"above": limits.level_high_percent},
            ),
        ):
            judged = []
            if switch in self._chamber.measured:
                judged.append(is_on(switch, self._reader(switch)))
            if WATER_LEVEL in self._chamber.measured:
                read = self._reader(WATER_LEVEL)
                judged.append(Threshold(WATER_LEVEL, read, hysteresis=hysteresis, unit="percent", **sides))
            if holds and judged:
                yield WhileBeyond(name, holds, judged, is_expected=name == "water_too_high")
        if _FILL in own and WATER_LEVEL in self._chamber.measured:
            brim = (limits.level_high_percent + 100.0) / 2
            over = Threshold(WATER_LEVEL, self._reader(WATER_LEVEL), above=brim, unit="percent")
            yield WhileBeyond("water_overflow", {_FILL}, [over], after_s=_OVERFLOW_S, holds_unknown=False)

    def _that(self, variable: str, *, raises: bool) -> frozenset[str]:
        """The own variables of outputs that move a variable in a direction."""
        wanted = (variable, "raises" if raises else "lowers")
        return frozenset(each.own_variable for each in self._chamber.outputs if wanted == moves(each))

    def _times_of(self, variables: frozenset[str]) -> OnTimes:
        """The times of all outputs of these own variables together."""
        times = OnTimes()
        self._of_several.append((times, variables))
        return times


_COUNTER: Final = {VALVE: FAN, "air_humidifier": "air_dehumidifier"}
"""What runs while an output stays on by itself. For heaters see `StillRising`."""


def _stuck(confirmed: NotConfirmed) -> str:
    return confirmed.stuck


def _is(output: Output, *classes: OutputClass) -> bool:
    return output.role is not None and output.role.output_class in classes


def moves(output: Output) -> tuple[str, str]:
    """The variable that an output moves first, and its direction."""
    role = output.role
    if role is not None and role.drives:
        return role.drives, "raises" if role.raises else "lowers"
    return (output.drives[0] if output.drives else ""), output.direction
