"""A damaged growd.sqlite3 is reported and quarantined, and its readable rows are saved."""

import asyncio
import functools
import random
import sqlite3
from contextlib import closing

import pytest

from growd.store import point_tables
from growd.store.damage import salvage
from growd.store.errors import LocalStoreError
from growd.store.local import LocalStore
from growd.store.memories import ParameterKeeper
from growd.store.points import PointMaker
from support.clock import ManualClock
from support.outbox import add_durably, opened, opened_at

PAGE = 4096
MAKER = PointMaker("0123456789ab")
POINTS = [MAKER.make("environment_1", "air_humidity", value / 7, 1e9 + value) for value in range(400)]
PARAMETERS = {f"branch/leaf_{number}": ["a value", number] for number in range(200)}


@pytest.fixture
async def whole(path):
    """A file with points, parameters and state in it."""
    local = await LocalStore.open(path)
    await local.write(lambda file: point_tables.insert(file, POINTS, point_tables.RowNumbers(file)))
    await local.write(
        lambda file: [point_tables.insert_rejected(file, point, "why", 1.0) for point in POINTS[:50]]
    )
    await ParameterKeeper(local).save(PARAMETERS, [])
    await local.save_state("run", {"of": "a recipe"})
    await local.close()
    return await asyncio.to_thread(path.read_bytes)


async def lay(path, content):
    """Write the file, and delete those beside it."""

    def write():
        for beside in path.parent.glob(f"{path.name}*"):
            beside.unlink()
        path.write_bytes(content)

    await asyncio.to_thread(write)


async def found(path):
    """The notices, points and parameters after a start; checks that the store can be written."""
    local = await LocalStore.open(path)
    try:
        points = await local.read(lambda file: point_tables.oldest(file, 1000))
        numbers = [number for number, _ in points]
        assert numbers == sorted(set(numbers))
        parameters = await local.parameters()
        await local.save_state("usable", value=True)
        assert len(local.device) == 12
        kept = list(path.parent.glob(f"{path.name}.damaged-*"))
        assert bool(kept) == bool(local.notices)
        return local.notices, {point.id for _, point in points}, parameters
    finally:
        await local.close()


TREE = {2, 5}  # the first byte of an inner page (sqlite.org/fileformat2.html#b_tree_pages)


async def test_any_overwritten_page_costs_only_its_rows(path, whole):
    chance = random.Random(1)
    assert len(whole) > 20 * PAGE
    for number in range(len(whole) // PAGE):
        page = whole[number * PAGE : (number + 1) * PAGE]
        damaged = whole[: number * PAGE] + chance.randbytes(PAGE) + whole[(number + 1) * PAGE :]
        await lay(path, damaged)
        notices, points, parameters = await found(path)
        assert len(notices) == 1, number
        if number == 0 or page[0] in TREE:  # the schema, or a page with the places of others
            continue
        assert points >= {point.id for point in POINTS if point.id.encode() not in page}
        assert parameters.items() >= {n: v for n, v in PARAMETERS.items() if n.encode() not in page}.items()
        assert f"{len(points)} of waiting" in notices[0]
        assert "is kept as" in notices[0]


async def test_a_file_cut_at_any_place_opens_with_a_notice(path, whole):
    cuts = [1, 16, 99, 100, 1000, *range(PAGE, len(whole), PAGE), len(whole) - 100]
    for cut in cuts:
        await lay(path, whole[:cut])
        notices, points, _ = await found(path)
        assert notices, cut
        assert points <= {point.id for point in POINTS}


async def test_a_row_with_damaged_text_blocks_no_other(path):
    made = POINTS[:5]
    local = await LocalStore.open(path)
    await local.write(lambda file: point_tables.insert(file, made, point_tables.RowNumbers(file)))

    def damage(file):
        for number, text in ((2, b'["\xff\xfe'), (4, b"no point")):
            file.execute("UPDATE waiting SET point = CAST(? AS TEXT) WHERE number = ?", (text, number))
        file.execute("UPDATE waiting SET point = CAST(point AS BLOB) WHERE number = 3")  # it can be read

    await local.write(damage)
    async with opened(local, ManualClock()) as outbox:
        assert [entry.id for entry in await outbox.next_batch(10)] == [made[n].id for n in (0, 2, 4)]
        assert (outbox.undelivered, outbox.dropped) == (3, 2)
    await local.close()


async def test_reading_a_damaged_file_terminates(path, whole):
    """No page of the tree can be read; the search for readable rows must end."""
    root = next(n for n in range(1, len(whole) // PAGE) if whole[n * PAGE] == 5)
    await lay(path, whole[: root * PAGE] + bytes(PAGE) + whole[(root + 1) * PAGE :])
    assert await asyncio.to_thread(lambda: list(salvage(path, "waiting"))) == []


async def test_a_power_cut_while_a_file_is_replaced_loses_nothing(path, whole, monkeypatch, said):
    """The damaged file is replaced only once the new one is complete."""
    page = 8
    await lay(path, whole[: page * PAGE] + bytes(PAGE) + whole[(page + 1) * PAGE :])

    def cut(_):
        raise OSError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr("growd.store.local.quarantine_file", cut)
        with said.raises(LocalStoreError):
            await LocalStore.open(path)
    notices, points, _ = await found(path)
    assert len(notices) == 1
    assert len(points) > 300


@pytest.mark.parametrize("kind", ["torn", "random", "header", "cut"])
async def test_a_damaged_write_ahead_log_loses_only_commits_behind_the_damage(path, whole, kind):
    def leave_behind():
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            for number in range(20):
                file.execute("INSERT INTO state VALUES (?, 'true')", (f"late {number}",))
            return path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes()

    def states():
        with closing(sqlite3.connect(path)) as file:
            return {key for (key,) in file.execute("SELECT key FROM state WHERE key LIKE 'late %'")}

    content, log = await asyncio.to_thread(leave_behind)
    half = len(log) // 2
    damaged = {
        "torn": log[:half] + bytes(512) + log[half + 512 :],
        "random": log[:half] + random.Random(2).randbytes(len(log) - half),
        "header": bytes(32) + log[32:],
        "cut": log[: half + 100],
    }[kind]
    await lay(path, content)
    await asyncio.to_thread(path.with_name(f"{path.name}-wal").write_bytes, damaged)
    notices, points, parameters = await found(path)
    assert (notices, len(points), parameters) == ([], len(POINTS), PARAMETERS)
    left = await asyncio.to_thread(states)
    assert left == {f"late {number}" for number in range(len(left))}
    assert (len(left) > 5) == (kind != "header")


async def test_a_file_that_another_program_holds_is_not_damaged(path, whole, monkeypatch, said):
    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, timeout=0))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with said.raises(LocalStoreError):
        await LocalStore.open(path)
    holder.close()
    assert (await found(path))[0] == []


async def test_a_damaged_log_is_reported_once_and_its_readable_points_stay(path):
    made = POINTS[:6]
    async with opened_at(path, ManualClock()) as outbox:
        for point in made:
            await add_durably(outbox, [point])
    log = path.with_name("points.log")
    content = bytearray(await asyncio.to_thread(log.read_bytes))
    content[3 * 512 + 100] ^= 1  # behind the first frame, which has no points
    await asyncio.to_thread(log.write_bytes, content)
    async with opened_at(path, ManualClock()) as outbox:
        (notice,) = outbox.notices
        assert "points.log was damaged: 1 of its points can't be read; it is kept as" in notice
        assert [entry.id for entry in await outbox.next_batch(10)] == [p.id for p in made if p is not made[2]]
    async with opened_at(path, ManualClock()) as outbox:
        assert outbox.notices == []
        assert outbox.undelivered == 5
    (kept,) = log.parent.glob("points.log.damaged-*")
    assert await asyncio.to_thread(kept.read_bytes) == content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "points.log is missing"),
        (b"", "points.log is cut off: it has 0 of 1048576 bytes"),
        ("cut", "points.log is cut off: it has 300000 of 1048576 bytes"),
        (bytes(1_048_576), "points.log is empty"),
    ],
    ids=["deleted", "emptied", "truncated", "zeros"],
)
async def test_a_lost_log_is_reported_once(path, content, words):
    async with opened_at(path, ManualClock()) as outbox:  # the first start
        assert outbox.notices == []
        await add_durably(outbox, POINTS[:6])
    async with opened_at(path, ManualClock()) as outbox:
        assert outbox.notices == []
    log = path.with_name("points.log")

    def damage():
        if content is None:
            log.unlink()
        else:
            log.write_bytes(log.read_bytes()[:300_000] if content == "cut" else content)

    await asyncio.to_thread(damage)
    async with opened_at(path, ManualClock()) as outbox:
        (notice,) = outbox.notices
        assert words in notice
        assert "points that were not delivered may be lost" in notice
        assert outbox.undelivered == (6 if content == "cut" else 0)
    assert len(list(path.parent.glob("points.log.damaged-*"))) == (content is not None)
    async with opened_at(path, ManualClock()) as outbox:
        assert outbox.notices == []


async def test_a_first_start_that_a_power_cut_interrupted_is_no_damage(path):
    await asyncio.to_thread(path.with_name("points.log").write_bytes, bytes(1024))
    async with opened_at(path, ManualClock()) as outbox:
        assert outbox.notices == []


async def test_a_line_that_is_no_point_loses_no_other_and_is_reported_with_a_copy(path):
    async with opened_at(path, ManualClock()) as outbox:
        await add_durably(outbox, POINTS[:1])
        await outbox._worker.run(outbox._log.append, ['{"not": "a point"}'], 0)
    async with opened_at(path, ManualClock()) as outbox:
        assert "1 of its points can't be read; it is kept as" in outbox.notices[0]
        await add_durably(outbox, POINTS[1:3])
    async with opened_at(path, ManualClock()) as outbox:
        assert outbox.notices == []
        assert [entry.id for entry in await outbox.next_batch(10)] == [point.id for point in POINTS[:3]]


async def test_a_failing_copy_of_a_damaged_log_is_reported(path, monkeypatch):
    async with opened_at(path, ManualClock()) as outbox:
        for point in POINTS[:3]:
            await add_durably(outbox, [point])
    log = path.with_name("points.log")
    content = bytearray(await asyncio.to_thread(log.read_bytes))
    content[512 + 100] ^= 1
    await asyncio.to_thread(log.write_bytes, content)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    async with opened_at(path, ManualClock()) as outbox:
        assert "no copy of it could be made: No space left" in outbox.notices[0]
        assert outbox.undelivered == 2
