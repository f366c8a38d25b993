"""Rests of tasks in the background: as long as their own work, bounded, and named while they wait."""

import pytest

from growd.runtime.pauses import LONGEST_REST_S, Pace


class Seconds:
    """A time that passes by work and by rests."""

    def __init__(self):
        self.now = 0.0
        self.rests = []

    def monotonic(self):
        return self.now

    async def sleep(self, seconds):
        self.rests.append(seconds)
        self.now += seconds


def paced(share=1.0):
    seconds = Seconds()
    return seconds, Pace(share, monotonic=seconds.monotonic, sleep=seconds.sleep)


@pytest.mark.parametrize(
    ("share", "works", "rests"),
    [(1.0, [0.25, 1.0, 0.5], [0.25, 1.0, 0.5]), (3.0, [0.25, 130.0], [0.75, LONGEST_REST_S])],
)
async def test_a_rest_is_as_long_as_the_work_since_the_last_one_and_bounded(share, works, rests):
    seconds, pace = paced(share)
    for work in works:
        seconds.now += work
        await pace.rest()
    assert seconds.rests == rests


async def test_waiting_is_named_and_is_no_work():
    seconds, pace = paced()
    seconds.now += 100.0  # before the work
    pace.begin()
    seconds.now += 0.5
    with pace.waiting("the rollups"):
        assert pace.waits_for == "the rollups"
        seconds.now += 60.0
    seconds.now += 0.25
    await pace.rest()
    assert (pace.waits_for, seconds.rests) == ("", [0.75])
