"""Actuators: from commands to outputs, which are safe without a command."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, Unpack

from growd.bus.messages import Quality
from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS
from growd.control.health import Health
from growd.control.topics import OUTPUT_LEVEL, SWITCH_STATE, commanded, output_level, switch_state
from growd.output_roles import HARMFUL, ON_FROM, ROLES, OutputClass
from growd.runtime.clock import until_beat
from growd.runtime.pauses import Pauses
from growd.runtime.sentence import of_error, reworded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Publisher, Subscription
    from growd.control.interlocks.base import Guard
    from growd.output_roles import Lease, Role
    from growd.runtime.clock import Cancellable
    from growd.runtime.worker import Worker

    Counted = Callable[[str, float | None, float, float | None], None]
    Written = float | Exception | None
    """What a write returned: the time for which the output was not safe, None if unknown; or its error."""

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
SETTLED_S: Final = 10.0  # while all is safe and nothing is wanted
RAMP_STEP_S: Final = 0.1  # while an output moves
RETRIES: Final = Pauses(PERIOD_S, 10.0)
SAFE_LEVEL: Final = 0.0
DECIMALS: Final = 4  # of a level: finer than any PWM, so noise is not a change
CHANGED_S: Final = 0.25  # a dose whose end moves by less, as messages wait, has the same end
ENDING_S: Final = 0.25  # a command to end a dose so late is the end that it has anyway
EARLY_S: Final = 0.1  # a renewal may come so early: the write before took a moment of the time
MARGIN_S: Final = 0.02  # after the end of a dose, until its real length is asked for


def uncounted(_output: str, _level: float | None, _lasted_s: float, _was_on_s: float | None) -> None:
    """Count nothing."""


class ActuatorOptions(TypedDict, total=False):
    """The options that all actuators have."""

    stale_after_s: float
    write_timeout_s: float
    guard: Guard | None
    lease: Lease
    counted: Counted


class Actuator(ABC):
    """Base of all actuators: outputs, each with a safe level, that follow commands.

    The `guard` judges each level before it is written. A command holds for `stale_after_s`, or until a
    message that is not ok releases it. Other levels than the safe one are written with a time for which they
    are valid, and renewed (`lease`), so an output becomes safe by itself while this task does not run.

    `write(output, level, valid_s)` runs in the worker, and returns for how long the output really was not
    safe since the last call, None if unknown. `counted` gets that too, with None as the level after a
    failure. After one the level is unknown, so the write is repeated after a growing delay, while the other
    outputs go on.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        device: str,
        *,
        write: Callable[[str, float, float], float | None],
        worker: Worker,
        safe: Mapping[str, float],
        commands: tuple[str, ...],
        stale_after_s: float = 5.0,
        write_timeout_s: float = 2.0,
        guard: Guard | None = None,
        lease: Lease = HARMFUL,
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
        self._worker = worker
        self._returned = 0
        self._calls = DeviceCalls(device, worker, bus.clock, write_timeout_s)
        self._health = Health(self.node, environment, device, bus.clock)
        self._written: dict[str, float] = {}
        self._lease = lease
        self._wrote_at: dict[str, float] = {}
        self._counted = counted
        self._changed = asyncio.Event()
        if guard is not None:
            guard.watch(self._changed.set)
        self._failing: set[str] = set()
        self._failures = 0
        self._retry_at = 0.0
        self._is_writing = False
        self._timer: Cancellable | None = None

    async def run(self) -> None:
        """Follow the commands until cancelled; the caller then calls `make_safe`. An error calls it here.

        Commands that arrive while it is not running are ignored: controllers repeat them each second.
        An equal one only keeps the command fresh.
        """
        self._written.clear()
        self._retry_at = 0.0
        try:
            with self.node.subscribe(*self._command_topics) as commands:
                await self._apply(self._safe)
                self._changed.set()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._listen(commands), name=f"{self.node.name}: commands")
                    await self._follow()
        except Exception:
            await self.make_safe()  # until the supervisor starts it again
            raise
        finally:
            self._stop_timer()
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

    def _is_renewed(self, output: str) -> bool:
        """Whether the present level of an output has to be written again from time to time."""
        return self._lease.renews_safe or self._written.get(output) != self._safe[output]

    def _valid_s(self, output: str) -> float:  # noqa: ARG002  for subclasses
        """How long the level that is written now is valid."""
        return self._lease.valid_s

    def _hold(self, name: str, level: float | None, length_s: float = inf) -> None:
        """Follow this command from now on for a time, None for none."""
        before = None if self._held(name) is None else self._commands[name]
        self._commands.pop(name, None)
        if level is not None:
            self._commands[name] = _Command(level, self._clock.monotonic(), length_s)
        if before is None or (before.level, before.length_s, length_s) != (level, inf, inf):
            self._changed.set()

    def _held(self, name: str) -> float | None:
        """The level of a command, None if it is over or stale."""
        command, now = self._commands.get(name), self._clock.monotonic()
        if command is None or now - command.came > self._stale_after or now >= command.ends:
            return None
        return command.level

    async def _listen(self, commands: Subscription) -> None:
        async for message in commands:
            self._take(message)

    async def _follow(self) -> None:
        with self._liveness.heartbeat(self.node.name) as heart:
            while True:
                if self._is_moving():
                    await self._clock.sleep(RAMP_STEP_S)
                else:
                    await self._changed.wait()
                self._changed.clear()
                self._stop_timer()
                heart.beat()
                if self._guard is not None and self._guard.is_on_hold:
                    self._commands.clear()  # so the outputs wait for new ones after the release
                has_written = await self._apply({output: self._target(output) for output in self._safe})
                period_s = self._period_s(has_written=has_written)
                self._timer = self._clock.call_later(until_beat(self._clock, period_s), self._changed.set)

    def _period_s(self, *, has_written: bool) -> float:
        """The period of the turns while nothing changes, in s."""
        if self._written != self._safe or self._lease.renews_safe:
            return min(PERIOD_S, self._lease.renewed_s)
        is_late = self._worker.replaced != self._worker.returned  # a hung write may still be carried out
        is_wanted = any(
            self._held(name) not in (None, self._safe.get(name, SAFE_LEVEL)) for name in self._commands
        )
        return PERIOD_S if has_written or is_late or is_wanted else SETTLED_S

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _apply(self, target: dict[str, float]) -> bool:
        """Write what differs from the target or has to be renewed. Returns whether there was any."""
        if self._returned != self._worker.returned:  # a hung write may have been carried out late
            self._returned = self._worker.returned
            self._written.clear()
        now = self._clock.monotonic()
        waiting = self._failing if now < self._retry_at else set()
        changes = {
            name: level
            for name, level in target.items()
            if name not in waiting and (self._written.get(name) != level or self._is_due(name, now))
        }
        if not changes:
            return False
        wanted = {name: (level, self._valid_s(name)) for name, level in changes.items()}
        results: dict[str, Written] = {}
        self._is_writing = True
        try:
            results = await self._calls.run(self._write_all, wanted)
        except DEVICE_ERRORS as error:
            results = dict.fromkeys(changes, error)
        finally:
            self._is_writing = False
        self._note(changes, results, self._clock.monotonic() - now)
        return True

    def _is_due(self, output: str, now: float) -> bool:
        """Whether the present level of an output has to be written again now."""
        since_s = now - self._wrote_at.get(output, -inf)
        return self._is_renewed(output) and since_s >= self._lease.renewed_s - EARLY_S

    def _write_all(self, levels: dict[str, tuple[float, float]]) -> dict[str, Written]:
        """In the worker: try every output. Returns what each write returned, or its error."""
        results: dict[str, Written] = {}
        for output, (level, valid_s) in levels.items():
            if self._worker.is_abandoned():
                break  # this thread hung; another one has written newer levels since
            try:
                results[output] = self._write(output, level, valid_s)
            except DEVICE_ERRORS as error:
                results[output] = error
        return results

    def _note(self, changes: dict[str, float], results: Mapping[str, Written], lasted_s: float) -> None:
        was_well, is_news = not self._failing, False
        failures = {name: result for name, result in results.items() if isinstance(result, Exception)}
        for output, wanted in changes.items():
            level = None if output in failures else wanted
            is_news |= self._written.get(output) != level
            self._noted(output, level, results.get(output), lasted_s)
        self._failing = self._failing - changes.keys() | failures.keys()
        if failures:
            self._failed(next(iter(failures.values())), is_news=was_well)
        elif not self._failing:
            self._failures = 0
            self._health.succeeded()
            if is_news or not was_well or self._lease.renews_safe:
                self._publish()

    def _noted(self, output: str, level: float | None, result: Written, lasted_s: float) -> None:
        """An output was written to a level, None for an unknown one: the old one or the new one."""
        self._wrote_at[output] = self._clock.monotonic()
        self._written.pop(output, None)
        if level is not None:
            self._written[output] = level
        was_on_s = None if isinstance(result, Exception) or self._safe[output] else result
        self._counted(output, level, lasted_s, was_on_s)
        if self._guard is not None:
            self._guard.wrote(output, level, lasted_s, was_on_s)

    def _publish(self) -> None:
        state = self._state()
        for topic in self._outputs:
            topic.publish(state)

    def _failed(self, error: Exception, *, is_news: bool) -> None:
        self._failures += 1
        self._retry_at = self._clock.monotonic() + RETRIES.after(self._failures)
        if is_news:
            for topic in self._outputs:
                topic.publish(None, Quality.FAULT)
        said = of_error(error)
        self._health.failed(reworded(f"{said}{self._advice}", said))


class OutputActuator(Actuator):
    """Drives one output at a level, 0..1, by the commands for its own variable.

    The level is published on `<environment>/outputs/<device>` when it changes. `role` is what it does, by
    default that of its own variable.

    A command that says for how long it holds is a dose: it is written once, with its length, so that the
    device ends it in time whatever happens here. `dosed` gets each dose when it has ended.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        device: str,
        variable: str,
        *,
        write: Callable[[float, float], float | None],
        worker: Worker,
        safe_on: bool = False,
        role: Role | None = None,
        dosed: Callable[[GivenDose], None] | None = None,
        **options: Unpack[ActuatorOptions],
    ) -> None:
        super().__init__(
            bus,
            environment,
            device,
            write=lambda _, level, valid_s: write(level, valid_s),
            worker=worker,
            safe={variable: float(safe_on)},
            commands=(commanded(environment, variable),),
            **options,
        )
        self._variable = variable
        self._dose: _Dose | None = None
        self._written_by: _Command | None = None
        self._dosed = dosed
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
        level = message.known
        length_s = inf if message.valid_s is None else message.valid_s
        if level == self._safe[self._variable] and self._dose is not None and self._dose.is_ending(self._now):
            return  # the device ends it in time
        waited_s = max(0.0, self._clock.time() - message.time)
        if level is None or waited_s < min(length_s, self._stale_after):
            self._hold(self._variable, level, length_s)

    @property
    def _now(self) -> float:
        return self._clock.monotonic()

    def _target(self, output: str) -> float:
        level, command = self._held(output), self._commands.get(output)
        if self._dose is not None and command is not None and command.ends <= self._now < self._dose.ends:
            level = self._dose.level
        wanted = self._safe[output] if level is None else self._possible(level)
        return self._permitted(output, wanted)

    def _is_due(self, output: str, now: float) -> bool:
        command = self._commands.get(output)
        is_renewed = self._lease.renews_safe  # the timer of a device may be shorter than a dose
        if self._dose is None or command is None or (is_renewed and super()._is_due(output, now)):
            return super()._is_due(output, now)
        return abs(command.ends - self._dose.commanded) > CHANGED_S

    def _valid_s(self, output: str) -> float:
        command = self._written_by = self._commands.get(output)
        if command is None or command.ends == inf:
            return super()._valid_s(output)
        return command.length_s if self._dose is None else max(0.0, command.ends - self._now)

    def _noted(self, output: str, level: float | None, result: Written, lasted_s: float) -> None:
        super()._noted(output, level, result, lasted_s)
        dose, command = self._dose, self._written_by  # a newer one may have come during the write
        if dose is not None:
            dose.took(None if isinstance(result, Exception) else result, self._now - lasted_s)
        if level == self._safe[output] or command is None or command.ends == inf:
            self._dose = None
            if dose is not None and self._dosed is not None and level == self._safe[output]:
                self._dosed(GivenDose(dose.level, dose.length_s, dose.given_s, dose.is_estimate))
        elif level is not None:
            self._began(level, command, lasted_s)

    def _began(self, level: float, command: _Command, lasted_s: float) -> None:
        """A dose has begun, or has another end than before."""
        left_s = command.ends - (self._now - lasted_s)
        if self._dose is None:
            left_s = command.length_s
            self._dose = _Dose(level, self._now)
        elif command.ends == self._dose.commanded:
            return
        self._dose.lasts(self._now + left_s, command.ends)
        self._clock.call_later(left_s + MARGIN_S, self._changed.set)

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

    def _noted(self, output: str, level: float | None, result: Written, lasted_s: float) -> None:
        before = self._written.get(output, self._safe[output])
        super()._noted(output, level, result, lasted_s)
        if before != level == self._safe[output]:
            self._safe_since = self._clock.monotonic()


class _Command(NamedTuple):
    level: float
    came: float
    length_s: float

    @property
    def ends(self) -> float:
        return self.came + self.length_s


class GivenDose(NamedTuple):
    """A dose that has ended: its level, the length that was commanded, and the real one, in s.

    `is_estimate`: the device did not say how long it really was.
    """

    level: float
    length_s: float
    given_s: float
    is_estimate: bool = False


class _Dose:
    """A dose that is being given: `ends` is when the device has ended it, `commanded` when it was told to."""

    def __init__(self, level: float, now: float) -> None:
        self.level = level
        self.given_s = 0.0
        self.is_estimate = False
        self.ends = self.commanded = self._since = self._began = now

    @property
    def length_s(self) -> float:
        return self.ends - self._began

    def is_ending(self, now: float) -> bool:
        return self.ends - ENDING_S <= now

    def lasts(self, ends: float, commanded: float) -> None:
        self.ends, self.commanded = ends, commanded

    def took(self, on_s: float | None, now: float) -> None:
        """It was given for `on_s` until `now`; None for a device that does not know, as `now` does then."""
        self.given_s += now - self._since if on_s is None else on_s
        self.is_estimate |= on_s is None
        self._since = now
