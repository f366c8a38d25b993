"""Files that growd brings along, and credentials and certificates that the configuration names."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

from growd.config import ConfigError
from growd.config.secrets import read_secret, secret_path
from growd.runtime.files import EncodingError, decoded


def shipped_folder(name: str) -> tuple[Path, bool]:
    """The folder `couchdb`, `docs` or `page`, and whether it is that of a checkout instead of the package's.

    Blocking.
    """
    packaged = Path(__file__).parents[1] / f"_{name}"
    if packaged.is_dir():
        return packaged, False
    return Path(__file__).parents[3] / name, True


def read_credentials(
    file: str, section: str = "couchdb", *, is_secret: bool = False
) -> tuple[str, str] | None:
    """User and password from the two lines of `[section] credentials_file`; None without a file.

    A bare name is a systemd credential (`secret_path`). With `is_secret` others may not read the file.
    Blocking. Raises `ConfigError`.
    """
    if not file:
        return None
    where = f"[{section}] credentials_file: {file}"
    content = read_secret(where, secret_path(file), is_private=is_secret)
    try:
        user, password = decoded(content).splitlines()[:2]
    except EncodingError as error:
        raise ConfigError(f"{where} can't be read: {error}") from None
    except ValueError:
        raise ConfigError(f"{where} must have two lines: user, password") from None
    if ":" in user:  # it ends the user name in Basic authentication (RFC 7617, section 2)
        raise ConfigError(f"{where}: the user must not contain a colon")
    return user, password


def trusting(where: str, ca_file: str) -> ssl.SSLContext:
    """Verify servers with the certificates in `ca_file`, or else with those of the machine.

    Blocking. Raises `ConfigError`, whose message begins with `where`.
    """
    try:
        if ca_file and not stat.S_ISREG(Path(ca_file).stat().st_mode):
            raise ConfigError(f"{where} is not a regular file")  # a pipe would be waited for
        return ssl.create_default_context(cafile=ca_file or None)
    except ssl.SSLError:
        raise ConfigError(f"{where} holds no certificate (PEM)") from None
    except OSError as error:
        raise ConfigError(f"{where} can't be read: {error.strerror}") from None
