"""Simulated time waits for all work that is due, and jumps when there is none."""

import asyncio
import math
import threading
import time
from contextlib import asynccontextmanager

import pytest

from growd.runtime.worker import Worker
from growd_simulation.simulated_clock import STALE, SimulatedClock, moving, run_simulated
from support.program import PATIENCE_S
from support.waiting import until

BUSY_S = 0.05


@pytest.fixture
async def clock():
    made = SimulatedClock()
    with moving(made, asyncio.get_running_loop()):
        yield made


@asynccontextmanager
async def workers(clock, *names):
    made = [Worker(name, monotonic=clock.monotonic) for name in names]
    yield made
    for each in made:
        assert await each.close(PATIENCE_S)


def busy(seconds=BUSY_S):
    """Work that takes real time."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def test_time_jumps_to_what_is_due_next_in_order(clock):
    seen = []

    async def sleeper(name, *seconds):
        for each in seconds:
            await clock.sleep(each)
            seen.append((name, clock.monotonic()))

    clock.call_later(86_400, lambda: seen.append(("timer", clock.monotonic())))
    clock.call_later(5, lambda: seen.append(("cancelled", 0))).cancel()
    began = clock.time()
    await asyncio.gather(sleeper("a", 10, 10, 86_400), sleeper("b", 15))
    assert seen == [("a", 10), ("b", 15), ("a", 20), ("timer", 86_400), ("a", 86_420)]
    assert clock.time() - began == 86_420


async def test_time_stands_still_while_the_loop_a_worker_or_an_executor_works(clock):
    async with workers(clock, "bus") as (worker,):
        work = [busy, lambda: worker.submit(busy), lambda: asyncio.to_thread(busy)]
        for each in work:
            overdue = asyncio.create_task(clock.sleep(1.0), name="sleeper")
            await asyncio.sleep(0)
            began = clock.monotonic()
            result = each()
            if result is not None:
                await result
            assert clock.monotonic() == began
            await overdue
            assert clock.monotonic() == began + 1.0


async def test_the_result_of_a_long_call_comes_before_the_next_time():
    clock, ends = SimulatedClock(), threading.Event()
    clock.call_later(1.0, lambda: None)
    turn = clock.turn(object(), lambda: True)

    def call():
        with turn:
            ends.wait()

    thread = threading.Thread(target=call)
    thread.start()
    assert clock.go_on() > 0  # it is under way
    ends.set()
    thread.join()
    assert (clock.go_on(), clock.monotonic()) == (0.0, 0.0)  # the loop looks for its result
    assert (clock.go_on(), clock.monotonic()) == (0.0, 1.0)


async def test_calls_sleep_in_simulated_time_and_timers_between_are_not_late(clock):
    seen = []

    def call(name, seconds):
        clock.sleep_blocking(seconds)
        seen.append((name, clock.monotonic()))

    async with workers(clock, "one", "two") as (one, two):
        clock.call_later(0.2, lambda: seen.append(("timer", clock.monotonic())))
        calls = [(one, "a", 0.5), (one, "b", 0.5), (two, "c", 0.7)]
        await asyncio.gather(*(worker.run(call, name, seconds) for worker, name, seconds in calls))
    assert seen == [("timer", 0.2), ("a", 0.5), ("c", 0.7), ("b", 1.0)]


async def test_calls_of_several_workers_run_one_at_a_time_in_the_order_of_submission(clock):
    at_work, order, together = 0, [], []

    def call(number):
        nonlocal at_work
        at_work += 1
        busy(0.001)
        together.append(at_work)
        order.append(number)
        at_work -= 1

    async with workers(clock, "one", "two", "three") as made:
        await asyncio.gather(*(made[number * 7 % 3].run(call, number) for number in range(60)))
        last = made[0].submit(int)
        await until(last.done)  # a busy loop keeps no call from its turn
    assert order == [*range(60)]
    assert set(together) == {1}
    assert clock.monotonic() == 0


async def test_a_call_that_really_blocks_blocks_no_loop_and_time_waits_for_it(clock):
    begun, released = threading.Event(), threading.Event()

    def block():
        begun.set()
        return released.wait(PATIENCE_S)

    async with workers(clock, "bus") as (worker,):
        overdue = asyncio.create_task(clock.sleep(1.0), name="sleeper")
        call = worker.submit(block)
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        await asyncio.sleep(0.01)
        assert not overdue.done()
        released.set()
        assert await call
        await overdue


async def test_a_hung_call_is_abandoned_in_simulated_time(clock):
    released = False

    def hang():
        while not released:
            clock.sleep_blocking(0.1)

    async with workers(clock, "bus") as (worker,):
        hung = worker.submit(hang)
        waiting = worker.submit(threading.current_thread)
        await clock.sleep(10)
        assert worker.busy_for() == pytest.approx(10)
        assert worker.abandon_hung_thread(10)
        assert await waiting is worker._thread
        with pytest.raises(RuntimeError, match="abandoned"):
            await hung
        released = True
        await clock.sleep(1)
        assert worker.returned == 1


async def test_time_does_not_pass_its_end(clock):
    clock.ends = 100.0
    late = asyncio.create_task(clock.sleep(101), name="late")
    await clock.sleep(100)
    await clock.settle()
    assert clock.monotonic() == 100
    assert not late.done()
    clock.ends = math.inf
    await late


@pytest.mark.long
def test_its_speed_is_a_bound_and_the_reached_one_is_told():
    clock = SimulatedClock(200.0)

    async def main():
        began = time.monotonic()
        for _ in range(600):
            await clock.sleep(1)
        return 600 / (time.monotonic() - began)

    assert run_simulated(main(), clock) < 201
    assert 0 < clock.reached <= 200
    clock._reached = 230.0  # after a pause it makes up for the time that it is behind
    assert clock.reached == 200
    for speed in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="above 0"):
            SimulatedClock(speed)


async def test_no_hours_pass_after_it_was_slowed_down(clock):
    late = asyncio.create_task(clock.sleep(7_200), name="late")
    await clock.sleep(3_600)
    clock.slow_down()
    assert clock.go_on() > 300  # real seconds until the next one
    assert clock.monotonic() == 3_600
    late.cancel()


async def test_sleepers_that_were_cancelled_are_forgotten(clock):
    for _ in range(3 * STALE):
        clock.call_later(86_400, print).cancel()
    assert len(clock._sleepers) <= STALE


async def test_sockets_are_read_while_time_jumps(clock):
    async def answer(reader, writer):
        writer.write(await reader.readline())
        writer.close()

    async def tick():
        while True:
            await clock.sleep(1)

    ticking = asyncio.create_task(tick(), name="tick")
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"hello\n")
            assert await reader.read() == b"hello\n"
            writer.close()
            await writer.wait_closed()
    ticking.cancel()
    await asyncio.wait([ticking])
    assert clock.monotonic() > 0
