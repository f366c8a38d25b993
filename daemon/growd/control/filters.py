"""Filters: from raw to measured values."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from growd.bus.errors import InvalidValueError
from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.control.plausibility import Spikes
from growd.control.topics import measured, raw
from growd.runtime.clock import until_beat
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.bus.messages import Message

ARRIVED: Final = 0.01  # last decimals of a variable: nearer to the sample, the average takes its value
SLICE_S: Final = 5.0  # a changed time limit takes effect within this time


class Filter:
    """An exponentially weighted moving average: measured = weight x raw + (1 - weight) x previous.

    The weight of a switch is 1 by default. The first sample, and the first after an outage longer than
    `stale_after`, passes unchanged. A sample that is not ok, or out of the variable's range, is passed on
    without a value. A sample that jumps is held back until the next one confirms it. Without a usable sample
    for `stale_after`, one message of quality stale is published, unless the last one said fault or warm-up.
    """

    def __init__(
        self, bus: Bus, environment: str, variable: str, *, weight: float = 0.3, stale_after_s: float = 30.0
    ) -> None:
        name = f"{environment}/filters/{variable}"
        self.node = bus.node(name)
        self._clock = bus.clock
        self._liveness = bus.liveness
        self._input = bus.topics.get(raw(environment, variable))
        self._output = self.node.publisher(measured(environment, variable))
        self._variable = VARIABLES[variable]
        self._check = self._output.topic.type.checker()
        is_switch = self._variable.unit == "switch"
        self._weight = self.node.declare(
            f"{name}/weight", Field("weight", Kind.FLOAT64, 0.001, 1, default=1.0 if is_switch else weight)
        )
        self._stale_after = self.node.declare(
            f"{name}/stale_after",
            Field("stale_after", Kind.FLOAT64, 0.1, 864_000, "s", default=stale_after_s),
        )
        self._spikes = Spikes(variable)
        self._average: float | None = None
        self._last_ok = 0.0
        self._last_arrival = 0.0
        self._quality: Quality | None = None

    async def run(self) -> None:
        """Filter until cancelled."""
        self._last_arrival = self._clock.monotonic()
        with (
            self.node.inbox(self._input.name) as samples,
            self._liveness.heartbeat(self.node.name, is_idle=lambda: not len(samples)) as heart,
        ):
            last = self._input.last
            if last is not None and last.quality is not Quality.OK:
                self._take(last)  # published while this task was down, after a failure
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch(), name=f"{self.node.name}: staleness")
                async for sample in samples:
                    heart.beat()
                    self.node.attempt(self._take, sample)

    def _take(self, sample: Message) -> None:
        now = self._clock.monotonic()
        if sample.quality is not Quality.OK:
            self._last_arrival = now
            self._publish(None, sample.quality)
            return
        try:
            self._check(sample.value)
        except InvalidValueError:  # raw has no range
            self._last_arrival = now
            self._publish(None, Quality.FAULT)
            return
        if not self._spikes.accepts(sample.value, now):
            return
        self._last_arrival = now
        if self._average is None or now - self._last_ok > self._stale_after.value:
            self._average = sample.value
        else:
            lowest, highest = sorted((self._average, sample.value))
            moved = self._average + self._weight.value * (sample.value - self._average)
            moved = min(highest, max(lowest, moved))  # rounding must not leave the range
            is_there = abs(moved - sample.value) < ARRIVED * 10.0**-self._variable.precision
            self._average = sample.value if is_there else moved
        self._last_ok = now
        self._publish(self._average, Quality.OK, sample.time)

    async def _watch(self) -> None:
        with self._liveness.heartbeat(f"{self.node.name}: staleness") as heart:
            while True:
                heart.beat()
                await self._clock.sleep(self._check_staleness())

    def _check_staleness(self) -> float:
        """Publish that raw is stale if it is. Returns seconds until the next look."""
        left: float = self._last_arrival + self._stale_after.value - self._clock.monotonic()
        if left <= 0:
            if self._quality not in (Quality.FAULT, Quality.WARM_UP, Quality.STALE):
                self._publish(None, Quality.STALE)
            left = self._stale_after.value
        return min(left, until_beat(self._clock, SLICE_S))

    def _publish(self, value: float | None, quality: Quality, time: float | None = None) -> None:
        self._quality = quality
        self._output.publish(value, quality, time)
