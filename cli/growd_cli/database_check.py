"""`growd db check`: whether the configured CouchDB answers, accepts the login and has growd's settings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from yarl import URL

from growd.config import Config, ConfigError, load
from growd.runtime.event_loop import run_on_loop
from growd.store.bootstrap import Databases
from growd.wiring.files import read_credentials, shipped_folder
from growd_cli.options import config_option, refuse, set_option
from growd_cli.terminal import echo_text
from growd_machine.installation.couchdb import URL as INSTALLED_URL
from growd_machine.installation.couchdb import couchdb_is_installed
from growd_machine.installation.couchdb_checks import CouchdbFindings, couchdb_findings, wait_for_couchdb
from growd_machine.installation.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path


@click.command("check")
@config_option
@set_option
@click.option("--wait", is_flag=True, help="Wait up to three minutes for a CouchDB that starts.")
def check_database(*, config: Path | None, settings: tuple[str, ...], wait: bool) -> None:
    """Check the configured CouchDB: version, login, settings, address. Exits with 1 if something is wrong."""
    try:
        configuration = load(config, settings)
        if not configuration.couchdb.url:
            echo_text("No CouchDB is configured; growd status shows the embedded database.")
            return
        found = findings_of(configuration, wait=wait)
    except ConfigError as error:
        refuse(error)
    print_findings(configuration, found)
    if found.faults:
        sys.exit(1)


def findings_of(config: Config, *, wait: bool = False) -> CouchdbFindings:
    """Ask the configured CouchDB. Raises `ConfigError` if its credentials file can't be used."""
    couchdb = config.couchdb
    login = read_credentials(couchdb.credentials_file)
    settings = (shipped_folder("couchdb")[0] / "local.d/growd.ini").read_text(encoding="utf-8")

    is_installed = couchdb.url.rstrip("/") == INSTALLED_URL and couchdb_is_installed(Machine())

    async def ask() -> CouchdbFindings:
        if wait:
            await wait_for_couchdb(couchdb.url, login)
        names = Databases.prefixed(couchdb.prefix)
        return await couchdb_findings(couchdb.url, login, settings, names, is_installed=is_installed)

    return run_on_loop(ask())


def print_findings(config: Config, found: CouchdbFindings) -> None:
    """A line for each finding, or one that says that the database is well."""
    for sentence in (*found.faults, *found.notes):
        echo_text(f"warning: {sentence}")
    if not found.faults:
        echo_text(f"CouchDB at {URL(config.couchdb.url).with_user(None)} answers and accepts the login.")
