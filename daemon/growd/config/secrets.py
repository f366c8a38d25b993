"""Files with secrets that the configuration names."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from growd.config.findings import ConfigError
from growd.runtime.files import EncodingError, decoded

CREDENTIALS_DIRECTORY: Final = "CREDENTIALS_DIRECTORY"
"""Set by systemd for a unit with LoadCredential=; systemd.exec(5), "Credentials"."""

INSTALLED: Final = Path("/etc/growd/credentials")
"""The folder that systemd/growd.service hands over; readable for root only."""

_OF_A_FOLDER: Final = "secret_"
"""Before the names of a folder's files, as LoadCredential=secret:... in systemd/growd.service has them."""

_LONGEST_SECRET: Final = 4_096
_OPEN_TO_OTHERS: Final = stat.S_IRWXO | stat.S_IWGRP


def secret_path(name: str) -> Path:
    """The file that an option means by `name`.

    A bare name is one of the credentials that systemd hands to its services, where it has handed over one of
    that name; everything else is a path, from the working directory on where it is relative. In a terminal of
    root it is also one of the installed credentials.
    """
    folder = os.environ.get(CREDENTIALS_DIRECTORY)
    if folder and "/" not in name:
        for credential in (Path(folder) / name, Path(folder) / f"{_OF_A_FOLDER}{name}"):
            if credential.exists():
                return credential
    installed = INSTALLED / name
    if "/" not in name and os.access(installed, os.R_OK) and not Path(name).exists():
        return installed
    return Path(name)


def is_hidden() -> bool:
    """Whether there are installed credentials that this user cannot see."""
    return os.access(INSTALLED, os.F_OK) and not os.access(INSTALLED, os.X_OK)


def read_secret(where: str, path: Path, *, is_private: bool = True) -> bytes:
    """What a file with a secret holds. Blocking. Raises `ConfigError`, whose sentence begins with `where`.

    A private one is refused where others than its owner and group can read it, or others than its owner
    write.
    """
    try:
        # a pipe would be waited for
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read() if stat.S_ISREG(mode) else None
    except OSError as error:
        raise ConfigError(f"{where} can't be read: {error.strerror}") from None
    if content is None:
        raise ConfigError(f"{where} is not a regular file")
    if is_private and mode & _OPEN_TO_OTHERS:
        raise ConfigError(f"{where} is open to others (mode {stat.S_IMODE(mode):04o}); chmod 600 closes it")
    return content


def read_line(where: str, file: str) -> str:
    """The secret in the one line of a file, "" without a file. Blocking.

    Raises `ConfigError`, whose message begins with `where`.
    """
    if not file:
        return ""
    path = secret_path(file)
    try:
        secret = decoded(read_secret(f"{where}: {path}", path)).strip("\r\n")
    except EncodingError as error:
        raise ConfigError(f"{where}: {path} can't be read: {error}") from None
    if not secret or len(secret) > _LONGEST_SECRET or not secret.isprintable():
        raise ConfigError(f"{where}: {path} must have one line, of 1 to {_LONGEST_SECRET} characters")
    return secret
