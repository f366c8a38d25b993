import asyncio
import logging
from itertools import pairwise

import pytest

from growd.bus import Bus
from growd.bus.messages import FLOAT64
from growd.runtime.liveness import FAILING_S, Liveness
from growd.runtime.supervisor import PAUSES, Supervisor
from support.clock import ManualClock


async def test_a_failed_component_restarts_and_the_others_continue(caplog):
    clock = ManualClock()
    starts = []
    beats = []

    async def fail():
        starts.append(clock.monotonic())
        raise ValueError("broken wire")

    async def beat():
        while True:
            beats.append(clock.monotonic())
            await clock.sleep(1)

    async with Supervisor(clock, Liveness()) as supervisor:
        supervisor.start("fails", fail)
        supervisor.start("beats", beat)
        await clock.advance(8)

    began = starts[0]
    assert [moment - began for moment in starts] == [0, 1, 3, 7]  # after 1, 2 and 4 s
    assert len(beats) == 9
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 4
    assert "fails failed; restarting it in 1 s" in logged[0].getMessage()


async def test_the_restart_delay_is_bounded_and_reset_after_a_long_run():
    clock = ManualClock()
    starts = []

    async def fail_late():
        starts.append(clock.monotonic())
        if len(starts) == 9:
            await clock.sleep(PAUSES.longest_s + 1)
        raise OSError

    async with Supervisor(clock, Liveness()) as supervisor:
        supervisor.start("fails", fail_late)
        await clock.advance(600)

    pauses = [later - earlier for earlier, later in pairwise(starts)]
    assert pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert pauses[8] == PAUSES.longest_s + 1 + 1


async def test_a_component_restarts_after_an_error_or_a_cancellation_of_a_task_that_it_waits_for():
    clock = ManualClock()
    starts, runs = [], []

    async def fail():
        await clock.sleep(1)
        raise ValueError("broken wire")

    async def wait():
        starts.append(clock.monotonic())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail(), name="fails")

    async def wait_for_what_is_cancelled():
        runs.append(1)
        work = asyncio.create_task(clock.sleep(100), name="work")
        asyncio.get_running_loop().call_soon(work.cancel)
        await work

    async with Supervisor(clock, Liveness()) as supervisor:
        supervisor.start("waits", wait)
        supervisor.start("is cancelled", wait_for_what_is_cancelled)
        await clock.advance(6)
    assert [moment - starts[0] for moment in starts] == [0, 2, 5]
    assert len(runs) == 3  # after 1 and 2 s


async def test_a_component_that_returns_or_is_cancelled_is_not_restarted():
    """As the event loop does with every task when it ends early: a part that came back would hold it up."""
    clock = ManualClock()
    runs, returned = [], []

    async def part():
        runs.append(asyncio.current_task())
        await asyncio.Event().wait()

    async def once():
        returned.append(1)

    async with Supervisor(clock, Liveness()) as supervisor:
        supervisor.start("part", part)
        supervisor.start("once", once)
        await clock.advance(1)
        runs[0].cancel()
        await clock.advance(100)
    assert (len(runs), len(returned)) == (1, 1)


async def test_a_component_that_fails_while_it_shuts_down_is_not_restarted(caplog):
    clock = ManualClock()
    runs = []

    async def fail_when_cancelled():
        runs.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the device is gone")

    async with Supervisor(clock, Liveness()) as supervisor:
        supervisor.start("fails", fail_when_cancelled)
        await clock.advance(1)
    assert runs == [1]
    assert "fails failed while it was shutting down" in caplog.text


async def test_all_components_have_ended_at_the_end():
    clock = ManualClock()
    ended = []

    async def part():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(asyncio.current_task().get_name())

    async def fail_in_the_middle():
        async with Supervisor(clock, Liveness()) as supervisor:
            supervisor.start("one", part)
            supervisor.start("two", part)
            await clock.advance(1)
            raise KeyError("the body's own error, as it is")

    with pytest.raises(KeyError):
        await fail_in_the_middle()
    assert sorted(ended) == ["one", "two"]


class Rig:
    """A component that reads a topic and fails on demand."""

    def __init__(self):
        self.clock = ManualClock()
        self.liveness = Liveness(monotonic=self.clock.monotonic)
        self.bus = Bus(self.clock, liveness=self.liveness)
        self.node = self.bus.node("reader")
        self.topic = self.bus.node("sensor").advertise("t", FLOAT64)
        self.is_failing = False
        self.read = []

    async def run(self):
        with self.node.inbox("t", depth=3) as messages:
            if self.is_failing:
                raise OSError("broken wire")
            async for message in messages:
                self.node.attempt(self.take, message)
                if self.is_failing:
                    raise OSError("broken wire")

    def take(self, message):
        if message.value < 0:
            raise ValueError("below zero")
        self.read.append(message.value)


async def test_a_failed_component_keeps_its_subscription_and_waiting_messages():
    rig = Rig()
    async with Supervisor(rig.clock, rig.liveness) as supervisor:
        supervisor.start("reader", rig.run)
        await rig.clock.settle()
        rig.is_failing = True
        rig.topic.publish(1.0)
        await rig.clock.settle()
        for value in (2.0, 3.0, 4.0):  # while it is down
            rig.topic.publish(value)
        rig.is_failing = False
        await rig.clock.advance(2)
        assert rig.read == [1.0, 2.0, 3.0, 4.0]
        assert rig.topic.topic.subscribers == ["reader"]
    assert rig.topic.topic.subscribers == []


async def test_one_bad_message_does_not_end_a_component_and_is_counted():
    rig = Rig()
    async with Supervisor(rig.clock, rig.liveness) as supervisor:
        supervisor.start("reader", rig.run)
        await rig.clock.settle()
        for value in (1.0, -1.0, 2.0):
            rig.topic.publish(value)
        await rig.clock.settle()
    assert rig.read == [1.0, 2.0]
    (component,) = rig.liveness.components()
    assert (component.name, component.failures) == ("reader", 1)
    assert component.last_error == "ValueError: below zero"


async def test_more_than_two_failures_in_ten_minutes_are_a_failure_until_the_component_works_again():
    rig = Rig()
    rig.is_failing = True
    async with Supervisor(rig.clock, rig.liveness) as supervisor:
        supervisor.start("reader", rig.run)
        await rig.clock.advance(2)
        assert len(rig.liveness.components()) == 1
        assert rig.liveness.failing() == []
        await rig.clock.advance(2)  # the third time, after 1 and 2 s
        assert [each.name for each in rig.liveness.failing()] == ["reader"]
        rig.is_failing = False
        await rig.clock.advance(4 + FAILING_S)
        assert rig.liveness.failing() == []
