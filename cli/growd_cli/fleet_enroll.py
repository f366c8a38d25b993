"""`growd fleet enroll`: a device gets its login and its replication."""

from __future__ import annotations

import os
import re
import tempfile
import time
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn
from urllib.parse import urlsplit

import aiohttp
import click
import msgspec

from growd import __version__
from growd.bus.errors import counted
from growd.config import Config, ConfigError, Replication, load
from growd.config.base import NAME
from growd.runtime.event_loop import run_on_loop
from growd.runtime.files import read_text, write_atomically
from growd.runtime.text import printable
from growd.store.couch_answers import connection_failure
from growd.store.errors import CouchUnavailableError
from growd_cli.asking import status_of
from growd_cli.chamber import client_of
from growd_cli.client import NOT_REACHED, WRONG_USAGE
from growd_cli.options import DaemonOptions, plain_errors, refuse
from growd_cli.terminal import echo_text
from growd_client.errors import GrowdError, NotAllowedError
from growd_client.trust import trusting
from growd_cloud.accounts import EnrolmentRequest
from growd_machine.backup.archive import BackupError
from growd_machine.backup.state import device_of
from growd_machine.installation.machine import CONFIGURATION, DATA, InstallError, Machine
from growd_machine.installation.running import start_service
from growd_machine.setup.editing import with_texts

if TYPE_CHECKING:
    from growd.status.model import Status

_INSTALLED: Final = Path("/") / CONFIGURATION / "growd.toml"
_CREDENTIALS: Final = Path("/") / CONFIGURATION / "credentials" / "cloud"
_FIRST_REPORT_S: Final = 120.0  # with the restart of growd and its database
_PAUSE_S: Final = 0.5


class _Enrolled(msgspec.Struct):
    user: str
    password: Annotated[str, msgspec.Meta(pattern=r"^[\x21-\x7e]{8,200}\Z")]


class _Refusal(msgspec.Struct):
    reason: str = ""


@click.command()
@click.argument("url", metavar="URL")
@click.argument("code", metavar="CODE")
@click.option("--name", metavar="TEXT", help="The name of the device in lists.")
@click.option("--group", default="", metavar="NAME", help="The group of the device, for recipes.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Configuration to change.  [default: /etc/growd/growd.toml]",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The data folder.  [default: /var/lib/growd; with --config: data]",
)
@click.option(
    "--ca",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Trust the authorities in FILE (PEM) instead of those of this machine.",
)
@click.option("--again", is_flag=True, help="Enrol a device that replicates already.")
def enroll(
    *,
    url: str,
    code: str,
    name: str | None,
    group: str,
    config: Path | None,
    data: Path | None,
    ca: Path | None,
    again: bool,
) -> None:
    """Enrol this device in the cloud at URL, with a CODE of `growd fleet invite`.

    The cloud makes an account for the device. The command writes its login into a file that only growd reads,
    and the address into the section [replication] of the configuration. It restarts the installed growd and
    waits for its first report. With --config it changes another configuration; then restart growd yourself.

    Exit status: 0 if the device is enrolled; 1 if the cloud or the configuration refuses; 2 for a usage
    error; 3 if the cloud does not answer or is not trusted.
    """
    with plain_errors():
        place = _Place(config, data)
        _check_url(url, ca)
        _check_words(name, group)
        present = place.configuration()
        _check_present(present.replication, again=again)
        device = place.device()
        group = group or present.replication.group
        text = place.changed(present, url.rstrip("/"), group, ca)
        login = _login(url.rstrip("/"), EnrolmentRequest(code, device, name or "", group, __version__), ca)
        place.write(text, login)
        echo_text(f"enrolled {device} at {url.rstrip('/')}; its login is in {place.credentials}")
        place.restart()
        _wait_for_report(place)


@dataclass(frozen=True)
class _Place:
    """The configuration that is changed, with its data folder: the installed one, or those of the options."""

    config: Path | None
    folder: Path | None

    @property
    def file(self) -> Path:
        return _INSTALLED if self.config is None else Path(os.path.abspath(self.config))  # noqa: PTH100  no link

    @property
    def data(self) -> Path:
        installed = Path("/") / DATA if self.config is None else Path("data")
        return installed if self.folder is None else self.folder

    @property
    def credentials(self) -> Path:
        return _CREDENTIALS if self.config is None else self.file.with_name(f"{self.file.stem}.cloud")

    def configuration(self) -> Config:
        """Ends the command if it can't be read or changed."""
        if self.config is None and os.geteuid() != 0:
            refuse(f"{self.file} belongs to root: run the command with sudo", WRONG_USAGE)
        if not self.file.exists():
            remedy = "install growd, or name a configuration with --config"
            if self.config is not None:
                remedy = f"growd config sample > {self.config} makes one"
            refuse(f"there is no configuration {self.file}: {remedy}")
        if not os.access(self.file, os.W_OK) or not os.access(self.file.parent, os.W_OK):
            refuse(f"{self.file} can't be written: run the command with sudo", WRONG_USAGE)
        return load(self.file)

    def device(self) -> str:
        """The id of the device. Ends the command if there is none."""
        try:
            found = device_of(self.data)
        except BackupError as error:
            refuse(error)
        if not found:
            remedy = "start growd once, or name its data folder with --data"
            refuse(f"the data folder {self.data} has no id of the device: {remedy}")
        return found

    def changed(self, present: Config, url: str, group: str, ca: Path | None) -> str:
        """The text of the configuration for the cloud at `url`. Raises `ConfigError`."""
        was = present.replication
        own = str(_CREDENTIALS.name if self.config is None else self.credentials)
        options = {"url": url, "credentials_file": own}
        if group or was.group:
            options["group"] = group
        if ca is not None or was.ca_file:
            options["ca_file"] = "" if ca is None else str(ca.absolute())
        if was.prefix:
            options["prefix"] = ""  # the receiver has databases without one
        text = with_texts(read_text(self.file), "replication", options)
        with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as trial:
            trial.write(text)
            trial.flush()
            try:
                load(Path(trial.name))  # growd would not start with an invalid option
            except ConfigError as error:
                raise ConfigError(str(error).replace(trial.name, str(self.file))) from None
        return text

    def write(self, text: str, login: _Enrolled) -> None:
        """The login first: growd does not start without it. Both belong to the configuration's owner."""
        try:
            found = self.file.stat()
            owner = (0, 0) if self.config is None else (found.st_uid, found.st_gid)
            self.credentials.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self.credentials, f"{login.user}\n{login.password}\n".encode(), 0o600)
            _give(self.credentials, owner)
            write_atomically(self.file, text.encode(), found.st_mode & 0o777)
            _give(self.file, (found.st_uid, found.st_gid))
        except OSError as error:
            refuse(
                f"{error.filename or self.file} can't be written: {error.strerror}; the same code works again"
            )

    def restart(self) -> None:
        """Restart the installed growd."""
        machine = Machine()
        if self.config is not None or not machine.is_live:
            return
        try:
            start_service(machine, restart=True)
        except InstallError as error:
            refuse(error)


def _give(path: Path, owner: tuple[int, int]) -> None:
    if os.geteuid() == 0:
        os.chown(path, *owner)


def _check_url(url: str, ca: Path | None) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query:
        raise click.BadParameter("must be https://host, without a login", param_hint="URL")
    if ca is not None and parts.scheme != "https":
        raise click.BadParameter("is for an https URL", param_hint="--ca")
    if parts.scheme == "http" and parts.hostname not in {"127.0.0.1", "localhost", "::1"}:
        echo_text("growd: over http the password is readable on the network; use https", err=True)


def _check_words(name: str | None, group: str) -> None:
    if name is not None and not name.strip():
        raise click.BadParameter("must not be empty", param_hint="--name")
    if group and not re.fullmatch(NAME, group):
        raise click.BadParameter("must be letters, digits, . _ and -", param_hint="--group")


def _check_present(present: Replication, *, again: bool) -> None:
    if present.url and not again:
        refuse(
            f"this device replicates to {present.url} already; --again enrols it with the new code, and its "
            "points go to the new address only"
        )


def _login(url: str, wanted: EnrolmentRequest, ca: Path | None) -> _Enrolled:
    """The account that the cloud makes. Ends the command if it does not."""
    try:
        status, body = run_on_loop(_answer(url, wanted, ca))
    except CouchUnavailableError as error:
        _refuse_connection(url, error)
    if status != HTTPStatus.CREATED:
        _refuse_status(url, status, body)
    try:
        login = msgspec.json.decode(body, type=_Enrolled)
    except msgspec.MsgspecError:
        refuse(f"{url} is no cloud of growd: its answer to /_enroll has no login", NOT_REACHED)
    if login.user != wanted.device:
        refuse(f"{url} is no cloud of growd: its login is not that of this device", NOT_REACHED)
    return login


async def _answer(url: str, wanted: EnrolmentRequest, ca: Path | None) -> tuple[int, bytes]:
    """The status and the body, without redirects and proxies, as reports are sent."""
    tls = trusting(ca, what="--ca") if url.startswith("https:") else None
    async with client_of(url, None, tls) as cloud:
        return await cloud.send("POST", ("_enroll",), msgspec.json.encode(wanted))


def _refuse_status(url: str, status: int, body: bytes) -> NoReturn:
    try:
        reason = printable(" ".join(msgspec.json.decode(body, type=_Refusal).reason.split()))
    except msgspec.MsgspecError:
        reason = ""
    if status < HTTPStatus.BAD_REQUEST:
        refuse(f"{url} is no cloud of growd: it answers /_enroll with {status}; name its own address")
    if status == HTTPStatus.UNAUTHORIZED:  # also "You are not a server admin."
        refuse(
            f"{url} asks for a login, as CouchDB does; name the address of its receiver (growd cloud receive)"
        )
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        refuse(f"{url} is no cloud of growd: it has no /_enroll (growd cloud receive serves it)")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        refuse(f"the cloud {url} can't enrol devices now: {reason or status}; try again", NOT_REACHED)
    refuse(f"the cloud refuses: {reason or f'status {status}'}")


def _refuse_connection(url: str, error: CouchUnavailableError) -> NoReturn:
    cause = error.__cause__
    if isinstance(cause, aiohttp.ClientConnectorCertificateError):
        problem = getattr(cause.certificate_error, "verify_message", "") or cause.certificate_error
        words = f"the certificate of {url} is not trusted: {problem}"
        refuse(f"{words}; name its authority with --ca FILE", NOT_REACHED)
    if isinstance(cause, aiohttp.ClientConnectorSSLError):
        plain = url.replace("https:", "http:", 1)
        refuse(f"{url} answers without TLS; if that is meant, its address is {plain}", NOT_REACHED)
    words = connection_failure(cause) if isinstance(cause, aiohttp.ClientError) else str(error)
    refuse(f"the cloud {url} can't be reached: {words}; check the address and the network", NOT_REACHED)


def _wait_for_report(place: _Place) -> None:
    """Wait until growd has sent its first report, and say what is to be copied."""
    if place.config is not None:
        echo_text("restart growd to begin; `growd status` shows its reports and replications")
        return
    until, problem = time.monotonic() + _FIRST_REPORT_S, ""
    while time.monotonic() < until:
        try:
            with DaemonOptions(config=place.file, may_ask=False).client() as client:
                status = status_of(client)
        except NotAllowedError:
            problem = "the running growd wants a login"
            break
        except (ConfigError, GrowdError) as error:
            problem = str(error)
        else:
            problem = "" if status.cloud is None else status.cloud.fault
            if status.cloud is not None and status.cloud.reported_at:
                echo_text(_copying(status))
                return
        time.sleep(_PAUSE_S)
    remedy = "growd status and journalctl -u growd say more"
    echo_text(f"growd: enrolled, and no report was seen: {problem or 'none was sent'}; {remedy}", err=True)


def _copying(status: Status) -> str:
    lags = {each.name: each.lag for each in status.replications if each.name in {"points", "events"}}
    known = [lag for lag in lags.values() if lag is not None]
    waiting = f"{counted(sum(known), 'document')} wait" if known else "the number that waits is not known yet"
    return f"the first report has arrived; {waiting} to be copied"
