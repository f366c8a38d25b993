from __future__ import annotations

import asyncio
import threading

import pytest

from growd.worker import Worker, WorkerError


async def test_calls_run_in_order_in_one_thread():
    worker = Worker("bus 1")
    seen: list[tuple[int, str]] = []

    def call(number: int) -> int:
        seen.append((number, threading.current_thread().name))
        return number * 2

    results = await asyncio.gather(*(worker.run(call, number) for number in range(5)))
    assert results == [0, 2, 4, 6, 8]
    assert seen == [(number, "bus 1") for number in range(5)]
    assert await worker.close()


async def test_an_error_reaches_the_caller_and_the_thread_lives_on():
    worker = Worker("bus 1")
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 / 0)
    assert await worker.run(lambda: 7) == 7
    assert await worker.close()


async def test_a_full_queue_refuses_at_once():
    worker = Worker("bus 1", depth=1)
    release, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait(10)

    first = asyncio.create_task(worker.run(hold))
    await asyncio.to_thread(begun.wait, 10)
    second = asyncio.create_task(worker.run(int))
    await asyncio.sleep(0)
    with pytest.raises(WorkerError, match="1 calls waiting"):
        await worker.run(int)
    release.set()
    await asyncio.gather(first, second)
    assert await worker.close()


async def test_a_call_that_hangs_does_not_hold_up_the_end():
    worker = Worker("bus 1")
    release, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        release.wait(10)

    task = asyncio.create_task(worker.run(hang))
    await asyncio.to_thread(begun.wait, 10)
    assert not await worker.close(timeout=0.01)
    with pytest.raises(WorkerError, match="closed"):
        await worker.run(int)
    task.cancel()
    release.set()
    worker._thread.join(10)
