"""The steps that install growd as a systemd service, and remove it.

`root` is the folder with the file system of the machine, "/" for this one. A step knows whether it is already
done, so an installation can be repeated and continued. The record of what is installed is written last. All
functions block.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from growd.runtime.atomic_file import write_atomically
from growd.store.local import newer_schema
from growd.store.point_log import LOG_NAME, newer_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROGRAM: Final = Path("opt/growd")
CONFIGURATION: Final = Path("etc/growd")
DATA: Final = Path("var/lib/growd")
RECORD: Final = PROGRAM / "installed.json"
WANTED: Final = Path("etc/systemd/system/multi-user.target.wants/growd.service")
SOCKET_WANTED: Final = Path("etc/systemd/system/sockets.target.wants/growd.socket")
PLACES: Final = {
    "growd.service": Path("etc/systemd/system/growd.service"),
    "growd.socket": Path("etc/systemd/system/growd.socket"),
    "growd.sysusers.conf": Path("etc/sysusers.d/growd.conf"),
    "growd.tmpfiles.conf": Path("etc/tmpfiles.d/growd.conf"),
    "growd.rules": Path("etc/udev/rules.d/60-growd.rules"),
}
"""The files in systemd/, and their destinations."""

WATCHDOG: Final = Path("etc/systemd/system.conf.d/growd-watchdog.conf")
"""The drop-in for systemd's own configuration, installed on request."""

PROFILE: Final = "food-computer"
_SOURCES: Final = ("daemon", "drivers", "hw-sim", "couchdb", "systemd")
_LOCKS: Final = tuple(f"requirements/{name}.lock" for name in ("build", "run", "pi"))
_PI: Final = "aarch64"  # a Pi needs an extra package for its pins
_WHEEL: Final = re.compile(r"growd-(?P<version>[^-]+)-.*\.whl")
_PIP: Final = ("-I", "-m", "pip", "--no-input", "--disable-pip-version-check", "install")
Run = Callable[[list[str]], None]


class InstallError(Exception):
    """An installation that can't be done; the message says why."""


@dataclass(frozen=True)
class Step:
    """A step: what it does in words, and whether it is already done."""

    words: str
    do: Callable[[], None]
    is_done: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class InstallSource:
    """A checkout or a wheel to install; `digest` changes with its contents."""

    path: Path
    version: str
    digest: str

    @property
    def is_wheel(self) -> bool:
        return self.path.suffix == ".whl"

    def unit(self, name: str) -> str:
        """The text of a file in systemd/ of this source."""
        return self._text(f"growd/_systemd/{name}", f"systemd/{name}")

    def profile(self, name: str) -> str:
        """The text of a shipped configuration of this source."""
        file = f"growd/config/shipped/{name}.toml"
        return self._text(file, f"daemon/{file}")

    def _text(self, packaged: str, checked_out: str) -> str:
        try:
            if self.is_wheel:
                with zipfile.ZipFile(self.path) as archive:
                    return archive.read(packaged).decode()
            return (self.path / checked_out).read_text(encoding="utf-8")
        except (OSError, KeyError, ValueError, zipfile.BadZipFile):
            raise InstallError(
                f"{self.path} does not contain {packaged if self.is_wheel else checked_out}"
            ) from None


def run_program(command: list[str]) -> None:
    """Run a program. Raises `InstallError` with the end of its output."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  our own words
    except OSError as error:
        raise InstallError(f"{command[0]} can't be started: {error.strerror}") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()[-3:]
        raise InstallError(f"{' '.join(command)} failed: {' '.join(said)}") from None


@dataclass(frozen=True)
class Machine:
    """The file system to install into, and how to run programs."""

    root: Path = Path("/")
    run: Run = run_program

    @property
    def is_live(self) -> bool:
        """Whether it is this machine, and systemd runs on it."""
        return self.root == Path("/") and Path("/run/systemd/system").is_dir()

    def at(self, place: Path) -> Path:
        """The path of a place below `root`. Raises `InstallError` if a link leads out of `root`."""
        path = self.root / place
        folder = path.parent.resolve()
        if not folder.is_relative_to(self.root.resolve()):
            raise InstallError(f"{path} leads out of {self.root}, to {folder}; mount it where it belongs")
        return path

    def record(self) -> dict[str, Any]:
        """The record of the last installation, empty if there is none."""
        try:
            found = json.loads(self.at(RECORD).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def source_at(path: Path | None) -> InstallSource:
    """The wheel or checkout at `path`; by default the checkout of the running growd."""
    path = (Path(__file__).parents[3] if path is None else path).absolute()
    if path.suffix == ".whl":
        return _wheel(path)
    try:
        version = tomllib.loads((path / "pyproject.toml").read_text())["project"]["version"]
    except (OSError, ValueError, KeyError):
        raise InstallError(f"{path} is neither a checkout nor a wheel of growd") from None
    files = [path / "pyproject.toml", *(path / lock for lock in _LOCKS)]
    files += [file for folder in _SOURCES for file in sorted((path / folder).rglob("*")) if _counts(file)]
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(path)}\0".encode() + file.read_bytes())
    return InstallSource(path, version, digest.hexdigest())


def _counts(file: Path) -> bool:
    return file.is_file() and not {"__pycache__", "node_modules"} & set(file.parts)


def _wheel(path: Path) -> InstallSource:
    found = _WHEEL.fullmatch(path.name)
    if found is None:
        raise InstallError(f"{path} is not a wheel of growd (growd-VERSION-py3-none-any.whl)")
    try:
        return InstallSource(path, found["version"], hashlib.sha256(path.read_bytes()).hexdigest())
    except OSError as error:
        raise InstallError(f"{path} can't be read: {error.strerror}") from None


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
        "configuration": _digest(text),
        "files": [str(place) for place in (*files, *links)],
    }
    steps = _program(machine, source, was)
    steps += [_file(machine, place, content) for place, content in files.items()]
    steps += _accounts(machine)
    steps += _configuration(machine, text, was)
    steps += [_link(machine, place, target) for place, target in links.items()]
    steps.append(
        _file(machine, RECORD, json.dumps(record, indent=2) + "\n", "write the record of the installation to")
    )
    if machine.is_live:
        is_news = was.get("digest") != source.digest or not all(step.is_done() for step in steps)
        steps += [
            _command(machine, "reload systemd's units", "systemctl", "daemon-reload"),
            *([_watchdog_command(machine, "start")] * with_watchdog),
            *([_command(machine, "open growd's socket", "systemctl", "start", "growd.socket")] * with_socket),
            _command(machine, "start growd", "systemctl", "restart" if is_news else "start", "growd.service"),
        ]
    return steps


def uninstall_steps(machine: Machine, *, purge: bool) -> list[Step]:
    """The steps in order. Configuration and data stay unless `purge`."""
    record, steps = machine.record(), []
    if record and machine.is_live:
        units = ("growd.socket", "growd.service")
        steps.append(_command(machine, "stop growd", "systemctl", "stop", *units))
    steps += [_removal(machine.at(Path(name))) for name in record.get("files", [])]
    if record and machine.is_live:
        steps.append(_command(machine, "reload systemd's units", "systemctl", "daemon-reload"))
        if str(WATCHDOG) in record["files"]:
            steps.append(_watchdog_command(machine, "stop"))
    if purge:
        steps += [_removal(machine.at(CONFIGURATION)), _removal(machine.at(DATA))]
    if record:
        steps.append(_removal(machine.at(PROGRAM)))
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
                _write(record, json.dumps({**was, "digest": ""}, indent=2) + "\n")

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
        yield (f"{source.path}[pi]" if platform.machine() == _PI else str(source.path),)
        return
    for lock in _LOCKS:
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
        _command(machine, "create the user growd and its groups", "systemd-sysusers", sysusers),
        _command(machine, "create growd's folders", "systemd-tmpfiles", "--create", tmpfiles),
        _command(machine, "reload udev's rules", "udevadm", "control", "--reload"),
        _command(machine, "apply the udev rules to the devices", "udevadm", "trigger", "--action=change"),
    ]


def _configuration(machine: Machine, text: str, was: Mapping[str, Any]) -> list[Step]:
    """The owner's file is never overwritten; a newer one is written beside it."""
    file = machine.at(CONFIGURATION / "growd.toml")
    if not file.exists():
        return [_file(machine, CONFIGURATION / "growd.toml", text, "write the configuration")]
    beside = machine.at(CONFIGURATION / "growd.toml.new")

    def is_known() -> bool:
        return was.get("configuration") == _digest(text) or _holds(file, text) or _holds(beside, text)

    return [
        Step(f"keep the configuration {file}", lambda: None, lambda: True),
        Step(f"write the new shipped configuration to {beside}", lambda: _write(beside, text), is_known),
    ]


def _file(machine: Machine, place: Path, content: str, words: str = "write") -> Step:
    path = machine.at(place)
    return Step(f"{words} {path}", lambda: _write(path, content), lambda: _holds(path, content))


def _link(machine: Machine, place: Path, target: str) -> Step:
    path = machine.at(place)

    def make() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    words = f"enable {target.removeprefix('../')}: {path}"
    return Step(words, make, lambda: path.is_symlink() and str(path.readlink()) == target)


def _removal(path: Path) -> Step:
    def remove() -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    return Step(f"remove {path}", remove, lambda: not path.exists() and not path.is_symlink())


def _command(machine: Machine, words: str, *command: str) -> Step:
    return Step(f"{words}: {' '.join(command)}", lambda: machine.run(list(command)))


def _watchdog_command(machine: Machine, verb: str) -> Step:
    """Re-execute systemd, so that it reads its own configuration; services keep running."""
    words = f"make systemd {verb} feeding the hardware watchdog"
    return _command(machine, words, "systemctl", "daemon-reexec")


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.encode())


def _holds(path: Path, content: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == content
    except (OSError, ValueError):
        return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
