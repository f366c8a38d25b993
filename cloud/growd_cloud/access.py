"""The login at the server of [replication], and the certificates that verify it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from growd.config import ConfigError
from growd.wiring.files import read_credentials, trusting

if TYPE_CHECKING:
    from growd.config import Replication


@dataclass(frozen=True)
class ReplicationTrust:
    """The certificates that growd trusts, and the file of the same certificates for CouchDB."""

    context: ssl.SSLContext | bool = True
    ca_file: str = ""


@dataclass(frozen=True)
class CloudAccess:
    """User and password, None without a login, and the certificates."""

    credentials: tuple[str, str] | None
    trust: ReplicationTrust


def read_access(options: Replication) -> CloudAccess:
    """Blocking: reads files. Raises `ConfigError` for unusable credentials or certificates."""
    credentials = read_credentials(options.credentials_file, "replication", is_secret=True)
    return CloudAccess(credentials, read_trust(options))


def read_trust(replication: Replication) -> ReplicationTrust:
    """The CA certificates that verify the other server. Blocking: reads them. Raises `ConfigError`."""
    if not replication.url.startswith("https:"):
        return ReplicationTrust()
    file = replication.ca_file or ssl.get_default_verify_paths().cafile
    if not file:
        raise ConfigError("[replication] ca_file: is missing, and this system has no file of certificates")
    path = Path(file).absolute()  # CouchDB has a working directory of its own
    return ReplicationTrust(trusting(f"[replication] ca_file: {path}", str(path)), str(path))
