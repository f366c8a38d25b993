"""Sensors of one variable that drift apart: a difference that is small and lasts."""

from __future__ import annotations

import logging
import statistics
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, Final

from growd.control.topics import EVENT, event, events
from growd.runtime.sentence import Sentence, problem
from growd.runtime.text import told_apart
from growd.variables import (
    ACIDITY,
    AIR_PRESSURE,
    CARBON_DIOXIDE,
    CONDUCTIVITY,
    DISSOLVED_OXYGEN,
    HUMIDITY,
    ILLUMINANCE,
    PPFD,
    ROOM_HUMIDITY,
    ROOM_TEMPERATURE,
    SOIL_MOISTURE,
    TEMPERATURE,
    VARIABLES,
    WATER_TEMPERATURE,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd.bus import Bus
    from growd.bus.nodes import Node

WINDOW_S: Final = 3_600.0
EACH_S: Final = 30.0
LEAST_SAMPLES: Final = 60
"""Of `WINDOW_S / EACH_S`; with fewer the difference is not known."""

LIMITS: Final[dict[str, tuple[float, float]]] = {
    CARBON_DIOXIDE: (100.0, 0.1),
    TEMPERATURE: (1.0, 0.0),
    HUMIDITY: (6.0, 0.0),
    ILLUMINANCE: (20.0, 0.4),
    PPFD: (5.0, 0.4),
    AIR_PRESSURE: (3.0, 0.0),
    ROOM_TEMPERATURE: (1.0, 0.0),
    ROOM_HUMIDITY: (6.0, 0.0),
    WATER_TEMPERATURE: (1.0, 0.0),
    ACIDITY: (0.2, 0.0),
    CONDUCTIVITY: (0.1, 0.1),
    DISSOLVED_OXYGEN: (0.5, 0.1),
    SOIL_MOISTURE: (10.0, 0.0),
}
"""Twice the accuracy of usual sensors (datasheets): in the unit of the variable, and as a fraction of the
value; the larger counts. Sensors of other variables are compared only with a limit of their own."""

RELEASED_BELOW: Final = 0.7
"""Share of the limit below which sensors count as together again."""

logger = logging.getLogger(__name__)


class DriftWatch:
    """Compares good sensors of a variable by the median of their differences in the last hour.

    A sample each 30 s, for at most an hour, so that a dose, a door or a cloud does not count. `limit` is in
    the unit of the variable, None for that of the table. A drift and its end are events of the kind `drift`
    and logged once each. The node information `apart` has the state for the status.
    """

    def __init__(self, bus: Bus, node: Node, environment: str, variable: str, limit: float | None) -> None:
        self._clock = bus.clock
        self._environment = environment
        self._known = VARIABLES[variable]
        self._limit = limit
        absolute, share = LIMITS.get(variable, (inf, 0.0))
        # darkness says nothing of sensors whose errors grow with the light
        self._least = absolute if share and limit is None else -inf
        self._events = node.advertise(events(environment), EVENT)
        self._samples: deque[tuple[float, dict[str, float]]] = deque(maxlen=int(WINDOW_S / EACH_S))
        self._text = ""
        self._is_apart = False
        self._is_known = False
        node.describe("apart", self._information)

    def take(self, good: Mapping[str, float]) -> None:
        """Take the present values of the good sensors, at most one sample in 30 s."""
        now = self._clock.monotonic()
        if self._samples and now - self._samples[-1][0] < EACH_S:
            return
        if max(good.values(), default=0.0) <= self._least:
            return
        self._samples.append((now, dict(good)))
        while now - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()
        self._judge()

    def problems(self) -> list[dict[str, Any]]:
        """The drift as a problem, if there is one."""
        if not (self._is_apart and self._is_known):
            return []
        about = {"environment": self._environment, "variable": self._known.name}
        return [problem(Sentence(self._text, "sensors_apart", **about), name="/".join(about.values()))]

    def _judge(self) -> None:
        values = self._medians()
        self._is_known = len(values) > 1
        if not self._is_known:
            return
        lowest, highest = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
        difference, limit = values[highest] - values[lowest], self._limit_at(values[highest])
        shown, most = told_apart(difference, limit, self._known.precision)
        self._text = (
            f"{highest} reads {shown} {self._known.unit} more {self._known.name} than {lowest} in "
            f"{self._environment} (median of the last hour, limit {most}): calibrate or replace one"
        )
        if not self._is_apart and difference > limit:
            self._change(is_apart=True)
        elif self._is_apart and difference < RELEASED_BELOW * limit:
            self._change(is_apart=False)

    def _medians(self) -> dict[str, float]:
        """The value of each sensor, so that the differences are the medians of those from the first one."""
        counts: dict[str, int] = {}
        for _, good in self._samples:
            for device in good:
                counts[device] = counts.get(device, 0) + 1
        reference = max(counts, key=counts.__getitem__, default="")
        if counts.get(reference, 0) < LEAST_SAMPLES:
            return {}
        base = statistics.median(good[reference] for _, good in self._samples if reference in good)
        values = {reference: base}
        for device in counts:
            apart = [
                good[device] - good[reference]
                for _, good in self._samples
                if {device, reference} <= good.keys()
            ]
            if device != reference and len(apart) >= LEAST_SAMPLES:
                values[device] = base + statistics.median(apart)
        return values

    def _limit_at(self, value: float) -> float:
        if self._limit is not None:
            return self._limit
        absolute, share = LIMITS.get(self._known.name, (inf, 0.0))
        return max(absolute, share * abs(value))

    def _change(self, *, is_apart: bool) -> None:
        self._is_apart = is_apart
        name = self._known.name
        code = "sensors_apart" if is_apart else "sensors_agree"
        text = self._text if is_apart else f"the sensors of {name} agree again"
        message = Sentence(text, code, variable=name)
        logger.log(logging.WARNING if is_apart else logging.INFO, "%s", message)
        self._events.publish(event("drift", name, message))

    def _information(self) -> dict[str, Any]:
        return {
            "environment": self._environment,
            "variable": self._known.name,
            "is_known": self._is_known,
            "is_apart": self._is_apart,
            "text": self._text,
        }
