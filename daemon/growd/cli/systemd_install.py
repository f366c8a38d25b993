"""growd put on a machine as a service, and taken off it again, step by step.

`root` is the folder that has the file system of that machine, "/" for this one. A step knows whether it is
done already, so that installing again changes nothing, and after an interruption goes on. What is installed
is written down last. Blocking throughout.
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
from growd.store.outbox import newer_log
from growd.store.point_log import LOG_NAME

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
"""The files of the folder systemd/, and where each belongs."""

WATCHDOG: Final = Path("etc/systemd/system.conf.d/growd-watchdog.conf")
"""Where the drop-in of systemd's own configuration belongs, which only an option installs."""

PROFILE: Final = "food-computer"
_SOURCES: Final = ("daemon", "drivers", "hw-sim", "couchdb", "systemd")
_LOCKS: Final = tuple(f"requirements/{name}.lock" for name in ("build", "run", "pi"))
_PI: Final = "aarch64"  # whose pins take a package that is of no use elsewhere
_WHEEL: Final = re.compile(r"growd-(?P<version>[^-]+)-.*\.whl")
_PIP: Final = ("-I", "-m", "pip", "--no-input", "--disable-pip-version-check", "install")
Run = Callable[[list[str]], None]


class InstallError(Exception):
    """It can't be done; the sentence says why."""


@dataclass(frozen=True)
class Step:
    """One thing to do, in words, and whether it is done already."""

    words: str
    do: Callable[[], None]
    is_done: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class InstallSource:
    """What is installed: a checkout, or a wheel. `digest` changes with its contents."""

    path: Path
    version: str
    digest: str

    @property
    def is_wheel(self) -> bool:
        return self.path.suffix == ".whl"

    def unit(self, name: str) -> str:
        """A file of the folder systemd/: that of what is installed, not of the growd that installs it."""
        return self._text(f"growd/_systemd/{name}", f"systemd/{name}")

    def profile(self, name: str) -> str:
        """The configuration of that name that ships with it."""
        file = f"growd/config/shipped/{name}.toml"
        return self._text(file, f"daemon/{file}")

    def _text(self, packaged: str, checked_out: str) -> str:
        try:
            if self.is_wheel:
                with zipfile.ZipFile(self.path) as archive:
                    return archive.read(packaged).decode()
            return (self.path / checked_out).read_text(encoding="utf-8")
        except (OSError, KeyError, ValueError, zipfile.BadZipFile):
            raise InstallError(f"{self.path} lacks {packaged if self.is_wheel else checked_out}") from None


def run_program(command: list[str]) -> None:
    """Run a program. Raises `InstallError` with the last of what it said."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  our own words
    except OSError as error:
        raise InstallError(f"{command[0]} can't be started: {error.strerror}") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()[-3:]
        raise InstallError(f"{' '.join(command)} failed: {' '.join(said)}") from None


@dataclass(frozen=True)
class Machine:
    """A file system, and whether its services are in daemon."""

    root: Path = Path("/")
    run: Run = run_program

    @property
    def is_live(self) -> bool:
        """Whether it is this machine, and systemd runs on it."""
        return self.root == Path("/") and Path("/run/systemd/system").is_dir()

    def at(self, place: Path) -> Path:
        """Where a place of it is. Raises `InstallError` where a link leads to another file system's."""
        path = self.root / place
        folder = path.parent.resolve()
        if not folder.is_relative_to(self.root.resolve()):
            raise InstallError(f"{path} leads out of {self.root}, to {folder}; mount it where it belongs")
        return path

    def record(self) -> dict[str, Any]:
        """What was written down by the last installation, empty where there was none."""
        try:
            found = json.loads(self.at(RECORD).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def source_at(path: Path | None) -> InstallSource:
    """The wheel or checkout at `path`; without one the checkout that this growd runs from."""
    path = (Path(__file__).parents[3] if path is None else path).absolute()
    if path.suffix == ".whl":
        return _wheel(path)
    try:
        version = tomllib.loads((path / "pyproject.toml").read_text())["project"]["version"]
    except (OSError, ValueError, KeyError):
        raise InstallError(f"{path} is neither a checkout of growd nor a wheel of it; name one") from None
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
        raise InstallError(f"{path} is not a wheel of growd: those are called growd-VERSION-py3-none-any.whl")
    try:
        return InstallSource(path, found["version"], hashlib.sha256(path.read_bytes()).hexdigest())
    except OSError as error:
        raise InstallError(f"{path} can't be read: {error.strerror}") from None


def refuse_older(machine: Machine, source: InstallSource) -> None:
    """Raise `InstallError` where `source` is older than what is installed, or than what has written the data.

    The latter only tells for the growd that asks, which is the one to be installed.
    """
    installed = str(machine.record().get("version", ""))
    reasons = [*_unreadable(machine.at(DATA))]
    if installed and _number(source.version) < _number(installed):
        reasons.insert(0, f"growd {source.version} is older than {installed}, which is installed")
    if reasons:
        raise InstallError(
            f"{'; '.join(reasons)}. What a newer growd has written an older one does not read: it refuses "
            "to start. With --allow-downgrade it is installed all the same"
        )


def _unreadable(data: Path) -> Iterator[str]:
    for newer in (newer_schema(data / "growd.sqlite3"), newer_log(data / LOG_NAME)):
        if newer:
            yield newer


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
    """What has to be done, in order. Without a `profile` that of the last time, else `PROFILE`.

    A socket or a hardware watchdog that was asked for once stays.
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
        _file(machine, RECORD, json.dumps(record, indent=2) + "\n", "write down what is installed in")
    )
    if machine.is_live:
        is_news = was.get("digest") != source.digest or not all(step.is_done() for step in steps)
        steps += [
            _command(machine, "have systemd read its units", "systemctl", "daemon-reload"),
            *([_watchdog_command(machine, "start")] * with_watchdog),
            *(
                [_command(machine, "open growd's address", "systemctl", "start", "growd.socket")]
                * with_socket
            ),
            _command(machine, "start growd", "systemctl", "restart" if is_news else "start", "growd.service"),
        ]
    return steps


def uninstall_steps(machine: Machine, *, purge: bool) -> list[Step]:
    """What has to be done, in order. Configuration and data stay, unless they are to be purged."""
    record, steps = machine.record(), []
    if record and machine.is_live:
        units = ("growd.socket", "growd.service")
        steps.append(_command(machine, "stop growd", "systemctl", "stop", *units))
    steps += [_removal(machine.at(Path(name))) for name in record.get("files", [])]
    if record and machine.is_live:
        steps.append(_command(machine, "have systemd read its units", "systemctl", "daemon-reload"))
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
            if was:  # that goes with the old one, but what was chosen then holds if it ends before its time
                _write(record, json.dumps({**was, "digest": ""}, indent=2) + "\n")

    def install() -> None:
        for command in _installs(source):
            machine.run([str(python), *_PIP, *command])
        _relocate(home / "bin", machine.root)

    kind = "the wheel" if source.is_wheel else "the checkout"
    return [
        Step(f"make a virtual environment in {home}", make, is_there),
        Step(f"install growd {source.version} from {kind} {source.path}", install, is_there),
    ]


def _installs(source: InstallSource) -> Iterator[Sequence[str]]:
    """Arguments of pip. From a checkout exactly what the locks name, checked against their hashes."""
    if source.is_wheel:
        yield (f"{source.path}[pi]" if platform.machine() == _PI else str(source.path),)
        return
    for lock in _LOCKS:
        yield ("--require-hashes", "--no-deps", "-r", str(source.path / lock))
    yield ("--no-deps", "--no-build-isolation", str(source.path))


def _relocate(programs: Path, root: Path) -> None:
    """Have the programs name their interpreter as the machine will find it that `root` belongs to."""
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
        _command(machine, "make the user growd and its groups", "systemd-sysusers", sysusers),
        _command(machine, "make growd's folders", "systemd-tmpfiles", "--create", tmpfiles),
        _command(machine, "have udev read its rules", "udevadm", "control", "--reload"),
        _command(machine, "give growd's groups their devices", "udevadm", "trigger", "--action=change"),
    ]


def _configuration(machine: Machine, text: str, was: Mapping[str, Any]) -> list[Step]:
    """The file of the owner is never written over: what is newer is put beside it."""
    file = machine.at(CONFIGURATION / "growd.toml")
    if not file.exists():
        return [_file(machine, CONFIGURATION / "growd.toml", text, "write the configuration")]
    beside = machine.at(CONFIGURATION / "growd.toml.new")

    def is_known() -> bool:
        return was.get("configuration") == _digest(text) or _holds(file, text) or _holds(beside, text)

    return [
        Step(f"keep the configuration {file}", lambda: None, lambda: True),
        Step(f"put the new one that ships beside it, as {beside}", lambda: _write(beside, text), is_known),
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

    words = f"have {target.removeprefix('../')} started with the machine: {path}"
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
    """Execute systemd anew, which is when it reads its own configuration; services do not notice."""
    words = f"have systemd {verb} feeding the hardware watchdog"
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
