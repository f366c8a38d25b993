"""Whether control loops go together with sensors and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.config.findings import Finding, did_you_mean
from growd.variables import ILLUMINANCE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.chamber import Chamber


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
    if variable in chamber.loops:
        return ""
    missing = "sensor measures" if variable not in chamber.measured else "output moves"
    return f"no {missing} {variable}, so nothing controls it"
