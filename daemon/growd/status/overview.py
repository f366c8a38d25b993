"""The node `status`: what all others tell of themselves, and the variables, for whoever asks once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import UnknownNameError
from growd.control.topics import commanded, desired, measured
from growd.status.model import Reading, RecipeStatus, Status, VariableStatus
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.variables import Variable

CLIENTS: Final = "http"
"""The node in whose name clients publish."""


class Overview:
    """Gathers all of it at the moment that somebody asks, and does nothing in between."""

    def __init__(self, bus: Bus, environments: Collection[str]) -> None:
        self._bus = bus
        self._environments = tuple(environments)
        self.node = bus.node("status")
        self.node.describe("status", self._information, prepare=self.prepare)

    async def prepare(self) -> None:
        """Have all other nodes look up what they tell."""
        nodes = [self._bus.find_node(name) for name in self._bus.node_names() if name != self.node.name]
        await asyncio.gather(*(node.prepare() for node in nodes))

    def status(self) -> Status:
        """All of it, as what is looked up was when `prepare` was awaited last."""
        return msgspec.convert(self._information(), Status)

    def _information(self) -> dict[str, Any]:
        names = [name for name in self._bus.node_names() if name != self.node.name]
        details = [self._bus.find_node(name).details() for name in names]
        return {
            "time": self._bus.clock.time(),
            "machine_time": time.time(),
            "machine": next((each["machine"] for each in details if "machine" in each), None),
            "database": next((each["database"] for each in details if "database" in each), None),
            "variables": msgspec.to_builtins([*self._variables(details)]),
            "recipes": msgspec.to_builtins([*self._recipes(details)]),
            "devices": [each["device"] for each in details if "device" in each],
            "interlocks": [one for each in details for one in each.get("interlocks", ())],
            "store": next((each["store"] for each in details if "store" in each), None),
            "replications": [one for each in details for one in each.get("replications", ())],
            "set_points": [one for each in details for one in each.get("set_points", ())],
            "channels": [one for each in details for one in each.get("channels", ())],
            "problems": self._bus.problems(),
            "components": [
                {"name": each.name, "failures": each.failures, "last_error": each.last_error}
                for each in self._bus.liveness.components()
            ],
            "hardware": next((each["hardware"] for each in details if "hardware" in each), "real"),
        }

    def _variables(self, details: Iterable[dict[str, Any]]) -> Iterator[VariableStatus]:
        """Those that are measured, or that somebody wants or commands, or that an interlock holds."""
        held = {
            (one["environment"], one["variable"]): one for each in details for one in each.get("held", ())
        }
        for environment in self._environments:
            for variable in VARIABLES.values():
                told = self._variable(environment, variable, held.get((environment, variable.name)))
                if self._is_sensed(environment, variable.name) or told.is_known:
                    yield told

    def _variable(self, environment: str, variable: Variable, held: dict[str, Any] | None) -> VariableStatus:
        now, left = self._bus.clock.time(), self._hand_left_s(environment, variable.name)
        as_is = self._last(measured(environment, variable.name))
        wanted = self._last(desired(environment, variable.name))
        done = self._last(commanded(environment, variable.name))
        level = done.value if done is not None and done.value is not None else 0.0
        if held is not None and held["level"] == level:
            held = None  # the output does what it is commanded, or rests
        return VariableStatus(
            environment,
            variable.name,
            variable.unit,
            None if as_is is None else _reading(as_is, now, _giver(as_is, environment)),
            None if wanted is None else _reading(wanted, now, _giver(wanted, environment)),
            None if done is None else _reading(done, now, _commander(done, left)),
            left,
            held["by"] if held is not None else "",
            held["level"] if held is not None else None,
        )

    def _is_sensed(self, environment: str, variable: str) -> bool:
        try:
            return not self._bus.topics.get(measured(environment, variable)).is_open
        except UnknownNameError:
            return False

    def _hand_left_s(self, environment: str, variable: str) -> float:
        parameter = self._bus.parameters.declared(f"{environment}/controllers/{variable}/override_left")
        return 0.0 if parameter is None else float(parameter.value)

    def _recipes(self, details: Iterable[dict[str, Any]]) -> Iterator[RecipeStatus]:
        revisions = {each["recipe"]["environment"]: each["recipe"] for each in details if "recipe" in each}
        for environment in self._environments:
            last = self._last(f"{environment}/recipe_state")
            if last is not None:
                told = last.value
                revision = revisions.get(environment, {})
                yield RecipeStatus(
                    environment,
                    told["state"],
                    told["recipe_id"],
                    told["phase"],
                    told["elapsed"],
                    told["remaining"],
                    revision.get("revision", ""),
                    revision.get("changed", ""),
                )

    def _last(self, topic: str) -> Message | None:
        try:
            return self._bus.topics.get(topic).last
        except UnknownNameError:
            return None


def _reading(message: Message, now: float, by: str) -> Reading:
    return Reading(message.value, str(message.quality), max(0.0, now - message.time), by)


def _commander(message: Message, hand_left_s: float) -> str:
    """Who gave a command: a controller repeats what somebody commands by hand."""
    return "hand" if hand_left_s or message.node == CLIENTS else "control"


def _giver(message: Message, environment: str) -> str:
    """Who gave a set point or a measured value."""
    by_hand = dict.fromkeys((CLIENTS, f"{environment}/set_points"), "hand")
    known = {**by_hand, f"{environment}/recipe_runner": "recipe"}
    return known.get(message.node, message.node)
