"""The options of a client: address, login, certificates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from growd_client.address import DEFAULT_URL, Address, Login, address_from
from growd_client.errors import UsageError
from growd_client.trust import trusting

if TYPE_CHECKING:
    import ssl


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
