"""A machine on a folder with an old version of growd and a new one, for upgrades that are interrupted."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

from growd.store.local import SCHEMA_VERSION
from support.upgrade_run import BACKUP, NEW, OLD, STANDINS

__all__ = ["BACKUP", "NEW", "OLD"]

from support.processes import Ending

OLDER = "0.9.0-9999"
_RUN = Path(__file__).with_name("upgrade_run.py")
CONFIGURATION = "# my own\n"


class Runner:
    """Runs upgrades; see `upgrade_run.py`."""

    def __init__(self, process):
        self._process = process

    def run(self, root, **job):
        """The exit status, or minus the signal."""
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"root": str(root), **job}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["status"]


@contextmanager
def runner():
    paths = os.pathsep.join(filter(None, sys.path))
    with Ending(
        [sys.executable, str(_RUN)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as process:
        try:
            yield Runner(process)
        finally:
            process.stdin.close()


def make_machine(root, mode):
    """A machine on which the old version runs, with a new version beside it that behaves as `mode` says."""
    for folder in ("run", "etc/systemd/system", "etc/growd", "var/lib/growd", "opt/growd/versions"):
        (root / folder).mkdir(parents=True)
    (root / "etc/growd/growd.toml").write_text(CONFIGURATION)
    _make_store(root / "var/lib/growd/growd.sqlite3", SCHEMA_VERSION)
    for name, how in ((OLDER, "good"), (OLD, "good"), (NEW, mode)):
        _make_version(root / "opt/growd/versions" / name, how)
    (root / "opt/growd/current").symlink_to(f"versions/{OLD}")
    (root / "opt/growd/previous").symlink_to(f"versions/{OLDER}")
    (root / "etc/systemd/system/growd.service").write_text("unit of 1.0.0\n")
    systemctl(root, "daemon-reload")
    systemctl(root, "start")


def _make_version(folder, mode):
    version = folder.name.partition("-")[0]
    (folder / "bin").mkdir(parents=True)
    shutil.copy(STANDINS / "growd", folder / "bin/growd")
    (folder / "version").write_text(version)
    (folder / "mode").write_text(mode)
    if "migrates" in mode:
        _make_store(folder / "migrated", SCHEMA_VERSION + 1)
    (folder / "version.json").write_text(json.dumps({"version": version}))


def _make_store(path, schema):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT)")
        connection.execute(f"PRAGMA user_version = {schema}")
        connection.commit()


def schema_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def systemctl(root, *arguments):
    subprocess.run(
        [str(STANDINS / "systemctl"), *arguments], check=True, env={**os.environ, "UPGRADE_ROOT": str(root)}
    )


def boot(root):
    """The machine starts after a power cut: systemd starts the current version."""
    shutil.rmtree(root / "run")
    (root / "run").mkdir()
    systemctl(root, "daemon-reload")
    systemctl(root, "start")
