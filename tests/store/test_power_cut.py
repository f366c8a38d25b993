"""A power cut at any moment of a real run: acknowledged writes are there afterwards, once."""

import asyncio
import itertools
import pickle
import random
import shutil
import sys
from pathlib import Path

import pytest

from growd.store.journal import RunJournal
from growd.store.local import LocalStore
from growd.store.outbox import Outbox
from growd.store.points import PointMaker
from support.clock import ManualClock
from support.power import Disk, sqlite_library

pytestmark = pytest.mark.long

WRITER = Path(__file__).with_name("recorded_writer.py")
KINDS = ("none", "all", "some first", "any")
CUTS_OF_EACH = 2  # of the four kinds, by turns, at each barrier


class Promised:
    """What was promised so far, and what may or may not be so because it is under way."""

    def __init__(self):
        self.device = None
        self.points = {}
        self.maybe = {}
        self.states = {"run": [None], "order": [None], "parameters": [{}]}

    def take(self, kind, value):
        if kind == "is":
            self.device = value
        elif kind == "adding":
            self.maybe |= {point.id: point for point in value}
        elif kind == "added":
            self.points |= {point.id: point for point in value}
        elif kind == "storing":
            self.points = {name: point for name, point in self.points.items() if name not in set(value)}
        elif kind == "keeping":
            for name, new in value.items():
                self.states[name].append(new)
        else:
            self.states |= {name: [new] for name, new in value.items()}

    async def check(self, local, outbox):
        assert (local.notices, outbox.notices) == ([], [])
        assert local.device == self.device or self.device is None
        waiting = [entry.point for entry in await outbox.next_batch(10_000)]
        refused = [entry.point for entry in await outbox.rejected()]
        found = {point.id: point for point in (*waiting, *refused)}
        assert len(found) == len(waiting) + len(refused)
        assert (len(waiting), len(refused)) == (outbox.undelivered, outbox.rejected_count)
        assert self.points.items() <= found.items()
        measured = [point for point in waiting if not point.is_desired]
        assert all(self.maybe[point.id] == point for point in measured)
        for variable in {point.variable for point in measured}:
            values = [point.value for point in measured if point.variable == variable]
            assert values == sorted(values)
        assert await local.parameters() in self.states["parameters"]
        journal = RunJournal(local, outbox, PointMaker(local.device), "environment_1")
        runs, orders = self.states["run"], self.states["order"]
        run, order = await journal.load(), await journal.load_order()
        assert run in runs
        assert order in orders
        if len(runs) > 1 and len(orders) > 1:  # a start, with a point; it deletes the order
            started = [point.value for point in waiting if point.variable == "recipe_start"]
            has_started = run == runs[-1]
            assert has_started == (runs[-1]["recipe_id"] in started)
            assert has_started == (order is None) or orders[0] is None


async def record_of(folder):
    writer = await asyncio.create_subprocess_exec(
        sys.executable,
        str(WRITER),
        str(folder),
        env={"PYTHONPATH": f"{WRITER.parents[1]}:{WRITER.parents[2]}/daemon"},
    )
    assert await writer.wait() == 0
    return pickle.loads(await asyncio.to_thread((folder / "record").read_bytes))  # noqa: S301


def cuts(entries):
    """The moment before each barrier, when most is under way, and the end."""
    disk, promised = Disk(), Promised()
    for kind, *rest in entries:
        if kind == "note":
            promised.take(*rest)
            continue
        if kind in {"sync", "sync folder"}:
            yield disk, promised
        disk.take((kind, *rest))
    yield disk, promised


@pytest.fixture
def disk_folder(tmp_path):
    """In memory where there is such a place: thousands of files are written here."""
    memory = Path("/dev/shm")  # noqa: S108
    folder = (memory if memory.is_dir() else tmp_path) / f"power cut {random.SystemRandom().random()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def lay(folder, files):
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


async def test_a_power_cut_at_any_moment_loses_no_acknowledged_write(tmp_path, disk_folder, monkeypatch):
    try:
        sqlite_library()
    except OSError as error:
        pytest.skip(str(error))
    monkeypatch.setattr("growd.store.point_log.LOG_BYTES", 16 * 1024)
    chance, kinds = random.Random(3), itertools.cycle(KINDS)
    entries = await record_of(tmp_path)
    barriers = 0
    for disk, promised in cuts(entries):
        barriers += 1
        for kind in itertools.islice(kinds, CUTS_OF_EACH):
            await asyncio.to_thread(lay, disk_folder, disk.after_cut(kind, chance))
            local = await LocalStore.open(disk_folder / "growd.sqlite3")
            outbox = await Outbox.open(local, ManualClock())
            try:
                await promised.check(local, outbox)
            finally:
                await outbox.close()
                await local.close()
    assert barriers > 100
