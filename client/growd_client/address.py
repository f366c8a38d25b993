"""The address of a daemon, and the login there."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import msgspec

from growd_client.errors import UsageError
from growd_client.request import API
from growd_client.trust import trusting

if TYPE_CHECKING:
    import ssl

DEFAULT_URL: Final = "http://127.0.0.1:5984"
_PORTS: Final = {"http": 80, "https": 443}


class Login(msgspec.Struct, frozen=True):
    """A user and a password; `repr` hides the password. Raises `UsageError` for a name with a colon."""

    user: str
    password: str

    def __post_init__(self) -> None:
        if ":" in self.user:
            raise UsageError(f"the name of a user has no colon, got {self.user}")

    def __repr__(self) -> str:
        return f"Login({self.user!r})"

    @property
    def header(self) -> str:
        """The value of `Authorization` (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


class Address(msgspec.Struct, frozen=True):
    """The address of the daemon's API: `path` begins with a slash; `login` is that of the URL, if any."""

    scheme: str
    host: str
    port: int
    path: str
    login: Login | None = None

    @property
    def origin(self) -> str:
        """The address without path and login."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def root(self) -> str:
        """The address without the last segment of the path: that of the database."""
        return self.origin + self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The daemon's `[http] name`, which is also the name of its design documents."""
        return self.path.rpartition("/")[2].removeprefix("_")

    def __str__(self) -> str:
        return self.origin + self.path


def address_from(url: str, *, name: str = "svc", what: str = "the URL") -> Address:
    """The address that a URL names; `name` is `[http] name` if the URL has no path.

    Raises `UsageError`, which calls the URL `what`.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        raise _no_address(url, what) from None
    if parts.scheme not in _PORTS or port == 0 or not _is_plain(parts.path) or parts.query:
        raise _no_address(url, what)
    if not parts.hostname or not _is_host(parts.hostname):
        raise _no_address(url, what)
    login = Login(unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    path = parts.path.rstrip("/").removesuffix(f"/{API}") or f"/_{name}"
    return Address(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path, login)


def given_address(url: str | None) -> Address:
    """From `url`, else from GROWD_URL, else growd on this machine. Raises `UsageError`."""
    return address_from(url or os.environ.get("GROWD_URL") or DEFAULT_URL)


def given_login(address: Address, user: str | None, password: str | None) -> Login | None:
    """From the arguments, else from the URL, else from GROWD_USER and GROWD_PASSWORD. Raises `UsageError`."""
    found = address.login
    if user is None and password is None and found is not None and found.password:
        return found
    user = user or (found.user if found else os.environ.get("GROWD_USER"))
    if not user:
        return None
    password = password if password is not None else os.environ.get("GROWD_PASSWORD")
    if password is None:
        raise UsageError(f"no password for {user}: give password, or set GROWD_PASSWORD")
    return Login(user, password)


def given_trust(address: Address, ca: str | Path | None) -> ssl.SSLContext | None:
    """The authorities of the machine, or those in the file `ca`; None for http. Raises `UsageError`."""
    if address.scheme != "https":
        return None
    return trusting(Path(ca) if ca is not None else None)


def _is_plain(text: str) -> bool:
    """Whether it can stand in a request line."""
    return text.isascii() and text.isprintable() and " " not in text


def _no_address(url: str, what: str) -> UsageError:
    return UsageError(f"{what} must be http://host:port, got {_without_login(url)}")


def _is_host(name: str) -> bool:
    """Whether each label has 1 to 63 characters (RFC 1035)."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


def _without_login(url: str) -> str:
    """A URL, valid or not, without a login."""
    return re.sub(r"^([^/]*//)?[^/]*@", r"\1", url)
