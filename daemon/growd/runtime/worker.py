"""A thread that runs blocking calls for the event loop, such as those of a hardware bus or of SQLite."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

T = TypeVar("T")

MOST_ABANDONED: Final = 4
"""How many hung threads one worker may have, so that a broken bus does not use up all threads."""


class WorkerError(RuntimeError):
    """The worker is closed, its queue is full, or it has abandoned the call."""


class Worker:
    """Runs blocking calls one after another in its own thread.

    It is a daemon thread, so that a call that hangs does not prevent the process from ending. With `depth`
    calls waiting a further one raises `WorkerError`.

    A thread whose call hangs can be abandoned. The new thread first calls `on_new_thread()`, which takes from
    the old one what it held. `monotonic` measures the duration of calls.
    """

    def __init__(
        self,
        name: str,
        *,
        depth: int = 256,
        on_new_thread: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.replaced = 0
        """How many threads were abandoned."""
        self.returned = 0
        """How many of them have returned since: their late work may have undone something."""
        self.recovered = 0
        """How often one of its devices has answered again, so that others may too."""
        self._depth = depth
        self._on_new_thread = on_new_thread
        self._monotonic = monotonic
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._last: asyncio.Future[int] | None = None
        self._lock = threading.Lock()
        self._at_work: tuple[_Call, float] | None = None
        self._abandoned: list[threading.Thread] = []
        self._thread = self._new_thread(None)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run `function(*args)` in the thread, and return its result or raise its error.

        Cancelling the waiting task does not stop a call that has begun; its result is dropped.
        """
        return await self.submit(function, *args)

    def submit(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Run `function(*args)` in the thread as `run` does, without waiting for it."""
        if self._last is not None:
            raise WorkerError(f"worker {self.name} is closed")
        if self._calls.qsize() >= self._depth:
            raise WorkerError(f"worker {self.name} has {self._depth} calls waiting")
        return self._queued(function, *args)

    def busy_for(self) -> float:
        """Seconds that the current call has taken; 0 without one."""
        with self._lock:
            return 0.0 if self._at_work is None else self._monotonic() - self._at_work[1]

    def is_abandoned(self) -> bool:
        """Whether the calling thread was abandoned, so that it must do nothing more."""
        return threading.current_thread() in self._abandoned

    def abandon_hung_thread(self, limit: float) -> bool:
        """Start a new thread if the current call has taken `limit` seconds; return whether it did.

        That call fails with `WorkerError`; those that wait come next. Nothing happens while `MOST_ABANDONED`
        threads have not returned.
        """
        with self._lock:
            if self._at_work is None or self._monotonic() - self._at_work[1] < limit:
                return False
            self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
            if len(self._abandoned) >= MOST_ABANDONED:
                return False
            self._abandoned.append(self._thread)
            call, _ = self._at_work
            self._at_work = None  # from here on that of the new thread
            self.replaced += 1
            self._thread = self._new_thread(call.followed_by(self._on_new_thread))
        call.fail(WorkerError(f"worker {self.name} has abandoned a hung call"))
        return True

    async def close(self, timeout: float = 2.0) -> bool:
        """Finish the waiting calls, then end the thread.

        Returns False if a call hangs and the thread still runs after `timeout` real seconds.
        """
        if self._last is None:
            self._last = self._queued(int)
            self._calls.put(None)
            await asyncio.wait([self._last], timeout=timeout)
            if self._last.done():
                await asyncio.to_thread(self._thread.join)
        return self._last.done()

    def _queued(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        clock = getattr(loop, "clock", None)  # of a `SimulatedLoop`; real time needs no turns
        turn = nullcontext() if clock is None else clock.turn(self, lambda: self._at_work is None)
        self._calls.put(_Call(function, args, loop, future, turn))
        return future

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
            del call  # frees its result while waiting for the next one

    def _carry_out(self, call: _Call) -> bool:
        """Run a call; return whether this thread is still that of the worker afterwards."""
        with call.turn:
            self._at_work = (call, self._monotonic())
            call.execute()
            with self._lock:
                if self._at_work is None or self._at_work[0] is not call:
                    self.returned += 1
                    return False
                self._at_work = None
        return True


class Workers(dict[str, Worker]):
    """Workers by name, each made on first use. `monotonic` is for all of them."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._monotonic = monotonic

    def named(self, name: str, on_new_thread: Callable[[], None] = lambda: None) -> Worker:
        """The worker of that name; `on_new_thread` is for a new one."""
        if name not in self:
            self[name] = Worker(name, on_new_thread=on_new_thread, monotonic=self._monotonic)
        return self[name]

    async def close(self, timeout: float) -> None:
        """Close all of them at the same time; see `Worker.close`."""
        await asyncio.gather(*(worker.close(timeout) for worker in self.values()))


@dataclass(slots=True, eq=False)
class _Call:
    function: Callable[..., Any]
    args: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    turn: AbstractContextManager[None]

    def execute(self) -> None:
        if self.future.cancelled():
            return
        try:
            result = self.function(*self.args)
        except BaseException as error:  # noqa: BLE001  it is raised to the caller
            self._answer(self.fail, error)
        else:
            self._answer(self._succeed, result)

    def followed_by(self, function: Callable[[], Any]) -> _Call:
        """A call whose result is not waited for."""
        return _Call(function, (), self.loop, self.loop.create_future(), nullcontext())

    def _answer(self, answer: Callable[[Any], None], value: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(answer, value)
        except RuntimeError:
            return  # the loop is closed

    def _succeed(self, result: Any) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Raise the error to the caller, unless it has the result. On the event loop."""
        if not self.future.done():
            self.future.set_exception(error)
