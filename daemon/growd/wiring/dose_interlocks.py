"""The interlocks of dosing pumps, from what is measured and from the volumes that they give."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from growd.control.interlocks.conditions import Threshold, WhileBeyond
from growd.control.interlocks.dose_effect import Answer, DoseEffect
from growd.control.interlocks.tank_room import StillWater, TankRoom
from growd.control.pumps import Volumes
from growd.loops import loop_kind
from growd.output_roles import OutputClass
from growd.variables import ACIDITY, CONDUCTIVITY, VARIABLES, WATER_LEVEL
from growd.wiring.interlock_inputs import own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config import Output
    from growd.control.interlocks.base import Interlock
    from growd.wiring.interlock_inputs import InterlockInputs

_VISIBLE: Final = {ACIDITY: 0.1, CONDUCTIVITY: 0.05}
"""The smallest change that a probe shows. A dose for less counts as a part of a dose."""
_NO_EFFECT_DOSES: Final = 3  # as many have far less effect than they must have
_CIRCULATION: Final = "water_circulation"
_HYSTERESIS: Final = 0.1
"""Of the limits, in pH and in mS/cm."""
_ROOM_SHARE: Final = 0.4
"""Share of the way to a limit that one dose may go: water takes less acid, the nearer it is to pH 5."""
_ACID_SHARE: Final = 0.05
"""Concentrates of nutrients are acid, too: they count as this share of their volume of acid."""
_SETTLED: Final = 0.9
"""Share of the time for mixing after which a dose is judged, since the next one may begin then."""
_ANSWERS: Final = {ACIDITY: (0.1, (0.4, 1.4)), CONDUCTIVITY: (0.3, (0.75, 1.2))}
"""Shares of the effect that the volume of doses predicts: less is no effect; those of a day are within.

Hard water, or water of pH 7, takes ten times the acid of soft water of pH 6; conductivities add up.
"""
_ANY_ANSWER: Final = (0.1, (0.0, inf))


class DoseInterlocks:
    """The interlocks of all dosing pumps of a chamber."""

    def __init__(self, inputs: InterlockInputs) -> None:
        self._inputs = inputs
        self._chamber = inputs.chamber
        self._limits = inputs.limits
        self._times = partial(inputs.times, of_tank=True)
        self._given = partial(inputs.given, of_tank=True)
        self._pumps = inputs.chamber.outputs_of(OutputClass.DOSING)

    def made(self) -> Iterator[Interlock]:
        """All of them. They are about the tank, and not about a pump whose hose is in a cylinder."""
        for each in self._made():
            each.is_of_tank = True
            yield each

    def _made(self) -> Iterator[Interlock]:
        limits = self._limits
        for variable, raises in dict.fromkeys(
            (variable, raises) for each in self._pumps for variable, raises in each.effects.items()
        ):
            if variable in self._chamber.measured:
                yield self._effect(variable, raises=raises)
        for name, room, variable, limit, raises in (
            ("water_too_acid", "acid_room", ACIDITY, limits.acid_off_ph, False),
            ("water_too_alkaline", "base_room", ACIDITY, limits.base_off_ph, True),
            ("water_too_salty", "nutrient_room", CONDUCTIVITY, limits.nutrients_off_ms_cm, True),
        ):
            pumps = self._that(variable, raises=raises)
            if pumps and variable in self._chamber.measured:
                yield self._beyond(name, pumps, variable, limit, raises=raises)
                yield self._before(room, pumps, variable, limit, raises=raises)
        if self._pumps and _CIRCULATION in self._chamber.own_variables:
            yield StillWater(own(self._pumps), self._times([_CIRCULATION]), limits.mixing_pause_s)

    def _that(self, variable: str, *, raises: bool) -> list[Output]:
        """The pumps that move a variable in a direction."""
        return [each for each in self._pumps if each.effects.get(variable) is raises]

    def _beyond(
        self, name: str, pumps: list[Output], variable: str, limit: float, *, raises: bool
    ) -> Interlock:
        """The limit of what is measured."""
        sides = {"above" if raises else "below": limit}
        read, unit = self._inputs.reader(variable), VARIABLES[variable].unit
        beyond = Threshold(variable, read, hysteresis=_HYSTERESIS, unit=unit, **sides)
        salts = self._that(ACIDITY, raises=True) if variable == CONDUCTIVITY else []  # a base is one
        return WhileBeyond(name, own(pumps + salts), [beyond], holds_unknown=False)

    def _before(
        self, name: str, pumps: list[Output], variable: str, limit: float, *, raises: bool
    ) -> Interlock:
        """The volume of one dose before the limit."""
        unit = VARIABLES[variable].unit
        acid = self._that(CONDUCTIVITY, raises=True) if variable == ACIDITY and not raises else []
        given, holds = [*self._given(pumps), *self._given(acid, _ACID_SHARE)], own(pumps + acid)
        return TankRoom(
            name,
            holds,
            self._times(holds),
            Volumes(given),
            room=partial(self._room, variable, limit, raises=raises),
            reads=(variable, WATER_LEVEL),
            pause_s=self._limits.mixing_pause_s,
            words=f"a dose goes at most two fifths of the way to {limit:g} {unit}, and the water mixes",
        )

    def _room(self, variable: str, limit: float, now: float, *, raises: bool) -> float | None:
        """The volume that one dose may have, in ml."""
        value = self._inputs.readings.combined(variable, now)
        if value is None:
            return None
        left = max(0.0, limit - value if raises else value - limit)
        return _ROOM_SHARE * left * self._ml_per_unit(variable, now, raises=raises)

    def _effect(self, variable: str, *, raises: bool) -> Interlock:
        kind = loop_kind(variable)
        pumps = self._that(variable, raises=raises)
        against = [each for each in self._chamber.outputs if each.effects.get(variable) is not raises]
        least, fits = _ANSWERS.get(variable, _ANY_ANSWER)
        return DoseEffect(
            own(pumps),
            self._times(own(pumps)),
            Volumes(self._given(pumps)),
            self._inputs.readings,
            Answer(
                variable,
                VARIABLES[variable].unit,
                raises,
                partial(self._ml_per_unit, variable, raises=raises),
                visible=_VISIBLE.get(variable) or kind.band,
                least=least,
                fits=fits,
                near=kind.dose_step,
            ),
            others=self._times(
                own(each for each in against if {variable, WATER_LEVEL} & each.effects.keys())
            ),
            doses=_NO_EFFECT_DOSES,
            settle_s=_SETTLED * self._limits.mixing_pause_s,
        )

    def _ml_per_unit(self, variable: str, now: float, *, raises: bool) -> float:
        """The volume that moves the tank by one unit: as configured, for the water that is there.

        0 where no dose has a known effect.
        """
        options, kind = self._chamber.loop_options(variable), loop_kind(variable)
        of_litre = options.ml_per_unit_litre or kind.ml_per_unit_litre
        if not raises:
            of_litre = options.lowering_ml_per_unit_litre or kind.lowering_ml_per_unit_litre
        return of_litre * options.tank_litres * self._filled(now)

    def _filled(self, now: float) -> float:
        """The filled share of the tank; without a known level `tank_litres` are there."""
        known = WATER_LEVEL in self._chamber.measured
        level = self._inputs.readings.combined(WATER_LEVEL, now) if known else None
        return 1.0 if level is None else level / 100.0
