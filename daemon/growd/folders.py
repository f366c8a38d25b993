"""What the daemon finds on the disk when it starts: its data folder, the database's files, credentials."""

from __future__ import annotations

import contextlib
import fcntl
import os
import ssl
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from growd.config.secrets import secret_path
from growd.store.replication import Trust

if TYPE_CHECKING:
    from growd.config import Replication

_OPEN_TO_OTHERS: Final = stat.S_IRWXO | stat.S_IWGRP


class StartError(Exception):
    """The daemon can't start; the sentence says why and what to do."""


def couchdb_folder() -> Path:
    """The folder `couchdb/` (design documents, the embedded server): the package's, or the checkout's."""
    packaged = Path(__file__).parent / "_couchdb"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "couchdb"


def read_credentials(
    file: str, section: str = "couchdb", *, is_secret: bool = False
) -> tuple[str, str] | None:
    """User and password from a file of two lines, as `[section] credentials_file` names it.

    A bare name is one of systemd's credentials (`secret_path`). A secret file is refused where others
    than its owner and group can read it, or others than its owner write. Blocking.
    """
    if not file:
        return None
    where = f"[{section}] credentials_file: {file}"
    try:
        with secret_path(file).open(encoding="utf-8") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            user, password = opened.read().splitlines()[:2]
    except OSError as error:
        raise StartError(f"{where} can't be read: {error.strerror}") from None
    except ValueError:
        raise StartError(f"{where} must have two lines: user, password") from None
    if ":" in user:  # which ends the user in Basic authentication (RFC 7617, section 2)
        raise StartError(f"{where}: a user can't have a colon")
    if is_secret and mode & _OPEN_TO_OTHERS:
        raise StartError(f"{where} is open to others (mode {mode:04o}); chmod 600 closes it")
    return user, password


def read_trust(replication: Replication) -> Trust:
    """Which certificates a server is believed by. Blocking: reads them."""
    if not replication.url.startswith("https:"):
        return Trust()
    if not replication.verify_tls:
        return Trust(context=False)
    file = replication.ca_file or ssl.get_default_verify_paths().cafile
    if not file:
        raise StartError("[replication] ca_file: is missing, and this system has no file of certificates")
    path = Path(file).absolute()  # CouchDB has a working directory of its own
    try:
        return Trust(ssl.create_default_context(cafile=path), str(path))
    except ssl.SSLError:
        raise StartError(f"[replication] ca_file: {path} holds no certificate (PEM)") from None
    except OSError as error:
        raise StartError(f"[replication] ca_file: {path} can't be read: {error.strerror}") from None


def own_folder(folder: Path) -> contextlib.AbstractContextManager[object]:
    """Make the data folder and lock it for this process, for as long as the context lasts. Blocking."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "growd.lock").open("a+")
    except OSError as error:
        raise StartError(f"the data folder {folder} can't be written to: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read().strip()
        file.close()
        process = f" (process {owner})" if owner else ""
        raise StartError(
            f"the data folder {folder} is in use by another growd{process}; "
            "stop it, or choose another folder with --data"
        ) from None
    try:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    except OSError as error:  # a full disk
        with contextlib.suppress(OSError):
            file.close()  # tries once more to write
        raise StartError(f"the data folder {folder} can't be written to: {error.strerror}") from None
    return file
