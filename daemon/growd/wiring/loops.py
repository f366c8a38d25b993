"""Control loops of one environment, from its configuration: settings, and who moves what."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from growd.control.interlocks.limits import PUMP_ON_S
from growd.control.loop import Doses, DoseSize, LoopController, LoopSettings
from growd.control.output_control import Demand, OutputController
from growd.control.pid import Gains
from growd.control.watched_loops import Loop, output_loop
from growd.loops import CONTACT_CYCLE_S, loop_kind
from growd.output_roles import OutputClass
from growd.wiring.actuators import switching_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from growd.bus import Bus
    from growd.config import Chamber, Output
    from growd.config.loops import LoopOptions
    from growd.control.loop_inputs import FreshAir, LampShare
    from growd.control.pumps import Pumps
    from growd.loops import LoopKind

MIXED_S = 10.0
"""A dose begins this long after the interlock of the last one has ended."""
LEAST_S = 0.1
WITHIN = 0.9
"""Share of the longest dose of the interlocks that a dose may take."""


def loop_controller(
    chamber: Chamber, bus: Bus, variable: str, air: FreshAir, lamp: LampShare, *, pumps: Pumps
) -> LoopController:
    """The controller of one variable."""
    lowering = [each for each in chamber.drivers_of(variable) if not each.moved[variable]]
    only_fans = bool(lowering) and all(each.is_a(OutputClass.FAN) for each in lowering)
    return LoopController(
        bus,
        chamber.environment,
        variable,
        loop_settings(chamber, variable, pumps),
        raises=chamber.names_of_drivers(variable, raises=True),
        lowers=chamber.names_of_drivers(variable, raises=False),
        floor=partial(air.floor, variable) if only_fans else None,
        lamp=lamp,
        measured_stale_after_s=chamber.stale_after_s(variable),
        remedy=_remedy(chamber, variable),
    )


def can_tune(chamber: Chamber, variable: str) -> bool:
    """Whether a variable has an autotune: an output raises it, and not by doses."""
    is_dosed = chamber.loop_method(variable) == "dose"
    return (
        loop_kind(variable).test_on_s > 0
        and not is_dosed
        and bool(chamber.names_of_drivers(variable, raises=True))
    )


def output_controller(
    chamber: Chamber, bus: Bus, outputs: Sequence[Output], air: FreshAir, pumps: Pumps
) -> OutputController:
    """The controller of the outputs of one own variable."""
    first = outputs[0]
    on_s, off_s = switching_of(chamber, first.own_variable)
    is_fan = first.is_a(OutputClass.FAN)
    demands = [
        Demand(each, first.moved[each], partial(air.helps, each) if is_fan else lambda: True)
        for each in chamber.loops
        if each in first.moved
    ]
    return OutputController(
        bus,
        chamber.environment,
        first.own_variable,
        demands,
        outputs=[each.name for each in outputs],
        can_dim=all(each.can_dim for each in outputs),
        share=_share(first, pumps),
        minimum_on_s=max(LEAST_S, on_s),
        minimum_off_s=max(LEAST_S, off_s),
        minimum_cycle_s=max(map(_cycle_s, outputs)),
    )


def loop_settings(chamber: Chamber, variable: str, pumps: Pumps) -> LoopSettings:
    """The settings of one variable: what is configured, else what the table of loops says."""
    kind, options = loop_kind(variable), chamber.loop_options(variable)
    gains = Gains(
        _given(options.kp, kind.kp),
        _given(options.ti_s, kind.ti_s),
        _given(options.td_s, kind.td_s),
    )
    method = chamber.loop_method(variable)
    lowering_kp = options.lowering_kp
    if lowering_kp is None and options.kp is None:
        lowering_kp = kind.lowering_kp
    return LoopSettings(
        gains,
        _given(options.band, kind.band),
        _given(options.lowers_band, kind.lowers_band),
        method,
        lowering=_with_gain(gains, lowering_kp),
        night=_with_gain(gains, options.night_kp),
        feed_forward=options.feed_forward,
        doses=_doses(chamber, variable, options, kind, pumps) if method == "dose" else None,
    )


def watched_loop(chamber: Chamber, variable: str) -> Loop:
    """What the watch on set points has to know of one variable."""
    drivers = chamber.drivers_of(variable)
    return output_loop(
        variable,
        raising=[each.own_variable for each in drivers if each.moved[variable]],
        lowering=[each.own_variable for each in drivers if not each.moved[variable]],
        devices=[each.name for each in drivers],
        full={each.own_variable: each.full for each in drivers},
        rivals={each.own_variable: _others(chamber, each, variable) for each in drivers},
    )


def _others(chamber: Chamber, output: Output, variable: str) -> tuple[str, ...]:
    """The other controlled variables that an output lowers, if it lowers this one."""
    if output.moved[variable]:
        return ()
    lowered = (each for each, raises in output.moved.items() if not raises and each != variable)
    return tuple(each for each in lowered if each in chamber.loops)


def _doses(chamber: Chamber, variable: str, options: LoopOptions, kind: LoopKind, pumps: Pumps) -> Doses:
    per_litre = _given(options.ml_per_unit_litre, kind.ml_per_unit_litre)
    lowering_per_litre = _given(options.lowering_ml_per_unit_litre, kind.lowering_ml_per_unit_litre)

    def size(ml_per_unit_litre: float, *, raises: bool) -> DoseSize:
        return DoseSize(
            options.tank_litres * ml_per_unit_litre,
            pumps.joint(chamber.names_of_drivers(variable, raises=raises)),
            _longest_s(chamber, variable, raises=raises),
            is_water=not raises and not _has_pumps(chamber, variable, raises=False),
        )

    return Doses(
        size(per_litre, raises=True),
        size(lowering_per_litre, raises=False),
        mixing_s=chamber.options.interlock.mixing_pause_s + MIXED_S,
        most_ml=options.most_ml,
    )


def _longest_s(chamber: Chamber, variable: str, *, raises: bool) -> float:
    """The longest dose that the interlocks let through."""
    limits = chamber.options.interlock
    return WITHIN * (limits.dose_longest_s if _has_pumps(chamber, variable, raises=raises) else PUMP_ON_S)


def _has_pumps(chamber: Chamber, variable: str, *, raises: bool) -> bool:
    """Whether dosing pumps raise a variable, or lower it."""
    drivers = [each for each in chamber.drivers_of(variable) if each.moved[variable] is raises]
    return any(each.is_a(OutputClass.DOSING) for each in drivers)


def _share(output: Output, pumps: Pumps) -> Callable[[float, float], float]:
    """The level, or the share of time, for a set point of the own variable: in ml/h for a pump."""
    return pumps.flows[output.name].share if output.unit == "ml/h" else lambda level, _: level


def _with_gain(usual: Gains, kp: float | None) -> Gains | None:
    return None if kp is None else msgspec.structs.replace(usual, kp=kp)


def _given(option: float | None, usual: float) -> float:
    return usual if option is None else option


def _cycle_s(output: Output) -> float:
    """The shortest time from one start of an output to the next, for doses."""
    if output.role is None or not output.has_contacts:
        return 0.0
    return CONTACT_CYCLE_S.get(output.role.output_class, 0.0)


def _remedy(chamber: Chamber, variable: str) -> str:
    """What makes the usual gains those of this chamber, for the warning; "" for no warning."""
    if chamber.config.simulator.enabled:
        return ""
    if can_tune(chamber, variable):
        service = f"{chamber.environment}/controllers/{variable}/autotune"
        return f"call the service {service}, or set the gains in [control.{variable}]"
    options = chamber.loop_options(variable)
    is_given = bool(options.ml_per_unit_litre or options.lowering_ml_per_unit_litre)
    if chamber.loop_method(variable) != "dose" or is_given:
        return ""
    return f"set ml_per_unit_litre or lowering_ml_per_unit_litre in [control.{variable}]"
