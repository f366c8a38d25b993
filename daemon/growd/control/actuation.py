"""Actuators: from commands to outputs, which are safe without a command."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING, Any, Final

from growd.bus.messages import Quality
from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS
from growd.control.health import Health
from growd.control.topics import OUTPUT_LEVEL, SWITCH_STATE, commanded, output_level, switch_state
from growd.output_roles import ROLES, OutputClass
from growd.runtime.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Publisher, Subscription
    from growd.control.interlocks.base import Guard
    from growd.output_roles import Role
    from growd.runtime.worker import Worker

    Counted = Callable[[str, float | None, float], None]

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
RAMP_STEP_S: Final = 0.1  # while an output moves
RETRIES: Final = Pauses(PERIOD_S, 10.0)
SAFE_LEVEL: Final = 0.0
ON_FROM: Final = 0.5  # a switch is on from this command on: it may come from a slider
DECIMALS: Final = 4  # of a level: finer than any PWM, so noise is not a change


def uncounted(_output: str, _level: float | None, _lasted_s: float) -> None:
    """Count nothing."""


class Actuator(ABC):
    """Base of all actuators: outputs, each with a safe level, that follow commands.

    The `guard` (`growd.control.interlocks`) judges each level before it is written. A command holds for
    `stale_after_s`, or until a message that is not ok releases it. `run` makes every output safe before
    anything else. An unchanged level is not written again, except every `repeat_s` if that is given: such a
    device becomes safe by itself without a command. `counted(output, level, lasted_s)` is called after each
    write, with None if it failed, and how long it took.

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
        retries: Pauses,
        guard: Guard | None,
        repeat_s: float | None = None,
        counted: Counted = uncounted,
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
        self._repeat_s = inf if repeat_s is None else repeat_s
        self._wrote_at: dict[str, float] = {}
        self._counted = counted
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
    def _outputs(self) -> tuple[Publisher, ...]:
        """The topics of the levels that were written."""

    @property
    def _advice(self) -> str:
        """What to do after a failure."""
        return ""

    @abstractmethod
    def _state(self) -> object:
        """The message for `_outputs`, from the levels that were written."""

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
        now = self._clock.monotonic()
        waiting = self._failing if now < self._retry_at else set()
        due = {name for name, at in self._wrote_at.items() if now - at >= self._repeat_s}
        changes = {
            name: level
            for name, level in target.items()
            if name not in waiting and (self._written.get(name) != level or name in due)
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
        self._note(changes, failures, self._clock.monotonic() - now)

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

    def _note(self, changes: dict[str, float], failures: Mapping[str, Exception], lasted_s: float) -> None:
        was_well = not self._failing
        self._written.update(changes)
        self._wrote_at |= dict.fromkeys(changes, self._clock.monotonic())
        for output in failures:
            self._written.pop(output, None)  # the old level or the new one
        for output in changes:
            level = self._written.get(output)
            self._counted(output, level, lasted_s)
            if self._guard is not None:
                self._guard.wrote(output, level, lasted_s)
        self._failing = self._failing - changes.keys() | failures.keys()
        if failures:
            self._failed(next(iter(failures.values())), is_news=was_well)
        elif not self._failing:
            self._failures = 0
            self._health.succeeded()
            state = self._state()
            for topic in self._outputs:
                topic.publish(state)

    def _failed(self, error: Exception, *, is_news: bool) -> None:
        self._failures += 1
        self._retry_at = self._clock.monotonic() + self._retries.after(self._failures)
        if is_news:
            for topic in self._outputs:
                topic.publish(None, Quality.FAULT)
        self._health.failed(f"{str(error) or type(error).__name__}{self._advice}")


class OutputActuator(Actuator):
    """Drives one output at a level, 0..1, by the commands for its own variable.

    It is at its safe level without a fresh command, and the guard limits it. `write(level)` runs in the
    worker. The level is published on `<environment>/outputs/<device>` when it changes. `role` is what it
    does, by default that of its own variable.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        device: str,
        variable: str,
        *,
        write: Callable[[float], None],
        worker: Worker,
        safe_on: bool = False,
        stale_after_s: float = 5.0,
        write_timeout_s: float = 2.0,
        retries: Pauses = RETRIES,
        guard: Guard | None = None,
        repeat_s: float | None = None,
        counted: Counted = uncounted,
        role: Role | None = None,
    ) -> None:
        super().__init__(
            bus,
            environment,
            device,
            write=lambda _, level: write(level),
            worker=worker,
            safe={variable: float(safe_on)},
            commands=(commanded(environment, variable),),
            stale_after_s=stale_after_s,
            write_timeout_s=write_timeout_s,
            retries=retries,
            guard=guard,
            repeat_s=repeat_s,
            counted=counted,
        )
        self._variable = variable
        self._role = role or ROLES.get(variable)
        self._level = self.node.advertise(output_level(environment, device), OUTPUT_LEVEL)

    @property
    def _advice(self) -> str:
        if self._role is None or not self._role.must_be_safe_off:
            return ""
        if self._role.output_class is OutputClass.VALVE:
            return "; the valve may be open: close the bottle"
        return f"; the {self._role.name} may be on"

    @property
    def _outputs(self) -> tuple[Publisher, ...]:
        return (self._level,)

    def _state(self) -> float:
        return self._written[self._variable]

    def _take(self, message: Message) -> None:
        self._hold(self._variable, message.value if message.quality is Quality.OK else None)

    def _target(self, output: str) -> float:
        level = self._held(output)
        wanted = self._safe[output] if level is None else self._possible(level)
        return self._permitted(output, wanted)

    def _possible(self, level: float) -> float:
        """The level nearest to a command that the output can have now."""
        return round(max(0.0, min(1.0, level)), DECIMALS)


class SwitchActuator(OutputActuator):
    """Switches a device, such as a valve: on from a command of one half.

    After it became safe no command changes it for `rest_s`, so that a flood of commands does not wear it out.
    The state, 1 or 0, is also published on `<environment>/switches/<device>`.
    """

    def __init__(
        self, bus: Bus, environment: str, device: str, variable: str, *, rest_s: float = 0.0, **options: Any
    ) -> None:
        super().__init__(bus, environment, device, variable, **options)
        self._rest_s = rest_s
        self._safe_since = -inf
        self._switch = self.node.advertise(switch_state(environment, device), SWITCH_STATE)

    @property
    def _outputs(self) -> tuple[Publisher, ...]:
        return (self._level, self._switch)

    def _possible(self, level: float) -> float:
        return float(level >= ON_FROM)

    def _permitted(self, output: str, level: float) -> float:
        permitted = super()._permitted(output, level)  # always asked, so that it says what it holds
        rests = self._clock.monotonic() - self._safe_since < self._rest_s
        return self._safe[output] if rests and permitted == level else permitted

    def _note(self, changes: dict[str, float], failures: Mapping[str, Exception], lasted_s: float) -> None:
        before = self._written.get(self._variable, self._safe[self._variable])
        super()._note(changes, failures, lasted_s)
        if before != self._written.get(self._variable) == self._safe[self._variable]:
            self._safe_since = self._clock.monotonic()


class _Command:
    __slots__ = ("came", "level")

    def __init__(self, level: float, came: float) -> None:
        self.level = level
        self.came = came
