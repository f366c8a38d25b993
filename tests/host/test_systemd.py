import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from growd.host.systemd import passed_sockets
from growd.server.listener import AddressError
from support.daemon import serving
from support.program import GROWD, home_on
from support.service_manager import managed

FOLDER = Path(__file__).parents[2] / "systemd"
MOST_EXPOSED = 2.2  # with systemd 252; 1.7 with 257
TARGET = b"GET /_svc/api/0.0.1/topic HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze on this machine"
)


@pytest.fixture
def unit(tmp_path):
    """A copy of the unit beside its socket. It names a program that is there, for that is checked too."""
    shutil.copy(FOLDER / "growd.socket", tmp_path)
    unit = tmp_path / "growd.service"
    unit.write_text(
        (FOLDER / "growd.service").read_text().replace("/opt/growd/current/bin/growd", "/bin/true")
    )
    return unit


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


@needs_systemd
@pytest.mark.parametrize("name", ["growd.service", "growd.socket", "growd-couchdb.service"])
def test_systemd_finds_no_fault_with_the_unit(unit, name):
    file = unit.with_name(name)
    if not file.exists():
        file.write_text((FOLDER / name).read_text().replace("/usr/bin/podman", "/bin/true"))
    verdict = analyze("verify", "--man=no", str(file))
    assert verdict.returncode == 0, verdict.stderr
    assert [line for line in verdict.stderr.splitlines() if name.partition(".")[0] in line] == []


@needs_systemd
def test_systemd_finds_the_service_little_exposed(unit):
    verdict = analyze(
        "security", "--offline=true", "--no-pager", f"--threshold={round(MOST_EXPOSED * 10)}", str(unit)
    )
    found = re.search(r"Overall exposure level for growd.service: ([\d.]+)", verdict.stdout)
    assert found, verdict.stdout + verdict.stderr
    assert float(found[1]) <= MOST_EXPOSED
    assert verdict.returncode == 0


def test_the_service_makes_the_outputs_safe_after_every_end_and_may_ask_whether_the_clock_is_right():
    """adjtimex(2) is clock_adjtime in newer C libraries. `ProtectClock=` and `@privileged` forbid both."""
    lines = (FOLDER / "growd.service").read_text().splitlines()
    commands = dict(line.split("=", 1) for line in lines if line.startswith("ExecSt"))
    assert commands["ExecStopPost"] == commands["ExecStart"].replace("growd run", "growd safe", 1)
    assert {"Type=notify", "WatchdogSec=60"} <= {*lines}
    assert "ProtectClock=yes" not in lines
    filters = [line.partition("=")[2] for line in lines if line.startswith("SystemCallFilter=")]
    assert filters.index("adjtimex clock_adjtime") > filters.index("~@privileged")


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="there is no systemd-sysusers")
def test_missing_user_and_groups_are_created(tmp_path):
    (tmp_path / "etc").mkdir()
    made = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", str(FOLDER / "growd.sysusers.conf")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    groups = {line.split(":")[0]: line.split(":")[3] for line in (tmp_path / "etc/group").read_text().split()}
    assert {group: groups[group] for group in ("i2c", "gpio", "dialout", "video")} == dict.fromkeys(
        ("i2c", "gpio", "dialout", "video"), "growd"
    )
    unit = (FOLDER / "growd.service").read_text()
    assert "SupplementaryGroups=i2c gpio dialout video\n" in unit
    for camera in ("video4linux", "media", "dma_heap"):  # names of /proc/devices
        assert f"DeviceAllow=char-{camera} rw\n" in unit


# socket activation


def listening(host="127.0.0.1"):
    return socket.create_server((host, 0), backlog=128)


def test_passed_sockets_are_taken_and_not_inherited():
    environment = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http", "OTHER": "1"}
    assert passed_sockets(environment) == []
    assert environment == {"OTHER": "1"}
    assert passed_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "some"}) == []
    assert passed_sockets({}) == []


async def test_a_socket_that_is_not_as_configured_is_refused_with_both_addresses():
    async with serving() as daemon:
        with closing(listening()) as passed:
            port = passed.getsockname()[1]
            with pytest.raises(
                AddressError, match=rf"127\.0\.0\.1 port {port}, but .* 127\.0\.0\.2 and {port}"
            ):
                await daemon.server.open("127.0.0.2", port, [passed])
            with pytest.raises(AddressError, match=r"growd\.socket and the configuration"):
                await daemon.server.open("127.0.0.1", port - 1, [passed])


async def ask(port):
    """The status line, b"" where the connection was taken and broke off. Raises if it was refused."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(TARGET)
        return (await reader.readline()).strip()
    except ConnectionError:
        return b""
    finally:
        writer.close()


class Crowd:
    """Clients that ask again and again, each with a connection of its own."""

    def __init__(self, port):
        self.port = port
        self.answers = []
        self._news = asyncio.Event()

    async def ask_for_ever(self):
        while True:
            self.answers.append(await ask(self.port))
            self._news.set()

    async def until_answered(self, more):
        wanted = self.answers.count(b"HTTP/1.1 200 OK") + more
        async with asyncio.timeout(60):
            while self.answers.count(b"HTTP/1.1 200 OK") < wanted:
                self._news.clear()
                await self._news.wait()


async def end(manager, number):
    manager.process.send_signal(number)
    async with asyncio.timeout(60):
        await manager.process.wait()


@pytest.mark.timeout(240)
@pytest.mark.kill
async def test_no_client_is_refused_while_growd_is_killed_stopped_and_started_again(
    tmp_path, database_server
):
    async with AsyncExitStack() as stack:
        passed = stack.enter_context(closing(listening()))
        home = await stack.enter_async_context(home_on(database_server, shared=True))
        port = passed.getsockname()[1]
        options = ("run", "--port", str(port), "--data", str(tmp_path), *home.arguments)
        crowd = Crowd(port)
        async with managed(str(GROWD), *options, watchdog_s=60, listening=[passed]) as manager:
            tasks = [asyncio.create_task(crowd.ask_for_ever(), name=f"client {n}") for n in range(2)]
            await crowd.until_answered(10)
            for number in (signal.SIGKILL, signal.SIGTERM):
                await end(manager, number)
                late = asyncio.create_task(ask(port), name="comes while growd is not there")
                await manager.start()
                async with asyncio.timeout(60):
                    assert await late == b"HTTP/1.1 200 OK"
                await crowd.until_answered(10)
            refused = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert refused == []
    assert set(crowd.answers) <= {b"HTTP/1.1 200 OK", b""}
