"""`growd db history`: minimum, mean and maximum of stored values over any range of time."""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import click

from growd.runtime.text import columns
from growd_cli.options import client_options, environment_option, json_option
from growd_cli.output import echo_lines, number, print_json
from growd_cli.times import FORMS, span_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd_cli.options import DaemonOptions

_CATEGORIES: Final = ("measured", "desired", "commanded")
_VALUES: Final = ("min", "mean", "max", "last", "count")


@click.command("history")
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
