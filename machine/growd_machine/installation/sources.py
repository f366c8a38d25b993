"""What can be installed: a checkout, a wheel, a bundle, or a version folder."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import tomllib
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from growd_machine.installation.machine import InstallError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

_VERSION: Final = r"[0-9][0-9A-Za-z.+!_]*"
_WHEEL: Final = re.compile(rf"growd-(?P<version>{_VERSION})-.*\.whl")
_INSTALLER: Final = "growd_machine/installation/__main__.py"
_DAMAGE: Final = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, KeyError, ValueError, RuntimeError)
"""What zipfile and json raise on damaged archives."""
_LEFT_OUT: Final = {
    *("__pycache__", "node_modules", "RECORD", "WHEEL"),
    *("test.lock", "release.lock", "build.in", "node.in", "release.in"),
}


Kind = Literal["checkout", "wheel", "bundle", "version"]
BUNDLED: Final = "version"
"""The folder in a bundle that has the version folder."""


@dataclass(frozen=True)
class InstallSource:
    """A source of growd; `digest` changes with its contents. Names of files are those in the wheel."""

    kind: Kind
    path: Path
    version: str
    digest: str
    roots: Mapping[str, Traversable] = field(repr=False, compare=False)
    """Where the files are whose names begin with the key; "" stands for all."""

    def read(self, name: str) -> bytes:
        """The content of a file, such as "growd/_systemd/growd.service"."""
        prefix = max((root for root in self.roots if f"{name}/".startswith(root)), key=len)
        file = self.roots[prefix].joinpath(name.removeprefix(prefix).lstrip("/"))
        if not file.is_file():
            raise InstallError(f"{self.path} does not contain {name}")
        with intact(self.path):
            return file.read_bytes()

    @property
    def program(self) -> str:
        """What Python runs to install this source by its own code. Raises `InstallError`."""
        try:
            self.read(_INSTALLER)
        except InstallError as error:
            raise InstallError(f"{error}: it is not growd") from None
        inner = {
            "checkout": "machine/growd_machine/installation",
            "wheel": "growd_machine/installation",
            "bundle": "",
        }
        return str(self.path / inner.get(self.kind, "lib/growd_machine/installation"))

    def unit(self, name: str) -> str:
        """The text of a file in systemd/ of this source."""
        return self.read(f"growd/_systemd/{name}").decode()

    def profile(self, name: str) -> str:
        """The text of a shipped configuration of this source."""
        try:
            return self.read(f"growd/config/shipped/{name}.toml").decode()
        except InstallError:
            names = [file.rpartition("/")[2] for file, _ in self.files() if "/config/shipped/" in file]
            if f"{name}.toml" in names:
                raise  # it is damaged
            known = ", ".join(sorted(file.removesuffix(".toml") for file in names if file.endswith(".toml")))
            raise InstallError(f"there is no profile {name}; there are {known}") from None

    def version_file(self) -> dict[str, Any]:
        """The content of version.json of a bundle."""
        with intact(self.path), zipfile.ZipFile(self.path) as archive:
            return version_information(archive.read(f"{BUNDLED}/version.json"))

    def files(self) -> Iterator[tuple[str, bytes]]:
        """All files by name, in the same order on each machine; without what is generated or not needed.

        A wheel contains the npm packages of the page; beside a checkout, npm may have installed any.
        """
        left_out = _LEFT_OUT - {"node_modules"} if self.kind == "wheel" else _LEFT_OUT
        with intact(self.path):
            for prefix, root in sorted(self.roots.items()):
                yield from _files(prefix, root, left_out)


def source_at(path: Path | None) -> InstallSource:
    """The source at `path`; by default that of the running growd."""
    path = (_own_path() if path is None else path).absolute()
    if not path.exists():
        raise InstallError(f"there is no {path}: name a bundle, a wheel or a checkout of growd")
    try:
        if path.suffix == ".whl":
            return _wheel(path)
        if path.is_file():
            return _bundle(path)
        if (path / "version.json").is_file():
            return _version("version", path, path)
        return _checkout(path)
    except OSError as error:
        raise InstallError(f"{path} can't be read: {error.strerror or error}") from None


def _own_path() -> Path:
    packages = Path(__file__).parents[2]  # daemon/ of a checkout, lib/ of a version or a bundle, or a wheel
    if packages.suffix == ".whl":
        return packages
    return packages.parent if packages.exists() else packages.parents[1]


def _checkout(path: Path) -> InstallSource:
    """The wheel has the same files, since both follow pyproject.toml."""
    try:
        project = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))
        version = project["project"]["version"]
        folders = project["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"]
    except (OSError, ValueError, KeyError):
        raise InstallError(f"{path} is not a checkout of growd: name one, or a bundle or a wheel") from None
    source = InstallSource(
        "checkout", path, version, "", {name: path / folder for folder, name in folders.items()}
    )
    digest = hashlib.sha256(version.encode())
    for name, content in source.files():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return InstallSource("checkout", path, version, digest.hexdigest(), source.roots)


def _wheel(path: Path) -> InstallSource:
    found = _WHEEL.fullmatch(path.name)
    if found is None:
        raise InstallError(f"{path} is not a wheel of growd (growd-VERSION-py3-none-any.whl)")
    with intact(path):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return InstallSource("wheel", path, found["version"], digest, {"": zipfile.Path(path)})


def _bundle(path: Path) -> InstallSource:
    if not zipfile.is_zipfile(path):
        raise InstallError(f"{path} is neither a wheel nor a bundle of growd, or it is damaged")
    with intact(path):
        return _version("bundle", path, zipfile.Path(path, f"{BUNDLED}/"))


def _version(kind: Kind, path: Path, folder: Traversable) -> InstallSource:
    file = folder.joinpath("version.json")
    if not file.is_file():
        raise InstallError(f"{path} is not a {kind} of growd: it does not contain version.json")
    with intact(path):
        known = version_information(file.read_bytes())
        return InstallSource(kind, path, known["version"], known["digest"], {"": folder.joinpath("lib")})


@contextmanager
def intact(path: Path) -> Iterator[None]:
    """Let the body read an archive. Raises `InstallError` if it is damaged, and OSError."""
    try:
        yield
    except _DAMAGE as error:
        raise InstallError(f"{path} is damaged: {error}") from None


def version_information(text: bytes) -> dict[str, Any]:
    """The content of version.json. Raises ValueError."""
    known = json.loads(text)
    if not isinstance(known, dict):
        raise ValueError("version.json is not an object")  # noqa: TRY004  the file is wrong
    for name, form in (("version", _VERSION), ("digest", "[0-9a-f]{64}"), ("machine", "[0-9a-z_]+")):
        if not isinstance(value := known.get(name), str) or not re.fullmatch(form, value):
            raise ValueError(f"{name} in version.json is {value!r}")
    if not _are_words(pythons := known.get("pythons")):
        raise ValueError(f"pythons in version.json is {pythons!r}")
    return known


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _files(name: str, item: Traversable, left_out: set[str]) -> Iterator[tuple[str, bytes]]:
    if item.is_dir():
        for inner in sorted(item.iterdir(), key=lambda found: found.name):
            if inner.name not in left_out:
                yield from _files(f"{name}/{inner.name}".lstrip("/"), inner, left_out)
    elif item.is_file():
        yield name, item.read_bytes()
