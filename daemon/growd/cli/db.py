"""The command line around the database: `growd db export` and `growd db rejected`."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from yarl import URL

from growd.bus.errors import counted
from growd.cli.client import NOT_REACHED
from growd.cli.options import client_options, json_option, refuse
from growd.config import ConfigError
from growd.runtime.event_loop import run_on_loop
from growd.store.bootstrap import Databases
from growd.store.errors import StoreError
from growd.store.exporting.export import (
    ALL,
    COLUMNS,
    EVENTS,
    POINTS,
    ExportFile,
    ExportQuery,
    Progress,
    open_export,
    write_table,
)
from growd.store.exporting.part_file import PartFile, StreamFile
from growd.store.exporting.source import ExportBrokenError, PointSource
from growd.store.store_node import MOST_LISTED
from growd.wiring.files import read_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.cli.options import DaemonOptions

_STEPS: Final = 1_000  # of a progress bar


class _Time(click.ParamType[float]):
    """UNIX seconds, or a date and time in ISO 8601; UTC where no zone is given."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            seconds = float(text)
        except ValueError:
            try:
                moment = datetime.fromisoformat(text)
            except ValueError:
                self.fail(f"{text} is no time: give UNIX seconds, or 2026-11-22T00:05:03Z", param, ctx)
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if not math.isfinite(seconds):
            self.fail(f"{text} is no time", param, ctx)
        return seconds


@click.group()
def db() -> None:
    """Work with the database of points."""


@db.command()
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="The file to write; - is standard output (CSV only).",
)
@click.option(
    "--view",
    type=click.Choice(["by_variable", "by_timestamp"]),
    default="by_variable",
    show_default=True,
    help="Which order the points come in.",
)
@click.option("--environment", metavar="ID", default="", help="Points of this environment only.")
@click.option("--variable", metavar="NAME", default="", help="Points of this variable only.")
@click.option(
    "--category",
    type=click.Choice([*POINTS, *EVENTS, ALL]),
    default="measured",
    show_default=True,
    help="Points of this category only.",
)
@click.option(
    "--recipe-marks", is_flag=True, help="Include recipe_start and recipe_end (desired, texts); all has them."
)
@click.option(
    "--start",
    type=_Time(),
    metavar="TIME",
    help="The first time: UNIX seconds or ISO 8601, in UTC where no zone is given (2026-11-22T10:00+01:00).",
)
@click.option("--end", type=_Time(), metavar="TIME", help="The last time.")
@click.option("--cols", metavar="A,B", help=f"Columns.  [default: {','.join(COLUMNS)}]")
@click.option("--wide", is_flag=True, help="One column for each variable, one row for each step of time.")
@click.option("--every", type=click.FloatRange(1), metavar="SECONDS", help="That step.  [default: 60]")
@click.option("--format", "kind", type=click.Choice(["csv", "parquet"]), default="csv", show_default=True)
@click.option("--restart", is_flag=True, help="Begin anew, whatever is there.")
@client_options
def export(
    *,
    path: Path,
    view: str,
    environment: str,
    variable: str,
    category: str,
    recipe_marks: bool,
    start: float | None,
    end: float | None,
    cols: str | None,
    wide: bool,
    every: float | None,
    kind: str,
    restart: bool,
    daemon: DaemonOptions,
) -> None:
    """Write the measured points into FILE, or those of another category, or some of them.

    They come from the configured CouchDB, or else through the running daemon. Times in FILE are UTC. What
    came before a cut stays in FILE.part: the same command goes on there.

    With --wide each row has the last value of every variable at its time: a measured one for a little more
    than the time after which growd stores it again ([store] maximum_interval_s), or until its sensor fails,
    the others until they change. Columns of other categories are called desired/NAME, commanded/NAME and
    quality/NAME.

    The exit status is 0 when FILE is whole; 1 where it can't be written, where another query was begun,
    where the database refuses or where there is no such name; 2 for a wrong command line; 3 where the
    database does not answer or broke off, so that the same command may be tried again.
    """
    _check(cols, every, category, kind, wide=wide, is_stream=str(path) == "-")
    if kind == "parquet" and importlib.util.find_spec("pyarrow") is None:
        refuse("Parquet needs pyarrow: pip install pyarrow, in the environment of growd")
    try:
        query = ExportQuery(
            "by_timestamp" if wide else view,
            ("time",) if wide else _columns(cols or ",".join(COLUMNS)),
            environment,
            variable,
            category,
            start,
            end,
            (recipe_marks or category == ALL) and not wide,
            (every or 60.0) if wide else None,
            _carried_s(daemon),
        )
        source = _source(daemon)
        if str(path) == "-":
            stream = StreamFile(sys.stdout.buffer)
            asyncio.run(_read(stream, source, query, kind, lambda _: None))
            return
        with PartFile(path, _query_of(query, kind, source), restart=restart) as file:
            _export(file, source, query, kind, path)
    except ExportBrokenError as error:
        refuse(f"{error}; the same command resumes here", NOT_REACHED)
    except (ConfigError, StoreError) as error:
        refuse(str(error))


@db.command()
@click.option("--retry", is_flag=True, help="Send them again.")
@click.option(
    "--limit", type=click.IntRange(1, MOST_LISTED), default=100, show_default=True, help="How many."
)
@json_option
@client_options
def rejected(*, retry: bool, limit: int, as_json: bool, daemon: DaemonOptions) -> None:
    """List the points that the database refused, with its reasons; the oldest come first.

    They are kept aside, and hold up no others. The exit status is 0, 1 where they can't be read or sent, 3
    where no daemon answers.
    """
    asked: tuple[str, dict[str, int]] = (
        ("store/retry_rejected", {}) if retry else ("store/rejected", {"limit": limit})
    )
    with daemon.client() as client:
        answer = client.call(*asked, kind=_Answer)
    if not answer.success:
        refuse(answer.message)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(answer.results), indent=2))
        return
    for one in answer.results:
        click.echo(one.line())
    click.echo(answer.message)


class _Rejected(msgspec.Struct):
    point: dict[str, Any]
    reason: str
    rejected_at: float

    def line(self) -> str:
        when = datetime.fromtimestamp(self.rejected_at, UTC).isoformat(timespec="seconds")
        point = self.point
        what = f"{point['environment']}/{point['variable']} = {point['value']}"
        return f"{point['_id']}  {when}  {what}: {self.reason}"


class _Answer(msgspec.Struct):
    success: bool
    message: str
    results: list[_Rejected] = []


def _export(file: PartFile, source: PointSource, query: ExportQuery, kind: str, path: Path) -> None:
    if file.mark.rows:
        click.echo(f"growd: resuming behind row {file.mark.rows} of {file.part}", err=True)
    try:
        with _progress() as report:
            columns = run_on_loop(_read(file, source, query, kind, report))
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
    click.echo(f"growd: {counted(file.mark.rows, noun)} in {path}", err=True)


async def _read(
    file: ExportFile, source: PointSource, query: ExportQuery, kind: str, report: Callable[[Progress], None]
) -> tuple[str, ...]:
    """The columns."""
    async with open_export(source, query) as reading:
        await (reading.to_rows if kind == "parquet" else reading.to_csv)(file, report)
        return reading.columns


def _check(
    cols: str | None, every: float | None, category: str, kind: str, *, wide: bool, is_stream: bool
) -> None:
    """Refuse options that exclude each other."""
    if every is not None and not wide:
        raise click.UsageError("--every belongs to --wide")
    if wide and cols is not None:
        raise click.UsageError("--cols does not go with --wide, whose columns are the variables")
    if wide and category == "event":
        raise click.UsageError("--wide has no place for events; leave --wide out")
    if is_stream and kind == "parquet":
        raise click.UsageError("Parquet needs a file, not standard output")


def _carried_s(daemon: DaemonOptions) -> float:
    """For how long a measured value counts: a tenth more than the time after which it is stored again."""
    store = daemon.configuration().store
    return 1.1 * max(store.rule_of(name).maximum_interval_s or 0.0 for name in ("", *store.variable))


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar on standard error, if that is a terminal."""
    with click.progressbar(
        length=_STEPS,
        label="points",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:

        def report(progress: Progress) -> None:
            bar.update(max(0, round(progress.part * _STEPS) - bar.pos))

        yield report


def _source(daemon: DaemonOptions) -> PointSource:
    """The database itself if one is configured, else the daemon before it. Reads the file of credentials."""
    config = daemon.configuration()
    couchdb = config.couchdb
    names = Databases.prefixed(couchdb.prefix)
    databases = names.points, names.events
    if couchdb.url and daemon.url is None:
        login = read_credentials(couchdb.credentials_file)
        server = URL(couchdb.url).with_user(None) if login else URL(couchdb.url)
        return PointSource(server, *databases, config.http.name, login)
    address = daemon.address()
    asking = daemon.login(address)
    login = (asking.user, asking.password) if asking else None
    return PointSource(URL(address.root), *databases, address.name, login, daemon.tls(address))


def _query_of(query: ExportQuery, kind: str, source: PointSource) -> dict[str, str]:
    """What must be the same for a second try to go on with the first."""
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
        sentence = f"must be different names with commas between, got {text!r}"
        raise click.BadParameter(sentence, param_hint="--cols")
    return columns
