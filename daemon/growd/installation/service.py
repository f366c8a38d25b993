"""The steps that install growd as a systemd service, and remove it.

The record of what is installed is written last.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from growd.installation.machine import (
    CONFIGURATION,
    DATA,
    PLACES,
    PROGRAM,
    RECORD,
    SOCKET_WANTED,
    WANTED,
    WATCHDOG,
    InstallError,
)
from growd.installation.sources import LOCKS
from growd.installation.steps import (
    Step,
    command_step,
    digest_of,
    file_step,
    holds,
    link_step,
    removal_step,
    write,
)
from growd.store.local import newer_schema
from growd.store.point_log import LOG_NAME, newer_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from growd.installation.machine import Machine
    from growd.installation.sources import InstallSource

PROFILE: Final = "food-computer"
_PIP: Final = ("-I", "-m", "pip", "--no-input", "--disable-pip-version-check", "install")


def refuse_older(machine: Machine, source: InstallSource) -> None:
    """Raise `InstallError` if `source` is older than the installed version, or than the data.

    The check of the data is right only if the running growd is the one to be installed.
    """
    installed = str(machine.record().get("version", ""))
    data = machine.at(DATA)
    reasons = [newer for newer in (newer_schema(data / "growd.sqlite3"), newer_log(data / LOG_NAME)) if newer]
    if installed and _number(source.version) < _number(installed):
        reasons.insert(0, f"growd {source.version} is older than the installed {installed}")
    if reasons:
        raise InstallError(
            f"{'; '.join(reasons)}. An older growd can't read data of a newer one, and refuses to start. "
            "--allow-downgrade installs it anyway"
        )


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def install_steps(
    machine: Machine,
    source: InstallSource,
    profile: str | None = None,
    *,
    with_socket: bool = False,
    with_watchdog: bool = False,
) -> list[Step]:
    """The steps in order. `profile` defaults to that of the last installation, else `PROFILE`.

    A socket or a hardware watchdog of the last installation stays.
    """
    was = machine.record()
    with_socket |= str(SOCKET_WANTED) in was.get("files", [])
    with_watchdog |= str(WATCHDOG) in was.get("files", [])
    profile = profile or str(was.get("profile", PROFILE))
    text = source.profile(profile)
    files = {place: source.unit(name) for name, place in PLACES.items()}
    if with_watchdog:
        files[WATCHDOG] = source.unit(WATCHDOG.name)
    links = {WANTED: "../growd.service"} | ({SOCKET_WANTED: "../growd.socket"} if with_socket else {})
    record = {
        "version": source.version,
        "digest": source.digest,
        "profile": profile,
        "configuration": digest_of(text),
        "files": [str(place) for place in (*files, *links)],
    }
    steps = _program(machine, source, was)
    steps += [file_step(machine, place, content) for place, content in files.items()]
    steps += _accounts(machine)
    steps += _configuration(machine, text, was)
    steps += [link_step(machine, place, target) for place, target in links.items()]
    steps.append(
        file_step(
            machine, RECORD, json.dumps(record, indent=2) + "\n", "write the record of the installation to"
        )
    )
    if machine.is_live:
        is_news = was.get("digest") != source.digest or not all(step.is_done() for step in steps)
        steps += [
            command_step(machine, "reload systemd's units", "systemctl", "daemon-reload"),
            *([_watchdog_step(machine, "start")] * with_watchdog),
            *(
                [command_step(machine, "open growd's socket", "systemctl", "start", "growd.socket")]
                * with_socket
            ),
            command_step(
                machine, "start growd", "systemctl", "restart" if is_news else "start", "growd.service"
            ),
        ]
    return steps


def uninstall_steps(machine: Machine, *, purge: bool) -> list[Step]:
    """The steps in order. Configuration and data stay unless `purge`."""
    record, steps = machine.record(), []
    if record and machine.is_live:
        units = ("growd.socket", "growd.service")
        steps.append(command_step(machine, "stop growd", "systemctl", "stop", *units))
    steps += [removal_step(machine.at(Path(name))) for name in record.get("files", [])]
    if record and machine.is_live:
        steps.append(command_step(machine, "reload systemd's units", "systemctl", "daemon-reload"))
        if str(WATCHDOG) in record["files"]:
            steps.append(_watchdog_step(machine, "stop"))
    if purge:
        steps += [removal_step(machine.at(CONFIGURATION)), removal_step(machine.at(DATA))]
    if record:
        steps.append(removal_step(machine.at(PROGRAM)))
    return steps


def _program(machine: Machine, source: InstallSource, was: Mapping[str, Any]) -> list[Step]:
    home, record = machine.at(PROGRAM), machine.at(RECORD)
    python = home / "bin/python"

    def is_there() -> bool:
        return was.get("digest") == source.digest and (home / "bin/growd").exists()

    def make() -> None:
        home.parent.mkdir(parents=True, exist_ok=True)
        try:
            machine.run([sys.executable, "-I", "-m", "venv", "--clear", str(home)])
        finally:
            if was:  # --clear removed it; its choices must survive an interruption
                write(record, json.dumps({**was, "digest": ""}, indent=2) + "\n")

    def install() -> None:
        for command in _installs(source):
            machine.run([str(python), *_PIP, *command])
        _relocate(home / "bin", machine.root)

    kind = "the wheel" if source.is_wheel else "the checkout"
    return [
        Step(f"create a virtual environment in {home}", make, is_there),
        Step(f"install growd {source.version} from {kind} {source.path}", install, is_there),
    ]


def _installs(source: InstallSource) -> Iterator[Sequence[str]]:
    """Arguments for pip; from a checkout, the locked packages with their hashes."""
    if source.is_wheel:
        yield (str(source.path),)
        return
    for lock in LOCKS:
        yield ("--require-hashes", "--no-deps", "-r", str(source.path / lock))
    yield ("--no-deps", "--no-build-isolation", str(source.path))


def _relocate(programs: Path, root: Path) -> None:
    """Replace the interpreter's path in programs by its path on the machine of `root`."""
    if root == Path("/"):
        return
    for program in programs.iterdir():
        if program.is_file() and not program.is_symlink():
            content = program.read_bytes()
            program.write_bytes(content.replace(f"{root}/{PROGRAM}".encode(), f"/{PROGRAM}".encode()))


def _accounts(machine: Machine) -> list[Step]:
    if not machine.is_live:
        return []
    sysusers, tmpfiles = (f"/{PLACES[f'growd.{name}.conf']}" for name in ("sysusers", "tmpfiles"))
    return [
        command_step(machine, "create the user growd and its groups", "systemd-sysusers", sysusers),
        command_step(machine, "create growd's folders", "systemd-tmpfiles", "--create", tmpfiles),
        command_step(machine, "reload udev's rules", "udevadm", "control", "--reload"),
        command_step(machine, "apply the udev rules to the devices", "udevadm", "trigger", "--action=change"),
    ]


def _configuration(machine: Machine, text: str, was: Mapping[str, Any]) -> list[Step]:
    """The owner's file is never overwritten; a newer one is written beside it."""
    file = machine.at(CONFIGURATION / "growd.toml")
    if not file.exists():
        return [file_step(machine, CONFIGURATION / "growd.toml", text, "write the configuration")]
    beside = machine.at(CONFIGURATION / "growd.toml.new")

    def is_known() -> bool:
        return was.get("configuration") == digest_of(text) or holds(file, text) or holds(beside, text)

    return [
        Step(f"keep the configuration {file}", lambda: None, lambda: True),
        Step(f"write the new shipped configuration to {beside}", lambda: write(beside, text), is_known),
    ]


def _watchdog_step(machine: Machine, verb: str) -> Step:
    """Re-execute systemd, so that it reads its own configuration; services keep running."""
    words = f"make systemd {verb} feeding the hardware watchdog"
    return command_step(machine, words, "systemctl", "daemon-reexec")
