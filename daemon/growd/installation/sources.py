"""What can be installed: a checkout or a wheel."""

from __future__ import annotations

import hashlib
import re
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from growd.installation.machine import InstallError

_SOURCES: Final = ("daemon", "drivers", "hw-sim", "couchdb", "systemd")
LOCKS: Final = tuple(f"requirements/{name}.lock" for name in ("build", "run"))
_WHEEL: Final = re.compile(r"growd-(?P<version>[^-]+)-.*\.whl")


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


def source_at(path: Path | None) -> InstallSource:
    """The wheel or checkout at `path`; by default the checkout of the running growd."""
    path = (Path(__file__).parents[3] if path is None else path).absolute()
    if path.suffix == ".whl":
        return _wheel(path)
    try:
        version = tomllib.loads((path / "pyproject.toml").read_text())["project"]["version"]
    except (OSError, ValueError, KeyError):
        raise InstallError(f"{path} is neither a checkout nor a wheel of growd") from None
    files = [path / "pyproject.toml", *(path / lock for lock in LOCKS)]
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
