"""`growd upgrade`: a new version beside the old one, on trial with safe outputs, and back if it fails."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd.config import Config, ConfigError, load
from growd.store.bootstrap import Databases
from growd.wiring.files import read_credentials
from growd_cli.client import HINTS, address_of
from growd_cli.options import INTERRUPTED, refuse
from growd_cli.terminal import echo_text
from growd_client.address import Login
from growd_client.connection import DaemonClient
from growd_client.errors import GrowdError, NotAllowedError
from growd_client.trust import trusting
from growd_machine.installation.growd_service import output_of
from growd_machine.installation.health import GrowdHealth, ProbeError, StatusAnswer
from growd_machine.installation.machine import CONFIGURATION, InstallError, Machine, reason_of
from growd_machine.installation.preparation import Preparation
from growd_machine.installation.sources import source_at
from growd_machine.installation.upgrade import (
    CONFIGURATION_FILE,
    LOG,
    TRIAL_S,
    UpgradeRun,
    outcome_of,
    upgrade_of,
)
from growd_machine.installation.versions import CURRENT, linked, locked, refuse_package

if TYPE_CHECKING:
    from growd_machine.installation.upgrade import Upgrade

SERVICE: Final = "growd-upgrade.service"
PROGRESS: Final = Path("run/growd-upgrade/progress")
_LOOK_S: Final = 0.5
_ANSWER_S: Final = 5.0


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True), required=False)
@click.option("--back", "goes_back", is_flag=True, help="Go back to the previous version.")
@click.option(
    "--trial",
    "trial_s",
    type=click.FloatRange(1, 3600),
    default=TRIAL_S,
    show_default=True,
    metavar="SECONDS",
    help="How long the new version is watched with all outputs safe.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("/"),
    hidden=True,
)
@click.option("--finish", "finishes", is_flag=True, hidden=True, help="Carry out the upgrade; for systemd.")
def upgrade(
    *,
    source: Path | None,
    goes_back: bool,
    trial_s: float,
    root: Path,
    finishes: bool,
) -> None:
    """Upgrade the installed growd to SOURCE: a checkout, a wheel or a bundle.

    The new version is made beside the old one and checked before anything changes. Then it runs on trial with
    all outputs safe. If it works as well as the old version did, it stays; else the old version comes back by
    itself, and the exit status is 1. Without SOURCE, follow a running upgrade.
    """
    machine = Machine(root.absolute())
    os.umask(0o022)
    try:
        if finishes:
            _finish(machine)
            return
        if root == Path("/") and os.geteuid():
            refuse("this needs root: use sudo")
        refuse_package(machine)
        if source is not None or goes_back:
            if source is not None and goes_back:
                raise click.UsageError("give SOURCE or --back, not both")
            _let_installed_version_do_it(machine)
            _begin(machine, source, trial_s)
        running = upgrade_of(machine)
        if running is None:
            raise click.UsageError("no upgrade is running: name a checkout, a wheel or a bundle")
        _follow(machine, running)
    except InstallError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))


class InstalledDaemon:
    """The running growd of a machine, over HTTP; see `DaemonAccess`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def health(self) -> GrowdHealth:
        """Without the right to read the status only whether growd answers."""
        try:
            config = self._config()
            with self._client(config) as client:
                node = client.get("node", "status", kind=_StatusNode)
        except NotAllowedError:
            return GrowdHealth()
        except (GrowdError, ConfigError) as error:
            raise ProbeError(str(error)) from None
        return GrowdHealth.of(node.status)

    def read_points(self) -> None:
        """A request for points lets growd send those that wait."""
        try:
            config = self._config()
            with self._client(config) as client:
                name = Databases.prefixed(config.couchdb.prefix).points
                client.database("GET", name, kind=dict[str, Any])
        except (GrowdError, ConfigError):
            pass  # a login may be needed; the points are on their way anyway

    def _config(self) -> Config:
        return load(self._machine.at(CONFIGURATION_FILE), ())

    def _client(self, config: Config) -> DaemonClient:
        address = address_of(config.http, None, config.tls)
        # any certificate: the name in it is that of this machine in the network
        tls = trusting(None, insecure=True) if address.scheme == "https" else None
        return DaemonClient(address, self._login(config), tls, _ANSWER_S, HINTS)

    def _login(self, config: Config) -> Login | None:
        """The login of growd itself, if the API needs one."""
        file = config.couchdb.credentials_file
        if config.http.access != "couchdb" or not file:
            return None
        if "/" not in file:  # systemd passes it to the service
            file = str(self._machine.at(CONFIGURATION / "credentials") / file)
        login = read_credentials(file)
        return None if login is None else Login(*login)


class _StatusNode(msgspec.Struct):
    status: StatusAnswer


def _let_installed_version_do_it(machine: Machine) -> None:
    """It must be able to go back; this may be the growd of a checkout."""
    current = linked(machine, CURRENT)
    if current is not None and not Path(__file__).resolve().is_relative_to(current.folder.resolve()):
        sys.stdout.flush()
        os.execv(current.program, [current.program, *sys.argv[1:]])  # noqa: S606  the installed growd


def _begin(machine: Machine, source: Path | None, trial_s: float) -> None:
    """Prepare the upgrade, and start the service that carries it out."""
    preparation = Preparation(machine, InstalledDaemon(machine), echo_text)
    with locked(machine):
        if source is None:
            preparation.go_back(trial_s)
        else:
            preparation.upgrade_to(source_at(source), trial_s)
        progress = machine.at(PROGRESS)
        progress.parent.mkdir(parents=True, exist_ok=True)
        progress.write_text("", encoding="utf-8")
    output_of(["systemctl", "start", SERVICE])


def _finish(machine: Machine) -> None:
    """Carry out the upgrade, as the service. Each line goes to the log and to those who follow."""
    progress = machine.at(PROGRESS)
    progress.parent.mkdir(parents=True, exist_ok=True)

    def say(line: str) -> None:
        echo_text(line)
        with progress.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    with locked(machine):
        try:
            UpgradeRun(machine, InstalledDaemon(machine), say).run()
        except (InstallError, OSError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            say(f"{reason}. Trying again in 10 s.")  # as the unit says
            raise


def _follow(machine: Machine, running: Upgrade) -> None:
    """Print the lines of the service until the upgrade has ended; exit status 1 if it went back."""
    progress, printed = machine.at(PROGRESS), 0
    try:
        while True:
            is_running = upgrade_of(machine) is not None
            if progress.exists():
                text = progress.read_text(encoding="utf-8")
                echo_text(text[printed:], nl=False)
                printed = len(text)
            if not is_running:
                break
            time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        echo_text("\nThe upgrade continues; `sudo growd upgrade` follows it.", err=True)
        sys.exit(INTERRUPTED)
    outcome = outcome_of(machine)
    if outcome is None or outcome.began != running.began:
        raise InstallError(f"the upgrade has ended, and its result is not known: {LOG}")
    target = running.target.partition("-")[0]
    if outcome.reason:
        source = running.source.partition("-")[0]
        raise InstallError(
            f"the upgrade failed, and growd {source} is installed as before: {outcome.reason}. Log: {LOG}"
        )
    echo_text(f"growd {target} is installed.")
