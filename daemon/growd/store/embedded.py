"""The embedded database: a child process, supervised."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Final

from growd.store.errors import EmbeddedDatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_log = logging.getLogger(__name__)

_STEADY: Final = 60.0  # seconds; a child that lived so long did not fail to start
_MAX_LINE: Final = 8192
_GRACE: Final = 1.0  # seconds between SIGTERM and SIGKILL


class EmbeddedDatabase:
    """Runs `node <script> --data <data> --port 0` and keeps it running.

    The child listens on a loopback port of its own choice and says which in its first line, `{"port": N}`.
    Its standard input is a pipe from this process: when growd ends, however it ends, the child reads the end
    of it and leaves too. It has a session of its own, so that Ctrl-C in the terminal reaches growd alone.
    """

    def __init__(
        self,
        node: str,
        script: Path,
        data: Path,
        *,
        start_timeout: float = 30.0,
        first_backoff: float = 0.5,
        max_backoff: float = 30.0,
    ) -> None:
        self._command = (node, str(script), "--data", str(data), "--port", "0")
        self.on_up: Callable[[], None] = lambda: None  # called each time it listens
        self._start_timeout = start_timeout
        self._first_backoff = first_backoff
        self._max_backoff = max_backoff
        self._url: str | None = None
        self._is_up = asyncio.Event()
        self._last_line = ""
        self._said = ""  # the failure that the log has already, said once until it listens again
        self.starts = 0

    @property
    def url(self) -> str | None:
        """Its present address, None while it is down. Another one after each restart."""
        return self._url

    async def ready(self) -> str:
        """Its address, once it listens."""
        while self._url is None:
            await self._is_up.wait()
        return self._url

    async def run(self) -> None:
        """Start it, and start it again when it ends, after growing pauses. Ended with a cancel."""
        loop = asyncio.get_running_loop()
        delay = self._first_backoff
        while True:
            began = loop.time()
            try:
                await self._live()
            except EmbeddedDatabaseError as error:
                if loop.time() - began >= _STEADY:
                    delay = self._first_backoff
                level = logging.ERROR if str(error) != self._said else logging.DEBUG
                _log.log(level, "%s; next try in %.3g s", error, delay)
                self._said = str(error)
            await asyncio.sleep(delay)
            delay = min(2 * delay, self._max_backoff)

    async def _live(self) -> None:
        """One life of the child. Ends only with an error."""
        process = await self._spawn()
        assert process.stdout is not None  # noqa: S101  it is a pipe
        assert process.stderr is not None  # noqa: S101  likewise
        log = asyncio.create_task(self._pass_on(process.stderr), name="embedded database: log")
        try:
            self._url = f"http://127.0.0.1:{await self._read_port(process, log)}"
            self._is_up.set()
            self.starts += 1
            self._said = ""
            _log.info("the embedded database listens at %s", self._url)
            self.on_up()
            await self._pass_on(process.stdout)
            raise EmbeddedDatabaseError(f"the embedded database ended with status {await process.wait()}")
        finally:
            self._url = None
            self._is_up.clear()
            await _end(process)
            await log

    async def _spawn(self) -> asyncio.subprocess.Process:
        pipe = subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            raise EmbeddedDatabaseError(
                f"the embedded database can't be started with {self._command[0]}: {error.strerror}"
            ) from error

    async def _read_port(self, process: asyncio.subprocess.Process, log: asyncio.Task[None]) -> int:
        assert process.stdout is not None  # noqa: S101  it is a pipe
        try:
            async with asyncio.timeout(self._start_timeout):
                line = await process.stdout.readline()
                if not line:
                    status = await process.wait()
                    await log  # its last words are the reason
                    raise EmbeddedDatabaseError(
                        f"the embedded database ended with status {status} before it listened: "
                        f"{self._last_line or 'it said nothing'}"
                    )
            return int(json.loads(line)["port"])
        except TimeoutError as error:
            raise EmbeddedDatabaseError(
                f"the embedded database did not listen within {self._start_timeout:g} s"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddedDatabaseError("the embedded database's first line is not its port") from error

    async def _pass_on(self, stream: asyncio.StreamReader) -> None:
        """Hand the child's lines to the log, until it closes the stream."""
        rest = b""
        while chunk := await stream.read(_MAX_LINE):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _MAX_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._say(line)
        self._say(rest)

    def _say(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if text:
            self._last_line = text
            _log.info("embedded database: %s", text)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the child and wait for it: asked first, then killed. Also when cancelled meanwhile."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is not None:
        return
    _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        _log.warning("the embedded database did not end when asked and is killed")
    finally:
        if process.returncode is None:
            _signal(process, signal.SIGKILL)
            await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to a child that has not been waited for.

    Not with `process.terminate()`: that polls the child first and may reap it before asyncio's own watcher,
    which then warns of an unknown child and makes up its exit status.
    """
    with contextlib.suppress(ProcessLookupError):  # it may have ended in this moment
        os.kill(process.pid, number)
