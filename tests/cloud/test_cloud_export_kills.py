"""`kill -9` of an export before each change of the disk: no point is lost, none is written twice."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from growd_cloud import export_files
from support.cloud_export import NOVEMBER, OCTOBER, cloud_of, files_of, ids_of, once, points

PROGRAM = Path(__file__).with_name("killed_export.py")

pytestmark = [pytest.mark.kill, pytest.mark.timeout(240)]


@pytest.mark.parametrize("every", [15, pytest.param(1, marks=pytest.mark.nightly)])
async def test_an_export_killed_at_any_step_loses_nothing_and_writes_nothing_twice(
    tmp_path, database_server, monkeypatch, every
):
    monkeypatch.setattr(export_files, "MERGED_AT_ONCE", 2)
    async with cloud_of(database_server) as cloud:
        stored = [*points(6, OCTOBER), *points(8, NOVEMBER)]
        await cloud.store(stored)
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAM),
            str(tmp_path),
            database_server.url,
            *(database_server.auth or ("", "")),
            cloud.prefix,
            str(every),
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        printed, _ = await program.communicate()
        assert program.returncode == 0
        whole = int(printed)  # no process reached this change
        assert whole > 40
        late = points(2, OCTOBER + 60.0)
        await cloud.store(late)
        for change in range(1, whole, every):
            folder = tmp_path / str(change)
            if (folder / "points").exists():
                assert not ids_of(folder) - once(stored), f"killed before change {change}: twice or foreign"
            await cloud.export(folder, most_rows=10)
            assert ids_of(folder) == once([*stored, *late]), f"killed before change {change}"
            files = files_of(folder)
            assert all(len(paths) == 1 for place, paths in files.items() if "2026-10" in place)
