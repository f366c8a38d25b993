"""Filters: from what a sensor gives to what is taken for true."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from growd.bus.errors import InvalidValueError
from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.control.topics import measured, raw

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.bus.messages import Message

SLICE_S: Final = 5.0  # a changed time limit takes effect within this time, however long the old one is


class Filter:
    """An exponentially weighted moving average: measured = weight x raw + (1 - weight) x previous.

    The first sample passes as it is, and so does the first after an outage longer than `stale_after_s`. A
    sample that is not ok, or out of the variable's range, is passed on without a value and leaves the average
    alone. When raw stays away for `stale_after_s`, one message of quality stale says so (unless the last one
    said fault already).

    Parameters under `<environment>/filters/<variable>/`: `weight` (0..1), `stale_after` (seconds).
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        variable: str,
        *,
        weight: float = 0.3,
        stale_after_s: float = 30.0,
    ) -> None:
        name = f"{environment}/filters/{variable}"
        self.node = bus.node(name)
        self._clock = bus.clock
        self._input = raw(environment, variable)
        self._output = self.node.publisher(measured(environment, variable))
        self._weight = self.node.declare(
            f"{name}/weight", Field("weight", Kind.FLOAT64, 0.001, 1, default=weight)
        )
        self._stale_after = self.node.declare(
            f"{name}/stale_after",
            Field("stale_after", Kind.FLOAT64, 0.1, 864_000, "s", default=stale_after_s),
        )
        self._average: float | None = None
        self._last_ok = 0.0
        self._last_arrival = 0.0
        self._quality: Quality | None = None

    async def run(self) -> None:
        """Filter until cancelled."""
        self._last_arrival = self._clock.monotonic()
        with self.node.subscribe(self._input) as samples:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch(), name=f"{self.node.name}: staleness")
                async for sample in samples:
                    self._take(sample)

    def _take(self, sample: Message) -> None:
        now = self._last_arrival = self._clock.monotonic()
        if sample.quality is not Quality.OK:
            self._publish(None, sample.quality)
            return
        try:
            self._output.topic.type.check(sample.value)
        except InvalidValueError:  # a client may publish on raw too, and raw has no range
            self._publish(None, Quality.FAULT)
            return
        if self._average is None or now - self._last_ok > self._stale_after.value:
            self._average = sample.value
        else:
            lowest, highest = sorted((self._average, sample.value))
            moved = self._average + self._weight.value * (sample.value - self._average)
            self._average = min(highest, max(lowest, moved))  # rounding must not leave the range
        self._last_ok = now
        self._publish(self._average, Quality.OK, sample.time)

    async def _watch(self) -> None:
        while True:
            left = self._last_arrival + self._stale_after.value - self._clock.monotonic()
            if left <= 0:
                if self._quality not in (Quality.FAULT, Quality.STALE):
                    self._publish(None, Quality.STALE)
                left = self._stale_after.value
            await self._clock.sleep(min(left, SLICE_S))

    def _publish(self, value: float | None, quality: Quality, time: float | None = None) -> None:
        self._quality = quality
        self._output.publish(value, quality, time)
