"""growd as a service of systemd, seen from an upgrade: stop, start, and whether it runs without a restart."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from growd_machine.installation.machine import SOCKET_WANTED, InstallError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from growd_machine.installation.machine import Machine, Say
    from growd_machine.installation.versions import Version

SERVICE: Final = "growd.service"
SOCKET: Final = "growd.socket"
_ERRORS: Final = ("--priority=err", "--output=cat", "--quiet", "--no-pager")
_SENTENCE: Final = "growd: "
COMMAND_S: Final = 180.0
"""Time limit of a program that an upgrade runs: growd ends within 15 s, and `growd safe` within seconds."""


def driver_report(program: str) -> list[str]:
    """What a growd says of the packages with drivers: a table, also of those that can't be loaded."""
    try:
        done = subprocess.run(  # noqa: S603  our own words
            [program, "driver", "list"], check=False, capture_output=True, text=True, timeout=COMMAND_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"the drivers can't be listed: {error}"]
    return done.stdout.splitlines()


def driver_warnings(version: Version, configuration: Path) -> list[str]:
    """Let a version check a configuration: its warnings of drivers that can't be loaded.

    Raises `InstallError` if it refuses the configuration.
    """
    lines = output_of([version.program, "check", "--config", str(configuration)]).splitlines()
    return [line for line in lines if line.startswith("warning: ") and "can't be loaded: " in line]


def output_of(command: Sequence[str], limit_s: float = COMMAND_S, say: Say = lambda _: None) -> str:
    """What a program prints; `say` gets each line when it comes.

    Raises `InstallError` with the last line of its errors.
    """
    lines: list[str] = []
    is_late = threading.Event()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, errors="replace")  # noqa: S603
        except OSError as error:
            raise InstallError(f"{command[0]} can't be started: {error.strerror}") from None

        def end() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(limit_s, end)
        timer.start()
        try:
            with process:
                for line in process.stdout or ():
                    lines.append(line)
                    say(line.rstrip("\n"))
        finally:
            timer.cancel()
            timer.join()
        errors.seek(0)
        said = (errors.read() or "".join(lines)).strip().splitlines()[-1:]
    if is_late.is_set():
        raise InstallError(f"{' '.join(command)} did not end within {limit_s:g} s")
    if status := process.returncode:
        raise InstallError(f"{' '.join(command)} failed: {(said or [f'status {status}'])[0].strip()}")
    return "".join(lines)


def last_words(machine: Machine, since: float) -> str:
    """Why a growd ended that was started at `since` (UNIX seconds), by the journal; "" if that is unknown.

    The first sentence with "growd: " says it, since `growd safe` and a restart follow. Without one it is the
    last error, as of a traceback.
    """
    machine.ask(["journalctl", "--sync"])
    # not --unit=growd, which has systemd's own "Failed to start growd.service" too
    unit = f"_SYSTEMD_UNIT={SERVICE}"
    shown = machine.ask(["journalctl", unit, f"--since=@{int(since)}", *_ERRORS])
    lines = shown.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(_SENTENCE):
            faults = takewhile(lambda each: each.startswith("  "), lines[number + 1 :])
            return " ".join((line.removeprefix(_SENTENCE), "; ".join(map(str.strip, faults)))).strip()
    return lines[-1].strip() if lines else ""


@dataclass(frozen=True)
class ServiceState:
    """`active` is systemd's ActiveState; `invocation` changes with each start, also with a restart."""

    active: str
    invocation: str
    result: str

    @property
    def runs(self) -> bool:
        return self.active in {"active", "reloading"}

    @property
    def has_ended(self) -> bool:
        """Also while systemd runs `growd safe`, or waits before the restart, which forgets the result."""
        return self.active in {"failed", "inactive"} or self.result != "success"


class GrowdService:
    """The service of this machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def stop(self) -> None:
        """Stop it, and its socket, which would start it again. Raises `InstallError`."""
        output_of(["systemctl", "stop", SOCKET, SERVICE])

    def start(self) -> None:
        """Begin to start it; `state` follows. Raises `InstallError`."""
        with suppress(InstallError):  # there may be nothing to reset
            output_of(["systemctl", "reset-failed", SERVICE])
        if self._machine.at(SOCKET_WANTED).is_symlink():
            output_of(["systemctl", "start", SOCKET])
        output_of(["systemctl", "start", "--no-block", SERVICE])

    def reload(self) -> None:
        """Let it read its configuration and the holds again."""
        with suppress(InstallError):  # a growd that has just ended reads them at its next start
            output_of(["systemctl", "reload", SERVICE])

    def read_units(self) -> None:
        """Let systemd read the unit files. Raises `InstallError`."""
        output_of(["systemctl", "daemon-reload"])

    def state(self) -> ServiceState:
        """Raises `InstallError`."""
        names = ("ActiveState", "InvocationID", "Result")
        shown = output_of(["systemctl", "show", SERVICE, *(f"--property={name}" for name in names)])
        found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        return ServiceState(*(found.get(name, "") for name in names))
