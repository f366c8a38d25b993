"""The clock of the simulator: time waits for all work that is due, and then jumps to what is due next.

A `SimulatedLoop` moves it when the loop has nothing to do. Time stands still while a callback of the loop, a
call in a `Worker` or a short call in an executor is under way, so a slow machine delays nothing in it. Calls
in workers have turns, one at a time and in the order of their submission: the same run has the same order.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import itertools
import math
import os
import queue
import secrets
import selectors
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from growd.runtime.clock import whole_microseconds
from growd.runtime.event_loop import run_on_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

T = TypeVar("T")

LAG_S: Final = 0.5
"""Real seconds that time may be behind its speed and catch up."""

MEASURED_S: Final = 2.0
"""Real seconds over which the speed that is reached is measured."""

TURN_S: Final = 0.01
"""Real seconds that the loop waits for a call in a worker; after that it looks at its sockets meanwhile."""

LOOK_S: Final = 0.002
EXECUTOR_S: Final = 5.0
"""Real seconds for which time waits for a call in an executor. A longer one waits for something itself."""

POLL_S: Final = 0.002
"""Real seconds between two looks at the sockets while the loop is busy in simulated time."""

MOST_SKIPPED: Final = 100
"""Turns of a busy loop without such a look."""

SLOW: Final = 10.0
"""How fast time passes at most while growd ends."""

NEAR: Final = 0.05
"""A speed that differs by this share is reached."""

STALE: Final = 1_000
"""After so many new sleepers those that were cancelled are forgotten."""


class _Wake(Protocol):
    """What waits for a time."""

    def is_over(self) -> bool:
        """Whether it does not wait any more."""

    def wake(self) -> None:
        """Its time has come."""


class SimulatedClock:
    """A `growd.runtime.clock.Clock` whose time jumps to what is due next. A `SimulatedLoop` moves it.

    `speed` is an upper bound: so many simulated seconds pass in a real one; infinity for no bound. Wall time
    starts at `start` (UNIX seconds, default now). Time does not pass `ends` (monotonic seconds).
    """

    def __init__(
        self, speed: float = math.inf, start: float | None = None, *, ends: float = math.inf
    ) -> None:
        if not speed > 0:
            raise ValueError(f"speed must be above 0, not {speed!r}")
        self.speed = speed
        self.ends = ends
        self.boot = secrets.token_hex(8)
        self._now = 0.0
        self._start = time.time() if start is None else start
        self._sleepers: list[tuple[float, int, _Wake]] = []
        self._order = itertools.count()
        self._turns: deque[_Turn] = deque()
        self._given_back: queue.SimpleQueue[tuple[_Turn, float | None]] = queue.SimpleQueue()
        self._running: _Turn | None = None
        self._in_executors: dict[asyncio.Future[Any], float] = {}
        self._idle: asyncio.Future[None] | None = None
        self._anchor = self._measured = time.monotonic(), 0.0
        self._reached: float | None = None

    # --- the clock

    def time(self) -> float:
        return whole_microseconds(self._start + self._now)

    def monotonic(self) -> float:
        return self._now

    def is_synchronised(self) -> bool:
        return True

    @property
    def reached(self) -> float:
        """How many times as fast as real time it ran lately: `speed`, unless the machine is slower."""
        now = time.monotonic()
        self._measure(now)
        reached = self._reached
        if reached is None:
            reached = self._now / max(now - self._measured[0], LOOK_S)
        return self.speed if reached > (1 - NEAR) * self.speed else float(f"{reached:.3g}")

    def slow_down(self) -> None:
        """Let time pass slowly from now on: while growd ends, few tasks are left to wait for."""
        self.speed = min(self.speed, SLOW)
        self._anchor = time.monotonic(), self._now

    async def sleep(self, seconds: float) -> None:
        sleeper = _Sleeper()
        self._add(seconds, sleeper)
        await sleeper.future

    def call_later(self, seconds: float, callback: Callable[[], object]) -> _Timer:
        timer = _Timer(callback)
        self._add(seconds, timer)
        return timer

    def sleep_blocking(self, seconds: float) -> None:
        turn = self._running
        if turn is not None and turn.thread is threading.current_thread():
            self._given_back.put((turn, seconds))
            turn.wait()
        else:
            time.sleep(min(seconds, LOOK_S))  # a thread without turns, such as one that opens devices

    async def settle(self) -> None:
        """Wait until nothing is due before `ends`, and no work is under way. For one task at a time."""
        self._idle = asyncio.get_running_loop().create_future()
        await self._idle

    async def advance(self, seconds: float) -> None:
        """Let this time pass after `ends`, and everything happen that falls due, in order."""
        self.ends += seconds
        await self.settle()
        self._now = self.ends

    # --- for the loop

    def turn(self, owner: object, can_begin: Callable[[], bool]) -> _Turn:
        """The turn of a call in the thread of its owner, after the turns before it that `can_begin`."""
        turn = _Turn(self, owner, can_begin)
        self._turns.append(turn)
        return turn

    def wait_for(self, call: asyncio.Future[Any]) -> None:
        """Let time wait for a call in an executor, for at most `EXECUTOR_S` real seconds."""
        self._in_executors[call] = time.monotonic()
        call.add_done_callback(self._in_executors.pop)

    def go_on(self) -> float | None:
        """The loop is idle: give the next turn, or move time to what is due next.

        Returns 0 if the loop may have work now, else the real seconds that it may wait for its sockets, None
        for any time.
        """
        if self.give_turn():
            return 0.0 if self._running is None else LOOK_S
        now = time.monotonic()
        if any(now - began < EXECUTOR_S for began in self._in_executors.values()) or not self._all_sleep():
            return LOOK_S
        return self._pass_time(now)

    def give_turn(self) -> bool:
        """Give the next turn, unless one is under way. Returns whether there is one."""
        if self._running is not None:
            self._take_back(0.0)
            return True  # if it has ended, the loop has its result now
        for turn in self._turns:
            if turn.can_begin():
                self._turns.remove(turn)
                self._give(turn)
                return True
        return False

    def release(self) -> None:
        """Let all calls that wait for a turn or for a time go on: no loop moves this clock any more."""
        self._running = None
        for turn in (*self._turns, *(wake for _, _, wake in self._sleepers if isinstance(wake, _Turn))):
            turn.begin()
        self._turns.clear()
        self._sleepers.clear()

    def _all_sleep(self) -> bool:
        """Whether each turn that can't begin waits for a call that sleeps; others began without a turn."""
        if not self._turns:
            return True
        asleep = {id(wake.owner) for _, _, wake in self._sleepers if isinstance(wake, _Turn)}
        return all(id(turn.owner) in asleep for turn in self._turns)

    def _pass_time(self, now: float) -> float | None:
        while self._sleepers and self._sleepers[0][2].is_over():
            heapq.heappop(self._sleepers)
        due = self._sleepers[0][0] if self._sleepers else math.inf
        if due > self.ends or math.isinf(due):
            return self._rest()
        if (wait := self._wait_s(due, now)) > 0:
            return wait
        self._now = max(self._now, due)
        heapq.heappop(self._sleepers)[2].wake()
        return 0.0

    def _rest(self) -> float | None:
        if self._idle is None:
            return None
        if not self._idle.done():  # else cancelled
            self._idle.set_result(None)
        self._idle = None
        return 0.0

    def _wait_s(self, due: float, now: float) -> float:
        """Real seconds until the speed allows this time."""
        self._measure(now)
        if math.isinf(self.speed):
            return 0.0
        began, start = self._anchor
        allowed = start + (now - began) * self.speed
        if allowed - due > LAG_S * self.speed:
            self._anchor = now - LAG_S, due
        return (due - allowed) / self.speed

    def _measure(self, now: float) -> None:
        began, start = self._measured
        if now - began >= MEASURED_S:
            self._reached = (self._now - start) / (now - began)
            self._measured = now, self._now

    def _give(self, turn: _Turn) -> None:
        """Let a call run, and wait for its end or its next sleep; not for long, since it may really block."""
        self._running = turn
        turn.begin()
        self._take_back(TURN_S)

    def _take_back(self, patience_s: float) -> bool:
        """Whether the running turn was given back within this time."""
        try:
            turn, sleeps_s = self._given_back.get(timeout=patience_s)
        except queue.Empty:
            return False
        self._running = None
        if sleeps_s is not None:
            self._add(sleeps_s, turn)
        return True

    def give_back(self, turn: _Turn) -> None:
        """The call of a turn has ended. In its thread."""
        self._given_back.put((turn, None))

    def again(self, turn: _Turn) -> None:
        """The time of a turn that sleeps has come."""
        self._turns.append(turn)

    def _add(self, seconds: float, wake: _Wake) -> None:
        order = next(self._order)
        if order % STALE == 0:
            self._sleepers = [each for each in self._sleepers if not each[2].is_over()]
            heapq.heapify(self._sleepers)
        heapq.heappush(self._sleepers, (self._now + max(0.0, seconds), order, wake))


class _Sleeper:
    """A task that sleeps."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def is_over(self) -> bool:
        return self.future.done()

    def wake(self) -> None:
        self.future.set_result(None)


class _Timer:
    """A callback that waits for its time."""

    __slots__ = ("_callback", "_loop")

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback
        self._loop = asyncio.get_running_loop()

    def is_over(self) -> bool:
        return self._callback is None

    def wake(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            self._loop.call_soon(callback)

    def cancel(self) -> None:
        """Do not call it."""
        self._callback = None


class _Turn:
    """The turn of a call in a worker thread, which uses it as a context manager."""

    __slots__ = ("_clock", "_go", "can_begin", "owner", "thread")

    def __init__(self, clock: SimulatedClock, owner: object, can_begin: Callable[[], bool]) -> None:
        self.owner = owner
        self.can_begin = can_begin
        self.thread: threading.Thread | None = None
        self._clock = clock
        self._go: queue.SimpleQueue[None] = queue.SimpleQueue()

    def __enter__(self) -> None:
        self.wait()
        self.thread = threading.current_thread()

    def __exit__(self, *_: object) -> None:
        self._clock.give_back(self)

    def begin(self) -> None:
        """Let the thread go on."""
        self._go.put(None)

    def wait(self) -> None:
        """Wait for the turn, in the thread."""
        self._go.get()

    def is_over(self) -> bool:
        return False

    def wake(self) -> None:
        self.can_begin = _always
        self._clock.again(self)


def _always() -> bool:
    return True


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop that can be moved by a `SimulatedClock`."""

    def __init__(self) -> None:
        self.clock: SimulatedClock | None = None
        super().__init__(_Selector(self))

    def run_in_executor(self, *call: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """As the loop's; simulated time waits for the call."""
        future = super().run_in_executor(*call)
        if self.clock is not None:
            self.clock.wait_for(future)
        return future


def run_simulated(main: Coroutine[Any, Any, T], clock: SimulatedClock) -> T:
    """Run `main` to its end on a loop that moves this clock, on one core."""

    async def moved() -> T:
        with moving(clock, asyncio.get_running_loop()):
            return await main

    with on_one_core():
        return run_on_loop(moved(), SimulatedLoop)


@contextmanager
def moving(clock: SimulatedClock, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let a `SimulatedLoop` move this clock for the body. Raises RuntimeError for another loop."""
    if not isinstance(loop, SimulatedLoop):
        raise RuntimeError("this event loop has no simulated time")  # noqa: TRY004  it runs already
    loop.clock = clock
    try:
        yield
    finally:
        loop.clock = None
        clock.release()


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep this thread, and those that it starts, on its core: turns change faster there."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {ctypes.CDLL(None).sched_getcpu()})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


class _Selector(selectors.BaseSelector):
    """The selector of a loop that moves its clock in place of waiting."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._sockets = selectors.DefaultSelector()
        self._skipped = 0
        self._looked = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        clock = self._loop.clock
        if clock is None:
            return self._sockets.select(timeout)
        if timeout is not None and timeout <= 0:  # the loop has work
            return self._look_now_and_then(clock)
        now = time.monotonic()
        if now - self._looked >= POLL_S:
            self._looked = now
            if found := self._sockets.select(0):
                return found
        wait_s = clock.go_on()
        if wait_s == 0:
            return []
        limits = [each for each in (wait_s, timeout) if each is not None]
        return self._sockets.select(min(limits, default=None))

    def _look_now_and_then(self, clock: SimulatedClock) -> list[tuple[selectors.SelectorKey, int]]:
        self._skipped += 1
        if self._skipped < MOST_SKIPPED:
            return []
        self._skipped = 0
        clock.give_turn()
        return self._sockets.select(0)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._sockets.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._sockets.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._sockets.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._sockets.get_map()

    def close(self) -> None:
        self._sockets.close()
