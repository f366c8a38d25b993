"""The autotune of each control loop that has one, from the configuration."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from growd.control.autotune import Autotuner, TunedOutput
from growd.control.pulse_test import PulseTest
from growd.control.step_test import BASELINE_S, MIXED_S, RANGES, DoseTest, StepTest
from growd.control.watched_loops import name_of_output
from growd.variables import CARBON_DIOXIDE, HUMIDITY, TEMPERATURE, WATER_TEMPERATURE
from growd.wiring.loops import switching_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus import Bus
    from growd.config import Chamber
    from growd.control.autotune import OutputTest
    from growd.control.interlocks.node import Interlocks
    from growd.control.loop import LoopController

LONGEST_S: Final = {TEMPERATURE: 300.0, HUMIDITY: 180.0, WATER_TEMPERATURE: 1_800.0}
"""The longest step of an autotune, unless the configuration has another."""


def autotuner(
    chamber: Chamber,
    bus: Bus,
    controller: LoopController,
    interlocks: Interlocks,
    others: Callable[[], str],
) -> Autotuner:
    """The autotune of a variable that has one. Doses are tested downwards where acid is the only pump."""
    variable = controller.variable
    raises = bool(chamber.names_of_drivers(variable, raises=True))
    outputs = _outputs(chamber, variable, raises=raises)
    tested = [each.variable for each in outputs if each.is_tested]
    make_test, most_on_s, minutes = _test(chamber, controller, tested, raises=raises)
    return Autotuner(
        bus,
        chamber.environment,
        controller,
        outputs,
        make_test,
        raises=raises,
        why_held=partial(interlocks.why_held, tested),
        most_on_s=most_on_s,
        minutes=minutes,
        others=others,
    )


def _outputs(chamber: Chamber, variable: str, *, raises: bool) -> tuple[TunedOutput, ...]:
    found: dict[str, TunedOutput] = {}
    for each in chamber.drivers_of(variable):
        name = name_of_output(each.own_variable).removeprefix("the ")
        devices = tuple(other.name for other in chamber.outputs if other.own_variable == each.own_variable)
        is_tested = each.moved[variable] is raises
        found[each.own_variable] = TunedOutput(each.own_variable, name, devices, is_tested)
    return tuple(found.values())


def _test(
    chamber: Chamber, controller: LoopController, tested: list[str], *, raises: bool
) -> tuple[Callable[[float], OutputTest], float, str]:
    """What makes the test, its longest step, and how long it takes in words."""
    variable = controller.variable
    options, doses = chamber.loop_options(variable), controller.settings.doses
    if variable == CARBON_DIOXIDE:
        limits = chamber.options.interlock
        most = options.autotune_on_s or min(120.0, limits.valve_open_s, limits.no_rise_open_s)
        return partial(PulseTest, most_open_s=most), most, "a quarter of an hour"
    if doses is not None:
        ml_per_unit = doses.ml_per_unit if raises else doses.lowering_ml_per_unit
        flow = doses.flow if raises else doses.lowering_flow
        longest = doses.longest_s if raises else doses.lowering_longest_s
        usual = min(longest, flow.seconds(RANGES[variable].enough * ml_per_unit))
        most = options.autotune_on_s or max(2.0, usual)
        make = partial(DoseTest, variable, most_on_s=most, flow=flow, mixing_s=doses.mixing_s, raises=raises)
        minutes = math.ceil((BASELINE_S + most + max(MIXED_S, doses.mixing_s)) / 60)
        return make, most, f"{minutes} minutes"
    most = options.autotune_on_s or LONGEST_S[variable]
    least = max(switching_of(chamber, each)[0] for each in tested)
    return partial(StepTest, variable, most_on_s=most, minimum_on_s=least), most, "a few minutes"
