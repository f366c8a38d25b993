"""The interlocks of outputs together, from their classes and from what they drive: heat, no effect, water."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from growd.control.interlocks.conditions import Threshold, WhileBeyond, is_on
from growd.control.interlocks.exclusions import MixingPause, NeverTogether
from growd.control.interlocks.heat import OverTemperature, StillRising
from growd.control.interlocks.limits import PUMP_REST_S
from growd.control.interlocks.no_effect import Effect, Unmoved
from growd.control.interlocks.tank_room import TankRoom
from growd.control.pumps import Volumes
from growd.loops import loop_kind
from growd.output_roles import OutputClass
from growd.variables import TEMPERATURE, VARIABLES, WATER_LEVEL
from growd.wiring.dose_interlocks import DoseInterlocks
from growd.wiring.interlock_inputs import own

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from growd.config import Chamber, Output
    from growd.control.interlocks.base import Interlock
    from growd.control.interlocks.feedback import NotConfirmed
    from growd.control.interlocks.on_times import OnTimes
    from growd.wiring.interlock_inputs import InterlockInputs

_OPPOSED: Final = {
    OutputClass.HEATER: OutputClass.COOLER,
    OutputClass.HUMIDIFIER: OutputClass.DEHUMIDIFIER,
    OutputClass.PUMP: OutputClass.PUMP,
}
"""What works against a class, if both drive the same variable and it lowers it."""

_VENTING: Final = (OutputClass.COOLER, OutputClass.FAN, OutputClass.OTHER)
"""Classes that may run to cool what a welded heater heats, if they lower its temperature."""

_PROBE_S: Final = 600.0
_OVERFLOW_S: Final = 120.0
_FORGET_DOSES_S: Final = 21_600.0
_FOLLOW: Final = 5.0
"""A level must follow within the time in which this many times the smallest change goes in, or out."""
_LEAST_FOLLOW_S: Final = 60.0
_WARM_ROOM_DEGC: Final = 26.0
"""Water, and all else but air, warms up to here by itself."""
_CHANGEOVER_S: Final = 60.0
"""Pause between a heater and a cooler, and between others that work against each other."""
_HEATER_OFF_S: Final = 1_200.0
"""A heater that was off this long has failed if its temperature still rises."""
_HUMIDIFIER_ON_S: Final = 1_800.0
_HUMIDIFIER_RISE_PERCENT: Final = 2.0
_FILL_ON_S: Final = 120.0
FILL_RISE_PERCENT: Final = 1.0
"""The smallest change of the water level that counts."""
_LEVEL_HYSTERESIS_PERCENT: Final = 3.0
_LEVEL_LOW_PERCENT: Final = 10.0  # a pump above it draws no air yet
_LEVEL_HIGH_PERCENT: Final = 95.0  # what an outflow that is still open brings has room
_MARGINS: Final = {WATER_LEVEL: 2.0}
"""How near the set point a working controller stays, where it is not the band of its loop."""


class _Heat(NamedTuple):
    """What heaters do: `rise_degc` within `on_s`, at most `off_rise_degc` while they are off."""

    hysteresis_degc: float
    on_s: float
    rise_degc: float
    off_rise_degc: float


_OF_AIR: Final = _Heat(3.0, 1_800.0, 0.5, 3.0)
_OF_WATER: Final = _Heat(2.0, 3_600.0, 0.3, 1.0)  # also of soil: what warms slowly


class ClassInterlocks:
    """The interlocks of several outputs together."""

    def __init__(self, inputs: InterlockInputs, feedbacks: Mapping[str, NotConfirmed]) -> None:
        self._inputs = inputs
        self._chamber = inputs.chamber
        self._readings = inputs.readings
        self._feedbacks = feedbacks

    def still_rising(self) -> Iterator[Interlock]:
        """Those that may switch coolers on."""
        for variable in self._measured_of(OutputClass.HEATER):
            yield self._still_rising(variable)

    def exclusive(self) -> Iterator[Interlock]:
        """Those of outputs that must not work at the same time."""
        for first, second in self._pairs():
            yield NeverTogether(f"{first}_or_{second}", self._each_of((first, second)), _CHANGEOVER_S)
        doses = {each.own_variable: each.first_moved for each in self._of(OutputClass.DOSING)}
        if doses:
            limits = self._inputs.limits
            yield MixingPause(
                self._each_of(doses), doses, pause_s=limits.mixing_pause_s, longest_s=limits.dose_longest_s
            )

    def _each_of(self, variables: Iterable[str]) -> dict[str, OnTimes]:
        return {variable: self._inputs.times([variable]) for variable in variables}

    def others(self) -> Iterator[Interlock]:
        """All others, which switch outputs off."""
        yield from self._heat()
        yield from self._without_effect()
        yield from DoseInterlocks(self._inputs).made()
        yield from self._water()

    # which outputs

    def _of(self, *classes: OutputClass, drives: str = "", raises: bool | None = None) -> list[Output]:
        """The outputs of these classes, that drive this variable, in this direction, if they are given."""
        ways = {True: ("raises",), False: ("lowers",), None: ("raises", "lowers")}[raises]
        return [
            each
            for each in self._chamber.outputs_of(*classes)
            if drives in ("", each.first_moved[0]) and each.first_moved[1] in ways
        ]

    def _measured_of(self, of: OutputClass) -> list[str]:
        """The measured variables that outputs of a class drive."""
        driven = {each.first_moved[0]: None for each in self._of(of)}
        return [variable for variable in driven if variable in self._chamber.measured]

    def _that(self, variable: str, *, raises: bool) -> list[Output]:
        """All outputs that move a variable in a direction, whatever they are there for."""
        return [each for each in self._chamber.outputs if each.effects.get(variable) is raises]

    # exclusions

    def _pairs(self) -> dict[tuple[str, str], None]:
        """The own variables of outputs that work against each other."""
        return {
            (one.own_variable, other.own_variable): None
            for of, against in _OPPOSED.items()
            for one in self._of(of, raises=True)
            for other in self._of(against, drives=one.first_moved[0], raises=False)
            if one.first_moved[0]
        }

    # heat

    def _heat(self) -> Iterator[Interlock]:
        for variable in self._chamber.measured:
            known = VARIABLES[variable]
            heaters = self._that(variable, raises=True) if known.unit == "degC" else []
            if heaters:
                yield OverTemperature(
                    _over_temperature(variable),
                    own(heaters),
                    self._readings,
                    variable,
                    limit_degc=self._chamber.heat_limit_degc(variable),
                    hysteresis_degc=_heat_of(variable).hysteresis_degc,
                    subject="heaters",
                )

    def _still_rising(self, variable: str) -> Interlock:
        heaters = self._that(variable, raises=True)
        lowering = own(self._that(variable, raises=False))
        fans = own(self._of(OutputClass.FAN)) if variable == TEMPERATURE else frozenset()
        coolers = own(self._of(*_VENTING)) & lowering | fans
        confirmed = [self._feedbacks[each.name] for each in heaters if each.name in self._feedbacks]
        return StillRising(
            variable,
            own(heaters),
            coolers,
            self._inputs.times(own(heaters)),
            self._readings,
            lamps=self._inputs.times(self._chamber.lamp_channels),
            cooling=self._inputs.times(coolers),
            chilling=self._inputs.times(coolers - fans),
            window_s=_HEATER_OFF_S,
            rise_degc=_heat_of(variable).off_rise_degc,
            warm_degc=-inf if variable == TEMPERATURE else _WARM_ROOM_DEGC,
            suspects=[partial(getattr, each, "stuck") for each in confirmed],
        )

    # no effect

    def _without_effect(self) -> Iterator[Interlock]:
        for variable in self._measured_of(OutputClass.HEATER):
            heat = _heat_of(variable)
            yield self._unmoved(OutputClass.HEATER, variable, heat.rise_degc, heat.on_s)
        for variable in self._measured_of(OutputClass.HUMIDIFIER):
            yield self._unmoved(OutputClass.HUMIDIFIER, variable, _HUMIDIFIER_RISE_PERCENT, _HUMIDIFIER_ON_S)
        for raises in (True, False):
            pumps = (
                self._fills if raises else own(self._of(OutputClass.PUMP, drives=WATER_LEVEL, raises=False))
            )
            if WATER_LEVEL in self._chamber.measured and pumps:
                yield self._level_unmoved(pumps, raises=raises)

    def _unmoved(self, of: OutputClass, variable: str, rise: float, on_s: float) -> Interlock:
        holds = own(self._of(of, drives=variable, raises=True))
        is_humidity = of is OutputClass.HUMIDIFIER
        effect = Effect(
            variable,
            rise,
            VARIABLES[variable].unit,
            margin=_margin(variable),
            # a met temperature proves nothing where the room is as warm
            proof_from=float("-inf") if is_humidity else float("inf"),
            proves_without_set_point=False,
            held_share=0.9,
            held_limit=1.0,
            drift_per_s=rise / on_s,
            probe_s=_PROBE_S,
        )
        broken = "empty or broken" if is_humidity else "broken"
        return Unmoved(
            holds,
            self._inputs.times(holds),
            effect,
            self._readings,
            limit=on_s,
            subject="the humidifier" if is_humidity else "the heater",
            causes=f"it may be {broken}, or the sensor may have fallen out of place",
        )

    @property
    def _fills(self) -> frozenset[str]:
        return own(self._that(WATER_LEVEL, raises=True))

    def _level_unmoved(self, holds: frozenset[str], *, raises: bool) -> Interlock:
        effect = Effect(
            WATER_LEVEL,
            FILL_RISE_PERCENT,
            VARIABLES[WATER_LEVEL].unit,
            raises,
            margin=_margin(WATER_LEVEL),
            # a tank that a drain has emptied falls no further
            proof_from=float("inf") if raises else -_LEVEL_LOW_PERCENT,
            held_share=0.9,
            held_limit=1.0,
            forget_s=_FORGET_DOSES_S,
            stays=False,  # a leak may hold a level as long as the tap is open
        )
        return Unmoved(
            holds,
            self._inputs.times(holds),
            effect,
            self._readings,
            limit=self._follow_s(self._that(WATER_LEVEL, raises=raises)),
            subject="the filling valve" if raises else "the drain",
            causes="the tank or a drain may leak, the tap may be shut, or the level sensor has failed"
            if raises
            else "it may be blocked, the tap may be stuck open, or the level sensor has failed",
        )

    def _follow_s(self, moving: list[Output]) -> float:
        """How long the level may take to follow: a few times what flow and tank predict, if known."""
        ml_s = Volumes(self._inputs.given(moving)).full_ml_s
        if not all(each.flow_ml_min for each in moving):
            return _FILL_ON_S
        ml = _FOLLOW * FILL_RISE_PERCENT / 100.0 * self._tank_ml
        return max(_LEAST_FOLLOW_S, ml / ml_s)

    @property
    def _tank_ml(self) -> float:
        """The volume of the full tank."""
        return 1_000.0 * self._chamber.loop_options(WATER_LEVEL).tank_litres

    # water

    def _water(self) -> Iterator[Interlock]:
        """The water is too low for pumps, or high enough for the inflow."""
        yield from self._level("water_too_low", self._wet(), "water_level_low", below=_LEVEL_LOW_PERCENT)
        yield from self._level("water_too_high", self._fills, "water_level_high", above=_LEVEL_HIGH_PERCENT)
        filling = self._that(WATER_LEVEL, raises=True)
        if filling and WATER_LEVEL in self._chamber.measured:
            if all(each.flow_ml_min for each in filling):
                yield self._fill_room(filling)
            brim = (_LEVEL_HIGH_PERCENT + 100.0) / 2
            over = Threshold(WATER_LEVEL, self._inputs.reader(WATER_LEVEL), above=brim, unit="percent")
            yield WhileBeyond(
                "water_overflow",
                self._fills,
                [over],
                after_s=_OVERFLOW_S,
                holds_unknown=False,
                failure="the filling valve may be stuck open: close the tap by hand",
            )

    def _fill_room(self, filling: list[Output]) -> Interlock:

        def room(now: float) -> float | None:
            level = self._readings.combined(WATER_LEVEL, now)
            return None if level is None else max(0.0, _LEVEL_HIGH_PERCENT - level) / 100.0 * self._tank_ml

        return TankRoom(
            "fill_room",
            own(filling),
            self._inputs.times(own(filling)),
            Volumes(self._inputs.given(filling)),
            room=room,
            reads=(WATER_LEVEL,),
            pause_s=PUMP_REST_S,
            words=f"the tank had no more room up to {_LEVEL_HIGH_PERCENT:g} percent when filling began",
        )

    def _level(self, name: str, holds: Iterable[str], switch: str, **sides: float) -> Iterator[Interlock]:
        judged = []
        if switch in self._chamber.measured:
            judged.append(is_on(switch, self._inputs.reader(switch)))
        if WATER_LEVEL in self._chamber.measured:
            read, hysteresis = self._inputs.reader(WATER_LEVEL), _LEVEL_HYSTERESIS_PERCENT
            judged.append(Threshold(WATER_LEVEL, read, hysteresis=hysteresis, unit="percent", **sides))
        if holds and judged:
            made = WhileBeyond(name, holds, judged, is_expected=name == "water_too_high")
            made.is_of_tank = True
            yield made

    def _wet(self) -> frozenset[str]:
        """What must not work without water: dosing, pumps in the water, its heaters and coolers."""
        pumps = [each for each in self._of(OutputClass.PUMP) if each.first_moved[0] != WATER_LEVEL]
        thermal = self._of(OutputClass.HEATER, OutputClass.COOLER)
        in_water = [each for each in thermal if each.first_moved[0].startswith("water_")]
        return own([*self._of(OutputClass.DOSING), *pumps, *in_water])


def counters_of(chamber: Chamber, output: Output) -> set[str]:
    """The own variables of what runs while an output stays on by itself. For heaters see `StillRising`."""
    variable = output.first_moved[0]
    against = {OutputClass.VALVE: OutputClass.FAN, OutputClass.HUMIDIFIER: OutputClass.DEHUMIDIFIER}
    found = output.role and against.get(output.role.output_class)
    if not found:
        return set()
    return {each.own_variable for each in chamber.outputs_of(found) if each.first_moved[0] == variable}


def _heat_of(variable: str) -> _Heat:
    return _OF_AIR if variable == TEMPERATURE else _OF_WATER


def _margin(variable: str) -> float:
    return _MARGINS.get(variable) or loop_kind(variable).band


def _over_temperature(variable: str) -> str:
    place = "" if variable == TEMPERATURE else f"{variable.removesuffix('_temperature')}_"
    return f"{place}heater_over_temperature"
