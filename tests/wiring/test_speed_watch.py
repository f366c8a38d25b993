from __future__ import annotations

import logging
from contextlib import suppress

import pytest

from growd.bus import Bus
from growd.status.status_node import StatusNode
from growd.wiring.speed_watch import RECOVERED, STEPS, SpeedWatch
from support.clock import ManualClock


class LateClock(ManualClock):
    """A clock on which a sleep takes several times as long."""

    def __init__(self, *late):
        super().__init__()
        self.late, self.now, self.sleeps = late, 0.0, 0

    def monotonic(self):
        return self.now

    async def sleep(self, seconds):
        if self.sleeps == len(self.late) * STEPS:
            raise EOFError  # ends the watch
        self.now += seconds * self.late[self.sleeps // STEPS]
        self.sleeps += 1


@pytest.mark.parametrize(
    ("late", "words"), [(1.4, ""), (4.0, "takes 4.0 s of simulated time; use --speed 250")]
)
async def test_a_machine_that_is_too_slow_for_the_speed_gets_one_warning(late, words, caplog):
    caplog.set_level(logging.WARNING)
    bus = Bus(LateClock(late, late, late))
    watch = SpeedWatch(bus, 1_000.0, pause_s=0.0)
    with suppress(EOFError):
        await watch.run()
    problems = [problem.text for problem in StatusNode(bus, []).snapshot().problems]
    assert len(problems) == len(caplog.messages) == bool(words)
    assert all(words in text for text in (*problems, *caplog.messages))


@pytest.mark.parametrize(("in_time", "messages"), [(RECOVERED - 1, 1), (RECOVERED, 3)])
async def test_a_machine_that_is_too_slow_now_and_then_gets_one_warning_until_it_recovers(
    in_time, messages, caplog
):
    caplog.set_level(logging.INFO)
    bus = Bus(LateClock(4.0, 1.9, 2.1, *[1.0] * in_time, 3.0))
    with suppress(EOFError):
        await SpeedWatch(bus, 1_000.0, pause_s=0.0).run()
    assert len(caplog.messages) == messages
    again = "this machine keeps up with a simulation at 1000 times real time again"
    assert (again in caplog.messages) is (in_time == RECOVERED)
    (problem,) = StatusNode(bus, []).snapshot().problems
    assert "takes 3.0 s of simulated time" in problem.text
