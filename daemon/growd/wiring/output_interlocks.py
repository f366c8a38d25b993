"""The interlocks of single outputs: their limits, their feedback, and conditions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.control.interlocks.conditions import Threshold, WhileBeyond, is_on, level_of, state_of
from growd.control.interlocks.feedback import CONFIRM_S, NotConfirmed
from growd.control.interlocks.limits import (
    DAY_S,
    PUMP_ON_S,
    PUMP_REST_S,
    MinimumOff,
    MinimumOn,
    OnTooLong,
    Use,
    UseLimit,
    Words,
)
from growd.control.interlocks.on_times import HOUR_S, OnTimes
from growd.control.pumps import Volumes
from growd.control.topics import feedback
from growd.output_roles import OutputClass
from growd.variables import VARIABLES, hysteresis_of_band
from growd.wiring.class_interlocks import ClassInterlocks, counters_of
from growd.wiring.dose_interlocks import ml_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from growd.config import Chamber, Output
    from growd.config.conditions import Condition
    from growd.control.interlocks.base import Interlock, SensorReadings
    from growd.control.interlocks.node import Interlocks
    from growd.control.pumps import Pumps

_NO_LIMIT_S: Final = 86_400.0
_REST_S: Final = 60.0
_COMPRESSOR_OFF_S: Final = 180.0
"""Shortest pause of a compressor, in which its pressures become equal."""


class OutputInterlocks:
    """The interlocks of all outputs but the CO2 valve's and the lamp's own.

    `channels` has the times of each channel of the lamp, `lamps` those of all together.
    """

    def __init__(
        self,
        chamber: Chamber,
        readings: SensorReadings,
        channels: Mapping[str, OnTimes],
        lamps: OnTimes,
        pumps: Pumps,
    ) -> None:
        self._chamber = chamber
        self._pumps = pumps
        self._limits = chamber.options.interlock
        self._readings = readings
        self._channels = channels
        self._by_variable = {each.own_variable: OnTimes() for each in chamber.outputs}
        self._by_name = {each.name: OnTimes() for each in chamber.outputs}
        self._feedbacks: dict[str, NotConfirmed] = {}
        self._together = ClassInterlocks(
            chamber, readings, self._by_variable, self._feedbacks, lamps=lamps, flows=pumps.flows
        )

    def first(self) -> Iterator[Interlock]:
        """Those that may switch an output on; all others can then switch it off again."""
        for output in self._chamber.outputs:
            if output.minimum_on_s:
                yield self._single(output, MinimumOn, "minimum_on", minimum_s=output.minimum_on_s)
        yield from (self._condition(each) for each in self._chamber.options.condition)
        for output in self._chamber.outputs:
            yield from self._confirmed(output)
        yield from self._together.still_rising()

    def others(self) -> Iterator[Interlock]:
        """Those that switch outputs off."""
        yield from self._together.exclusive()
        for output in self._chamber.outputs:
            yield from self._of_output(output)
        yield from self._together.others()

    def track(self, interlocks: Interlocks) -> None:
        """Let `interlocks` record the times of the outputs."""
        for variable, times in self._by_variable.items():
            interlocks.track(times, [variable])
        for output in self._chamber.outputs:
            interlocks.track(self._by_name[output.name], [output.own_variable], output.name)
        self._together.track(interlocks)

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
        yield from self._volumes(output)

    def _volumes(self, output: Output) -> Iterator[Interlock]:
        """Dosing pumps of one own variable, whose options agree, give one liquid and share the limits."""
        variable = output.own_variable
        names = [each.name for each in self._chamber.outputs if each.own_variable == variable]
        if (
            output.name not in self._pumps.flows
            or not output.is_a(OutputClass.DOSING)
            or output.name != names[0]
        ):
            return
        limits = self._limits
        for name, most, window_s in (
            ("ml_per_hour", limits.dosing_ml_per_hour, HOUR_S),
            ("ml_per_day", limits.dosing_ml_per_day, DAY_S),
        ):
            given = Volumes((self._by_name[each], partial(ml_s, self._pumps.flows[each])) for each in names)
            limit = UseLimit(
                f"{output.name}_{name}",
                [variable],
                self._by_variable[variable],
                use=Use(given.total, "{:.4g} ml".format, "ml"),
                limit=most,
                words=Words(" and ".join(names)),
                window_s=window_s,
            )
            limit.devices = frozenset(names)
            yield limit

    def _minimum_off_s(self, output: Output) -> float:
        if output.minimum_off_s is not None:
            return output.minimum_off_s
        has_compressor = output.is_a(OutputClass.COOLER, OutputClass.DEHUMIDIFIER) and not output.can_dim
        return _COMPRESSOR_OFF_S if has_compressor else 0.0

    def _longest_s(self, output: Output) -> tuple[float, float]:
        """The longest time for which an output may be on, and its rest after that."""
        is_pump = output.is_a(OutputClass.PUMP) and bool(output.first_moved[0])
        longest_s = PUMP_ON_S if is_pump else _NO_LIMIT_S
        rest_s = PUMP_REST_S if is_pump else _REST_S
        return output.longest_on_s or longest_s, rest_s

    def _confirmed(self, output: Output) -> Iterator[Interlock]:
        if not self._chamber.confirming(output.name):
            return
        chamber = self._chamber
        made = NotConfirmed(
            output.name,
            feedback(chamber.environment, output.name),
            self._by_name[output.name],
            confirm_s=CONFIRM_S,
            above=output.confirm_above,
            stale_after_s=chamber.feedback_stale_after_s(output.name),
            counter=counters_of(chamber, output),
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
            follows_output=not condition.alert and self._times_of_output(condition.variable) is not None,
        )

    def _times_of_output(self, variable: str) -> OnTimes | None:
        """Of the outputs of an own variable or of a lamp channel; None for what is measured."""
        channel = variable.removeprefix("light_intensity_")
        return self._by_variable.get(variable) or self._channels.get(channel)

    def _limit_of(self, condition: Condition) -> Threshold:
        variable = condition.variable
        times = self._times_of_output(variable)
        if condition.on is not None:
            read = state_of(times) if times is not None else self._reader(variable)
            return is_on(variable, read, on=condition.on)
        given = {"above": condition.above, "below": condition.below}
        sides = {side: limit for side, limit in given.items() if limit is not None}
        read = level_of(times) if times is not None else self._reader(variable)
        unit = VARIABLES[variable].unit if variable in VARIABLES else ""
        hysteresis = condition.hysteresis
        if hysteresis is None:
            hysteresis = hysteresis_of_band(variable, condition.below, condition.above)
        return Threshold(variable, read, hysteresis=hysteresis, unit=unit, **sides)

    def _reader(self, variable: str) -> Callable[[float], float | None]:
        return partial(self._readings.combined, variable)
