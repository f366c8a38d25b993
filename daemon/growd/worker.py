"""One thread that does blocking work for the event loop: a hardware bus, or SQLite."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class WorkerError(RuntimeError):
    """The worker can't take the call: it is closed, or its queue is full."""


class Worker:
    """Runs blocking calls one after another in a thread of its own.

    The thread is a daemon thread: a call that hangs in a driver can't keep the process from leaving. The
    queue is bounded; a call beyond `depth` waiting ones is refused with `WorkerError` at once.
    """

    def __init__(self, name: str, *, depth: int = 256) -> None:
        self.name = name
        self._depth = depth
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run `function(*args)` in the thread and return its result or raise its error.

        Cancelling the waiting task does not stop a call that has begun: its result is dropped.
        """
        if self._closed:
            raise WorkerError(f"worker {self.name} is closed")
        if self._calls.qsize() >= self._depth:
            raise WorkerError(f"worker {self.name} has {self._depth} calls waiting")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put(_Call(function, args, loop, future))
        return await future

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

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.execute()
            del call  # hold nothing of it while waiting for the next one


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
