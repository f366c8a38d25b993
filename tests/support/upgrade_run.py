"""Runs upgrades in processes of their own, as the service growd-upgrade does: `python upgrade_run.py`.

Each line of the input is a JSON object: `root`, the file system; `begin`, whether the upgrade begins, else it
is only finished; `last` and `cut` as in `Boundaries`; `after_ms`, when to kill it; `largest`, the size that
no file may exceed. Each line of the output has `status`, the exit status or minus the signal. The file beside
the root named `.count` has the number of boundaries of a run that ended by itself.
"""

import fcntl
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

from growd_machine.installation.health import GrowdHealth, ProbeError
from growd_machine.installation.machine import Machine
from growd_machine.installation.upgrade import Upgrade, UpgradeRun, begin, tidy, upgrade_of
from growd_machine.installation.versions import VERSIONS, locked, version_at
from support.boundaries import Boundaries

STANDINS = Path(__file__).with_name("upgrade_standins")
OLD, NEW = "1.0.0-0000", "1.1.0-1111"
BACKUP = "1.0.0-20260101"


class Daemon:
    """The stand-in for a running growd."""

    def __init__(self, root):
        self._root = root

    def health(self):
        try:
            return GrowdHealth((self._root / "run/answering").read_text().strip(), is_held=True)
        except OSError:
            raise ProbeError("no answer") from None

    def read_points(self):
        pass


class Time:
    """Passes only during sleeps."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += 100 * seconds  # a trial takes two looks

    def monotonic(self):
        return self.now


def upgrade(root, *, begins):
    machine, time_of_run = Machine(root), Time()
    with locked(machine):
        if begins:
            new = Upgrade(source=OLD, target=NEW, began=1.0, before=GrowdHealth(), backup=BACKUP)
            begin(machine, new, version_at(machine.at(VERSIONS) / OLD))
        elif upgrade_of(machine) is None:
            tidy(machine)
            return
        UpgradeRun(
            machine, Daemon(root), lambda _: None, sleep=time_of_run.sleep, monotonic=time_of_run.monotonic
        ).run()


def do(job):
    root = Path(str(job["root"]))
    os.environ["UPGRADE_ROOT"] = str(root)
    if largest := int(str(job.get("largest", 0))):
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    boundaries = Boundaries(root, int(str(job.get("last", 0))), str(job.get("cut", "")))
    upgrade(root, begins=bool(job.get("begin")))
    boundaries.end()
    Path(f"{root}.count").write_text(str(boundaries.count), encoding="ascii")


def wait_for_lock(root):
    """Wait for a program that the killed run was starting: until its exec it has the run's lock open."""
    folder = os.open(Machine(root).at(VERSIONS), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
    finally:
        os.close(folder)


def main():
    os.environ["PATH"] = f"{STANDINS}:{os.environ['PATH']}"
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            os.close(1)
            os.dup2(2, 1)
            os.setpgid(0, 0)
            try:
                do(job)
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if "after_ms" in job:
            time.sleep(job["after_ms"] / 1000)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            wait_for_lock(Path(job["root"]))
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
