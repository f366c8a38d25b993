"""The outbox keeps the order, loses nothing, and bounds memory and file."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import threading
from contextlib import AsyncExitStack, closing

import pytest

from growd.runtime.liveness import STORE_S, Liveness
from growd.store import point_tables
from growd.store.block_file import BlockFile
from growd.store.errors import LocalStoreError
from growd.store.point_log import LOG_NAME, PointLog
from growd.store.points import PointMaker
from support.clock import ManualClock
from support.full_disk import full_disk
from support.outbox import add_durably, opened, opened_at, set_query_only
from support.running import in_tasks

MAKER = PointMaker("0123456789ab")


def point(value, at=None, variable="air_humidity", **more):
    return MAKER.make("environment_1", variable, value, 1000.0 + value if at is None else at, **more)


@pytest.fixture
def small_log(monkeypatch):
    """16 blocks: full after 15 frames, or when one frame has 4 KB."""
    monkeypatch.setattr("growd.store.point_log.LOG_BYTES", 8192)


class FaultyBlocks(BlockFile):
    """A file on a disk that refuses to write while `error` is set."""

    error: int | None = None
    writes = 0

    def write(self, number, data):
        if FaultyBlocks.error is not None:
            raise OSError(FaultyBlocks.error, os.strerror(FaultyBlocks.error))
        FaultyBlocks.writes += 1
        super().write(number, data)


@pytest.fixture
def blocks(monkeypatch):
    monkeypatch.setattr("growd.store.point_log.BlockFile", FaultyBlocks)
    monkeypatch.setattr(FaultyBlocks, "error", None)
    monkeypatch.setattr(FaultyBlocks, "writes", 0)
    return FaultyBlocks


async def values(outbox, limit=100_000):
    return [entry.point.value for entry in await outbox.next_batch(limit)]


def in_log(path):
    """The points that another process finds in the log."""
    file = BlockFile.open(path.with_name(LOG_NAME), 0)
    with closing(file):
        return [point.value for point in PointLog(file).recovered.values()]


def in_file(path):
    """The points that another process finds in growd.sqlite3."""
    with closing(sqlite3.connect(path)) as file:
        return [point.value for _, point in point_tables.oldest(file, 1_000_000)]


async def test_points_come_out_in_the_order_they_went_in_and_stay_until_marked(outbox):
    made = [point(value) for value in (5, 3, 4, 1, 2)]
    await add_durably(outbox, made)
    batch = await outbox.next_batch(3)
    assert [entry.document for entry in batch] == [point.document() for point in made[:3]]
    await outbox.mark_delivered([batch[0], batch[2]])
    await outbox.mark_delivered([batch[0]])  # again, as after a lost answer
    assert await values(outbox) == [3, 1, 2]
    assert (outbox.undelivered, outbox.sendable, outbox.unsaved) == (3, 3, 0)


async def test_added_points_are_written_together_each_second(local, path, blocks):
    clock = ManualClock()
    async with opened(local, clock) as outbox, in_tasks(outbox):
        for value in range(10):
            outbox.add(point(value))
        assert (outbox.undelivered, outbox.unsaved) == (10, 10)
        await clock.advance(0.9)
        assert blocks.writes == 1  # at the opening
        await clock.advance(0.2)
        await clock.until(lambda: outbox.sendable == 10)
        assert await asyncio.to_thread(in_log, path) == list(range(10))
        outbox.add(point(10))
        await clock.advance(1.1)
        await clock.until(lambda: outbox.sendable == 11)
        assert blocks.writes == 3
    assert await asyncio.to_thread(in_file, path) == []


async def test_a_point_in_a_deleted_log_is_not_durable(outbox, path, said):
    path.with_name(LOG_NAME).unlink()
    outbox.add(point(1))
    with said.raises(LocalStoreError):
        await outbox.flush()
    assert (outbox.unsaved, outbox.fault.failures) == (1, 1)


async def test_a_clean_close_keeps_waiting_points_and_no_delivered_ones(path, small_log):
    async with opened_at(path, ManualClock()) as outbox:
        await add_durably(outbox, [point(value) for value in range(100)])  # too many for the log
        await add_durably(outbox, [point(value) for value in range(100, 110)])
        await outbox.mark_delivered(await outbox.next_batch(40))
        await outbox.mark_delivered((await outbox.next_batch(100))[60:65])
    async with opened_at(path, ManualClock()) as outbox:
        assert (outbox.undelivered, outbox.sendable, outbox.added.is_set()) == (65, 65, True)
        assert await values(outbox) == [*range(40, 100), *range(105, 110)]
        await outbox.mark_delivered(await outbox.next_batch(100))
    async with opened_at(path, ManualClock()) as outbox:
        assert (outbox.undelivered, outbox.added.is_set()) == (0, False)


async def test_after_a_crash_only_points_that_no_frame_released_are_sent_again(path, blocks):
    async with opened_at(path, ManualClock()) as outbox:
        for value in range(10):
            await add_durably(outbox, [point(value)])
        await outbox.mark_delivered(await outbox.next_batch(4))
        await add_durably(outbox, [point(10)])  # its frame releases four
        await outbox.mark_delivered(await outbox.next_batch(3))
        assert await asyncio.to_thread(in_log, path) == list(range(4, 11))
        blocks.error = errno.EIO  # closing releases no more
    blocks.error = None
    async with opened_at(path, ManualClock()) as outbox:
        assert await values(outbox) == list(range(4, 11))


async def test_a_crash_after_a_move_doubles_no_point(path, small_log, blocks):
    async with opened_at(path, ManualClock()) as outbox:
        for value in range(15):
            await add_durably(outbox, [point(value)])
        outbox._append_released = lambda: asyncio.sleep(0)  # a power cut comes before
        await add_durably(outbox, [point(15)])
        assert await asyncio.to_thread(in_file, path) == list(range(16))
        blocks.error = errno.EIO
    blocks.error = None
    assert await asyncio.to_thread(in_log, path) == list(range(15))
    async with opened_at(path, ManualClock()) as outbox:
        assert await values(outbox) == list(range(16))
        assert outbox.undelivered == 16
        await add_durably(outbox, [point(16)])
        assert await values(outbox) == list(range(17))


async def test_a_full_log_moves_into_the_file_in_order(small_log, outbox, local, path):
    statements = []
    await local.read(lambda file: file.set_trace_callback(statements.append))
    statements.clear()
    for value in range(60):
        await add_durably(outbox, [point(value)])
    assert (await values(outbox), outbox.undelivered) == ([*range(60)], 60)
    moved = await asyncio.to_thread(in_file, path)
    assert moved + await asyncio.to_thread(in_log, path) == [*range(60)]
    assert 45 <= len(moved) == 16 * statements.count("COMMIT")
    while batch := await outbox.next_batch(7):
        await outbox.mark_delivered(batch)
    assert (outbox.undelivered, await asyncio.to_thread(in_file, path)) == (0, [])


async def test_a_point_too_large_for_the_log_goes_into_the_file_in_order(outbox, path):
    await add_durably(outbox, [point(1)])
    await add_durably(outbox, [point("x" * 600_000, 2.0), point(3)])
    await add_durably(outbox, [point(4)])
    found = await values(outbox)
    assert [found[0], len(found[1]), *found[2:]] == [1, 600_000, 3, 4]
    assert await asyncio.to_thread(in_log, path) == [4]


async def test_a_rejected_point_is_stored_with_its_reason_and_can_be_retried(local):
    clock = ManualClock(time=1_700_000_000.0)
    async with opened(local, clock) as outbox:
        await add_durably(outbox, [point(value) for value in range(3)])
        await outbox.add_with(point(3), lambda _: None)
        batch = await outbox.next_batch(10)
        for entry in (batch[0], batch[2]):  # one from the file, one from the log
            await outbox.reject(entry, "forbidden: no such variable")
        await outbox.reject(batch[0], "forbidden: once more")
        assert await values(outbox) == [0, 2]
        aside = await outbox.rejected()
        assert [(one.point.value, one.reason) for one in aside] == [
            (1, "forbidden: no such variable"), (3, "forbidden: once more"),
        ]  # fmt: skip
        assert {one.rejected_at for one in aside} == {1_700_000_000.0}
        assert (outbox.undelivered, outbox.rejected_count) == (2, 2)
    async with opened(local, clock) as outbox:
        assert outbox.rejected_count == 2
        outbox.added.clear()
        assert await outbox.retry_rejected() == 2
        assert (outbox.rejected_count, outbox.undelivered, outbox.added.is_set()) == (0, 4, True)
        assert await outbox.rejected() == []


async def test_rejected_points_are_bounded_and_the_oldest_is_dropped(local, monkeypatch):
    monkeypatch.setattr(point_tables, "MOST_REJECTED", 3)
    clock = ManualClock()
    async with opened(local, clock) as outbox:
        await add_durably(outbox, [point(value) for value in range(5)])
        for entry in await outbox.next_batch(10):
            await clock.advance(1)
            await outbox.reject(entry, "why")
        assert [one.point.value for one in await outbox.rejected()] == [2, 3, 4]
        assert [one.point.value for one in await outbox.rejected(1)] == [2]
        assert (outbox.rejected_count, outbox.dropped, outbox.undelivered) == (3, 2, 0)


async def test_while_the_disk_fails_points_are_sent_from_memory(local, blocks, caplog):
    clock = ManualClock()
    async with opened(local, clock) as outbox, in_tasks(outbox):
        clock.watch(outbox._worker)
        await add_durably(outbox, [point(0)])
        blocks.error = errno.ENOSPC
        outbox.added.clear()
        for value in range(1, 4):
            outbox.add(point(value))
        assert (outbox.undelivered, outbox.sendable, outbox.unsaved) == (4, 1, 3)
        await clock.advance(3)
        assert str(outbox.fault) == "points.log: No space left on device"
        assert (outbox.sendable, outbox.added.is_set()) == (4, True)
        batch = await outbox.next_batch(10)
        assert [entry.point.value for entry in batch] == [0, 1, 2, 3]
        await outbox.mark_delivered(batch[:3])
        assert await values(outbox) == [3]
        await outbox.mark_delivered(batch[3:])
        await clock.advance(3)
        assert outbox.fault.failures  # no write has succeeded since
        blocks.error = None
        outbox.add(point(4))
        await clock.advance(2)
        assert (str(outbox.fault), await values(outbox), outbox.unsaved) == ("", [4], 0)
        clock.unwatch(outbox._worker)
    assert [r.message.split(":")[0] for r in caplog.records] == [
        "points can't be saved and stay in memory", "points are saved again",
    ]  # fmt: skip


async def test_a_full_disk_does_not_stop_the_log_and_loses_no_point(local, path, small_log):
    clock = ManualClock()
    async with opened(local, clock) as outbox:
        wal = path.with_name(f"{path.name}-wal")
        with full_disk((await asyncio.to_thread(wal.stat)).st_size):
            for value in range(15):
                await add_durably(outbox, [point(value)])
            outbox.add(point(15))
            with pytest.raises(LocalStoreError, match=r"full|disk I/O"):
                await outbox.flush()
            assert (outbox.undelivered, outbox.unsaved, await values(outbox)) == (16, 1, list(range(16)))
            await outbox.mark_delivered(await outbox.next_batch(5))
            await add_durably(outbox, [point(16)])  # there is room in the log again
            assert (str(outbox.fault), await values(outbox)) == ("", list(range(5, 17)))
        for value in range(17, 40):
            await add_durably(outbox, [point(value)])
        assert await values(outbox) == list(range(5, 40))


async def test_memory_is_bounded_by_thinning_before_dropping(local, blocks):
    async with opened(local, ManualClock(), buffer=1000) as outbox:
        blocks.error = errno.EIO
        special = [point(f"event {number}", 1000.0 + number, category="event") for number in range(50)]
        with pytest.raises(LocalStoreError):
            await add_durably(outbox, [point(0), *special])
        for value in range(1, 5_000):
            outbox.add(point(value))
            assert outbox.unsaved <= 1000
        assert (outbox.dropped, outbox.undelivered) == (0, outbox.unsaved)
        assert outbox.thinned + outbox.undelivered == 5_050
        found = await values(outbox)
        assert (found[0], found[-1]) == (0, 4_999)
        assert {point.value for point in special} <= set(found)
        for number in range(3000):
            outbox.add(point(f"more {number}", 3e4))
        assert outbox.unsaved <= 1000
        assert outbox.thinned + outbox.dropped + outbox.undelivered == 8_050
        assert (await values(outbox))[-1] == "more 2999"
        assert outbox.dropped >= 2000
        blocks.error = None
        await outbox.flush()
        assert outbox.unsaved == 0


async def test_a_point_delivered_during_a_flush_is_not_sent_again(blocks, outbox, monkeypatch):
    blocks.error = errno.EIO
    with pytest.raises(LocalStoreError):
        await add_durably(outbox, [point(1), point(2)])
    blocks.error = None
    (first, _) = await outbox.next_batch(2)
    usual = outbox._append

    async def append(texts):
        await outbox.mark_delivered([first])
        return await usual(texts)

    monkeypatch.setattr(outbox, "_append", append)
    await outbox.flush()
    assert (await values(outbox), outbox.undelivered, outbox.sendable) == ([2], 1, 1)


async def test_a_point_delivered_during_a_move_is_not_sent_again(outbox, local, monkeypatch):
    await add_durably(outbox, [point(1), point(2)])
    (first, _) = await outbox.next_batch(2)
    usual = local.write

    async def write(function, committed):
        def committed_late(result):
            first.is_done = True  # as by `mark_delivered` between the move and this call
            committed(result)

        monkeypatch.setattr(local, "write", usual)
        return await usual(function, committed_late)

    monkeypatch.setattr(local, "write", write)
    await outbox._move_into_file([*outbox._logged.values()])
    assert (await values(outbox), outbox.undelivered) == ([2], 1)


async def test_a_rejection_that_can_not_be_written_is_not_sent_again(outbox, local):
    await add_durably(outbox, [point(1), point(2)])
    await set_query_only(local, "ON")
    await outbox.reject((await outbox.next_batch(1))[0], "forbidden")
    assert (await values(outbox), outbox.sendable, outbox.undelivered) == ([2], 1, 2)
    assert "readonly" in outbox.file_fault
    await set_query_only(local, "OFF")
    await outbox.flush()
    assert (await values(outbox), outbox.undelivered, outbox.rejected_count) == ([2], 1, 1)


async def test_a_point_thinned_in_memory_while_it_is_sent_is_counted_once(local, blocks):
    """Otherwise the count would be too small, and the last points would not be sent."""
    async with opened(local, ManualClock(), buffer=20) as outbox:
        blocks.error = errno.EIO
        with pytest.raises(LocalStoreError):
            await add_durably(outbox, [point(value) for value in range(20)])
        sent = await outbox.next_batch(20)
        outbox.add(point(20))
        assert outbox.thinned > 0
        await outbox.mark_delivered(sent)
        assert (await values(outbox), outbox.undelivered, outbox.unsaved) == ([20], 1, 1)
        blocks.error = None
        await outbox.flush()
        assert (await values(outbox), outbox.undelivered, outbox.sendable) == ([20], 1, 1)


async def test_a_cancelled_flush_loses_nothing(outbox):
    outbox.add(point(1))
    flush = asyncio.create_task(outbox.flush(), name="flush")
    await asyncio.sleep(0)
    flush.cancel()
    await asyncio.wait([flush])
    await outbox.flush()
    assert await values(outbox) == [1]
    assert outbox.sendable == 1


async def test_points_added_during_a_failing_commit_stay_in_order(blocks, outbox):
    blocks.error = errno.EIO
    outbox.add(point(1))
    outbox.add(point(2))
    flush = asyncio.create_task(outbox.flush(), name="flush")
    await asyncio.sleep(0)
    outbox.add(point(3))
    with pytest.raises(LocalStoreError):
        await flush
    blocks.error = None
    await outbox.flush()
    assert await values(outbox) == [1, 2, 3]


async def test_points_that_move_while_the_file_is_read_stay_in_order(outbox, local, monkeypatch):
    usual = local.read

    async def read_before_more_comes(function):
        rows = await usual(function)
        monkeypatch.setattr(local, "read", usual)
        await outbox._move_into_file(list(outbox._logged.values()))
        await add_durably(outbox, [point(value) for value in range(6, 9)])
        return rows

    await outbox.add_with(point(0), lambda _: None)
    await add_durably(outbox, [point(value) for value in range(1, 6)])
    monkeypatch.setattr(local, "read", read_before_more_comes)
    first = await outbox.next_batch(100)
    await outbox.mark_delivered(first)
    assert [entry.point.value for entry in first] + await values(outbox) == list(range(9))


async def test_a_cancelled_move_that_was_committed_is_not_repeated(local, path, small_log, monkeypatch):
    clock, usual = ManualClock(), local.write
    begun, gate = asyncio.Event(), threading.Event()

    async def write(*arguments):
        begun.set()
        return await usual(*arguments)

    monkeypatch.setattr(local, "write", write)
    async with opened(local, clock) as outbox:
        await add_durably(outbox, [point(value) for value in range(20)])
        holding = asyncio.create_task(local.read(lambda _: gate.wait(10)), name="holding the file")
        outbox.add(point("x" * 9000, 1.0))
        flush = asyncio.create_task(outbox.flush(), name="flush")
        await begun.wait()
        await clock.settle()
        flush.cancel()
        await asyncio.wait([flush])
        again = asyncio.create_task(outbox.flush(), name="flush again")
        await clock.until(lambda: not again.done() and outbox._worker._calls.empty())
        gate.set()
        await asyncio.wait([again, holding])
        found = await values(outbox)
        assert (len(found), outbox.undelivered) == (21, 21)
        assert len(await asyncio.to_thread(in_file, path)) == 21


@pytest.mark.parametrize("restarts", [False, True])
async def test_deleting_a_row_twice_deletes_no_newer_point(path, restarts):
    """Two deletions of the same row, and a new point between them, in one commit."""
    async with AsyncExitStack() as stack:
        outbox = await stack.enter_async_context(opened_at(path, ManualClock()))
        await outbox.add_with(point(1), lambda _: None)
        if restarts:
            await stack.aclose()
            outbox = await stack.enter_async_context(opened_at(path, ManualClock()))
        sent = await outbox.next_batch(10)
        await asyncio.gather(
            outbox.mark_delivered(sent), outbox.add_with(point(2), lambda _: None), outbox.flush()
        )
        assert (await values(outbox), outbox.undelivered) == ([2], 1)


# The budget of the file


def season(number):
    """Two series, and points that must stay."""
    for at in range(number):
        value = at * 7919 % 1000 + (5000 if at == number // 3 else 0)
        yield point(value, 1e9 + at, "air_temperature")
        yield point(-value, 1e9 + at, "air_humidity", category="commanded")
        if at % 250 == 0:
            yield point(at, 1e9 + at, "air_temperature", is_desired=True)
            yield point(at, 1e9 + at, "air_temperature", is_manual=True)
            yield point("growd started", 1e9 + at, "restart", category="event")


async def test_near_its_budget_the_file_is_thinned_and_extremes_stay(local, path, small_log, monkeypatch):
    looked_at = []

    def counted(points, width):
        looked_at.append(len(points))
        return thinned(points, width)

    thinned = point_tables.thinned
    monkeypatch.setattr(point_tables, "thinned", counted)
    made = list(season(15_000))
    async with opened(local, ManualClock(), buffer=len(made), budget=1) as outbox:
        await add_durably(outbox, made)
        assert await local.read(point_tables.bytes_used) <= 900_000
        assert outbox.thinned > 20_000
        assert outbox.dropped == 0
        rows = await local.read(point_tables.count)
        left = [entry.point for entry in await outbox.next_batch(len(made))]
        assert outbox.undelivered == len(left) == len(made) - outbox.thinned
        assert rows + len(await asyncio.to_thread(in_log, path)) == len(left)
    assert sum(looked_at) < 3 * len(made)
    kept = set(left)
    assert kept >= {one for one in made if not point_tables.is_expendable(one)}
    for variable in ("air_temperature", "air_humidity"):
        before, after = (
            [one for one in points if point_tables.is_expendable(one) and one.variable == variable]
            for points in (made, left)
        )
        assert (after[0], after[-1]) == (before[0], before[-1])
        for extreme in (min, max):
            assert extreme(one.value for one in after) == extreme(one.value for one in before)


async def test_without_room_after_thinning_the_oldest_are_dropped_and_counted(local, small_log, caplog):
    made = [point(value, 1e9 + value, is_desired=True) for value in range(6000)]
    async with opened(local, ManualClock(), buffer=len(made), budget=0.2) as outbox:
        await add_durably(outbox, made)
        assert await local.read(point_tables.bytes_used) <= 180_000
        assert outbox.dropped > 3000
        assert outbox.undelivered + outbox.dropped == 6000
        assert await values(outbox) == list(range(outbox.dropped, 6000))
    assert caplog.text.count("dropping the oldest") == 1


async def test_an_unreadable_row_does_not_stop_thinning(local, small_log):
    async with opened(local, ManualClock(), budget=0.2) as outbox:
        await add_durably(outbox, [point(value) for value in range(1000)])
        await local.write(lambda file: file.execute("UPDATE waiting SET point = 'x' WHERE number % 100 = 0"))
        await add_durably(outbox, [point(value) for value in range(1000, 5000)])
        assert not outbox.fault.failures
        assert outbox.dropped == 10
        assert outbox.undelivered == len(await values(outbox)) == 5000 - outbox.dropped - outbox.thinned


async def test_thinning_for_hours_does_not_trip_the_watchdog(local, small_log, monkeypatch):
    """Like the points of a season on a slow card."""
    now, thin, stuck = [0.0], point_tables.thin, []
    clock, liveness = ManualClock(), Liveness(monotonic=lambda: now[0])

    def slow(*arguments):
        now[0] += STORE_S / 2
        stuck.extend(liveness.stuck())
        return thin(*arguments)

    monkeypatch.setattr(point_tables, "CHUNK", 100)
    monkeypatch.setattr(point_tables, "thin", slow)
    async with opened(local, clock, budget=0.1, liveness=liveness) as outbox, in_tasks(outbox):
        for value in range(4000):
            outbox.add(point(value))
        await clock.advance(1)
        await clock.until(lambda: not outbox.unsaved)
        assert outbox.thinned > 0
    assert now[0] > 5 * STORE_S
    assert stuck == []


async def test_other_content_of_the_file_may_exceed_the_budget(local, small_log):
    await local.save_state("recipe", "x" * 100_000)
    async with asyncio.timeout(30), opened(local, ManualClock(), budget=0.05) as outbox:
        await add_durably(outbox, [point(value) for value in range(2000)])
        assert outbox.undelivered == 2000 - outbox.dropped - outbox.thinned
        await add_durably(outbox, [point(1)])
        assert not outbox.fault.failures


async def test_rejected_points_are_dropped_before_waiting_ones(local, small_log):
    async with opened(local, ManualClock(), budget=0.15) as outbox:
        await add_durably(outbox, [point(value, is_desired=True) for value in range(500)])
        for entry in await outbox.next_batch(500):
            await outbox.reject(entry, "x" * 200)
        assert outbox.rejected_count == 500
        await add_durably(outbox, [point(value, is_desired=True) for value in range(500)])
        assert outbox.rejected_count == len(await outbox.rejected(1000)) < 500
        assert outbox.dropped == 500 - outbox.rejected_count
        assert outbox.undelivered == 500


async def test_delivering_a_dropped_row_deletes_no_newer_point(outbox, local):
    await outbox.add_with(point(1, variable="restart", category="event"), lambda _: None)
    sent = await outbox.next_batch(10)
    await local.write(point_tables.drop_oldest, outbox._count_deleted)  # near the budget, meanwhile
    await outbox.add_with(point(2), lambda _: None)
    await outbox.mark_delivered(sent)
    assert (await values(outbox), outbox.undelivered) == ([2], 1)


async def test_a_row_thinned_while_it_is_sent_is_counted_once(local, small_log):
    """Otherwise the count would be 0 with rows left, and they would not be sent."""
    async with opened(local, ManualClock(), budget=0.2) as outbox:
        await add_durably(outbox, [point(value) for value in range(1500)])
        sent = await outbox.next_batch(500)
        await add_durably(outbox, [point(value) for value in range(1500, 4000)])
        assert outbox.thinned > 500
        await outbox.mark_delivered(sent)
        assert outbox.undelivered == len(await values(outbox))
