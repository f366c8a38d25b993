"""The outbox: order kept, nothing lost, memory bounded."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from growd.store.errors import LocalStoreError
from growd.store.local import LocalStore
from growd.store.outbox import Outbox
from growd.store.points import DataPoint, PointMaker
from support.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAKER = PointMaker("0123456789ab")


def point(value: float) -> DataPoint:
    return MAKER.make("environment_1", "air_humidity", value, 1000.0 + value, is_desired=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "growd.sqlite3"


@pytest.fixture
async def local(path: Path) -> AsyncIterator[LocalStore]:
    store = await LocalStore.open(path)
    yield store
    await store.close()


async def values(outbox: Outbox, limit: int = 1000) -> list[float]:
    return [waiting.document["value"] for waiting in await outbox.next_batch(limit)]


def committed(path: Path) -> int:
    """What another process finds in the file now."""
    file = sqlite3.connect(path)
    try:
        return int(file.execute("SELECT count(*) FROM waiting").fetchone()[0])
    finally:
        file.close()


async def test_points_come_out_in_the_order_they_went_in_and_stay_until_marked(local):
    outbox = await Outbox.open(local, ManualClock())
    points = [point(value) for value in (5, 3, 4, 1, 2)]
    await outbox.add_durably(points)
    assert await values(outbox, 3) == [5, 3, 4]
    batch = await outbox.next_batch(3)
    assert [waiting.document for waiting in batch] == [made.document() for made in points[:3]]
    await outbox.mark_stored([batch[0], batch[2]])
    assert await values(outbox) == [3, 1, 2]
    assert outbox.depth() == 3


async def test_added_points_are_committed_together_each_second(local, path):
    clock = ManualClock()
    outbox = await Outbox.open(local, clock)
    running = asyncio.create_task(outbox.run(), name="outbox")
    for value in range(10):
        outbox.add(point(value))
    assert outbox.depth() == 10
    await clock.advance(0.9)
    assert await asyncio.to_thread(committed, path) == 0
    await clock.advance(0.2)
    await clock.until(lambda: outbox.waiting == 10)
    assert await asyncio.to_thread(committed, path) == 10
    outbox.add(point(10))
    await clock.advance(1.1)
    await clock.until(lambda: outbox.waiting == 11)
    running.cancel()
    await asyncio.wait([running])


async def test_what_is_added_durably_is_on_the_disk_with_all_before_it(local, path):
    outbox = await Outbox.open(local, ManualClock())
    outbox.add(point(1))
    await outbox.add_durably([point(2), point(3)])
    assert await asyncio.to_thread(committed, path) == 3
    assert await values(outbox) == [1, 2, 3]


async def test_a_restart_finds_what_was_waiting(path):
    local = await LocalStore.open(path)
    outbox = await Outbox.open(local, ManualClock())
    outbox.add(point(1))
    outbox.add(point(2))
    await outbox.flush()
    await local.close()

    local = await LocalStore.open(path)
    outbox = await Outbox.open(local, ManualClock())
    assert (outbox.depth(), outbox.waiting, outbox.added.is_set()) == (2, 2, True)
    assert await values(outbox) == [1, 2]
    await local.close()


async def test_a_rejected_point_is_set_aside_with_its_reason(local):
    clock = ManualClock(time=1_700_000_000.0)
    outbox = await Outbox.open(local, clock)
    await outbox.add_durably([point(value) for value in range(3)])
    batch = await outbox.next_batch(10)
    await outbox.reject(batch[1], "forbidden: no such variable")
    assert await values(outbox) == [0, 2]
    (aside,) = await outbox.rejected()
    assert aside.document == batch[1].document
    assert (aside.reason, aside.rejected_at) == ("forbidden: no such variable", 1_700_000_000.0)
    assert outbox.depth() == 2


async def test_while_the_disk_takes_nothing_points_wait_in_memory_and_the_oldest_goes_first(
    local, caplog, monkeypatch
):
    clock = ManualClock()
    clock.watch(local._worker)
    outbox = await Outbox.open(local, clock, buffer=5)
    # the real error of a real file: no statement may write any more
    await local.read(lambda file: file.execute("PRAGMA query_only = ON"))
    running = asyncio.create_task(outbox.run(), name="outbox")
    for value in range(3):
        outbox.add(point(value))
    with pytest.raises(LocalStoreError, match="readonly database"):
        await outbox.add_durably([point(3)])
    for value in range(4, 7):
        outbox.add(point(value))
    assert (outbox.depth(), outbox.dropped) == (5, 2)
    for _ in range(5):
        await clock.advance(1)
    assert len([r for r in caplog.records if "can't be saved" in r.message]) == 1

    await local.read(lambda file: file.execute("PRAGMA query_only = OFF"))
    await clock.advance(1)
    await clock.until(lambda: outbox.waiting == 5)
    assert await values(outbox) == [2, 3, 4, 5, 6]
    await clock.until(lambda: "points are saved again" in caplog.text)
    running.cancel()
    await asyncio.wait([running])


async def test_a_flush_that_is_cut_short_loses_nothing(local):
    outbox = await Outbox.open(local, ManualClock())
    outbox.add(point(1))
    flush = asyncio.create_task(outbox.flush(), name="flush")
    await asyncio.sleep(0)
    flush.cancel()
    await asyncio.wait([flush])
    await outbox.flush()
    # committed once, or twice under the same id: the database keeps one
    assert {waiting.document["value"] for waiting in await outbox.next_batch(10)} == {1}
    assert outbox.waiting == len(await outbox.next_batch(10))


async def test_a_process_killed_in_the_middle_of_writing_has_kept_every_acknowledged_point(path):
    for round_number in range(5):
        acknowledged = await write_until_killed(path, acks=30 + 17 * round_number)
        local = await LocalStore.open(path)
        outbox = await Outbox.open(local, ManualClock())
        waiting = await outbox.next_batch(100_000)
        by_id = {entry.id: entry for entry in waiting}
        assert len(by_id) == len(waiting) == outbox.waiting
        assert acknowledged <= by_id.keys()
        for variable in ("variable_0", "variable_1", "variable_2"):
            order = [entry.document["value"] for entry in waiting if entry.document["variable"] == variable]
            assert order == list(range(len(order)))
        await outbox.mark_stored(waiting)
        await local.close()


async def write_until_killed(path: Path, acks: int) -> set[str]:
    program = Path(__file__).with_name("durable_writer.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), str(path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    ids = set()
    for _ in range(acks):
        ids.add((await process.stdout.readline()).split()[2].decode())
    process.send_signal(signal.SIGKILL)
    rest = (await process.stdout.read()).decode()
    assert await process.wait() == -signal.SIGKILL
    whole_lines = rest.splitlines(keepends=True)
    return ids | {line.split()[2] for line in whole_lines if line.endswith("\n")}


async def test_points_added_while_a_commit_fails_stay_behind_those_it_was_for(local):
    outbox = await Outbox.open(local, ManualClock())
    await local.read(lambda file: file.execute("PRAGMA query_only = ON"))
    outbox.add(point(1))
    outbox.add(point(2))
    flush = asyncio.create_task(outbox.flush(), name="flush")
    await asyncio.sleep(0)
    outbox.add(point(3))
    with pytest.raises(LocalStoreError):
        await flush
    await local.read(lambda file: file.execute("PRAGMA query_only = OFF"))
    await outbox.flush()
    assert await values(outbox) == [1, 2, 3]
