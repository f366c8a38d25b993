"""Exports again and again, killed before each change of the disk; for test_cloud_export_kills.

Arguments: a folder, the address of the database, user, password, prefix, a step. For n of 1, 1 + step and so
on, an export writes into the folder named n, and is killed before its n-th change, until one ends by itself;
its n is printed.
"""

import asyncio
import os
import signal
import sys
from itertools import count
from pathlib import Path

import aiohttp
import pyarrow as pa

from growd.store.couch import Couch
from growd_cloud import export_files
from growd_cloud.export import CloudExport
from growd_cloud.export_state import ExportState
from growd_cloud.months import CloudNames, Month
from support.cloud_export import NOW

CHANGES = {"open", "os.rename", "os.remove", "os.mkdir"}
MOST_ROWS = 10


async def export(folder, url, auth, prefix):
    state = ExportState(folder)
    async with aiohttp.ClientSession() as session:
        couch = Couch(session, url, credentials=auth)
        options = {"since": Month(2026, 9), "names": CloudNames(prefix), "most_rows": MOST_ROWS}
        await CloudExport(couch, state, now=lambda: NOW, **options).round()
    state.close()


def die_before(change, folder):
    """Let this process be killed before its `change`-th open, rename, remove or mkdir below the folder."""
    left = change

    def hook(event, arguments):
        nonlocal left
        if event in CHANGES and str(arguments[0]).startswith(str(folder)):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main():
    folder, url, user, password, prefix, every = sys.argv[1:]
    export_files.MERGED_AT_ONCE = 2
    for change in count(1, int(every)):
        process = os.fork()
        if not process:
            pa.set_cpu_count(1)
            own = Path(folder) / str(change)
            die_before(change, own)
            asyncio.run(export(own, url, (user, password) if user else None, prefix))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status != -signal.SIGKILL:
            sys.stdout.write(str(change))
            sys.exit(status)


if __name__ == "__main__":
    main()
