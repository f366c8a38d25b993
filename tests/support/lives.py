"""Runs `tests/store/killed_writer.py`, reads what it reports, and kills it at a chosen moment."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from support.ledger import Ledger
from support.waiting import PATIENCE_S

PROGRAM = Path(__file__).parents[1] / "store" / "killed_writer.py"
_PROMISED = frozenset({"kept", "did"})
_FOR_THE_LEDGER = frozenset({"made", "kept", "begin", "did", "found", "notice"})


@dataclass(frozen=True)
class Job:
    """The task of one life. Its database is at `url`; with `node` it starts an embedded one."""

    folder: str
    databases: tuple[str, ...]
    url: str = ""
    auth: tuple[str, str] | None = None
    node: str = ""
    prepare: bool = True  # whether to set up the database
    pace: float = 0.0  # seconds between two steps of a writer
    steps: int | None = None  # of each writer, before it ships all points and ends; None: endless


class Lives:
    """Starts one life at a time, and records in `ledger` what it reports."""

    def __init__(self, program):
        self.ledger = Ledger()
        self.nodes = []  # the embedded servers of the current life
        self._program = program
        self._count = 0
        self._process = 0
        self._status = None
        self._left = []

    async def begin(self, job):
        """Start a life; its process exists when this returns."""
        assert self._program.stdin is not None
        self._count += 1
        self._status = None
        self.nodes.clear()
        self.ledger.begin_life()
        # so that all numbers have the same number of digits
        line = json.dumps(asdict(job) | {"first": 1_000_000_000 + self._count * 1_000_000})
        self._program.stdin.write(line.encode() + b"\n")
        await self.until("process")

    async def until(self, *words, times=1):
        """Read until one of these words came `times` times, or the life has ended."""
        async with asyncio.timeout(PATIENCE_S):
            while times and self._status is None:
                times -= await self._listen() in words

    async def until_promised(self, times):
        """Read until `times` acknowledgements came, or the life has ended."""
        await self.until(*_PROMISED, times=times)

    async def listen(self, seconds):
        """Read for `seconds` at most: a moment between two reports."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._status is None:
                    await self._listen()

    async def kill(self):
        """`kill -9`, and read the last reports."""
        assert self._status is None, f"it ended by itself, with {self._status}"
        os.kill(self._process, signal.SIGKILL)
        await self.end(-signal.SIGKILL)

    async def end(self, status=0):
        """Read until the end, and check the exit status."""
        await self.until("ended")
        assert self._status == status

    async def end_well(self):
        """Read until the end, and check that all points were shipped."""
        await self.end()
        assert self._left == [0, ""], f"points and fault at the end: {self._left}"

    def kill_node(self):
        """`kill -9` of the newest embedded server, unless it has ended with its life."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.nodes[-1], signal.SIGKILL)

    async def _listen(self):
        line = await self._program.stdout.readline()
        assert line, "the program ended"
        word, *values = json.loads(line)
        if word in _FOR_THE_LEDGER:
            self.ledger.take(word, *values)
        elif word == "process":
            (self._process,) = values
        elif word == "node":
            self.nodes += values
        elif word == "left":
            self._left = values
        elif word == "ended":
            (self._status,) = values
        return str(word)


@asynccontextmanager
async def lives():
    program = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert program.stdin is not None
    assert program.stdout is not None
    lives = Lives(program)
    try:
        yield lives
    finally:
        if lives._status is None and lives._process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(lives._process, signal.SIGKILL)
        program.stdin.close()
        await program.stdout.read()
        await program.wait()
