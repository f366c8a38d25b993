"""The installed service after its start: whether it answers, where, and how its devices are."""

from __future__ import annotations

import base64
import json
import ssl
import time
import tomllib
import urllib.error
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Final

from growd.runtime.clock import RealClock
from growd.runtime.files import read_text
from growd_machine.installation.get_pip import without_login
from growd_machine.installation.growd_service import SERVICE, last_words
from growd_machine.installation.machine import CONFIGURATION, InstallError

if TYPE_CHECKING:
    from growd.runtime.clock import Clock
    from growd_machine.installation.machine import Machine

PATIENCE_S: Final = 60.0
"""How long a started service may take to answer."""

_REFUSED: Final = (401, 403)
_PAUSE_S: Final = 0.5
_STATUS: Final = ("systemctl", "show", "--property=StatusText", "--value", "growd.service")


def address_in(text: str) -> str:
    """The address of growd by its configuration, for a client on the same machine."""
    options = tomllib.loads(text)
    http = options.get("http", {})
    host = str(http.get("host", "127.0.0.1"))
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  addresses to listen on
    scheme = "https" if options.get("tls", {}).get("certificate") else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{http.get('port', 5984)}"


def start_service(machine: Machine, *, restart: bool) -> None:
    """Start the service. Raises `InstallError` with what growd said of its end."""
    began = time.time()
    with suppress(InstallError):  # systemd does not know it yet
        machine.run(["systemctl", "reset-failed", SERVICE])  # else it refuses what failed too often
    try:
        machine.run(["systemctl", "restart" if restart else "start", SERVICE])
    except InstallError:
        said = last_words(machine, began) or "journalctl -u growd says why"
        raise InstallError(f"{SERVICE} does not start: {said}") from None


def wait_for_answer(machine: Machine, clock: Clock | None = None) -> list[str]:
    """Wait until the service answers; its address and state in lines. Raises `InstallError`."""
    address = address_in(read_text(machine.at(CONFIGURATION / "growd.toml")))
    clock = clock or RealClock()
    until = clock.monotonic() + PATIENCE_S
    while not _answers(address):
        if clock.monotonic() > until:
            raise InstallError(f"growd runs, but does not answer at {address}: journalctl -u growd says why")
        clock.sleep_blocking(_PAUSE_S)
    state = machine.ask([*_STATUS])
    lines = [f"growd runs at {address}", *([state] if state else [])]
    if "FAILED" in state and not any(Path("/dev").glob("i2c-*")):
        lines.append("This machine has no I2C bus. On a Raspberry Pi: sudo growd setup-pi")
    if problem := database_problem(machine):
        lines.append(problem)
    return lines


def database_problem(machine: Machine) -> str:
    """Why the configured CouchDB can't be used, in a sentence; "" if it can, or if there is none."""
    options = tomllib.loads(read_text(machine.at(CONFIGURATION / "growd.toml")))
    couchdb = options.get("couchdb", {})
    if not couchdb.get("url"):
        return ""
    address, login = without_login(f"{str(couchdb['url']).rstrip('/')}/_session")
    request = urllib.request.Request(address)  # noqa: S310  the address is the owner's choice
    try:
        if file := couchdb.get("credentials_file"):
            path = machine.at(CONFIGURATION / "credentials" / file) if "/" not in file else Path(file)
            login = ":".join(read_text(path).splitlines()[:2])
        if login:
            request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  as above
            user = json.load(answer)["userCtx"]["name"]
    except urllib.error.HTTPError as error:
        advice = "; check [couchdb] credentials_file" if error.code in _REFUSED else ""
        return f"The CouchDB {address} refuses growd with status {error.code}{advice}"
    except (OSError, ValueError, KeyError, TypeError, HTTPException) as error:
        return f"The CouchDB {address} can't be used: {getattr(error, 'reason', error)}"
    return "" if user else f"The CouchDB {address} needs a login: set [couchdb] credentials_file"


def _answers(address: str) -> bool:
    """Whether something answers in HTTP, also with an error: a login may be needed."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent or read
    try:
        with urllib.request.urlopen(address, timeout=5, context=context):  # noqa: S310  our own address
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError, HTTPException):
        return False
