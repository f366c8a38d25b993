"""The autotune of each control loop that has one, from the configuration."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from growd.control.autotune import Autotuner, TunedOutput
from growd.control.relay import LONGEST_S
from growd.control.watched_loops import name_of_output
from growd.variables import CARBON_DIOXIDE

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus import Bus
    from growd.config import Chamber
    from growd.control.interlocks.node import Interlocks
    from growd.control.loop import LoopController


def autotuner(
    chamber: Chamber,
    bus: Bus,
    controller: LoopController,
    interlocks: Interlocks,
    others: Callable[[], str],
) -> Autotuner:
    """The autotune of a variable that has one."""
    outputs = _outputs(chamber, controller.variable)
    return Autotuner(
        bus,
        chamber.environment,
        controller,
        outputs,
        why_held=partial(interlocks.why_held, [each.variable for each in outputs if each.is_tested]),
        most_on_s=_most_on_s(chamber, controller.variable),
        others=others,
    )


def _outputs(chamber: Chamber, variable: str) -> tuple[TunedOutput, ...]:
    found: dict[str, TunedOutput] = {}
    for each in chamber.drivers_of(variable):
        name = name_of_output(each.own_variable).removeprefix("the ")
        devices = tuple(other.name for other in chamber.outputs if other.own_variable == each.own_variable)
        found[each.own_variable] = TunedOutput(each.own_variable, name, devices, each.moved[variable])
    return tuple(found.values())


def _most_on_s(chamber: Chamber, variable: str) -> float:
    """The longest time on: a valve may be open only as long as its interlocks allow."""
    limits = chamber.options.interlock
    usual = LONGEST_S[variable]
    if variable == CARBON_DIOXIDE:
        usual = min(usual, limits.valve_open_s, limits.no_rise_open_s)
    return usual
