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

from growd.runtime.clock import RealClock, until_beat
from growd.runtime.npm import lacks_packages, npm_command
from growd.runtime.pauses import Pauses
from growd.store.errors import EmbeddedDatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from growd.runtime.clock import Clock

_log = logging.getLogger(__name__)

PAUSES: Final = Pauses(0.5, 30.0, least=1.0)  # between starts that fail
_STEADY: Final = 60.0  # seconds; a child that ran for so long started well
_MAX_LINE: Final = 8192
_GRACE: Final = 1.0  # seconds between SIGTERM and SIGKILL
_OWNER: Final = "growd"  # the user who may write design documents
ASK_EVERY_S: Final = 10.0
UNANSWERED: Final = 6
"""Unanswered questions, one each `ASK_EVERY_S`, after which the child is replaced."""


class EmbeddedDatabase:
    """Runs `node <script> --data <data> --port 0` and keeps it running.

    The child chooses a loopback port. Its first line has the port, and the password with which growd writes
    design documents: `{"port": N, "password": TEXT}`. Functions of design documents run inside the child, so
    clients may write them only with `client_design_documents`.
    Its standard input is a pipe from this process: when growd ends, the child reads end-of-file and ends too.
    It has a session of its own, so that Ctrl-C in the terminal reaches only growd. With `owner`, a user and a
    group, it runs as them, and its files belong to them. Nobody else can read these, whatever the umask is:
    they may have passwords.
    """

    def __init__(
        self,
        node: str,
        script: Path,
        data: Path,
        *,
        client_design_documents: bool = False,
        owner: tuple[int, int] | None = None,
        clock: Clock | None = None,
        start_timeout: float = 30.0,
        pauses: Pauses = PAUSES,
    ) -> None:
        permitted = ("--client-design-documents",) if client_design_documents else ()
        self._command = (node, str(script), "--data", str(data), "--port", "0", "--no-signals", *permitted)
        self._folder = script.parent
        self._owner = owner
        self._clock = clock or RealClock()
        self.on_up: Callable[[], None] = lambda: None  # called each time it listens, or answers again
        self.on_silent: Callable[[], None] = lambda: None  # called when it does not answer
        self._start_timeout = start_timeout
        self._pauses = pauses
        self._port: int | None = None
        self._password = ""
        self._is_up = asyncio.Event()
        self._last_line = ""
        self._logged = ""  # the failure that was logged last
        self.fault = ""
        """Why it is down; "" while it listens, or before the first failure."""
        self.starts = 0
        self.hangs = 0
        """How often it was restarted since it did not answer."""
        self.crashes = 0
        """How often it crashed after it had started."""

    @property
    def url(self) -> str | None:
        """Its present address, None while it is down or silent. It changes with each restart."""
        return None if self._port is None else f"http://127.0.0.1:{self._port}"

    @property
    def owner_url(self) -> str | None:
        """The address with the login that may write design documents."""
        if self._port is None:
            return None
        return f"http://{_OWNER}:{self._password}@127.0.0.1:{self._port}"

    async def ready(self) -> str:
        """Its address, once it listens."""
        while (url := self.url) is None:
            await self._is_up.wait()
        return url

    async def run(self) -> None:
        """Start it, and restart it when it ends, after growing pauses, until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            try:
                await self._live()
            except EmbeddedDatabaseError as error:
                self.fault = str(error)
                failures = 1 if loop.time() - began >= _STEADY else failures + 1
                pause = self._pauses.after(failures)
                level = logging.ERROR if str(error) != self._logged else logging.DEBUG
                _log.log(level, "%s; next try in %.3g s", error, pause)
                self._logged = str(error)
                await asyncio.sleep(pause)

    async def _live(self) -> None:
        """Run the child once. Ends only with an error."""
        process = await self._spawn()
        assert process.stdout is not None  # noqa: S101  it is a pipe
        assert process.stderr is not None  # noqa: S101  likewise
        log = asyncio.create_task(self._log_lines(process.stderr), name="embedded database: log")
        try:
            port, self._password = await self._read_first_line(process, log)
            self.starts += 1
            self._logged = ""
            _log.info("the embedded database listens at http://127.0.0.1:%d", port)
            self._come_up(port)
            await self._until_end(process, process.stdout, port)
        finally:
            self._go_down()
            await _end(process)
            await log

    def _come_up(self, port: int) -> None:
        if self._port is None:
            self._port, self.fault = port, ""
            self._is_up.set()
            self.on_up()

    def _go_down(self) -> None:
        self._port = None
        self._is_up.clear()

    async def _until_end(
        self, process: asyncio.subprocess.Process, output: asyncio.StreamReader, port: int
    ) -> None:
        """Log what the child prints, until it ends, or is killed since it does not answer: an error."""
        hangs = asyncio.create_task(self._hangs(port), name="embedded database: questions")
        ends = asyncio.create_task(self._log_lines(output), name="embedded database: output")
        try:
            await asyncio.wait((hangs, ends), return_when=asyncio.FIRST_COMPLETED)
            if ends.done():
                status = await process.wait()
                self.crashes += 1
                how = f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
                raise EmbeddedDatabaseError(f"the embedded database {how}")
            self.hangs += 1
            _signal(process, signal.SIGKILL)  # it can't handle SIGTERM
            seconds = ASK_EVERY_S * UNANSWERED
            raise EmbeddedDatabaseError(f"the embedded database did not answer for {seconds:g} s; killed it")
        finally:
            hangs.cancel()
            ends.cancel()
            await asyncio.wait((hangs, ends))

    async def _hangs(self, port: int) -> None:
        """Ask the child each `ASK_EVERY_S`; return after `UNANSWERED` questions without an answer.

        It is silent from the first of them on. Counted in questions, not in time, since growd itself may have
        been stopped meanwhile.
        """
        asking: asyncio.Task[bool] | None = None
        unanswered = 0
        try:
            while unanswered < UNANSWERED:
                await self._clock.sleep(until_beat(self._clock, ASK_EVERY_S))
                unanswered = 0 if asking is None or (asking.done() and asking.result()) else unanswered + 1
                if unanswered == 1:
                    self._go_down()
                    self.fault = f"it has not answered for {ASK_EVERY_S:g} s"
                    self.on_silent()
                if asking is None or asking.done():
                    asking = asyncio.create_task(self._answers(port), name="embedded database: question")
        finally:
            if asking is not None:
                asking.cancel()
                await asyncio.wait([asking])

    async def _answers(self, port: int) -> bool:
        """Whether the child answers a request, with any status and after any time."""
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /_up HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            is_answer = bool(await reader.read(1))
        except OSError:
            return False
        finally:
            if writer is not None:
                writer.transport.abort()
        if is_answer:
            self._come_up(port)
        return is_answer

    async def _spawn(self) -> asyncio.subprocess.Process:
        if await asyncio.to_thread(lacks_packages, self._folder):
            raise EmbeddedDatabaseError(
                f"the embedded database lacks its npm packages: run {npm_command(self._folder)}, "
                "or name a CouchDB in [couchdb] url"
            )
        pipe = subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,
                umask=0o077,
                user=None if self._owner is None else self._owner[0],
                group=None if self._owner is None else self._owner[1],
                extra_groups=None if self._owner is None else (),
            )
        except OSError as error:
            raise EmbeddedDatabaseError(
                f"the embedded database can't be started with {self._command[0]}: {error.strerror}"
            ) from error

    async def _read_first_line(
        self, process: asyncio.subprocess.Process, log: asyncio.Task[None]
    ) -> tuple[int, str]:
        """Its port, and its owner's password."""
        assert process.stdout is not None  # noqa: S101  it is a pipe
        try:
            async with asyncio.timeout(self._start_timeout):
                line = await process.stdout.readline()
                if not line:
                    status = await process.wait()
                    await log  # its last line is the reason
                    raise EmbeddedDatabaseError(
                        f"the embedded database ended with status {status} before it listened: "
                        f"{self._last_line or 'it printed nothing'}"
                    )
            answer = json.loads(line)
            return int(answer["port"]), str(answer["password"])
        except TimeoutError as error:
            raise EmbeddedDatabaseError(
                f"the embedded database did not listen within {self._start_timeout:g} s"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddedDatabaseError(
                "the embedded database's first line has no port and password"
            ) from error

    async def _log_lines(self, stream: asyncio.StreamReader) -> None:
        """Log the lines of the child, until it closes the stream."""
        rest = b""
        while chunk := await stream.read(_MAX_LINE):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _MAX_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._log_line(line)
        self._log_line(rest)

    def _log_line(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if text:
            self._last_line = text
            _log.info("embedded database: %s", text)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the child with SIGTERM, then SIGKILL, and wait for it, also if cancelled meanwhile."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is not None:
        return
    _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        _log.warning("the embedded database did not end after SIGTERM; killing it")
    finally:
        if process.returncode is None:
            _signal(process, signal.SIGKILL)
            await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to a child that has not been waited for.

    Not with `process.terminate()`: that polls the child and may reap it before asyncio's watcher, which then
    warns of an unknown child and returns a made-up exit status.
    """
    with contextlib.suppress(ProcessLookupError):  # it may have just ended
        os.kill(process.pid, number)
