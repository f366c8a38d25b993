"""Background work on the database: when its steps are done."""

import logging

import pytest

from growd.runtime.supervisor import TaskFault
from growd.store.errors import CouchUnavailableError
from growd.store.work import RETRIES, DatabaseWork
from support.clock import ManualClock
from support.running import running


class Steps:
    """The steps of a task: when they were done, and how they end."""

    def __init__(self, clock):
        self.clock = clock
        self.at = []
        self.again_s = None
        self.error = None
        self.fault = TaskFault(logging.getLogger("test"), "it fails", "it works")
        self.work = DatabaseWork(clock, self.step, self.fault)
        self.is_woken_meanwhile = False

    async def step(self):
        self.at.append(self.clock.monotonic())
        if self.is_woken_meanwhile:
            self.is_woken_meanwhile = False
            self.work.wake()
        if self.error is not None:
            raise self.error
        return self.again_s

    async def after(self, seconds):
        """When steps were done in the next seconds, counted from now."""
        now, known = self.clock.monotonic(), len(self.at)
        await self.clock.advance(seconds)
        return [at - now for at in self.at[known:]]


@pytest.fixture
def steps():
    return Steps(ManualClock())


async def test_it_begins_at_once_and_then_waits_to_be_woken(steps):
    async with running(steps.clock, steps.work):
        assert len(steps.at) == 1
        assert await steps.after(86_400) == []
        steps.work.wake()
        assert await steps.after(10) == [0.0]


async def test_it_comes_again_when_it_is_due_or_woken_before(steps):
    steps.again_s = 60.0
    async with running(steps.clock, steps.work):
        assert await steps.after(130) == [60.0, 120.0]
        steps.work.wake()
        assert await steps.after(65) == [0.0, 60.0]


async def test_a_call_during_a_step_is_not_lost(steps):
    steps.is_woken_meanwhile = True
    async with running(steps.clock, steps.work):
        assert len(steps.at) == 2


async def test_a_failure_is_tried_again_after_pauses_that_grow_and_end_with_the_first_success(steps):
    steps.error = CouchUnavailableError("away")
    async with running(steps.clock, steps.work):
        first_s = RETRIES.first_s
        assert await steps.after(3 * first_s + 1) == [first_s, 3 * first_s]
        assert (steps.fault.failures, str(steps.fault)) == (3, "away")
        steps.error = None
        steps.work.wake()
        assert await steps.after(3_600) == [0.0]
        assert not steps.fault.failures


@pytest.mark.parametrize(("status", "left"), [(None, ""), (503, "no answer")])
async def test_when_the_database_answers_again_only_the_lack_of_an_answer_is_forgotten(steps, status, left):
    steps.error = CouchUnavailableError("no answer", status)
    async with running(steps.clock, steps.work):
        steps.work.retry_now()
        assert (str(steps.fault), steps.fault.failures) == (left, 1)
        assert await steps.after(1) == [0.0]


async def test_it_begins_again_after_an_error_of_another_kind(steps):
    steps.error = KeyError("a bug")
    for lives in (1, 2):
        with pytest.raises(KeyError):
            async with running(steps.clock, steps.work):
                pass
        assert len(steps.at) == lives
