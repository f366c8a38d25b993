"""States of interlocks survive damage to one file, and count as lost if they may be old."""

import asyncio
import os
import random
import shutil
from contextlib import asynccontextmanager

import pytest

from growd.store.local import LocalStore
from growd.store.memories import FILE_NAME, InterlockMemory
from growd.store.point_log import LOG_NAME

KEY, NAME = "e/interlocks", "growd.sqlite3"
NOISE = random.Random(1).randbytes(8192)


@asynccontextmanager
async def opened(folder):
    local = await LocalStore.open(folder / NAME)
    try:
        yield InterlockMemory(local)
    finally:
        await local.close()


@pytest.fixture
async def killed(tmp_path):
    """A data folder after a kill: state 1 was saved before a clean end, 2 and 3 after it."""
    folder = tmp_path / "running"
    folder.mkdir()
    (folder / LOG_NAME).write_bytes(b"")
    async with opened(folder) as memory:
        await memory.save_state(KEY, 1)
    async with opened(folder) as memory:
        assert await memory.state(KEY) == 1
        await memory.save_state(KEY, 2)
        await memory.save_state(KEY, 3)
        await asyncio.to_thread(shutil.copytree, folder, tmp_path / "killed")
    return tmp_path / "killed"


def overwritten(content):
    return lambda file: file.write_bytes(content)


DAMAGES = {
    "nothing": lambda _: None,
    "random": overwritten(NOISE),
    "zeros": overwritten(bytes(8192)),
    "empty": overwritten(b""),
    "deleted": lambda file: file.unlink(),
    "no WAL": lambda file: file.with_name(f"{NAME}-wal").unlink(),
    "random WAL": lambda file: file.with_name(f"{NAME}-wal").write_bytes(NOISE),
}
OF_A_FILE = ["random", "zeros", "empty", "deleted"]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_to_the_store_brings_no_old_state_back(killed, damage):
    DAMAGES[damage](killed / NAME)
    async with opened(killed) as memory:
        assert await memory.state(KEY) == 3
        await memory.save_state(KEY, 4)
    async with opened(killed) as memory:
        assert await memory.state(KEY) == 4


@pytest.mark.parametrize("damage", OF_A_FILE)
async def test_without_the_file_a_numbered_state_is_lost(killed, damage):
    DAMAGES[damage](killed / FILE_NAME)
    reason = rf"\({FILE_NAME}\) is {'missing' if damage == 'deleted' else 'damaged'}"
    for _ in range(2):  # a start that saves nothing does not change that
        async with opened(killed) as memory:
            with pytest.raises(ValueError, match=reason):
                await memory.state(KEY)
    async with opened(killed) as memory:
        await memory.save_state(KEY, 5)
        assert await memory.state(KEY) == 5


async def test_a_kill_between_the_two_writes_leaves_the_newer_state(killed, monkeypatch):
    (killed / FILE_NAME).unlink()
    async with opened(killed) as memory:
        with pytest.raises(ValueError, match="is missing"):
            await memory.state(KEY)

        async def refuse(*_):
            raise OSError("killed")

        monkeypatch.setattr(memory._local, "save_state", refuse)
        with pytest.raises(OSError, match="killed"):
            await memory.save_state(KEY, 5)
    async with opened(killed) as memory:
        assert await memory.state(KEY) == 5


@pytest.mark.parametrize("damage", OF_A_FILE)
async def test_without_both_files_traces_of_an_earlier_run_mean_a_loss(killed, damage):
    (killed / FILE_NAME).unlink()
    DAMAGES[damage](killed / NAME)
    for _ in range(2):
        async with opened(killed) as memory:
            with pytest.raises(ValueError, match=r"growd\.sqlite3 was|interlocks\.json\) is missing"):
                await memory.state(KEY)


async def test_a_new_installation_has_lost_nothing_and_older_states_are_read(tmp_path):
    async with opened(tmp_path) as memory:
        assert await memory.state(KEY) is None
    local = await LocalStore.open(tmp_path / NAME)
    await local.save_state(KEY, {"clean": True})
    await local.close()
    async with opened(tmp_path) as memory:
        assert await memory.state(KEY) == {"clean": True}


async def test_a_pipe_in_place_of_the_file_counts_as_damage(killed, said):
    (killed / FILE_NAME).unlink()
    os.mkfifo(killed / FILE_NAME)
    async with opened(killed) as memory:
        with said.raises(ValueError):
            await memory.state(KEY)
        await memory.save_state(KEY, 4)
    async with opened(killed) as memory:
        assert await memory.state(KEY) == 4


async def test_a_new_store_beside_an_old_database_means_a_loss(tmp_path, said):
    (tmp_path / "couchdb").mkdir()
    async with opened(tmp_path) as memory:
        with said.raises(ValueError):
            await memory.state(KEY)
