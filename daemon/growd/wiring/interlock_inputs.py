"""What the interlocks of a chamber are made from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from growd.control.interlocks.on_times import OnTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.config import Chamber, Output
    from growd.control.interlocks.base import SensorReadings
    from growd.control.interlocks.node import Interlocks
    from growd.control.pumps import PumpFlow, Pumps, TimedFlow


class InterlockInputs:
    """The inputs of all interlocks of a chamber."""

    def __init__(self, chamber: Chamber, readings: SensorReadings, pumps: Pumps) -> None:
        self.chamber = chamber
        self.limits = chamber.options.interlock
        self.readings = readings
        self.pumps = pumps
        self._times: dict[tuple[frozenset[str], str, bool], OnTimes] = {}

    def reader(self, variable: str) -> Callable[[float], float | None]:
        """What returns the value of a variable at a time."""
        return partial(self.readings.combined, variable)

    def times(self, variables: Iterable[str], device: str = "", *, of_tank: bool = False) -> OnTimes:
        """The times of all outputs of these own variables together, with `device` of this one only.

        Those `of_tank` lack doses into a measuring cylinder.
        """
        return self._times.setdefault((frozenset(variables), device, of_tank), OnTimes())

    def given(
        self, outputs: Iterable[Output], share: float = 1.0, *, of_tank: bool = False
    ) -> list[TimedFlow]:
        """The times of outputs, and this share of their flow in ml/s. Those of one own variable have one."""
        names = {each.own_variable: each.name for each in outputs}
        return [
            (self.times([variable], of_tank=of_tank), partial(ml_s, self.pumps.flows.get(name), share))
            for variable, name in names.items()
        ]

    def track(self, interlocks: Interlocks) -> None:
        """Let `interlocks` record the times."""
        for (variables, device, of_tank), times in self._times.items():
            interlocks.track(times, variables, device, of_tank=of_tank)


def ml_s(flow: PumpFlow | None, share: float = 1.0) -> float:
    """This share of the flow of an output, 0 for an unknown one."""
    return 0.0 if flow is None else share * flow.ml_s


def own(outputs: Iterable[Output]) -> frozenset[str]:
    """The own variables of outputs."""
    return frozenset(each.own_variable for each in outputs)
