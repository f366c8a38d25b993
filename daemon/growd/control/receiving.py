"""Receivers: sensors whose values others send, by MQTT or as a client of the API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from growd.bus.messages import FLOAT64, Quality
from growd.control.health import Health
from growd.control.sampling import Readings
from growd.runtime.sentence import Sentence
from growd_drivers.errors import NotReadyError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from growd.bus import Bus
    from growd.control.plausibility import Plausibility

LEAST_S: Final = 0.1
"""Of the messages that come within this time, the newest counts."""

_SLICE_S: Final = 5.0


class Receiver:
    """Publishes what comes for a device, as a `Sampler` publishes what it reads.

    It takes messages by `take`, and the values that clients post on the topic `posted`, if there is one.
    `decode(message)` returns the value, or None for a message about something else; a ValueError is a fault.
    A value is fresh for `stale_after_s`; then the device has failed. `source`, `why_silent` and `absent` are
    words for people. `name` is that of the variable, or of the output with `confirms`.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        device: str,
        *,
        decode: Callable[[Any], float | None],
        plausibility: Plausibility,
        source: str,
        name: str,
        stale_after_s: float,
        posted: str = "",
        why_silent: Callable[[], str] = lambda: "",
        absent: str = "",
        confirms: str = "",
        shared: Collection[str] = (),
    ) -> None:
        self.node = bus.node(f"{environment}/samplers/{device}")
        self._clock = bus.clock
        self._liveness = bus.liveness
        self._decode = decode
        self._plausibility = plausibility
        self._source = source
        self._name = name
        self._posted = posted
        self._why_silent = why_silent
        self._absent = absent
        self._stale_after = stale_after_s
        variables = () if confirms else (name,)
        self._health = Health(self.node, environment, device, bus.clock, variables)
        self._readings = Readings(self.node, environment, device, variables, shared=shared, confirms=confirms)
        self._newest: float | ValueError | None = None
        self._is_absent = False
        self._woken: asyncio.Future[None] | None = None
        self._reason = ""
        if posted:
            bus.topics.declare(posted, FLOAT64, is_open=True)

    async def run(self) -> None:
        """Publish what comes, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._publish_all(), name=f"{self.node.name}: values")
                if self._posted:
                    await self._listen()
        except Exception as error:
            self._readings.publish_none(Quality.FAULT)
            self._health.failed(Sentence(f"internal error while receiving: {error!r}", "internal_error"))
            raise

    def take(self, message: Any) -> None:
        """Take a message, instead of an earlier value that still waits. On the event loop."""
        try:
            value = self._decode(message)
        except ValueError as error:
            self._newest = error
        else:
            self._is_absent = value is None
            if value is None:
                return
            self._newest = value
        self._wake()

    async def _listen(self) -> None:
        with self.node.inbox(self._posted) as messages:
            async for message in messages:
                self.take(message.value)

    async def _publish_all(self) -> None:
        fresh_until = self._clock.monotonic() + self._stale_after
        with self._liveness.heartbeat(self.node.name) as heart:
            while True:
                heart.beat()
                newest, self._newest = self._newest, None
                is_good = newest is not None and self._has_published(newest)
                now = self._clock.monotonic()
                if is_good:
                    fresh_until = now + self._stale_after
                if now >= fresh_until:
                    self._has_gone_stale()
                elif newest is not None and not is_good:
                    self._health.degraded(Sentence(self._reason, "invalid_reading"))
                await self._clock.sleep(LEAST_S)
                left = fresh_until - self._clock.monotonic()
                await self._arrival(min(left, _SLICE_S) if left > 0 else _SLICE_S)

    async def _arrival(self, seconds: float) -> None:
        """Return when a message waits, or after `seconds`."""
        if self._newest is not None:
            return
        self._woken = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(seconds, self._wake)
        try:
            await self._woken
        finally:
            timer.cancel()
            self._woken = None

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _has_published(self, value: float | ValueError) -> bool:
        """Whether it is a valid value, or will be one after a warm-up."""
        now = self._clock.monotonic()
        try:
            if isinstance(value, ValueError):
                raise value
            self._plausibility.check({self._name: value}, now)
        except NotReadyError as error:
            self._reason = ""
            self._readings.publish_none(Quality.WARM_UP)
            self._health.warming_up(str(error))
            return True
        except ValueError as error:
            self._readings.publish_none(Quality.FAULT)
            self._reason = str(error)
        else:
            self._reason = self._readings.publish({self._name: value})
        if self._reason:
            self._plausibility.missed(now, ValueError(self._reason))
        else:
            self._health.succeeded()
        return not self._reason

    def _has_gone_stale(self) -> None:
        self._plausibility.missed(self._clock.monotonic())
        if not self._reason:
            self._readings.publish_none(Quality.STALE)
        reason = self._why_silent() or self._reason or (self._absent if self._is_absent else "")
        sentence = f"no value has come on {self._source} for {self._stale_after:g} s"
        self._health.failed(Sentence(f"{sentence}: {reason}" if reason else sentence, "no_messages"))
