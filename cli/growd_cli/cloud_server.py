"""`growd cloud receive`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from growd.runtime.event_loop import allow_open_files, run_on_loop
from growd.server.listener import AddressError
from growd.store.errors import CouchError
from growd_cli import logs
from growd_cli.cloud import refuse_couch_error, server_of, server_options
from growd_cli.options import plain_errors, refuse
from growd_cloud import serving
from growd_web.part import page_folder
from growd_web.served_page import ServedPage

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)


@click.command()
@server_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=5990,
    show_default=True,
    help="Port to listen on; 0 for any free one.",
)
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a proxy in front that sets X-Forwarded-For; may be repeated.",
)
@click.option("--verbose", is_flag=True, help="Log debug messages too.")
def receive(
    couchdb: str,
    credentials: Path,
    prefix: str,
    *,
    host: str,
    port: int,
    proxies: tuple[str, ...],
    verbose: bool,
) -> None:
    """Run the server that devices replicate into, until Ctrl-C or SIGTERM.

    It makes the databases of this month and the next, at its start and each hour. It checks each document and
    stores it in the database of its month. Several may run behind a proxy, which provides TLS.

    Exit status: 0 after Ctrl-C or SIGTERM; 1 if CouchDB refuses, or the port can't be used; 2 for a usage
    error; 3 if CouchDB does not answer at the start.
    """
    server = server_of(couchdb, credentials, prefix)
    logs.set_up(verbose=verbose)
    allow_open_files()
    folder, is_edited = page_folder()
    page = ServedPage(folder, is_edited=is_edited)
    with plain_errors():
        try:
            run_on_loop(serving.receive(server, host, port, proxies, _greet, page=page))
        except CouchError as error:
            refuse_couch_error(couchdb, error)
        except AddressError as error:
            refuse(error)


def _greet(address: str) -> None:
    _log.info("receiving from devices at %s", address)
