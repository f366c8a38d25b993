"""The interlocks of single outputs: their limits, their feedback, and conditions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.control.interlocks.conditions import Threshold, WhileBeyond, is_on, level_of, state_of
from growd.control.interlocks.feedback import NotConfirmed
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
from growd.control.interlocks.on_times import HOUR_S
from growd.control.pumps import Volumes
from growd.control.topics import feedback
from growd.output_roles import OutputClass
from growd.variables import VARIABLES, hysteresis_of_band
from growd.wiring.class_interlocks import ClassInterlocks, counters_of
from growd.wiring.interlock_inputs import ml_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.config import Output
    from growd.config.conditions import Condition
    from growd.control.interlocks.base import Interlock
    from growd.control.interlocks.on_times import OnTimes
    from growd.wiring.interlock_inputs import InterlockInputs

_NO_LIMIT_S: Final = 86_400.0
_REST_S: Final = 60.0
_COMPRESSOR_OFF_S: Final = 180.0
"""Shortest pause of a compressor, in which its pressures become equal."""


class OutputInterlocks:
    """The interlocks of all outputs but the CO2 valve's and the lamp's own."""

    def __init__(self, inputs: InterlockInputs) -> None:
        self._inputs = inputs
        self._chamber = inputs.chamber
        self._feedbacks: dict[str, NotConfirmed] = {}
        self._together = ClassInterlocks(inputs, self._feedbacks)

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

    def _times_of(self, output: Output) -> OnTimes:
        """Of this output alone."""
        return self._inputs.times([output.own_variable], output.name)

    def _single(self, output: Output, kind: Callable[..., Interlock], name: str, **options: Any) -> Interlock:
        """An interlock of one output, named after it."""
        times = self._times_of(output)
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
        variable, limits, flows = output.own_variable, self._inputs.limits, self._inputs.pumps.flows
        pumps = self._chamber.by_own_variable[variable]
        if output.name not in flows or not output.is_a(OutputClass.DOSING) or output is not pumps[0]:
            return
        names = [each.name for each in pumps]
        for name, most, window_s in (
            ("ml_per_hour", limits.dosing_ml_per_hour, HOUR_S),
            ("ml_per_day", limits.dosing_ml_per_day, DAY_S),
        ):
            given = Volumes((self._times_of(each), partial(ml_s, flows[each.name])) for each in pumps)
            limit = UseLimit(
                f"{output.name}_{name}",
                [variable],
                self._inputs.times([variable]),
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
            self._times_of(output),
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
            holds.update(self._chamber.lamp_channels)
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
        name = variable.removeprefix("light_intensity_")
        is_output = name in {*self._chamber.own_variables, *self._chamber.lamp_channels}
        return self._inputs.times([name]) if is_output else None

    def _limit_of(self, condition: Condition) -> Threshold:
        variable = condition.variable
        times = self._times_of_output(variable)
        if condition.on is not None:
            read = state_of(times) if times is not None else self._inputs.reader(variable)
            return is_on(variable, read, on=condition.on)
        given = {"above": condition.above, "below": condition.below}
        sides = {side: limit for side, limit in given.items() if limit is not None}
        read = level_of(times) if times is not None else self._inputs.reader(variable)
        unit = VARIABLES[variable].unit if variable in VARIABLES else ""
        hysteresis = condition.hysteresis
        if hysteresis is None:
            hysteresis = hysteresis_of_band(variable, condition.below, condition.above)
        return Threshold(variable, read, hysteresis=hysteresis, unit=unit, **sides)
