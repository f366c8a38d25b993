"""The configuration in a backup: its text, the files that it names, and the encrypted secrets."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from growd.runtime.files import read_regular, write_atomically
from growd_machine.backup.archive import BackupError
from growd_machine.backup.sealing import opened, sealed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from growd_machine.backup.archive import ArchiveReader

CONFIGURATION: Final = "configuration/"
TOML: Final = f"{CONFIGURATION}growd.toml"
RECORD: Final = "configuration/files.json"
SECRETS: Final = "secrets.encrypted"
_MOST_BYTES: Final = 1 << 30
_MODES: Final = 0o664
"""The bits of a mode that are restored: a configuration is no program, and not everybody writes it."""


class RecordedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that the option `option` names, where it was, its mode, and the names of its owner and group.

    `member` has its content, "" for a secret.
    """

    option: str
    path: str
    member: str = ""
    mode: int = 0o600
    owner: str = ""
    group: str = ""


class ConfigurationRecord(msgspec.Struct, frozen=True):
    """A configuration, None without one of its own, and its files; `removed` are options without secrets."""

    configuration: RecordedFile | None
    removed: list[str]
    files: list[RecordedFile]


class SealedFiles(msgspec.Struct, frozen=True):
    """The content of the files with secrets, by where they were; the configuration is one of them."""

    files: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class CopiedConfiguration:
    """A configuration to be copied.

    `path` is its file, None without one of its own, `text` its text without secrets. `files` are the options
    that name files, with the files; `secrets` those whose files are secret.
    """

    path: Path | None
    text: str = ""
    removed: Sequence[str] = ()
    files: Sequence[tuple[str, Path]] = ()
    secrets: Sequence[tuple[str, Path]] = ()

    def check(self, *, with_secrets: bool) -> None:
        """Raise `BackupError` if a file can't be read."""
        for option, file in (*self.files, *(self.secrets if with_secrets else ())):
            _content(file, option)

    def members(self, passphrase: str | None) -> Iterator[tuple[str, bytes]]:
        """Its members; with a passphrase also the secrets, encrypted. Blocking. Raises `BackupError`."""
        configuration = None
        if self.path is not None:
            configuration = _recorded("the configuration", self.path, TOML)
            yield configuration.member, self.text.encode()
        recorded = []
        for number, (option, file) in enumerate(self.files, 1):
            recorded.append(_recorded(option, file, f"{CONFIGURATION}{number:03d}-{file.name}"))
            yield recorded[-1].member, _content(file, option)
        recorded += [_recorded(option, file, "") for option, file in self.secrets]
        record = ConfigurationRecord(configuration, [*self.removed], recorded)
        yield RECORD, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
        if passphrase is not None:
            yield SECRETS, sealed(msgspec.json.encode(self._sealed()), passphrase)

    def _sealed(self) -> SealedFiles:
        whole = [("the configuration", self.path)] if self.path is not None else []
        return SealedFiles({str(file): _content(file, option) for option, file in (*whole, *self.secrets)})


class RestoredFiles:
    """Puts the configuration of a backup and its files where they were.

    With `config` the configuration goes there, and the files that were beside it go beside that. A file that
    exists stays as it is, unless they are to be replaced. A backup may come from anybody: it names the files
    that are written only below `home`. Every call blocks and raises `BackupError`.
    """

    def __init__(
        self, archive: ArchiveReader, config: Path | None, passphrase: str | None, *, home: Path
    ) -> None:
        self.kept: list[Path] = []
        self.missing: list[RecordedFile] = []
        self.written: list[Path] = []
        self._archive = archive
        try:
            self.record = msgspec.json.decode(archive.read(RECORD), type=ConfigurationRecord)
            secrets = b'{"files":{}}' if passphrase is None else opened(archive.read(SECRETS), passphrase)
            self._secrets = msgspec.json.decode(secrets, type=SealedFiles).files
        except (ValueError, RecursionError) as error:
            raise BackupError(f"the configuration in the backup can't be read: {error}") from None
        if not all(option.isprintable() for option in self.record.removed):
            raise BackupError("the configuration in the backup has options with odd names")
        own = self.record.configuration
        old = None if own is None else _recorded_path(own)
        self.path = config or old
        self._old_folder = None if old is None else old.parent
        if config is not None and old is None and not config.exists():
            raise BackupError(f"the backup has no configuration: write {config} first, or omit --config")
        if config is None and old is not None and not old.is_relative_to(home):
            raise BackupError(f"the configuration was {old}: name its place with --config")
        self._targets = [(file, self._target(file)) for file in self.record.files]
        self.others = [
            (file.option, target)
            for file, target in self._targets
            if self._has_content(file) and not target.is_relative_to(home)
        ]
        """The options and paths of the files outside `home`."""

    def write(self, *, replace: bool, others: bool) -> None:
        """Write all files; those outside `home` only with `others`."""
        own = self.record.configuration
        if own is not None and self.path is not None:
            self._write(own, self.path, replace=replace)
        for file, target in self._targets:
            if others or (file.option, target) not in self.others:
                self._write(file, target, replace=replace)

    def _has_content(self, file: RecordedFile) -> bool:
        return bool(file.member) or file.path in self._secrets

    def _target(self, file: RecordedFile) -> Path:
        old = _recorded_path(file)
        if self.path is not None and self._old_folder is not None and old.is_relative_to(self._old_folder):
            return self.path.absolute().parent / old.relative_to(self._old_folder)
        return old

    def _write(self, file: RecordedFile, target: Path, *, replace: bool) -> None:
        content = self._secrets.get(file.path)
        if content is None and file.member:
            content = self._archive.read(file.member)
        try:
            present = read_regular(target, _MOST_BYTES)
            if content is None:
                self.missing += [] if present is not None else [file]
            elif present is not None and present != content and not replace:
                self.kept.append(target)
            elif present != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(target, content, file.mode & _MODES)
                _give(target, file)
                self.written.append(target)
        except OSError as error:
            raise BackupError(
                f"{target} can't be written: {error.strerror or error}; use sudo, or another --config"
            ) from None


def _recorded_path(file: RecordedFile) -> Path:
    """Where a file was. Raises `BackupError` for a path that no backup of growd has."""
    path = Path(file.path)
    if not path.is_absolute() or ".." in path.parts or not (file.path + file.option).isprintable():
        raise BackupError(f"the backup has a configuration file with the path {file.path!r}")
    return path


def _recorded(option: str, file: Path, member: str) -> RecordedFile:
    try:
        found = file.stat()
    except OSError:  # without secrets it need not be readable
        return RecordedFile(option, str(file), member)
    mode = stat.S_IMODE(found.st_mode)
    return RecordedFile(option, str(file), member, mode, _owner(found.st_uid), _group(found.st_gid))


def _owner(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return ""


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return ""


def _give(target: Path, file: RecordedFile) -> None:
    """Give a file to the owner that it had, if this machine has one of that name."""
    if os.geteuid() != 0:
        return
    if file.owner:
        with suppress(LookupError):
            shutil.chown(target, user=file.owner)
    if file.group:
        with suppress(LookupError):
            shutil.chown(target, group=file.group)


def _content(file: Path, option: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BackupError(
            f"{option}: {file} can't be read: {error.strerror}; use sudo if it is not yours"
        ) from None
