"""Lives a few lives with points, parameters and recipes, and records all writes: `recorded_writer.py FOLDER`.

A program of its own, for the VFS that records is that of the whole process. The record is in FOLDER/record.
"""

import asyncio
import functools
import pickle
import random
import sys
from pathlib import Path
from types import SimpleNamespace

from growd.runtime.clock import RealClock
from growd.store import block_file, point_log
from growd.store import local as local_module
from growd.store.journal import RunJournal
from growd.store.local import LocalStore
from growd.store.memories import ParameterKeeper
from growd.store.outbox import Outbox
from growd.store.points import PointMaker
from support.power import Record, RecordedBlocks, RecordingVfs

LOG_BYTES = 16 * 1024  # so that it is full a few times
VARIABLES = ("air_temperature", "air_humidity")


class Life:
    """One start, with its writes."""

    def __init__(self, record, local, outbox, chance):
        self._record = record
        self._outbox = outbox
        self._maker = PointMaker(local.device)
        self._keeper = ParameterKeeper(local)
        self._local = local
        self._journal = RunJournal(local, outbox, self._maker, "environment_1")
        self._chance = chance

    async def live(self, steps):
        self._run = await self._journal.load()
        self._parameters = await self._local.parameters()
        for step in steps:
            await self._add(step)
            if step % 3 == 0:
                await self._change_parameters(step)
            if step % 10 == 4:
                await self._begin_run(step)
            if step % 10 == 7:
                await self._note_progress(step)
            if step % 20 == 8:
                await self._revise_run(step)
            if step % 20 == 12:
                await self._order(step)
            if step % 30 > 20:
                await self._ship()

    async def _add(self, step):
        points = []
        for number in range(self._chance.randint(1, 9)):
            variable = self._chance.choice(VARIABLES)
            points.append(self._maker.make("environment_1", variable, step * 10 + number, 1e9 + step))
            self._outbox.add(points[-1])
        self._record.note("adding", points)
        await self._outbox.flush()
        self._record.note("added", points)

    async def _ship(self):
        points = await self._outbox.next_batch(self._chance.randint(1, 60))
        refused = points.pop()
        self._record.note("storing", [point.id for point in points])
        await self._outbox.mark_delivered(points)
        await self._outbox.reject(refused, "refused")

    async def _change_parameters(self, step):
        changes = {f"branch/{number}": [step, "x" * (step % 7) * 300] for number in range(step % 5 + 1)}
        removed = [name for name in self._parameters if step % 2 and name not in changes]
        kept = {name: value for name, value in self._parameters.items() if name not in removed}
        self._parameters = kept | changes
        self._record.note("keeping", {"parameters": self._parameters})
        await self._keeper.save(changes, removed)
        self._record.note("kept", {"parameters": self._parameters})

    async def _begin_run(self, step):
        run = {"recipe_id": f"recipe {step}", "recipe": {"note": "x" * 5000}, "elapsed": 0.0, "seen": step}
        self._record.note("keeping", {"run": run, "order": None})
        document = {"_id": run["recipe_id"], "started": 1e9 + step}
        await self._journal.commit(run, "recipe_start", run["recipe_id"], 1e9 + step, document)
        self._record.note("kept", {"run": run, "order": None})
        self._run = run

    async def _revise_run(self, step):
        ran = [{"recipe": {"note": "y" * 3000}, "elapsed": step}]
        run = self._run | {"run_id": self._run["recipe_id"], "ran": [*self._run.get("ran", []), *ran]}
        self._record.note("keeping", {"run": run})
        await self._journal.revise(run, {"_id": run["run_id"], "revisions": len(run["ran"])})
        self._record.note("kept", {"run": run})
        self._run = run

    async def _order(self, step):
        order = {"recipe_id": f"order {step}", "recipe": {"note": "z" * 2000}}
        self._record.note("keeping", {"order": order})
        await self._journal.save_order(order)
        self._record.note("kept", {"order": order})

    async def _note_progress(self, step):
        run = self._run | {"elapsed": 60.0, "seen": step}
        self._record.note("keeping", {"run": run})
        await self._journal.progress(run)
        self._record.note("kept", {"run": run})


async def main(folder):
    record, chance = Record(), random.Random(5)
    vfs = RecordingVfs(record)
    point_log.LOG_BYTES = LOG_BYTES
    opened = functools.partial(RecordedBlocks, record=record)
    block_file.sync_folder = local_module.sync_folder = record.sync_folder
    point_log.BlockFile = SimpleNamespace(open=opened)
    for steps in (range(45), range(45, 80), range(80, 90)):
        local = await LocalStore.open(folder / "growd.sqlite3")
        record.note("is", local.device)
        await local.read(lambda file: file.execute("PRAGMA wal_autocheckpoint = 12"))  # pages; seldom else
        outbox = await Outbox.open(local, RealClock())
        await Life(record, local, outbox, chance).live(steps)
        await outbox.close()
        await local.close()
    await asyncio.to_thread((folder / "record").write_bytes, pickle.dumps(record.entries))
    del vfs


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
