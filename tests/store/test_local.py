"""growd.sqlite3: writes are on the disk when they return, and unusable files are reported."""

import asyncio
import json
import shutil
import sqlite3
from contextlib import asynccontextmanager

import pytest

from growd.store.errors import LocalStoreError
from growd.store.local import SCHEMA_VERSION, LocalStore


@asynccontextmanager
async def opened(path):
    store = await LocalStore.open(path)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(path):
    async with opened(path) as store:
        yield store


async def kept(store):
    rows = await store.read(lambda file: file.execute("SELECT key, value FROM state").fetchall())
    return {key: json.loads(value) for key, value in rows if key != "device"}


async def test_a_state_survives_a_restart(path):
    async with opened(path) as store:
        await store.save_state("wall_time", 1.0)
        await store.save_state("wall_time", 1.5)
        await store.save_state("recipe é", {"c": [1, None, 0.5]})
        device = store.device
    async with opened(path) as store:
        assert await store.state("wall_time") == 1.5
        assert await store.state("recipe é") == {"c": [1, None, 0.5]}
        assert await store.state("nothing", "default") == "default"
        assert store.device == device
    async with opened(path.with_name("other.sqlite3")) as other:
        assert other.device != device


async def test_a_commit_is_synced_to_the_disk(store):
    def settings(file):
        journal = file.execute("PRAGMA journal_mode").fetchone()[0]
        return journal, file.execute("PRAGMA synchronous").fetchone()[0]

    assert await store.read(settings) == ("wal", 2)  # 2 is FULL


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
async def test_a_write_to_a_deleted_file_fails(how, tmp_path, said):
    folder = tmp_path / "data"
    folder.mkdir()
    async with opened(folder / "growd.sqlite3") as store:
        await store.save_state("before", 1)
        assert not store.is_gone
        if how == "deleted":
            shutil.rmtree(folder)
        else:
            folder.rename(tmp_path / "elsewhere")
        if how == "replaced":
            shutil.copytree(tmp_path / "elsewhere", folder)
        with said.raises(LocalStoreError):
            await store.save_state("after", 2)
        assert store.is_gone
        assert await kept(store) == {"before": 1}


async def test_writes_that_come_together_share_a_commit_and_keep_their_order(store):
    statements = []
    await store.read(lambda file: file.set_trace_callback(statements.append))
    await asyncio.gather(*(store.save_state(f"p{number % 100}", number) for number in range(200)))
    assert await kept(store) == {f"p{number}": number + 100 for number in range(100)}
    # the first may go alone, the others wait for it and go together
    assert statements.count("COMMIT") <= 2


async def test_a_failing_write_is_undone_alone(store):
    def half(file):
        file.execute("INSERT INTO state VALUES ('half', '1')")
        raise KeyError("half")

    def wrong(file):
        file.execute("INSERT INTO no_such_table VALUES (1)")

    outcomes = await asyncio.gather(
        store.save_state("before", 1),
        store.write(half),
        store.write(wrong),
        store.save_state("after", 2),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], KeyError)
    assert isinstance(outcomes[2], LocalStoreError)
    assert await kept(store) == {"before": 1, "after": 2}


async def test_closing_commits_waiting_writes_and_refuses_later_ones(path, said):
    store = await LocalStore.open(path)
    waiting = asyncio.create_task(store.save_state("p", 1), name="a write")
    await asyncio.sleep(0)
    await store.close()
    await waiting
    with said.raises(LocalStoreError):
        await store.save_state("p", 2)
    async with opened(path) as store:
        assert await kept(store) == {"p": 1}


async def test_the_callback_runs_after_a_commit_whose_caller_was_cancelled(path):
    store = await LocalStore.open(path)
    committed = []

    def slow(file):
        file.execute("INSERT INTO state VALUES ('p', '1')")
        loop.call_soon_threadsafe(begun.set)
        return 7

    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    write = asyncio.create_task(store.write(slow, committed.append), name="a write")
    await begun.wait()
    write.cancel()
    await store.close()
    assert write.cancelled()
    assert committed == [7]


async def test_a_failing_callback_does_not_end_the_committer(store):
    def fail(_):
        raise KeyError("a mistake")

    with pytest.raises(KeyError):
        await store.write(lambda file: file.execute("INSERT INTO state VALUES ('p', '1')"), fail)
    await store.save_state("q", 2)
    assert await kept(store) == {"p": 1, "q": 2}


async def test_nan_is_not_json(store):
    with pytest.raises(ValueError, match="not JSON compliant"):
        await store.save_state("p", float("nan"))


async def test_a_file_of_a_newer_growd_is_not_touched(path, said):
    with sqlite3.connect(path) as file:
        file.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 6}")
    file.close()
    before = path.read_bytes()
    with said.raises(LocalStoreError):
        await LocalStore.open(path)
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_quarantined(path):
    path.write_bytes(b"not a database, " * 100)
    async with opened(path) as store:
        (notice,) = store.notices
        assert "growd.sqlite3 was damaged (file is not a database); it is kept as" in notice
        await store.save_state("p", 1)
    (kept,) = path.parent.glob("*.damaged-*")
    assert kept.read_bytes() == b"not a database, " * 100


async def test_a_missing_folder_is_named(tmp_path, said):
    with said.raises(LocalStoreError):
        await LocalStore.open(tmp_path / "nowhere" / "growd.sqlite3")


async def test_a_power_cut_during_the_replacement_of_a_damaged_file_loses_nothing(path):
    async with opened(path) as store:
        await store.save_state("kept", 1)
        device = store.device
    path.rename(path.with_name(path.name + ".new"))
    async with opened(path) as store:
        assert (store.device, await store.state("kept")) == (device, 1)
        assert "was damaged" in store.notices[0]
