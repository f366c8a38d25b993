"""Dropped points are counted over restarts and recorded as events."""

from contextlib import asynccontextmanager

import pytest

from growd.store.local import LocalStore
from growd.store.losses import EACH_S, Losses
from growd.store.points import PointMaker
from support.clock import ManualClock
from support.outbox import opened
from support.running import in_tasks

BUFFER = 10
MAKER = PointMaker("0123456789ab")


class Rig:
    def __init__(self, outbox, losses, recorded, clock):
        self.outbox = outbox
        self.losses = losses
        self.recorded = recorded
        self.clock = clock

    async def lose(self, number):
        """Add `number` points more than the memory has room for; none can be thinned."""
        for _ in range(number + BUFFER - self.outbox.unsaved):
            self.outbox.add(MAKER.make("e", "restart", "again", 1.0, category="event"))
        await self.until_saved()

    async def until_saved(self):
        """Wait until it sleeps until the next event."""
        await self.clock.until(lambda: any(not wake.done() for *_, wake in self.clock._sleepers))


@asynccontextmanager
async def rigged(path, clock):
    local = await LocalStore.open(path)
    recorded = []
    async with opened(local, clock, buffer=BUFFER) as outbox:
        losses = Losses(outbox, local, clock, recorded.append)
        await losses.load()
        async with in_tasks(losses):
            yield Rig(outbox, losses, recorded, clock)
    await local.close()


@pytest.fixture
def clock():
    return ManualClock()


async def test_a_loss_is_recorded_at_once_and_further_ones_after_ten_minutes(tmp_path, clock):
    async with rigged(tmp_path / "growd.sqlite3", clock) as rig:
        assert not rig.losses.is_losing
        await rig.lose(1)
        assert rig.recorded == ["1 point dropped for lack of room"]
        assert rig.losses.is_losing
        await rig.lose(2)
        await rig.lose(3)
        assert len(rig.recorded) == 1
        await clock.advance(EACH_S)
        assert rig.recorded[1:] == ["5 points dropped for lack of room"]
        await rig.until_saved()
        await clock.advance(EACH_S)
        assert not rig.losses.is_losing
        assert len(rig.recorded) == 2


async def test_the_number_survives_a_restart(tmp_path, clock):
    path = tmp_path / "growd.sqlite3"
    async with rigged(path, clock) as rig:
        await rig.lose(1)
        await rig.lose(2)
        await rig.losses.finish()
        assert rig.recorded == ["1 point dropped for lack of room", "2 points dropped for lack of room"]
        at = clock.time()
        assert (rig.losses.total, rig.losses.last_at) == (3, at)
    await clock.advance(100)
    async with rigged(path, clock) as rig:
        assert (rig.losses.total, rig.losses.last_at, rig.losses.is_losing) == (3, at, False)
        await rig.lose(4)
        assert (rig.losses.total, rig.losses.last_at) == (7, at + 100)
    async with rigged(path, clock) as rig:
        assert rig.losses.total == 7
