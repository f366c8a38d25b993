"""Lives of `tests/store/killed_writer.py`: begun, listened to, and killed at a moment that a test chooses."""

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
from typing import TYPE_CHECKING, Any

from support.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PROGRAM = Path(__file__).parents[1] / "store" / "killed_writer.py"
PATIENCE_S = 50.0  # for a machine that is busy with other tests
_PROMISED = frozenset({"kept", "did"})
_FOR_THE_LEDGER = frozenset({"made", "kept", "begin", "did", "found", "notice"})


@dataclass(frozen=True)
class Job:
    """What a life is to do. Its database is at `url`, or, where `node` is named, it runs an embedded one."""

    folder: str
    databases: tuple[str, ...]
    url: str = ""
    auth: tuple[str, str] | None = None
    node: str = ""
    prepare: bool = True  # whether it sets up the database
    pace: float = 0.0  # seconds between two steps of a writer
    steps: int | None = None  # of each writer, after which it ships all and ends; None: it goes on


class Lives:
    """Hands out jobs, one life at a time, and writes down in `ledger` what each said."""

    def __init__(self, program: asyncio.subprocess.Process) -> None:
        self.ledger = Ledger()
        self.nodes: list[int] = []  # the embedded servers that the life at present has started
        self._program = program
        self._count = 0
        self._process = 0
        self._status: int | None = None
        self._left: list[Any] = []

    async def begin(self, job: Job) -> None:
        """Begin a life; it has its process when this returns, and nothing else."""
        assert self._program.stdin is not None
        self._count += 1
        self._status = None
        self.nodes.clear()
        self.ledger.begin_life()
        # the same number of digits for all that is counted from here
        line = json.dumps(asdict(job) | {"first": 1_000_000_000 + self._count * 1_000_000})
        self._program.stdin.write(line.encode() + b"\n")
        await self.until("process")

    async def until(self, *words: str, times: int = 1) -> None:
        """Listen until one of these words was said so often, or the life has ended."""
        async with asyncio.timeout(PATIENCE_S):
            while times and self._status is None:
                times -= await self._listen() in words

    async def until_promised(self, times: int) -> None:
        """Listen until so much was acknowledged, or the life has ended."""
        await self.until(*_PROMISED, times=times)

    async def listen(self, seconds: float) -> None:
        """Listen for so long at most: a moment to kill at that no word of the life tells of."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._status is None:
                    await self._listen()

    async def kill(self) -> None:
        """`kill -9`, and all that was said until then."""
        assert self._status is None, f"it ended by itself, with {self._status}"
        os.kill(self._process, signal.SIGKILL)
        await self.end(-signal.SIGKILL)

    async def end(self, status: int = 0) -> None:
        """Hear all until the end, and hold its exit status to this."""
        await self.until("ended")
        assert self._status == status

    async def end_well(self) -> None:
        """Hear all until the end: it has shipped all."""
        await self.end()
        assert self._left == [0, None], f"points and fault at the end: {self._left}"

    def kill_node(self) -> None:
        """`kill -9` of the embedded server that was started last, unless it left by itself with its life."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.nodes[-1], signal.SIGKILL)

    async def _listen(self) -> str:
        assert self._program.stdout is not None
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
async def lives() -> AsyncIterator[Lives]:
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
