"""Actuators: from commands to outputs, which are safe without a command."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from growd.bus.messages import Quality
from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS
from growd.control.health import Health
from growd.control.ramps import Ramp
from growd.control.retries import Retries
from growd.control.topics import (
    CHANNEL_LEVELS,
    LIGHT_CHANNELS,
    SWITCH_STATE,
    commanded,
    light_channels,
    switch_state,
)
from growd.variables import VALVE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Publisher, Subscription
    from growd.control.interlocks.base import Guard
    from growd.runtime.worker import Worker

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
RAMP_STEP_S: Final = 0.1  # while an output moves
RETRIES: Final = Retries(limit_s=10.0)
SAFE_LEVEL: Final = 0.0
ON_FROM: Final = 0.5  # a switch is on from this command on: it may come from a slider
DECIMALS: Final = 4  # of a level: finer than any PWM, so noise is not a change
DEFAULT_MIX: Final = {"white": 1.0, "red": 0.5, "blue": 0.5}


class Actuator(ABC):
    """Base of all actuators: outputs, each with a safe level, that follow commands.

    The `guard` (`growd.control.interlocks`) judges each level before it is written. A command holds for
    `stale_after_s`, or until a message that is not ok releases it. `run` makes every output safe before
    anything else. An unchanged level is not written again.

    `write(output, level)` runs in the worker. An OSError, RuntimeError or ValueError is a failure of the
    device: the level of the output is unknown then, so the write is repeated after a growing delay
    (`retries`), while the other outputs go on. All times are seconds of the bus's clock.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        device: str,
        *,
        write: Callable[[str, float], None],
        worker: Worker,
        safe: Mapping[str, float],
        commands: tuple[str, ...],
        stale_after_s: float,
        write_timeout_s: float,
        retries: Retries,
        guard: Guard | None,
    ) -> None:
        self.node = bus.node(f"{environment}/actuators/{device}")
        self._guard = guard
        self._clock = bus.clock
        self._liveness = bus.liveness
        self._write = write
        self._safe = dict(safe)
        self._command_topics = commands
        self._commands: dict[str, _Command] = {}
        self._stale_after = stale_after_s
        self._retries = retries
        self._worker = worker
        self._returned = 0
        self._calls = DeviceCalls(device, worker, bus.clock, write_timeout_s)
        self._health = Health(self.node, environment, device, bus.clock)
        self._written: dict[str, float] = {}
        self._changed = asyncio.Event()
        if guard is not None:
            guard.watch(self._changed.set)
        self._failing: set[str] = set()
        self._failures = 0
        self._retry_at = 0.0
        self._is_writing = False

    async def run(self) -> None:
        """Follow the commands until cancelled; the caller then calls `make_safe`. An error calls it here.

        Commands that arrive while it is not running are ignored: controllers repeat them each second.
        """
        self._written.clear()
        self._retry_at = 0.0
        try:
            with self.node.subscribe(*self._command_topics) as commands:
                await self._apply(self._safe)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._tick(), name=f"{self.node.name}: tick")
                    tasks.create_task(self._listen(commands), name=f"{self.node.name}: commands")
                    await self._follow()
        except Exception:
            await self.make_safe()  # until the supervisor starts it again
            raise
        finally:
            self._calls.close()

    async def make_safe(self) -> bool:
        """Make every output safe, for the shutdown. Returns False, with a log line, if the device failed."""
        self._commands.clear()
        self._written.clear()
        self._retry_at = 0.0
        self._calls.close()
        await self._apply(self._safe)
        self._calls.close()
        is_safe = self._written == self._safe
        if not is_safe:
            logger.error("%s could not be made safe", self.node.name)
        return is_safe

    @property
    def is_safe(self) -> bool:
        """Whether every output was written to its safe level last."""
        return self._written == self._safe and not self._is_writing

    @property
    @abstractmethod
    def _output(self) -> Publisher:
        """The topic of the levels that were written."""

    @property
    def _advice(self) -> str:
        """What to do after a failure."""
        return "; the valve may be open: close the bottle" if VALVE in self._safe else ""

    @abstractmethod
    def _state(self) -> object:
        """The message for `_output`, from the levels that were written."""

    @abstractmethod
    def _target(self, output: str) -> float:
        """The level to write now: commanded, then limited by the interlocks."""

    @abstractmethod
    def _take(self, message: Message) -> None:
        """Take a command."""

    def _permitted(self, output: str, level: float) -> float:
        """The level that the interlocks permit for a command of `level`."""
        return level if self._guard is None else self._guard.permit(output, level)

    def _is_moving(self) -> bool:
        """Whether the target still changes by itself."""
        return False

    def _hold(self, name: str, level: float | None) -> None:
        """Follow this command from now on, None for none."""
        self._commands.pop(name, None)
        if level is not None:
            self._commands[name] = _Command(level, self._clock.monotonic())

    def _held(self, name: str) -> float | None:
        """The level of a command, None if it is stale."""
        command = self._commands.get(name)
        if command is None or self._clock.monotonic() - command.came > self._stale_after:
            return None
        return command.level

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(PERIOD_S)
            self._changed.set()

    async def _listen(self, commands: Subscription) -> None:
        async for message in commands:
            self._take(message)
            self._changed.set()

    async def _follow(self) -> None:
        with self._liveness.heartbeat(self.node.name) as heart:
            while True:
                if self._is_moving():
                    await self._clock.sleep(RAMP_STEP_S)
                else:
                    await self._changed.wait()
                self._changed.clear()
                heart.beat()
                if self._guard is not None and self._guard.is_on_hold:
                    self._commands.clear()  # so the outputs wait for new ones after the release
                await self._apply({output: self._target(output) for output in self._safe})

    async def _apply(self, target: dict[str, float]) -> None:
        if self._returned != self._worker.returned:  # a hung write may have been carried out late
            self._returned = self._worker.returned
            self._written.clear()
        waiting = self._failing if self._clock.monotonic() < self._retry_at else set()
        changes = {
            name: level
            for name, level in target.items()
            if name not in waiting and self._written.get(name) != level
        }
        if not changes:
            return
        self._is_writing = True
        try:
            failures = await self._calls.run(self._write_all, changes)
        except DEVICE_ERRORS as error:
            failures = dict.fromkeys(changes, error)
        finally:
            self._is_writing = False
        self._note(changes, failures)

    def _write_all(self, levels: dict[str, float]) -> dict[str, Exception]:
        """In the worker: try every output. Returns the errors by output."""
        failures: dict[str, Exception] = {}
        for output, level in levels.items():
            if self._worker.is_abandoned():
                break  # this thread hung; another one has written newer levels since
            try:
                self._write(output, level)
            except DEVICE_ERRORS as error:
                failures[output] = error
        return failures

    def _note(self, changes: dict[str, float], failures: Mapping[str, Exception]) -> None:
        was_well = not self._failing
        self._written.update(changes)
        for output in failures:
            self._written.pop(output, None)  # the old level or the new one
        if self._guard is not None:
            for output in changes:
                self._guard.wrote(output, self._written.get(output))
        self._failing = self._failing - changes.keys() | failures.keys()
        if failures:
            self._failed(next(iter(failures.values())), is_news=was_well)
        elif not self._failing:
            self._failures = 0
            self._health.succeeded()
            self._output.publish(self._state())

    def _failed(self, error: Exception, *, is_news: bool) -> None:
        self._retry_at = self._clock.monotonic() + self._retries.delay(PERIOD_S, self._failures)
        self._failures += 1
        if is_news:
            self._output.publish(None, Quality.FAULT)
        self._health.failed(f"{str(error) or type(error).__name__}{self._advice}")


class LightActuator(Actuator):
    """Sets the level of each channel of a light, 0..1.

    A channel follows its own fresh command (`light_intensity_<channel>`, or its field of `light_channels`),
    else its share (`mix`) of the command for `light_illuminance`. `ramp_s` is the time from dark to full.
    Without a command, or without permission of the guard, a channel is dark at once. A lamp that
    `is_switched` is fully on or dark, whichever is nearer. The guard judges each channel, and
    "light_illuminance", the command for all channels.

    The levels are published on `<environment>/light_channels` when they change.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        *,
        write: Callable[[str, float], None],
        worker: Worker,
        mix: Mapping[str, float] = DEFAULT_MIX,
        ramp_s: float = 0.0,
        is_switched: bool = False,
        stale_after_s: float = 5.0,
        write_timeout_s: float = 2.0,
        retries: Retries = RETRIES,
        guard: Guard | None = None,
        device: str = "light",
    ) -> None:
        self._mix = dict(mix)
        self._is_switched = is_switched
        self._ramps = {channel: Ramp(ramp_s) for channel in self._mix}
        self._illuminance_topic = commanded(environment, "light_illuminance")
        self._all_channels_topic = commanded(environment, "light_channels")
        self._channel_topics = {commanded(environment, f"light_intensity_{name}"): name for name in self._mix}
        super().__init__(
            bus,
            environment,
            device,
            write=write,
            worker=worker,
            safe=dict.fromkeys(self._mix, SAFE_LEVEL),
            commands=(self._illuminance_topic, self._all_channels_topic, *self._channel_topics),
            stale_after_s=stale_after_s,
            write_timeout_s=write_timeout_s,
            retries=retries,
            guard=guard,
        )
        self._channels = self.node.advertise(light_channels(environment), CHANNEL_LEVELS)
        self.node.open(self._all_channels_topic)

    @property
    def _output(self) -> Publisher:
        return self._channels

    def _state(self) -> dict[str, float]:
        return {field: self._written.get(name, SAFE_LEVEL) for name, field in LIGHT_CHANNELS.items()}

    def _take(self, message: Message) -> None:
        ok = message.quality is Quality.OK
        if message.topic == self._all_channels_topic:
            for channel in self._mix:
                self._hold(channel, message.value[LIGHT_CHANNELS[channel]] if ok else None)
        else:
            name = self._channel_topics.get(message.topic, "light_illuminance")
            self._hold(name, message.value if ok else None)

    def _target(self, channel: str) -> float:
        level = self._commanded(channel)
        is_dark = self._is_held_dark(channel)  # asked without a command too, for the status
        now = self._clock.monotonic()
        ramp = self._ramps[channel]
        if level is None or is_dark:
            ramp.jump(SAFE_LEVEL)
        else:
            level = float(level >= ON_FROM) if self._is_switched else level
            ramp.send(max(0.0, min(1.0, level)), now)
        return round(ramp.at(now), DECIMALS)

    def _commanded(self, channel: str) -> float | None:
        level = self._held(channel)
        whole = self._held("light_illuminance")
        if level is not None or whole is None or self._is_held_dark("light_illuminance"):
            return level
        return whole * self._mix[channel]

    def _is_held_dark(self, output: str) -> bool:
        return self._permitted(output, 1.0) < 1.0

    def _is_moving(self) -> bool:
        now = self._clock.monotonic()
        return any(ramp.is_moving(now) for ramp in self._ramps.values())


class SwitchActuator(Actuator):
    """Switches a device, such as a valve or a fan, by the commands for a variable.

    It is on while a fresh command is at least 0.5, off while it is below, and safe (`safe_on`) without one,
    as far as the guard permits. `write(on)` runs in the worker. The state, 1 or 0, is published on
    `<environment>/switches/<device>` when it changes.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        device: str,
        variable: str,
        *,
        write: Callable[[bool], None],
        worker: Worker,
        safe_on: bool = False,
        stale_after_s: float = 5.0,
        write_timeout_s: float = 2.0,
        retries: Retries = RETRIES,
        guard: Guard | None = None,
    ) -> None:
        super().__init__(
            bus,
            environment,
            device,
            write=lambda _, level: write(bool(level)),
            worker=worker,
            safe={variable: float(safe_on)},
            commands=(commanded(environment, variable),),
            stale_after_s=stale_after_s,
            write_timeout_s=write_timeout_s,
            retries=retries,
            guard=guard,
        )
        self._variable = variable
        self._switch = self.node.advertise(switch_state(environment, device), SWITCH_STATE)

    @property
    def _output(self) -> Publisher:
        return self._switch

    def _state(self) -> float:
        return self._written[self._variable]

    def _take(self, message: Message) -> None:
        self._hold(self._variable, message.value if message.quality is Quality.OK else None)

    def _target(self, output: str) -> float:
        level = self._held(output)
        wanted = self._safe[output] if level is None else float(level >= ON_FROM)
        return self._permitted(output, wanted)


class _Command:
    __slots__ = ("came", "level")

    def __init__(self, level: float, came: float) -> None:
        self.level = level
        self.came = came
