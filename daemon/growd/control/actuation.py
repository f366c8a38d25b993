"""Actuators: from commands to outputs that are safe when nobody commands them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from growd.bus.messages import Quality
from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS
from growd.control.health import Health, State
from growd.control.topics import CHANNEL_LEVELS, LIGHT_CHANNELS, commanded, light_channels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Subscription
    from growd.worker import Worker

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
SAFE_LEVEL: Final = 0.0
DECIMALS: Final = 4  # of a level: finer than any PWM here, so that noise is not a change
DEFAULT_MIX: Final = {"white": 1.0, "red": 0.5, "blue": 0.5}


class LightActuator:
    """Sets the duty of each channel of a light, 0..1.

    A channel follows its own command (`light_intensity_<channel>`, or its field of `light_channels`) while
    that is fresh, else its share (`mix`) of the command for `light_illuminance`, else it is dark. A command
    is fresh for `stale_after_s` and until one that is not ok takes it back. At the start of `run` every
    channel is made dark before anything else.

    `write(channel, level)` runs in the worker; OSError, RuntimeError or ValueError from it is a failure of
    the device: what the output is then is not known, so the write is tried again after a growing delay of at
    most `retry_limit_s`. What the outputs are stands on `<environment>/light_channels`, published when it
    changes. All times in seconds of the bus's clock.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        *,
        write: Callable[[str, float], None],
        worker: Worker,
        mix: Mapping[str, float] = DEFAULT_MIX,
        stale_after_s: float = 5.0,
        write_timeout_s: float = 2.0,
        retry_limit_s: float = 10.0,
        device: str = "light",
    ) -> None:
        self.node = bus.node(f"{environment}/actuators/{device}")
        self._clock = bus.clock
        self._write = write
        self._mix = dict(mix)
        self._stale_after = stale_after_s
        self._retry_limit = retry_limit_s
        self._calls = DeviceCalls(device, worker, bus.clock, write_timeout_s)
        self._health = Health(self.node, environment, device, bus.clock)
        self._output = self.node.advertise(light_channels(environment), CHANNEL_LEVELS)
        self._illuminance_topic = commanded(environment, "light_illuminance")
        self._all_channels_topic = commanded(environment, "light_channels")
        self._channel_topics = {commanded(environment, f"light_intensity_{name}"): name for name in self._mix}
        self._illuminance: _Command | None = None
        self._commands: dict[str, _Command | None] = {}
        self._written: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._failures = 0
        self._retry_at = 0.0

    async def run(self) -> None:
        """Follow the commands until cancelled. Whoever cancels it calls `make_safe`; if it fails, it does."""
        topics = (self._illuminance_topic, self._all_channels_topic, *self._channel_topics)
        self._written.clear()
        self._retry_at = 0.0
        try:
            with self.node.subscribe(*topics) as commands:
                await self._apply(dict.fromkeys(self._mix, SAFE_LEVEL))
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._tick(), name=f"{self.node.name}: tick")
                    tasks.create_task(self._listen(commands), name=f"{self.node.name}: commands")
                    await self._follow()
        except Exception:
            await self.make_safe()  # nobody follows the commands until it is started again
            raise
        finally:
            await self._calls.close()

    async def make_safe(self) -> bool:
        """Make every channel dark, for the way down. False, and logged, if the device did not take it."""
        self._illuminance = None
        self._commands.clear()
        self._written.clear()
        self._retry_at = 0.0
        await self._calls.close()
        await self._apply(dict.fromkeys(self._mix, SAFE_LEVEL))
        await self._calls.close()
        safe = self._written == dict.fromkeys(self._mix, SAFE_LEVEL)
        if not safe:
            logger.error("%s could not be made safe", self.node.name)
        return safe

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(PERIOD_S)
            self._changed.set()

    async def _listen(self, commands: Subscription) -> None:
        async for message in commands:
            self._take(message)
            self._changed.set()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._apply({channel: self._target(channel) for channel in self._mix})

    def _take(self, message: Message) -> None:
        ok = message.quality is Quality.OK
        now = self._clock.monotonic()
        if message.topic == self._illuminance_topic:
            self._illuminance = _Command(message.value, now) if ok else None
        elif message.topic == self._all_channels_topic:
            for channel in self._mix:
                level = message.value[LIGHT_CHANNELS[channel]] if ok else None
                self._commands[channel] = None if level is None else _Command(level, now)
        else:
            channel = self._channel_topics[message.topic]
            self._commands[channel] = _Command(message.value, now) if ok else None

    def _target(self, channel: str) -> float:
        now = self._clock.monotonic()
        own = self._commands.get(channel)
        if own is not None and now - own.came <= self._stale_after:
            level = own.level
        elif self._illuminance is not None and now - self._illuminance.came <= self._stale_after:
            level = self._illuminance.level * self._mix[channel]
        else:
            level = SAFE_LEVEL
        return round(max(0.0, min(1.0, level)), DECIMALS)

    async def _apply(self, target: dict[str, float]) -> None:
        changes = {name: level for name, level in target.items() if self._written.get(name) != level}
        if not changes or self._clock.monotonic() < self._retry_at:
            return
        try:
            await self._calls.run(self._write_all, changes)
        except DEVICE_ERRORS as error:
            self._failed(changes, error)
        else:
            self._succeeded(changes)

    def _write_all(self, levels: dict[str, float]) -> None:
        """In the worker: try every channel, though one fails."""
        failure: Exception | None = None
        for channel, level in levels.items():
            try:
                self._write(channel, level)
            except DEVICE_ERRORS as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _succeeded(self, changes: dict[str, float]) -> None:
        self._failures = 0
        self._written.update(changes)
        self._health.report(State.OK)
        self._output.publish({field: self._written.get(name, 0.0) for name, field in LIGHT_CHANNELS.items()})

    def _failed(self, changes: dict[str, float], error: Exception) -> None:
        for channel in changes:
            self._written.pop(channel, None)  # it may be the old level or the new one
        delay = min(PERIOD_S * 2.0 ** min(self._failures, 16), self._retry_limit)
        self._retry_at = self._clock.monotonic() + delay
        self._failures += 1
        if self._health.state is not State.FAILED:
            self._output.publish(None, Quality.FAULT)
        self._health.report(State.FAILED, str(error) or type(error).__name__)


class _Command:
    __slots__ = ("came", "level")

    def __init__(self, level: float, came: float) -> None:
        self.level = level
        self.came = came
