"""Whether control loops and conditions can work with the sensors and outputs that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.config.findings import Finding, at, beyond_range, did_you_mean
from growd.device_kinds import LAMP_CHANNELS
from growd.variables import ILLUMINANCE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.chamber import Chamber
    from growd.config.conditions import Condition
    from growd.config.findings import Fault


def loop_faults(chamber: Chamber) -> Iterator[Finding]:
    """Sections of loops that nothing uses, or whose options do not go together."""
    for variable, options in chamber.options.control.items():
        path = chamber.path("control", variable)
        if reason := _unusable(chamber, variable):
            yield Finding(path, reason)
        elif options.feed_forward and chamber.loop_method(variable) == "dose":
            yield Finding((*path, "feed_forward"), "is for a PID, and this variable is controlled by doses")
    for variable in chamber.loops:
        for path, output in chamber.outputs_by_path.items():
            is_dose = variable in output.moved and chamber.loop_method(variable) == "dose"
            if is_dose and output.flow_ml_min is None:
                yield Finding((*path, "flow_ml_min"), f"is missing; {output.name} gives doses for {variable}")


def _unusable(chamber: Chamber, variable: str) -> str:
    """Why there is no such loop, "" if there may be one."""
    if variable not in VARIABLES or VARIABLES[variable].is_output:
        return f"there is no such variable to control{did_you_mean(variable)}"
    if variable == ILLUMINANCE:
        return "the light is controlled by the section [light]"
    is_misspelt = any(each not in VARIABLES for output in chamber.outputs for each in output.drives)
    if variable in chamber.loops or (is_misspelt and variable in chamber.measured):
        return ""
    missing = "sensor measures" if variable not in chamber.measured else "output moves"
    return f"no {missing} {variable}, so nothing controls it"


def faults_of_conditions(chamber: Chamber) -> Iterator[Finding]:
    """Conditions that cannot work."""
    names: set[str] = set()
    for number, condition in enumerate(chamber.options.condition):
        path = chamber.path("condition", number)
        if condition.name in names:
            yield from at(path, [("name", f"{condition.name} is the name of another condition")])
        names.add(condition.name)
        yield from at(path, _limit(condition))
        yield from at(path, _held(chamber, condition))
        yield from at(path, _variable(chamber, condition))


def _limit(condition: Condition) -> Iterator[Fault]:
    given = [name for name in ("above", "below", "on") if getattr(condition, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        yield given[-1] if given else "above", f"needs one of above, below and on, not {found}"
    yield from beyond_range(condition.variable, above=condition.above, below=condition.below)


def _held(chamber: Chamber, condition: Condition) -> Iterator[Fault]:
    known = {output.name: output for output in chamber.outputs}
    for name in condition.outputs:
        if name == "light" and chamber.lamp_channels:
            if condition.hold == "on":
                yield "hold", "the lamp can be held off only"
        elif name not in known:
            there = ", ".join([*known, *(["light"] if chamber.lamp_channels else [])]) or "none"
            yield "outputs", f"there is no output {name}; there is {there}"
        elif condition.hold == "on" and (role := known[name].role) and role.must_be_safe_off:
            yield "hold", f"{name} is a {role.name}, which a condition can only hold off"


def _variable(chamber: Chamber, condition: Condition) -> Iterator[Fault]:
    name = condition.variable
    held = [each.name for each in chamber.outputs if each.own_variable == name]
    if itself := [each for each in held if each in condition.outputs]:
        yield "variable", f"is that of {itself[0]}, which the condition holds itself"
        return
    channels = {f"light_intensity_{channel}" for channel in chamber.lamp_channels}
    if held or name in {*chamber.known, *channels} or chamber.may_measure(name):
        return
    if name not in VARIABLES:
        yield "variable", f"there is no variable {name}{did_you_mean(name)}"
    elif VARIABLES[name].is_output or name.removeprefix("light_intensity_") in LAMP_CHANNELS:
        yield "variable", f"there is no output for {name}"
    else:
        yield "variable", f"no sensor measures {name}"
