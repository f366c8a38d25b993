"""One thread that does blocking work for the event loop: a hardware bus, or SQLite."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MOST_LEFT_BEHIND: Final = 4
"""Threads of one worker that may hang at a time: a line that hangs again and again must not take them all."""


class WorkerError(RuntimeError):
    """The worker can't take the call, since it is closed or its queue is full, or has given it up."""


class Worker:
    """Runs blocking calls one after another in a thread of its own.

    The thread is a daemon thread: a call that hangs in a driver can't keep the process from leaving. The
    queue is bounded; a call beyond `depth` waiting ones is refused with `WorkerError` at once.

    A thread whose call hangs can be left behind for a new one, which begins with `renew()`: that takes from
    the old one what it held. `monotonic` counts the seconds of a call.
    """

    def __init__(
        self,
        name: str,
        *,
        depth: int = 256,
        renew: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.replaced = 0
        """How often its thread was left behind."""
        self.returned = 0
        """How many of those threads have come back since: what they did late may have undone something."""
        self._depth = depth
        self._renew = renew
        self._monotonic = monotonic
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._at_work: tuple[_Call, float] | None = None
        self._left_behind: list[threading.Thread] = []
        self._thread = self._new_thread(None)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run `function(*args)` in the thread and return its result or raise its error.

        Cancelling the waiting task does not stop a call that has begun: its result is dropped.
        """
        return await self.submit(function, *args)

    def submit(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Have `function(*args)` run in the thread, as `run` does, and wait for it elsewhere."""
        if self._closed:
            raise WorkerError(f"worker {self.name} is closed")
        if self._calls.qsize() >= self._depth:
            raise WorkerError(f"worker {self.name} has {self._depth} calls waiting")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put(_Call(function, args, loop, future))
        return future

    def busy_for(self) -> float:
        """Seconds that the call at work has taken; 0 when there is none."""
        with self._lock:
            return 0.0 if self._at_work is None else self._monotonic() - self._at_work[1]

    def is_left_behind(self) -> bool:
        """Whether the thread that asks was left behind: what it was about to do is not wanted any more."""
        return threading.current_thread() in self._left_behind

    def leave_behind(self, limit: float) -> bool:
        """Go on with a new thread if the call at work has taken `limit` seconds; say whether it was so.

        That call fails with `WorkerError`, and the ones that wait are next. Nothing happens while
        `MOST_LEFT_BEHIND` threads have not come back.
        """
        with self._lock:
            if self._at_work is None or self._monotonic() - self._at_work[1] < limit:
                return False
            self._left_behind = [thread for thread in self._left_behind if thread.is_alive()]
            if len(self._left_behind) >= MOST_LEFT_BEHIND:
                return False
            self._left_behind.append(self._thread)
            call, _ = self._at_work
            self._at_work = None  # the new thread's, not the old one's, whatever that does from here on
            self.replaced += 1
            self._thread = self._new_thread(call.followed_by(self._renew))
        call.give_up(WorkerError(f"worker {self.name} has given up a call that hangs"))
        return True

    async def close(self, timeout: float = 2.0) -> bool:
        """Let the calls that wait finish, then end the thread.

        False if it still runs after `timeout` real seconds: a call hangs, and the thread is left behind.
        """
        if not self._closed:
            self._closed = True
            self._calls.put(None)
            ended = asyncio.create_task(
                asyncio.to_thread(self._thread.join, timeout), name=f"{self.name}: close"
            )
            await asyncio.shield(ended)
        return not self._thread.is_alive()

    def _new_thread(self, first: _Call | None) -> threading.Thread:
        thread = threading.Thread(target=self._work, args=(first,), name=self.name, daemon=True)
        thread.start()
        return thread

    def _work(self, first: _Call | None) -> None:
        if first is not None and not self._carry_out(first):
            return
        del first
        while (call := self._calls.get()) is not None:
            if not self._carry_out(call):
                return
            del call  # hold nothing of it while waiting for the next one

    def _carry_out(self, call: _Call) -> bool:
        """Whether this thread still is the worker's after it."""
        self._at_work = (call, self._monotonic())
        call.execute()
        with self._lock:
            if self._at_work is None or self._at_work[0] is not call:
                self.returned += 1
                return False
            self._at_work = None
        return True


class Workers(dict[str, Worker]):
    """Workers by name, each made when it is first asked for. `monotonic` is that of all."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._monotonic = monotonic

    def named(self, name: str, renew: Callable[[], None] = lambda: None) -> Worker:
        """The worker of that name; a new one has `renew`."""
        if name not in self:
            self[name] = Worker(name, renew=renew, monotonic=self._monotonic)
        return self[name]

    async def close(self, timeout: float) -> None:
        """Close all at a time, as `Worker.close` does each."""
        await asyncio.gather(*(worker.close(timeout) for worker in self.values()))


class _Call:
    __slots__ = ("args", "function", "future", "loop")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
    ) -> None:
        self.function = function
        self.args = args
        self.loop = loop
        self.future = future

    def execute(self) -> None:
        if self.future.cancelled():
            return
        try:
            result = self.function(*self.args)
        except BaseException as error:  # noqa: BLE001  it belongs to the caller, whatever it is
            self._answer(self._fail, error)
        else:
            self._answer(self._succeed, result)

    def followed_by(self, function: Callable[[], Any]) -> _Call:
        """A call for whose result nobody waits."""
        return _Call(function, (), self.loop, self.loop.create_future())

    def give_up(self, error: BaseException) -> None:
        """Fail now, on the event loop, whatever the thread brings back later."""
        self._fail(error)

    def _answer(self, answer: Callable[[Any], None], value: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(answer, value)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def _succeed(self, result: Any) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)
