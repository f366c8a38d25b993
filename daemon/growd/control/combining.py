"""Combiners: one value from several sensors of a variable."""

from __future__ import annotations

import logging
import statistics
from typing import TYPE_CHECKING, Any, Final, Literal

from growd.bus.messages import FLOAT64, Quality
from growd.control.drift import DriftWatch
from growd.control.topics import raw
from growd.runtime.sentence import Sentence, problem
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.bus import Bus
    from growd.bus.messages import Message

    Method = Literal["first", "median"]

ENOUGH_TO_VOTE: Final = 3
APART_S: Final = 300.0
"""Sensors that disagree for this long are a problem. A slow one needs minutes to follow a dose of CO2."""
logger = logging.getLogger(__name__)


class Combiner:
    """Publishes `<environment>/raw/<variable>` from several sensors (`devices`, in order of preference).

    A sensor is good while its last message is ok and younger than `stale_after_s`. The first good sensor
    leads: with each of its messages, its value (`first`) or the median of all good values (`median`, from
    three sensors on) is published. Without a good sensor, one message without a value is published.

    Good sensors further apart than the variable's `jump` for `APART_S` are a problem of the node.
    `DriftWatch` watches for smaller differences that last, against `drift_limit` or the limit of the
    variable.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        variable: str,
        devices: Sequence[str],
        *,
        method: Method = "first",
        stale_after_s: float = 30.0,
        drift_limit: float | None = None,
    ) -> None:
        self.node = bus.node(f"{environment}/combiners/{variable}")
        self._clock = bus.clock
        self._liveness = bus.liveness
        self._variable = f"{environment}/{variable}"
        self._known = VARIABLES[variable]
        self._output = self.node.publisher(raw(environment, variable))
        self._devices = {
            bus.topics.declare(raw(environment, variable, name), FLOAT64).name: name for name in devices
        }
        self._method = method
        self._stale_after = stale_after_s
        self._last: dict[str, tuple[Message, float]] = {}  # by device, with its arrival
        self._leader: str | None = None
        self._quality = Quality.OK
        self._apart_since: float | None = None  # monotonic
        self._drift = DriftWatch(bus, self.node, environment, variable, drift_limit)
        self.node.describe("combined", self._information)
        self.node.describe("problems", self._problems)

    async def run(self) -> None:
        """Combine until cancelled."""
        with (
            self.node.inbox(*self._devices) as messages,
            self._liveness.heartbeat(self.node.name, is_idle=lambda: not len(messages)) as heart,
        ):
            async for message in messages:
                heart.beat()
                self.node.attempt(self._take, message)

    def _take(self, message: Message) -> None:
        device = self._devices[message.topic]
        self._last[device] = (message, self._clock.monotonic())
        good = self._good()
        self._compare(list(good.values()))
        self._drift.take(good)
        if not good:
            self._publish_none()
        elif device == next(iter(good)):
            self._lead(device)
            self._quality = Quality.OK
            self._output.publish(self._combined(list(good.values())), Quality.OK, message.time)

    def _good(self) -> dict[str, float]:
        """The values of the good sensors, in their order."""
        now = self._clock.monotonic()
        good = {}
        for device in self._devices.values():
            message, came = self._last.get(device, (None, 0.0))
            if message is not None and message.quality is Quality.OK and now - came <= self._stale_after:
                good[device] = message.value
        return good

    def _combined(self, values: list[float]) -> float:
        if self._method == "median" and len(values) >= ENOUGH_TO_VOTE:
            return statistics.median(values)
        return values[0]

    def _compare(self, values: list[float]) -> None:
        """Note since when the good sensors are further apart than one sensor may jump."""
        bound = max(self._known.jump, self._known.relative_jump * max(values, default=0.0))
        if not values or max(values) - min(values) <= bound:
            self._apart_since = None
        elif self._apart_since is None:
            self._apart_since = self._clock.monotonic()

    def _problems(self) -> list[dict[str, Any]]:
        good, since = self._good(), self._apart_since
        if since is None or len(good) <= 1 or self._clock.monotonic() - since < APART_S:
            return self._drift.problems()
        values = ", ".join(f"{device} {value:g}" for device, value in good.items())
        environment = self._variable.partition("/")[0]
        name, unit = self._known.name, self._known.unit
        used = f"{self._combined(list(good.values())):g} is used"
        text = f"{environment}: the sensors of {name} disagree: {values} {unit}; {used}"
        fields = {"environment": environment, "variable": name, "values": good, "unit": unit}
        remedy = "Check them, and calibrate or replace one."
        return [problem(Sentence(text, "sensors_disagree", **fields), remedy=remedy)]

    def _publish_none(self) -> None:
        qualities = {message.quality for message, _ in self._last.values()}
        quality = Quality.WARM_UP if Quality.WARM_UP in qualities else Quality.FAULT
        if quality is not self._quality:
            self._quality = quality
            self._output.publish(None, quality)

    def _lead(self, device: str) -> None:
        if device != self._leader:
            if self._leader is not None:
                logger.info("%s now comes from %s, no longer from %s", self._variable, device, self._leader)
            self._leader = device

    def _information(self) -> dict[str, Any]:
        sensors = {
            device: {"value": message.value, "quality": str(message.quality), "time": message.time}
            for device, (message, _) in self._last.items()
        }
        return {"method": self._method, "leader": self._leader, "sensors": sensors}
