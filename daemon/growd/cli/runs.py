"""`growd run list`: runs of recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from growd.cli.options import client_options
from growd.cli.output import output_options, print_result, table
from growd.runtime.text import duration, moment

if TYPE_CHECKING:
    from datetime import tzinfo

    from growd.cli.options import DaemonOptions

environment_option = click.option(
    "--environment", metavar="ID", help="Use this environment.  [default: the first one]"
)


class Listed(msgspec.Struct):
    """A run in the list; times are UNIX seconds. Runs of an older growd lack some members."""

    id: str
    short_id: str
    started: float
    recipe_id: str = ""
    recipe_rev: str = ""
    started_by: str | None = None
    ended: float | None = None
    end_reason: str | None = None
    ended_by: str | None = None

    def cells(self, zone: tzinfo | None) -> tuple[str, ...]:
        ended = "" if self.ended is None else moment(self.ended, zone)
        lasted = "" if self.ended is None else duration(self.ended - self.started)
        how = "running" if self.ended is None else self.end_reason or ""
        how = f"{how} by {self.ended_by}" if self.ended_by else how
        recipe = (
            f"{self.recipe_id} ({self.recipe_rev.partition('-')[0]})" if self.recipe_rev else self.recipe_id
        )
        return self.short_id, recipe, moment(self.started, zone), ended, lasted, how, self.started_by or ""


class _Answer(msgspec.Struct):
    runs: list[dict[str, Any]]
    more: bool


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
    settings = daemon.configuration().environment
    with daemon.client() as client:
        answer = client.get("runs", environment or settings.id, kind=_Answer, query=f"limit={limit}")
    zone = settings.zone()
    rows = [msgspec.convert(each, Listed).cells(zone) for each in answer.runs]
    heads = ("run", "recipe", "start", "end", "lasted", "state", "started by")
    print_result(answer.runs, table(heads, rows) if rows else ["no runs"], as_json=as_json)
    if answer.more and not as_json:
        click.echo(f"growd: there are older runs: --limit {min(500, 2 * limit)} shows more", err=True)
