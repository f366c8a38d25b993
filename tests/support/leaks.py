"""Threads, sockets and children of this process, read from /proc."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Holdings:
    """Threads, sockets and child processes of this process."""

    threads: frozenset[threading.Thread]
    sockets: frozenset[str]
    children: frozenset[int]

    @classmethod
    def now(cls):
        return cls(frozenset(threading.enumerate()), frozenset(open_sockets()), frozenset(child_processes()))

    def more_than(self, before):
        """What is held now and was not held before; the loop's executor threads end with the loop."""
        new = [thread for thread in self.threads - before.threads if not thread.name.startswith("asyncio_")]
        for thread in new:
            if thread.name.startswith("asyncio-waitpid"):
                thread.join(10)  # it has reported its child's end, and ends soon
        threads = [thread.name for thread in new if thread.is_alive()]
        return [
            *(f"thread {name}" for name in threads),
            *(f"socket {name}" for name in self.sockets - before.sockets),
            *(f"child process {number}" for number in self.children - before.children),
        ]


def end_children(before):
    """Kill the child processes that were not there before."""
    for number in child_processes() - before.children:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)


def open_sockets():
    """The sockets of this process, by inode."""
    links = set()
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208  twice for each test: as fast as can be
        try:
            target = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115  likewise
        except OSError:
            continue  # the folder's own descriptor
        if target.startswith("socket:"):
            links.add(target)
    return links


def child_processes():
    """Children of this process that run or were not waited for."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(child) for children in lists for child in _read(children).split()}


def _read(file):
    try:
        return file.read_text()
    except OSError:
        return ""  # the thread has ended
