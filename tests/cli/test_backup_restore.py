"""`growd backup` and `growd restore`: everything comes back, also after interruptions."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from growd.store.backup import documents, making
from support.chambers import COPIED, fill, fill_folder, folder_content, growd, places


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(documents, "MOST_ROWS", 20)
    monkeypatch.setattr(making, "CHUNK_BYTES", 5_000)


@asynccontextmanager
async def chamber(server, folder):
    await asyncio.to_thread((folder / "data").mkdir, parents=True)
    async with places(server, folder) as place:
        await fill(place)
        await fill_folder(place.data)
        yield place


def backup_of(place, file, *arguments):
    return growd("backup", str(file), "--data", str(place.data), *place.settings(), *arguments)


def restore_to(place, file, *arguments):
    return growd("restore", str(file), "--data", str(place.data), *place.settings(), *arguments)


async def assert_same(new, old):
    before, after = await old.content(), await new.content()
    design = before["environmental_data_point"].pop("_design/svc")
    assert design  # growd writes it at its next start
    assert after == before
    folders = [await asyncio.to_thread(folder_content, place.data) for place in (new, old)]
    assert folders[0] == folders[1]
    assert folders[0]["files"] == COPIED


async def test_everything_comes_back(database_server, tmp_path, small_parts):
    file = tmp_path / "chamber.growd"
    async with (
        chamber(database_server, tmp_path / "old") as old,
        places(database_server, tmp_path / "new") as new,
    ):
        done = await backup_of(old, file)
        assert done.exit_code == 0, done.output
        assert "300 documents of environmental_data_point" in done.output
        assert "left out the damaged file" in done.output
        assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["chamber.growd"]
        assert file.stat().st_mode & 0o777 == 0o600
        assert (await growd("backup", str(file), "--verify")).exit_code == 0
        restored = await restore_to(new, file)
        assert restored.exit_code == 0, restored.output
        await assert_same(new, old)
