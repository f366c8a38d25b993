"""The commands of `growd recipe` that list, store and run the recipes of the running daemon."""

from __future__ import annotations

import contextlib
import getpass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click
import msgspec

from growd.bus.errors import counted
from growd.cli.client import Client, ClientError, RefusedError
from growd.cli.names import complete_with, did_you_mean
from growd.cli.options import Reach, client_options, refuse
from growd.cli.output import echo_lines, output_options, print_json, table
from growd.recipes.errors import InvalidRecipeError
from growd.recipes.findings import RecipeFinding, errors
from growd.recipes.interpreter import check, interpret
from growd.recipes.reading import read
from growd.runtime.text import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem


_HEADINGS: Final = ("recipe", "format", "lasts", "state")
_DATABASE: Final = "recipes"


class _Row(msgspec.Struct):
    id: str
    doc: dict[str, Any] | None = None


class _Rows(msgspec.Struct):
    rows: list[_Row] = []


class _Listed(msgspec.Struct):
    """A recipe in the list: `duration` is in seconds, None where it can't run."""

    recipe: str
    format: str
    duration: float | None
    state: str

    def cells(self) -> tuple[str, ...]:
        lasts = "invalid" if self.duration is None else duration(self.duration)
        return self.recipe, self.format, lasts, self.state


class _Written(msgspec.Struct):
    rev: str = ""


class _Checked(msgspec.Struct):
    success: bool = False
    message: str = ""
    findings: list[RecipeFinding] = []


class _Result(msgspec.Struct):
    result: str = ""


def complete_ids(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the id of a recipe."""
    given = {name: ctx.params[name] for name in ("config", "settings") if ctx.params.get(name)}
    return complete_with(ctx, incomplete, lambda client: _ids(client, Reach(**given)))


def _ids(client: Client, reach: Reach) -> list[str]:
    rows = client.database("GET", f"{_database(reach)}/_all_docs", kind=_Rows).rows
    return [row.id for row in rows if not row.id.startswith("_design/")]


def with_ids_like(refusal: str, recipe_id: str, reach: Reach) -> str:
    """A refusal; where there is no recipe of this id, with the ids that may have been meant."""
    if refusal == f"there is no recipe {recipe_id}":
        with contextlib.suppress(ClientError), reach.client() as client:  # some may not read the database
            return refusal + did_you_mean(recipe_id, _ids(client, reach))
    return refusal


def complete_files_and_ids(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the id of a recipe, or a path where none begins so."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only a shell that asks needs it

    return [CompletionItem(incomplete, type="file"), *complete_ids(ctx, parameter, incomplete)]


def environment_option(command: Callable[..., None]) -> Callable[..., None]:
    """`--environment`; see `environment_of`."""
    return click.option("--environment", metavar="ID", help="Of this environment.  [default: the first one]")(
        command
    )


def environment_of(reach: Reach, named: str | None) -> str:
    """The environment that is named, else the first of the configuration."""
    return named or reach.configuration().environment.id


def read_file(file: Path) -> tuple[Any, list[RecipeFinding]]:
    """What a file holds, as `growd.recipes.reading.read` has it; ends the program where it is not JSON."""
    try:
        return read(file.read_text(encoding="utf-8"))
    except OSError as error:
        refuse(f"{file} can't be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        refuse(f"{file} is no JSON: {error}")


@click.command("list")
@environment_option
@output_options
@client_options
def list_command(*, reach: Reach, environment: str | None, as_json: bool) -> None:
    """List the recipes in the database, and which one runs."""
    where = environment_of(reach, environment)
    with reach.client() as client:
        path = f"{_database(reach)}/_all_docs?include_docs=true"
        rows = client.database("GET", path, kind=_Rows).rows
        current = client.get("param", f"{where}/current_recipe", kind=_Result).result
        state = client.get("param", f"{where}/recipe_state", kind=_Result).result if current else ""
    recipes = [row for row in rows if not row.id.startswith("_design/")]
    found = [
        _Listed(
            row.id,
            str((row.doc or {}).get("format", "")),
            _duration(row.doc),
            state if row.id == current else "",
        )
        for row in recipes
    ]
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        echo_lines(table(_HEADINGS, [each.cells() for each in found]))


def _duration(document: Any) -> float | None:
    """How long a recipe takes, in seconds; None where it can't run."""
    try:
        return interpret(document)[0].duration
    except InvalidRecipeError:
        return None


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@environment_option
@client_options
def put(*, reach: Reach, file: Path, environment: str | None) -> None:
    """Check a recipe and store it in the database.

    Its id is `_id` of the document, else the name of the file. A recipe of that id is replaced; a run of it
    goes on with the revision that it was started with. A recipe with errors is refused.
    """
    document, repeated = read_file(file)
    wrong = repeated + errors(check(document))
    for finding in wrong:
        click.echo(f"{finding.severity:7}  {finding}", err=True)
    if wrong:
        refuse(f"{file} is not stored, for it has {counted(len(wrong), 'error')}")
    recipe_id = str(document.get("_id", file.stem))
    service = f"{environment_of(reach, environment)}/check_recipe"
    with reach.client() as client:
        path = f"{_database(reach)}/{quote(recipe_id, safe='')}"
        answer = client.database("PUT", path, {**_revision(client, path), **document}, kind=_Written)
        # by its id: a recipe may be larger than the body of a request to the API
        checked = client.call(service, {"recipe_id": recipe_id}, kind=_Checked)
    for finding in checked.findings:
        click.echo(f"{finding.severity:7}  {finding}", err=True)
    click.echo(f"growd: {recipe_id} is stored, revision {answer.rev}", err=True)


def _revision(client: Client, path: str) -> dict[str, Any]:
    """The `_rev` of the document that is to be replaced, if there is one."""
    try:
        found = client.database("GET", path, kind=dict[str, Any])
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return {}
    return {"_rev": found["_rev"]}


def _database(reach: Reach) -> str:
    return reach.configuration().couchdb.prefix + _DATABASE


def _call(reach: Reach, environment: str | None, service: str, **arguments: Any) -> None:
    """Call a service of the recipe runner, and print its message."""
    with reach.client() as client:
        name = f"{environment_of(reach, environment)}/{service}"
        answer = client.call(name, {**arguments, "by": getpass.getuser()}, kind=_Checked)
    if not answer.success:
        refuse(with_ids_like(answer.message, arguments.get("recipe_id", ""), reach))
    click.echo(f"growd: {answer.message}", err=True)


@click.command()
@click.argument("recipe_id", metavar="ID", shell_complete=complete_ids)
@click.option("--offset", type=float, default=0.0, metavar="SECONDS", help="Begin there in the recipe.")
@environment_option
@client_options
def start(*, reach: Reach, recipe_id: str, offset: float, environment: str | None) -> None:
    """Start a recipe of the database."""
    _call(reach, environment, "start_recipe", recipe_id=recipe_id, offset=offset)


@click.command()
@environment_option
@client_options
def stop(*, reach: Reach, environment: str | None) -> None:
    """Stop the recipe that runs, and release its set points."""
    _call(reach, environment, "stop_recipe")


@click.command()
@environment_option
@client_options
def pause(*, reach: Reach, environment: str | None) -> None:
    """Hold the recipe and its set points as they are."""
    _call(reach, environment, "pause_recipe")


@click.command()
@environment_option
@client_options
def resume(*, reach: Reach, environment: str | None) -> None:
    """Continue a paused recipe."""
    _call(reach, environment, "resume_recipe")


@click.command()
@click.argument("phase", metavar="PHASE")
@environment_option
@client_options
def skip(*, reach: Reach, phase: str, environment: str | None) -> None:
    """Go to where a phase begins: its name, or its number from 1."""
    _call(reach, environment, "skip_to_phase", phase=phase)


COMMANDS: Final = (list_command, put, start, stop, pause, resume, skip)
