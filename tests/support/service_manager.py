"""A stand-in for systemd: starts a program, reads its notifications, and restarts it when they stop."""

import asyncio
import os
import re
import signal
import socket
import sys
import uuid
from contextlib import asynccontextmanager, suppress

from support.waiting import PATIENCE_S


class Notified:
    """A NOTIFY_SOCKET, at an abstract address unless a path is given."""

    def __init__(self, path=""):
        self.address = path or f"@growd-test-{uuid.uuid4().hex}"
        self.heard = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(self.address.replace("@", "\0", 1))

    def close(self):
        self._socket.close()

    async def next(self):
        """The next datagram."""
        said = (await asyncio.get_running_loop().sock_recv(self._socket, 4096)).decode()
        self.heard.append(said)
        return said

    async def until(self, wanted):
        """The next datagram that matches."""
        async with asyncio.timeout(PATIENCE_S):
            while not wanted(said := await self.next()):
                pass
            return said

    def forget(self):
        """Drop the notifications of the previous process."""
        while True:
            try:
                self._socket.recv(4096)
            except BlockingIOError:
                return


_PASS = """
import os, sys
end = sys.argv.index("--")
for number, passed in enumerate(sys.argv[1:end], start=3):
    os.dup2(int(passed), number)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(end - 1)}
os.execv(sys.argv[end + 1], sys.argv[end + 1:])
"""


class Manager:
    """One service under systemd's rules for `Type=notify`, `WatchdogSec=` and socket activation.

    `listening` are the sockets of its socket unit, which it has open all the time.
    """

    def __init__(self, *command, watchdog_s, listening=()):
        if listening:
            command = (
                sys.executable,
                "-c",
                _PASS,
                *(str(each.fileno()) for each in listening),
                "--",
                *command,
            )
        self._passed = tuple(each.fileno() for each in listening)
        self.notified = Notified()
        self.lines = []
        self._printed = asyncio.Event()
        self._command = command
        self._watchdog_s = watchdog_s

    async def start(self):
        """Start the program and wait until it is ready, as `systemctl start` does."""
        interval = str(round(self._watchdog_s * 1e6))
        variables = {"NOTIFY_SOCKET": self.notified.address, "WATCHDOG_USEC": interval}
        self.notified.forget()
        self.lines.clear()
        self.process = await asyncio.create_subprocess_exec(
            *self._command,
            env=os.environ | variables,
            pass_fds=self._passed,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._reader = asyncio.create_task(self._read(), name="output")
        ready = asyncio.create_task(self.notified.until(lambda said: said == "READY=1"), name="ready")
        await asyncio.wait([ready, self._reader], return_when=asyncio.FIRST_COMPLETED)
        if self._reader.done():
            ready.cancel()
            await asyncio.wait([ready])
            raise AssertionError(f"it ended: {''.join(self.lines)}")
        await ready

    async def until_starved(self):
        """Wait until a WATCHDOG=1 is overdue."""
        async with asyncio.timeout(PATIENCE_S):
            while await self._is_fed():
                pass

    async def until_killed(self):
        """Wait until a WATCHDOG=1 is overdue, and abort the program as systemd does: the exit status."""
        await self.until_starved()
        for number in (signal.SIGABRT, signal.SIGCONT):
            with suppress(ProcessLookupError):  # it may have ended already
                os.kill(self.process.pid, number)  # `send_signal` would take its exit status from asyncio
        return await self._ended()

    async def until_printed(self, pattern):
        """The first line of the log that matches."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := [line for line in self.lines if re.search(pattern, line)]):
                self._printed.clear()
                await self._printed.wait()
            return found[0]

    async def stop(self):
        """Stop the program as `systemctl stop` does: the exit status."""
        self.process.terminate()
        return await self._ended()

    async def close(self):
        if self.process.returncode is None:
            self.process.kill()
            await self._ended()
        self.notified.close()

    async def _is_fed(self):
        try:
            async with asyncio.timeout(self._watchdog_s):
                while await self.notified.next() != "WATCHDOG=1":
                    pass
        except TimeoutError:
            return False
        return True

    async def _read(self):
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode())
            self._printed.set()

    async def _ended(self):
        async with asyncio.timeout(PATIENCE_S):
            status = await self.process.wait()
            await self._reader
        self.process._transport.close()
        return status


@asynccontextmanager
async def managed(*command, watchdog_s, listening=()):
    """A manager of this program, which is killed at the end."""
    manager = Manager(*command, watchdog_s=watchdog_s, listening=listening)
    try:
        await manager.start()
        yield manager
    finally:
        await manager.close()
