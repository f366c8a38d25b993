"""What the daemon finds on the disk when it starts: its data folder, the database's files, credentials."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


class StartError(Exception):
    """The daemon can't start; the sentence says why and what to do."""


def couchdb_folder() -> Path:
    """The folder `couchdb/` (design documents, the embedded server): the package's, or the checkout's."""
    packaged = Path(__file__).parent / "_couchdb"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "couchdb"


def read_credentials(file: str) -> tuple[str, str] | None:
    """User and password from a file of two lines."""
    if not file:
        return None
    try:
        user, password = Path(file).read_text(encoding="utf-8").splitlines()[:2]
    except OSError as error:
        raise StartError(f"[couchdb] credentials_file: {file} can't be read: {error.strerror}") from None
    except ValueError:
        raise StartError(f"[couchdb] credentials_file: {file} must have two lines: user, password") from None
    if ":" in user:  # which ends the user in Basic authentication (RFC 7617, section 2)
        raise StartError(f"[couchdb] credentials_file: {file}: a user can't have a colon")
    return user, password


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
