"""`growd run report` and `growd run compare`: pages about runs, and their figures side by side."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from growd.variable_names import LANGUAGES
from growd_analysis.figures.figures import RunFigures
from growd_analysis.reports.language import Language
from growd_analysis.reports.rows import MOST_RUNS, figure_rows
from growd_cli.options import client_options, output_option, refuse_existing, replace_option, write_page
from growd_cli.output import echo_lines, table
from growd_cli.times import zone_of

if TYPE_CHECKING:
    from datetime import tzinfo

    from growd_cli.options import DaemonOptions

REPORT_S = 75.0
"""How long to wait for a report, in seconds: growd answers within a minute."""

lang_option = click.option(
    "--lang", type=click.Choice(LANGUAGES), default="en", show_default=True, help="The language of the page."
)


@click.command()
@click.argument("run_id", metavar="ID")
@output_option("Write to FILE.  [default: RECIPE-DATE.html]")
@replace_option
@lang_option
@client_options
def report(*, daemon: DaemonOptions, run_id: str, path: Path | None, replace: bool, lang: str) -> None:
    """Write the report of a run, a page that prints well.

    It has the climate against the set points, deviations, light, CO2, faults, photos of cameras, the journal
    with photos, and yields. ID is the id of a run, or its short form, which `growd run list` prints.

    Exit status: 0; 1 if the run is unknown, or if FILE exists or can't be written; 3 if no daemon answers.
    """
    refuse_existing(path, replace=replace)
    with daemon.client(REPORT_S) as client:
        if path is None:
            run = client.get("run", run_id, kind=dict[str, Any])["run"]
            path = _default_path(run, zone_of(client))
            refuse_existing(path, replace=replace)
        page = client.page("report", run_id, query=f"lang={lang}")
    write_page(path, page)


@click.command()
@click.argument("run_ids", metavar="ID ID [ID...]", nargs=-1, required=True)
@output_option("Also write a page with the runs on one axis to FILE.")
@replace_option
@lang_option
@client_options
def compare(
    *, daemon: DaemonOptions, run_ids: tuple[str, ...], path: Path | None, replace: bool, lang: str
) -> None:
    """Compare the figures of runs, and plot them.

    The table has two to six runs, and the differences from the first one. With -o, FILE has plots too, by the
    time since the start of each run. An ID is the id of a run, or its short form, which `growd run list`
    prints.

    Exit status: 0; 1 if a run is unknown, or if FILE exists or can't be written; 3 if no daemon answers.
    """
    if not 1 < len(run_ids) <= MOST_RUNS:
        raise click.UsageError(f"expected 2 to {MOST_RUNS} runs, got {len(run_ids)}")
    refuse_existing(path, replace=replace)
    with daemon.client(REPORT_S) as client:
        figures = [client.get("figures", run_id, kind=RunFigures) for run_id in run_ids]
        page = None
        if path is not None:
            query = urlencode([*(("run", run_id) for run_id in run_ids), ("lang", lang)])
            page = client.page("compare", query=query)
        language = Language(lang, zone_of(client))
    echo_lines(_table(run_ids, figures, language))
    if path is not None and page is not None:
        write_page(path, page)


def _table(run_ids: tuple[str, ...], figures: list[RunFigures], language: Language) -> list[str]:
    """A column for each run, and one for its difference from the first."""
    first, *others = (
        f"{run_id} ({language.day(one.start)})" for run_id, one in zip(run_ids, figures, strict=True)
    )
    difference = language.say("difference_short")
    heads = ("", first, *(head for name in others for head in (name, difference)))
    rows = []
    for row in figure_rows(figures, language):
        pairs = zip(row.values[1:], row.differences[1:], strict=True)
        rows.append((row.name, row.values[0], *(cell for pair in pairs for cell in pair)))
    return list(table(heads, rows))


def _default_path(run: dict[str, Any], zone: tzinfo | None) -> Path:
    """A file in this folder, named after the recipe and the day of the start."""
    name = re.sub(r"[^\w.-]+", "-", str(run.get("recipe_id", "run"))).strip(".-") or "run"
    return Path(f"{name[:80]}-{datetime.fromtimestamp(run['started'], zone).strftime('%Y-%m-%d')}.html")
