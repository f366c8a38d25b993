"""`growd db`: export points, and print their history."""

from __future__ import annotations

import asyncio
import csv
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import click
from yarl import URL

from growd.bus.errors import counted
from growd.config import ConfigError
from growd.runtime.event_loop import run_on_loop
from growd.runtime.text import columns
from growd.store.bootstrap import Databases
from growd.store.errors import StoreError
from growd.store.reading.source import ExportBrokenError, PointSource
from growd.wiring.files import read_credentials
from growd_analysis.points.export import (
    ALL,
    COLUMNS,
    EVENTS,
    POINTS,
    Export,
    ExportFile,
    ExportQuery,
    Progress,
    reading,
    write_table,
)
from growd_analysis.points.part_file import PartFile, StreamFile
from growd_cli.client import NOT_REACHED
from growd_cli.database_check import check_database
from growd_cli.options import (
    client_options,
    environment_option,
    format_option,
    json_option,
    output_option,
    refuse,
    replace_part_option,
    require_package,
)
from growd_cli.output import echo_lines, number, print_json
from growd_cli.terminal import echo_text, progress_of_parts
from growd_cli.times import FORMS, span_in, span_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from growd_cli.options import DaemonOptions

_CATEGORIES: Final = ("measured", "desired", "commanded")
_VALUES: Final = ("min", "mean", "max", "last", "count")


@click.group()
def db() -> None:
    """Export points, print their history, and check a CouchDB."""


db.add_command(check_database)


@db.command()
@output_option("Write to FILE; - is standard output (CSV only).", required=True, allow_dash=True)
@click.option(
    "--view",
    type=click.Choice(["by_variable", "by_timestamp"]),
    default="by_variable",
    show_default=True,
    help="The order of the points.",
)
@click.option("--environment", metavar="ID", default="", help="Only points of this environment.")
@click.option("--variable", metavar="NAME", default="", help="Only points of this variable.")
@click.option(
    "--category",
    type=click.Choice([*POINTS, *EVENTS, ALL]),
    default="measured",
    show_default=True,
    help="Only points of this category.",
)
@click.option(
    "--recipe-marks",
    is_flag=True,
    help="Include recipe_start and recipe_end (desired points with text); implied by --category all.",
)
@click.option("--start", metavar="TIME", help=f"Only points from TIME on: {FORMS}.")
@click.option("--end", metavar="TIME", help="Only points up to TIME.")
@click.option("--cols", metavar="A,B", help=f"Columns of FILE.  [default: {','.join(COLUMNS)}]")
@click.option("--wide", is_flag=True, help="One column per variable, one row per time step.")
@click.option(
    "--every", type=click.FloatRange(1), metavar="SECONDS", help="The time step of --wide.  [default: 60]"
)
@format_option
@replace_part_option
@client_options
def export(
    *,
    path: Path,
    view: str,
    environment: str,
    variable: str,
    category: str,
    recipe_marks: bool,
    start: str | None,
    end: str | None,
    cols: str | None,
    wide: bool,
    every: float | None,
    kind: str,
    replace: bool,
    daemon: DaemonOptions,
) -> None:
    """Write the measured points to FILE, or those of another category.

    The points come from the configured CouchDB, or else from the running daemon. TIME is in the time zone of
    the chamber unless it names its own, as in 2026-11-24T06:00Z; without a date it is the last one. Times in
    FILE are UTC. If the export is interrupted, run the same command again: it continues FILE.part.

    With --wide, each row has the latest value of every variable. A measured value counts for a little longer
    than [store] maximum_interval_s, or until its sensor fails; other values count until they change. Columns
    of other categories are named desired/NAME, commanded/NAME and quality/NAME.

    Exit status: 0 if FILE is complete; 1 if it can't be written, if FILE.part is of another query, if the
    database refuses, or for an unknown name; 2 for a usage error; 3 if the database does not answer or the
    connection broke (run the command again).
    """
    _check(cols, every, category, kind, wide=wide, is_stream=str(path) == "-")
    try:
        query = ExportQuery(
            "by_timestamp" if wide else view,
            ("time",) if wide else _columns(cols or ",".join(COLUMNS)),
            environment,
            variable,
            category,
            *_span(daemon, start, end),
            (recipe_marks or category == ALL) and not wide,
            (every or 60.0) if wide else None,
            _carried_s(daemon),
        )
        _write(daemon, query, kind, path, replace=replace)
    except ExportBrokenError as error:
        refuse(f"{error}{'' if str(path) == '-' else '; the same command resumes here'}", NOT_REACHED)
    except (ConfigError, StoreError) as error:
        refuse(str(error))


def _write(daemon: DaemonOptions, query: ExportQuery, kind: str, path: Path, *, replace: bool) -> None:
    source = _source(daemon)
    if str(path) == "-":
        _ask(daemon)
        stream = StreamFile(sys.stdout.buffer)
        asyncio.run(_read(stream, source, query, kind, lambda _: None))
        return
    with PartFile(path, _query_of(query, kind, source), replace=replace) as file:
        _ask(daemon)
        _export(file, source, query, kind, path)


def _export(file: PartFile, source: PointSource, query: ExportQuery, kind: str, path: Path) -> None:
    if file.mark.rows:
        echo_text(f"growd: resuming behind row {file.mark.rows} of {file.part}", err=True)
    try:
        with progress_of_parts("points") as show:
            columns = run_on_loop(_read(file, source, query, kind, lambda done: show(done.part)))
    finally:
        file.save()
    if kind == "parquet":
        made = path.with_name(path.name + ".part.parquet")
        file.begin()
        write_table(file.part, columns, made)
        file.finish_as(made)
    else:
        file.finish()
    noun = "point" if query.every is None else "row"
    echo_text(f"growd: {counted(file.mark.rows, noun)} in {path}", err=True)


async def _read(
    file: ExportFile, source: PointSource, query: ExportQuery, kind: str, report: Callable[[Progress], None]
) -> tuple[str, ...]:
    """Write the rows; returns the columns."""
    async with reading(source) as reader:
        export = Export(reader, query)
        await (export.to_rows if kind == "parquet" else export.to_csv)(file, report)
        return export.columns


def _check(
    cols: str | None, every: float | None, category: str, kind: str, *, wide: bool, is_stream: bool
) -> None:
    """Refuse options that can't be used together, or here."""
    if every is not None and not wide:
        raise click.UsageError("--every needs --wide")
    if wide and cols is not None:
        raise click.UsageError("--cols can't be used with --wide, whose columns are the variables")
    if wide and category == "event":
        raise click.UsageError("--wide can't show events; leave out --wide")
    if is_stream and kind == "parquet":
        raise click.UsageError("Parquet needs a file; standard output is not possible")
    if kind == "parquet":
        require_package("pyarrow", "Parquet")


def _carried_s(daemon: DaemonOptions) -> float:
    """How long a measured value counts: 1.1 times the longest interval between stored points."""
    store = daemon.configuration().store
    return 1.1 * max(store.rule_of(name).maximum_interval_s or 0.0 for name in ("", *store.variable))


def _span(daemon: DaemonOptions, start: str | None, end: str | None) -> tuple[float | None, float | None]:
    """--start and --end in UNIX seconds. Raises `GrowdError`."""
    if daemon.is_direct():
        return span_in(daemon.configuration().environment.zone, start, end)
    with daemon.client() as client:
        return span_of(client, start, end)


def _ask(daemon: DaemonOptions) -> None:
    """Raises `GrowdError` if no daemon answers, as all commands do."""
    if not daemon.is_direct():
        with daemon.client() as client:
            client.database("GET", "", kind=dict[str, Any])


def _source(daemon: DaemonOptions) -> PointSource:
    """The configured database, else the daemon in front of it. Reads the credentials file."""
    config = daemon.configuration()
    couchdb = config.couchdb
    names = Databases.prefixed(couchdb.prefix)
    databases = names.points, names.events
    if daemon.is_direct():
        login = read_credentials(couchdb.credentials_file)
        server = URL(couchdb.url).with_user(None) if login else URL(couchdb.url)
        return PointSource(server, *databases, config.http.name, login)
    address = daemon.address()
    asking = daemon.login(address)
    login = (asking.user, asking.password) if asking else None
    return PointSource(URL(address.root), *databases, address.name, login, daemon.tls(address))


def _query_of(query: ExportQuery, kind: str, source: PointSource) -> dict[str, str]:
    """The parts of the query that must be the same to continue FILE.part."""
    return {
        "--view": query.view,
        "--environment": query.environment,
        "--variable": query.variable,
        "--category": query.category,
        "--start": "" if query.start is None else repr(query.start),
        "--end": "" if query.end is None else repr(query.end),
        "--cols": "" if query.every else ",".join(query.columns),
        "--recipe-marks": "yes" if query.with_marks else "",
        "--every": "" if query.every is None else f"{query.every:g}",
        "--format": kind,
        "from": f"{source.address.with_user(None)} {source.points}",
    }


def _columns(text: str) -> tuple[str, ...]:
    columns = tuple(name.strip() for name in text.split(","))
    if not all(columns) or len(set(columns)) < len(columns):
        sentence = f"must be different names separated by commas, got {text!r}"
        raise click.BadParameter(sentence, param_hint="--cols")
    return columns


@db.command()
@click.argument("variables", nargs=-1, metavar="[VARIABLE]...")
@click.option(
    "--start",
    metavar="TIME",
    help=f"From TIME on: {FORMS}.  [default: a day before the end]",
)
@click.option("--end", metavar="TIME", help="Up to TIME.  [default: now]")
@click.option(
    "--points",
    type=click.IntRange(2, 5_000),
    default=48,
    show_default=True,
    help="The most buckets of a series.",
)
@environment_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, a line for each bucket.")
@json_option
@client_options
def history(
    *,
    variables: tuple[str, ...],
    start: str | None,
    end: str | None,
    points: int,
    environment: str | None,
    as_csv: bool,
    as_json: bool,
    daemon: DaemonOptions,
) -> None:
    """Print minimum, mean, maximum, last value and number of values, in buckets of equal length.

    Without VARIABLE, of all variables that have points. A range may have 20 years. TIME is in the time zone
    of the chamber unless it names its own, as in 2026-11-24T06:00Z; without a date it is the last one.
    Printed times are UTC, those of the starts of the buckets; buckets without points are left out. The last
    value of a released set point is empty. --json prints the answer of the API, with the events.

    Exit status: 0; 1 if the daemon refuses, or has no database; 2 for a usage error; 3 if no daemon answers;
    4 if a login is needed.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv can't be used with --json")
    query: list[tuple[str, Any]] = [*(("variable", each) for each in variables), ("points", points)]
    query += [] if as_json else [("events", "false")]
    place = daemon.environment(environment)
    with daemon.client() as client:
        span = span_of(client, start, end)
        query += [(name, at) for name, at in zip(("start", "end"), span, strict=True) if at is not None]
        answer = client.get("history", place, kind=dict[str, Any], query=urlencode(query))
    if as_json:
        print_json(answer)
    elif as_csv:
        _print_csv(answer)
    else:
        echo_lines(_lines(answer))


def _print_csv(answer: dict[str, Any]) -> None:
    table = csv.writer(sys.stdout)
    table.writerow(["time", "category", "variable", "unit", *_VALUES])
    for category, series in _series(answer):
        for time, *values in _rows(series[category]):
            table.writerow([_shown(time), category, series["variable"], series["unit"], *values])


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    found = False
    for category, series in _series(answer):
        if found:
            yield ""
        found = True
        unit = f" ({series['unit']})" if series["unit"] else ""
        yield f"{category}/{series['variable']}{unit}, buckets of {answer['bucket_s']} s"
        rows = [
            [_shown(time), *("" if value is None else number(value) for value in values)]
            for time, *values in _rows(series[category])
        ]
        yield from columns(["time", *_VALUES], rows, right=_VALUES)
    if not found:
        yield "there are no points in this range"


def _series(answer: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The category and the variable of each series with buckets."""
    for series in answer["series"]:
        for category in _CATEGORIES:
            if series[category]["time"]:
                yield category, series


def _rows(table: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    return zip(table["time"], *(table[name] for name in _VALUES), strict=True)


def _shown(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
