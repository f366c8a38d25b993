from __future__ import annotations

import logging
from contextlib import suppress

import pytest

from growd.bus import Bus
from growd.status.status_node import StatusNode
from growd.wiring.speed_watch import STEPS, SpeedWatch
from support.clock import ManualClock


class LateClock(ManualClock):
    """A clock on which a sleep takes several times as long."""

    def __init__(self, late):
        super().__init__()
        self.late, self.now, self.sleeps = late, 0.0, 0

    def monotonic(self):
        return self.now

    async def sleep(self, seconds):
        self.sleeps += 1
        self.now += seconds * self.late
        if self.sleeps == 3 * STEPS + 1:
            raise EOFError  # ends the watch


@pytest.mark.parametrize(
    ("late", "words"), [(1.4, ""), (4.0, "takes 4.0 s of simulated time; use --speed 250")]
)
async def test_a_machine_that_is_too_slow_for_the_speed_gets_one_warning(late, words, caplog):
    caplog.set_level(logging.WARNING)
    bus = Bus(LateClock(late))
    watch = SpeedWatch(bus, 1_000.0, pause_s=0.0)
    with suppress(EOFError):
        await watch.run()
    problems = [problem.text for problem in StatusNode(bus, []).snapshot().problems]
    assert len(problems) == len(caplog.messages) == bool(words)
    assert all(words in text for text in (*problems, *caplog.messages))
