"""`growd cloud export`: the points of all devices as Parquet, by month and device."""

from __future__ import annotations

import re
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from growd.bus.errors import counted
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import run_on_loop
from growd.store.errors import CouchRefusedError, CouchUnavailableError, StoreError
from growd.wiring.files import trusting
from growd_cli.chamber import client_of
from growd_cli.cloud import refuse_couch_error, server_of, server_options
from growd_cli.options import plain_errors, refuse, require_package
from growd_cli.terminal import echo_text, progress_of_parts
from growd_cloud.export_state import ExportState
from growd_cloud.months import Month

if TYPE_CHECKING:
    import ssl

    from growd.runtime.clock import Clock
    from growd_cloud.export import CloudExport, ExportRound
    from growd_cloud.serving import CloudServer

_MONTH: Final = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])")
_DENIED: Final = frozenset({401, 403})
_RETRY_S: Final = 60.0
_KINDS: Final = {False: ("points",), True: ("points", "events")}


def _month(_: click.Context, __: click.Parameter, text: str) -> Month:
    found = _MONTH.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a month: use a form such as 2026-11")
    return Month(int(found[1]), int(found[2]))


@click.command()
@server_options
@click.option("-o", "--output", "folder", required=True, type=click.Path(path_type=Path), metavar="FOLDER")
@click.option("--events", is_flag=True, help="Also export commands, qualities and events.")
@click.option(
    "--since-month",
    default="2015-01",
    show_default=True,
    callback=_month,
    metavar="MONTH",
    help="Leave out the databases of earlier months.",
)
@click.option("--follow", is_flag=True, help="Continue until Ctrl-C.")
@click.option(
    "--every",
    type=click.FloatRange(1),
    default=60.0,
    show_default=True,
    metavar="MINUTES",
    help="The time between two readings with --follow; each writes at least one file for each device.",
)
@click.option(
    "--recheck",
    is_flag=True,
    help="Read all databases from their beginning; add what is missing. Use it after a restored backup.",
)
@click.option("--ca", metavar="FILE", default="", help="Trust the certificates in FILE (https).")
def export(
    *,
    couchdb: str,
    credentials: Path,
    prefix: str,
    folder: Path,
    events: bool,
    since_month: Month,
    follow: bool,
    every: float,
    recheck: bool,
    ca: str,
) -> None:
    """Write the points of all devices to FOLDER as Parquet: points/month=2026-11/device=0123456789ab/.

    The points come from the monthly databases of the cloud, and from environmental_data_point and
    environmental_event if devices also replicate into the CouchDB directly. A login with the role reader is
    enough. The next run adds what is new. Each point is written once, also if the export was killed or the
    database repeats changes. Only one export at a time writes into FOLDER. Photos are not exported.

    Exit status: 0 if all is exported; 1 if FOLDER can't be written, CouchDB refuses or has no databases of a
    cloud; 2 for a usage error; 3 if the database does not answer (run the command again).
    """
    server = server_of(couchdb, credentials, prefix)
    require_package("pyarrow", "Parquet")
    with plain_errors():
        tls = trusting(f"--ca {ca}", ca) if ca else None
        try:
            with closing(ExportState(folder)) as state:
                if recheck:
                    state.forget_places()
                options = {"kinds": _KINDS[events], "since": since_month}
                run_on_loop(_run(server, tls, state, options, every * 60 if follow else None))
                files, size = state.totals()
        except CouchUnavailableError as error:
            refuse_couch_error(couchdb, error, "the same command continues here")
        except CouchRefusedError as error:
            refuse_couch_error(couchdb, error, "check --credentials" if error.status in _DENIED else "")
        except StoreError as error:
            refuse(error)
        echo_text(f"{folder}: {counted(files, 'file')}, {size / 1e6:.1f} MB")


async def _run(
    server: CloudServer,
    tls: ssl.SSLContext | None,
    state: ExportState,
    options: dict[str, Any],
    every: float | None,
) -> None:
    from growd_cloud.export import CloudExport  # noqa: PLC0415  pyarrow is an optional extra

    async with client_of(server.url, server.credentials, tls) as couch:
        make = partial(CloudExport, couch, state, names=server.names, now=time.time, **options)
        with progress_of_parts("points") as bar:
            found = await make(report=bar).round()
        if not found.databases and not found.gone:
            prefix = f" with the prefix {server.names.prefix}" if server.names.prefix else ""
            raise StoreError(
                f"{server.url} has no databases of a cloud{prefix}; check --couchdb and --prefix"
            )
        _say(found)
        if every is not None:
            await follow(make(), every, RealClock())


async def follow(export: CloudExport, every: float, clock: Clock) -> None:
    """Read every so many seconds; a database that does not answer is asked again each minute."""
    is_lost = False
    while True:
        await clock.sleep(min(every, _RETRY_S) if is_lost else every)
        try:
            found = await export.round()
        except CouchUnavailableError as error:
            if not is_lost:
                echo_text(f"growd: {error}; trying again each minute", err=True)
            is_lost = True
        else:
            if is_lost:
                echo_text("growd: the database answers again", err=True)
            is_lost = False
            _say(found)


def _say(found: ExportRound) -> None:
    for name in found.gone:
        echo_text(f"growd: the database {name} is gone; its files stay", err=True)
    if found.others:
        echo_text(f"growd: left out {counted(found.others, 'document')} without an id of growd", err=True)
    new = ", ".join(counted(number, kind.removesuffix("s")) for kind, number in found.rows.items())
    echo_text(f"growd: new: {new}", err=True)
