"""Exported runs: written from a database, and read back without growd."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zipfile import ZipFile

import aiohttp

from growd.store.reading.source import SourceReader
from growd_analysis.runs.run_export import RunExport, in_thread
from growd_analysis.runs.run_zip import RunZip
from support.rollups import ENVIRONMENT

if TYPE_CHECKING:
    from pathlib import Path

    from growd_analysis.runs.run_export import Counts


@dataclass
class ExportedRun:
    """The members of a file, by their names without the folder."""

    members: dict[str, bytes]
    folder: str
    path: Path
    counts: Counts | None = None

    @classmethod
    def read(cls, path):
        with ZipFile(path) as file:
            assert file.testzip() is None
            (folder,) = {name.partition("/")[0] for name in file.namelist()}
            return cls({name.partition("/")[2]: file.read(name) for name in file.namelist()}, folder, path)

    def unpack(self):
        """The folder of the members, beside the file."""
        shutil.unpack_archive(self.path, self.path.parent / "out")
        return self.path.parent / "out" / self.folder

    def json(self, name):
        return json.loads(self.members[name])

    def rows(self, name):
        return list(csv.DictReader(io.StringIO(self.members[name].decode(), newline="")))

    def check(self):
        """Each member has the checksum that the file says."""
        lines = self.members["SHA256SUMS"].decode().splitlines()
        sums = dict(reversed(line.split("  ")) for line in lines)
        assert sums == {
            name: hashlib.sha256(content).hexdigest()
            for name, content in self.members.items()
            if name != "SHA256SUMS"
        }


def run_document(digits, started, **members):
    """The document of a run, which is called by the first of these digits."""
    run = {"_id": f"0123456789ab:1790000000000-{digits}", "environment": ENVIRONMENT, "recipe_id": "lettuce"}
    return run | {"started": started, "ended": None} | members


async def export_run(archive, source, run_id, path, *, kind="csv", now=2e9, reader_type=SourceReader):
    """Write a run as `growd run export` does, directly from the database, and read it."""
    described = await archive.describe(await archive.find(run_id), now)
    short = described["short_id"]
    async with aiohttp.ClientSession() as session, in_thread(_written(path, f"run-{short}")) as file:
        reader = reader_type(session, source)
        export = RunExport(reader, described, kind, path.parent, lambda _: None)
        counts = await export.write(file)
    found = await asyncio.to_thread(ExportedRun.read, path)
    found.counts = counts
    return found


@contextmanager
def _written(path, folder):
    with RunZip(path, folder) as file:
        yield file
        file.finish()
