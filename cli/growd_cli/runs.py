"""`growd run list` and `show`: runs of recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from growd.runtime.text import aligned, duration, in_symbols, moment, symbol
from growd.store.run_documents import short_id
from growd_cli.options import client_options, environment_option
from growd_cli.output import HEADING, number, output_options, print_result, table, tree
from growd_cli.terminal import echo_text
from growd_cli.times import zone_of
from growd_client.methods import ClientMethods

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from growd_cli.options import DaemonOptions
    from growd_client.answers import RunSummary


def _cells(run: RunSummary, zone: tzinfo | None) -> tuple[str, ...]:
    """A row of the list."""
    ended = "" if run.ended is None else moment(run.ended, zone)
    lasted = "" if run.ended is None else duration(run.ended - run.started)
    how = "running" if run.ended is None else run.end_reason or ""
    how = f"{how} by {run.ended_by}" if run.ended_by else how
    recipe = f"{run.recipe_id} ({run.recipe_rev.partition('-')[0]})" if run.recipe_rev else run.recipe_id
    return run.short_id, recipe, moment(run.started, zone), ended, lasted, how, run.started_by


@click.command("list")
@environment_option
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 500),
    default=20,
    show_default=True,
    help="Maximum number of runs.",
)
@output_options
@client_options
def list_command(*, daemon: DaemonOptions, environment: str | None, limit: int, as_json: bool) -> None:
    """List the runs of recipes, the newest first.

    The first column is the short form of the id, which the other commands accept. The number behind a recipe
    is its revision at the start. Times are in the time zone of the chamber.
    """
    where = daemon.environment(environment)
    with daemon.client() as client:
        answer = client.send(ClientMethods.runs(client, where, limit=limit))
        zone = zone_of(client)
    rows = [_cells(each, zone) for each in answer.runs]
    heads = ("run", "recipe", "start", "end", "lasted", "state", "started by")
    print_result(answer.runs, table(heads, rows) if rows else ["no runs"], as_json=as_json)
    if answer.more and not as_json:
        echo_text(f"growd: there are older runs: --limit {min(500, 2 * limit)} shows more", err=True)


@click.command()
@click.argument("run_id", metavar="ID")
@output_options
@client_options
def show(*, daemon: DaemonOptions, run_id: str, as_json: bool) -> None:
    """Show a run: its record, notes, measurements by hand and events.

    ID is the id of a run, or its short form, which `growd run list` prints. --json has all of it, with the
    recipes, the configuration and the calibrations. Times are in the time zone of the chamber.
    """
    with daemon.client() as client:
        described = client.get("run", run_id, kind=dict[str, Any])
        zone = zone_of(client)
    print_result(described, _shown(described, zone), as_json=as_json)


def _shown(described: dict[str, Any], zone: tzinfo | None) -> Iterator[str]:
    run = described["run"]
    yield from tree({name: value for name, value in _record(run, zone).items() if value not in ("", None)})
    notes = [(moment(each["time"], zone), each["by"], _text_of_note(each)) for each in described["notes"]]
    measured = [
        (moment(each["time"], zone), each["by"], each["variable"], _value(each))
        for each in described["measurements"]
    ]
    events = [
        (moment(each["time"], zone), each["kind"], in_symbols(f"{each['source']}: {each['message']}"))
        for each in described["events"]
    ]
    for heading, rows in (("notes", notes), ("measurements by hand", measured), ("events", events)):
        if rows:
            yield ""
            yield click.style(heading, HEADING)
            yield from ("  ".join(cells).rstrip() for cells in aligned(rows[0], rows[1:]))


def _value(measured: dict[str, Any]) -> str:
    return f"{number(measured['value'], measured['variable'])} {symbol(measured['unit'])}".rstrip()


def _record(run: dict[str, Any], zone: tzinfo | None) -> dict[str, Any]:
    """What is shown of the document."""
    ended = run.get("ended")
    offset = run.get("offset") or 0
    return {
        "run": run["_id"],
        "environment": run["environment"],
        "recipe": _revision(run),
        "started": _when(run["started"], run.get("started_by"), zone),
        "ordered": "" if run.get("ordered") is None else moment(run["ordered"], zone),
        "began at": duration(offset) if offset else "",
        "changed": "; ".join(
            f"{_when(each['time'], each.get('by'), zone)}: {_revision(each)}"
            for each in run.get("revisions", [])
        ),
        "ended": "running" if ended is None else _when(ended, run.get("ended_by"), zone),
        "lasted": "" if ended is None else duration(ended - run["started"]),
        "reason": run.get("end_reason"),
        "experiment": ", ".join(f"{name} {text}" for name, text in run.get("study", {}).items()),
        "growd": run.get("growd"),
        "figures": _figures(run),
    }


def _figures(run: dict[str, Any]) -> str:
    if run.get("ended") is None:
        return f"so far: growd run report {short_id(run['_id'])}"
    return "" if "figures" in run else "not made yet"


def _when(time: float, by: str | None, zone: tzinfo | None) -> str:
    return moment(time, zone) + (f" by {by}" if by else "")


def _revision(run: dict[str, Any]) -> str:
    number = str(run.get("recipe_rev") or "").partition("-")[0]
    return f"{run['recipe_id']}, revision {number}" if number else str(run["recipe_id"])


def _text_of_note(note: dict[str, Any]) -> str:
    values = [f"{name} = {number(value, name)}" for name, value in note["measurements"].items()]
    return "; ".join([part for part in (str(note["text"]), *values, *note["photos"]) if part])
