"""Remarks in the answers to clients whose commands or set points an interlock holds."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from growd.control.topics import LIGHT_CHANNELS, commanded, desired
from growd.output_roles import ON_FROM
from growd.variables import CARBON_DIOXIDE, VALVE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from growd.bus.messages import Message
    from growd.bus.topics import Topics
    from growd.control.hold import OutputHold
    from growd.control.interlocks.base import Interlock


RAISED_BY_VALVE: Final[Mapping[str, Iterable[str]]] = {VALVE: (CARBON_DIOXIDE,)}


class Remarks:
    """The remarks of `interlocks` and of the `hold`. `driven` has the outputs behind each variable that
    clients set or command, `safe` the safe level of each output.
    """

    def __init__(
        self,
        interlocks: Sequence[Interlock],
        driven: Mapping[str, Sequence[str]],
        safe: Mapping[str, float],
        hold: OutputHold | None,
    ) -> None:
        self._interlocks = interlocks
        self._driven = driven
        self._safe = safe
        self._hold = hold

    def answer_on(self, topics: Topics, environment: str) -> None:
        """Answer clients with a remark when the output that they command is held."""
        for variable, outputs in self._driven.items():
            for topic in (commanded(environment, variable), desired(environment, variable)):
                if topic in topics:
                    remark = functools.partial(self._remark, variable, outputs)
                    topics.get(topic).remarks.append(remark)

    def _remark(self, variable: str, outputs: Sequence[str], message: Message) -> str:
        """The remark for a client's message: which interlock holds the output, or ""."""
        value = message.value
        if value is None:
            return ""
        if isinstance(value, dict):
            value = max(value.values())
        is_switch = variable in VARIABLES and VARIABLES[variable].unit == "switch"
        level = float(value >= ON_FROM if is_switch else value > 0)
        if self._hold is not None and self._hold.reason:
            is_command = message.topic.partition("/")[2].startswith("commanded/")
            return f"{'is dropped' if is_command else 'has no effect yet'}: {self._hold.reason}"
        for each in self._interlocks:
            if not each.reason or (each.is_routine and variable not in outputs):
                continue  # a pause of an output is no news for the set point of what it moves
            held = [output for output in outputs if self._is_held(each, output, level)]
            if held:
                *some, last = map(_named, held)
                names = f"{', '.join(some)} and {last} are" if some else f"{last} is"
                return f"{names} held by {each.name}: {each.reason}"
        return ""

    def _is_held(self, interlock: Interlock, output: str, level: float) -> bool:
        """Whether a tripped interlock changes this level of an output."""
        if output not in interlock.holds:
            return False
        return interlock.held_level(output, level, self._safe.get(output, 0.0)) != level


def _named(output: str) -> str:
    """The variable that commands an output. A lamp channel has a shorter name."""
    return f"light_intensity_{output}" if output in LIGHT_CHANNELS else output


def driven_by(outputs: Iterable[str], drives: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The outputs behind each variable that clients set or command. `drives`: what they move."""
    driven: dict[str, list[str]] = {}
    for output in sorted(outputs):
        others = {"light_illuminance", "light_channels"} if output in LIGHT_CHANNELS else set()
        for variable in {_named(output), *others, *drives.get(output, ())}:
            driven.setdefault(variable, []).append(output)
    return driven
