"""`growd run export`: a run as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from yarl import URL

from growd.bus.errors import counted
from growd.runtime.event_loop import run_on_loop
from growd.store.bootstrap import Databases
from growd.store.errors import StoreError
from growd.store.reading.source import ExportBrokenError, PointSource
from growd_analysis.points.export import reading
from growd_analysis.runs.run_export import Counts, RunExport
from growd_analysis.runs.run_zip import RunZip
from growd_cli.camera import all_photos
from growd_cli.client import HINTS, NOT_REACHED
from growd_cli.options import (
    client_options,
    format_option,
    output_option,
    refuse,
    replace_option,
    require_package,
)
from growd_cli.terminal import echo_text, progress_of_parts
from growd_client.connection import DaemonClient
from growd_client.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from growd_camera.album import CameraPhoto
    from growd_cli.options import DaemonOptions

ANSWER_S: Final = 60.0  # for the record, which may have megabytes


@click.command()
@click.argument("run_id", metavar="ID")
@output_option("Write to FILE.  [default: run-ID.zip]")
@format_option
@replace_option
@client_options
def export(*, daemon: DaemonOptions, run_id: str, path: Path | None, kind: str, replace: bool) -> None:
    """Write a run into one ZIP file.

    It has the record, recipes, points, events, notes, photos and checksums.

    ID is the id of a run, or its short form, which `growd run list` prints. README.txt in FILE describes the
    tables and their units. The simulator replays FILE (simulator.replay).

    Where points were retired, FILE has five-minute rollups in their place. FILE has the same bytes each time,
    as long as the run and its points do not change.

    Exit status: 0 if FILE is complete; 1 if it can't be written, if it exists, or for an unknown run; 2 for
    a usage error; 3 if growd or the database does not answer.
    """
    if kind == "parquet":
        require_package("pyarrow", "Parquet")
    address = daemon.address()
    login, tls = daemon.login(address), daemon.tls(address)
    with DaemonClient(address, login, tls, ANSWER_S, HINTS) as client:
        described = client.get("run", run_id, kind=dict[str, Any])
        photos = _photos(client, described["run"])
    names = Databases.prefixed(daemon.configuration().couchdb.prefix)
    source = PointSource(
        URL(address.root),
        names.points,
        names.events,
        address.name,
        (login.user, login.password) if login else None,
        tls,
        names.rollups,
    )
    short = described["short_id"]
    path = path or Path(f"run-{short}.zip")
    try:
        with RunZip(path, f"run-{short}", replace=replace) as file, progress_of_parts("run") as report:
            counts = run_on_loop(
                _write(source, file, described, photos, kind=kind, scratch=path.parent, report=report)
            )
            file.finish()
    except ExportBrokenError as error:
        refuse(str(error), NOT_REACHED)
    except StoreError as error:
        refuse(str(error))
    what = [counted(counts.points, "point"), counted(counts.events, "event")]
    what += [counted(counts.buckets, "bucket")] if counts.buckets else []
    what += [counted(counts.photos, "photo")] if counts.photos else []
    echo_text(f"growd: {', '.join(what)} in {path}", err=True)


async def _write(
    source: PointSource,
    file: RunZip,
    described: dict[str, Any],
    photos: Sequence[CameraPhoto],
    *,
    kind: str,
    scratch: Path,
    report: Callable[[float], None],
) -> Counts:
    async with reading(source) as reader:
        return await RunExport(reader, described, kind, scratch, report, photos).write(file)


def _photos(client: DaemonClient, run: dict[str, Any]) -> list[CameraPhoto]:
    """Photos of cameras, oldest first; none of an environment that is not configured any more."""
    try:
        return [*all_photos(client, run["environment"], run=run["_id"])][::-1]
    except NotFoundError:
        return []
