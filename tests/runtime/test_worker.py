import asyncio
import threading

import pytest

from growd.runtime.worker import MOST_ABANDONED, Worker, WorkerError
from support.program import PATIENCE_S


async def test_an_error_reaches_the_caller_and_the_thread_continues():
    worker = Worker("bus 1")
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 / 0)
    assert await worker.run(lambda: 7) == 7
    assert await worker.close(PATIENCE_S)


async def test_a_full_queue_refuses_at_once():
    worker = Worker("bus 1", depth=1)
    release, begun = threading.Event(), threading.Event()

    def hold():
        begun.set()
        release.wait(PATIENCE_S)

    first = asyncio.create_task(worker.run(hold))
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    second = asyncio.create_task(worker.run(int))
    await asyncio.sleep(0)
    with pytest.raises(WorkerError, match="1 calls waiting"):
        await worker.run(int)
    release.set()
    await asyncio.gather(first, second)
    assert await worker.close(PATIENCE_S)


async def test_a_hung_call_does_not_delay_the_shutdown():
    worker = Worker("bus 1")
    release, begun = threading.Event(), threading.Event()

    def hang():
        begun.set()
        release.wait(PATIENCE_S)

    task = asyncio.create_task(worker.run(hang))
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    assert not await worker.close(timeout=0.01)
    with pytest.raises(WorkerError, match="closed"):
        await worker.run(int)
    task.cancel()
    release.set()
    worker._thread.join(PATIENCE_S)


class Hanging:
    """A call that hangs until it is let go, and a clock that the test moves."""

    def __init__(self):
        self.now = 0.0
        self.begun, self.release = threading.Event(), threading.Event()

    def monotonic(self):
        return self.now

    def __call__(self):
        self.begun.set()
        self.release.wait(PATIENCE_S)
        return "late"


async def hang(worker, hanging):
    hanging.begun.clear()
    task = asyncio.create_task(worker.run(hanging))
    await asyncio.to_thread(hanging.begun.wait, PATIENCE_S)
    return task


@pytest.fixture
def hanging():
    hanging = Hanging()
    yield hanging
    hanging.release.set()
    for thread in threading.enumerate():
        if thread.name == "bus 1":
            thread.join(PATIENCE_S)


async def test_a_hung_thread_is_abandoned_and_waiting_calls_continue(hanging):
    taken_over_in = []
    worker = Worker(
        "bus 1",
        on_new_thread=lambda: taken_over_in.append(threading.get_ident()),
        monotonic=hanging.monotonic,
    )
    assert not worker.abandon_hung_thread(0)  # it is idle
    first = await worker.run(threading.get_ident)
    stuck = await hang(worker, hanging)
    waiting = asyncio.create_task(worker.run(threading.get_ident))
    await asyncio.sleep(0)
    hanging.now = 9.9
    assert not worker.abandon_hung_thread(10)
    hanging.now = 10.0
    assert worker.abandon_hung_thread(10)
    assert not worker.abandon_hung_thread(10)  # it is new
    with pytest.raises(WorkerError, match="bus 1 has abandoned a hung call"):
        await stuck
    assert await waiting != first
    assert taken_over_in == [await waiting]
    assert worker.replaced == 1
    assert await worker.close(PATIENCE_S)


async def test_an_abandoned_thread_has_its_result_dropped_and_takes_no_more_calls(hanging):
    worker = Worker("bus 1", monotonic=hanging.monotonic)
    old = worker._thread
    stuck = await hang(worker, hanging)
    hanging.now = 10.0
    assert worker.abandon_hung_thread(10)
    hanging.release.set()
    await asyncio.to_thread(old.join, PATIENCE_S)
    assert not old.is_alive()
    assert worker.returned == 1
    with pytest.raises(WorkerError):
        await stuck
    assert await worker.run(threading.current_thread) is worker._thread
    assert await worker.close(PATIENCE_S)


async def test_no_more_than_a_few_threads_are_abandoned_at_a_time(hanging):
    worker = Worker("bus 1", monotonic=hanging.monotonic)
    for _ in range(MOST_ABANDONED):
        stuck = await hang(worker, hanging)
        hanging.now += 10
        assert worker.abandon_hung_thread(10)
        await asyncio.wait([stuck])
        assert isinstance(stuck.exception(), WorkerError)
    left = list(worker._abandoned)
    stuck = await hang(worker, hanging)
    hanging.now += 10
    assert not worker.abandon_hung_thread(10)
    hanging.release.set()
    for thread in left:
        await asyncio.to_thread(thread.join, PATIENCE_S)
    assert await stuck == "late"
    hanging.release.clear()
    stuck = await hang(worker, hanging)
    hanging.now += 10
    assert worker.abandon_hung_thread(10)
    await asyncio.wait([stuck])
    assert isinstance(stuck.exception(), WorkerError)
    assert await worker.close(PATIENCE_S)


async def test_a_takeover_that_hangs_is_abandoned_too(hanging):
    worker = Worker("bus 1", on_new_thread=hanging, monotonic=hanging.monotonic)
    stuck = await hang(worker, hanging)
    hanging.begun.clear()
    hanging.now = 10.0
    assert worker.abandon_hung_thread(10)
    await asyncio.to_thread(hanging.begun.wait, PATIENCE_S)
    hanging.now = 20.0
    assert worker.abandon_hung_thread(10)
    await asyncio.wait([stuck])
    assert isinstance(stuck.exception(), WorkerError)
    hanging.release.set()
    assert await worker.run(int) == 0
    assert await worker.close(PATIENCE_S)
