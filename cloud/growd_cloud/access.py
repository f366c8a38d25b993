"""The login at the server of [replication], and the certificates that verify it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from growd.config import ConfigError
from growd.wiring.files import read_credentials, trusting

if TYPE_CHECKING:
    from growd.config import Replication
    from growd.store.errors import CouchRefusedError


@dataclass(frozen=True)
class CloudAccess:
    """User and password, None without a login; the certificates, and the file of the same for CouchDB."""

    credentials: tuple[str, str] | None = None
    context: ssl.SSLContext | bool = True
    ca_file: str = ""


NO_LOGIN: Final = CloudAccess()


def read_access(options: Replication) -> CloudAccess:
    """Blocking: reads files. Raises `ConfigError` for unusable credentials or certificates."""
    credentials = read_credentials(options.credentials_file, "replication", is_secret=True)
    return CloudAccess(credentials, *read_trust(options))


def read_trust(replication: Replication) -> tuple[ssl.SSLContext | bool, str]:
    """The CA certificates that verify the other server. Blocking: reads them. Raises `ConfigError`."""
    if not replication.url.startswith("https:"):
        return True, ""
    file = replication.ca_file or ssl.get_default_verify_paths().cafile
    if not file:
        raise ConfigError("[replication] ca_file: is missing, and this system has no file of certificates")
    path = Path(file).absolute()  # CouchDB has a working directory of its own
    return trusting(f"[replication] ca_file: {path}", str(path)), str(path)


def refuses_login(error: CouchRefusedError) -> bool:
    """Whether the other server refuses the login: it is wrong, or its account is locked for a while."""
    is_locked = error.status == HTTPStatus.FORBIDDEN and "temporarily locked" in error.reason
    return is_locked or error.status == HTTPStatus.UNAUTHORIZED
