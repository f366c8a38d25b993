"""`growd recipe`: check, show, store and run recipes."""

from __future__ import annotations

import contextlib
import difflib
import getpass
import json
import os
import sys
import time
from datetime import datetime
from functools import cached_property, partial
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click
import msgspec

from growd.bus.errors import counted
from growd.config import Chamber
from growd.recipes.findings import RecipeFinding, errors
from growd.recipes.formats import InvalidRecipeError
from growd.recipes.interpreter import FORMATS, check, interpret, read, schema_of
from growd.runtime.files import EncodingError, read_text
from growd.runtime.text import duration
from growd_analysis.recipes.drawing import plan_of
from growd_cli.names import complete_with, did_you_mean
from growd_cli.options import (
    DaemonOptions,
    client_options,
    environment_option,
    json_option,
    refuse,
)
from growd_cli.output import echo_lines, output_options, print_json, print_result, table
from growd_cli.recipe_plan import coming_of, lasting, position_of, table_of
from growd_cli.terminal import echo_text
from growd_cli.times import FORMS, time_of, unix_time_in, zone_of
from growd_client.errors import GrowdError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    from click.shell_completion import CompletionItem

    from growd_client.connection import DaemonClient

_DATABASE: Final = "recipes"
_HEADS: Final = ("---", "+++")  # lines of a difference that name files
_MOST_LINES: Final = 100  # of a difference


class _Answer(msgspec.Struct):
    """The answer of a service about recipes."""

    success: bool = False
    message: str = ""
    findings: list[RecipeFinding] = []
    plan: dict[str, Any] | None = None


class _Row(msgspec.Struct):
    id: str
    doc: dict[str, Any] | None = None


class _Rows(msgspec.Struct):
    rows: list[_Row] = []


class _Listed(msgspec.Struct):
    """A recipe in the list: `duration` is in seconds, None if it has errors.

    `conflicts` are the revisions of other versions in the database.
    """

    recipe: str
    format: str
    duration: float | None
    state: str
    conflicts: list[str]

    def cells(self) -> tuple[str, ...]:
        lasts = "invalid" if self.duration is None else duration(self.duration)
        conflict = f"in conflict: {1 + len(self.conflicts)} versions" if self.conflicts else ""
        return self.recipe, self.format, lasts, ", ".join(filter(None, (self.state, conflict)))


class _Written(msgspec.Struct):
    rev: str = ""


class _State(msgspec.Struct, frozen=True):
    """The value of the topic recipe_state."""

    state: str = ""
    recipe_id: str = ""


class _Message(msgspec.Struct):
    result: _State = _State()


@click.group()
def recipe() -> None:
    """Check, show, store and run recipes.

    FILE|ID is a file with a recipe in JSON (a path that exists or ends in .json), or the id of a recipe in
    the database of the running daemon.
    """


def _complete_ids(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    given = {name: ctx.params[name] for name in ("config", "settings") if ctx.params.get(name)}
    return complete_with(ctx, incomplete, lambda client: _ids(client, DaemonOptions(**given)))


def _complete_files_and_ids(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only for a shell that asks

    return [CompletionItem(incomplete, type="file"), *_complete_ids(ctx, parameter, incomplete)]


_what = click.argument("what", metavar="FILE|ID", shell_complete=_complete_files_and_ids)
_what_or_running = click.argument(
    "what", metavar="[FILE|ID]", default="", shell_complete=_complete_files_and_ids
)


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """The argument FILE|ID, `--environment`, and the options for the daemon."""
    for decorate in (client_options, environment_option, _what):
        command = decorate(command)
    return command


@recipe.command("check")
@_common
@json_option
def check_command(*, what: str, as_json: bool, **where: Any) -> None:
    """Check a recipe: print all errors and warnings.

    Each finding has its place as a JSON pointer. A file is checked for the chamber of the running daemon or,
    if no daemon answers, for the chamber of the configuration. The last line names the chamber and the
    length of the recipe.

    Exit status: 0 if the recipe can run, with or without warnings; 1 if it has errors or can't be read; 3 if
    an ID is given and no daemon answers.
    """
    asked = _Asked(what, **where)
    findings, chamber = asked.findings()
    wrong = len(errors(findings))
    if as_json:
        print_json(findings)
    else:
        echo_findings(findings)
        count = f"{counted(wrong, 'error')}, {counted(len(findings) - wrong, 'warning')}"
        length = "" if wrong else f", and lasts {lasting(asked.duration())}"
        echo_text(f"{what} {'cannot run' if wrong else 'can run'}{chamber}{length}: {count}.")
    sys.exit(1 if wrong else 0)


@recipe.command()
@client_options
@environment_option
@_what_or_running
@json_option
def show(*, what: str, as_json: bool, **where: Any) -> None:
    """Print the plan of a recipe: its phases and set points.

    Without FILE or ID it is the recipe that runs or waits, with its position and its changes of the next 24
    hours. Days count from the start of the recipe. The column "at" is the time of day, or the time since the
    beginning of the phase or cycle.
    """
    asked = _Asked(what, **where)
    plan = asked.plan()
    if as_json:
        print_json(plan)
        return
    echo_text(_heading(plan, asked.zone))
    if not what:
        echo_text(position_of(plan))
    echo_text()
    echo_text(table_of(plan))
    if not what:
        echo_text()
        echo_text(coming_of(plan, asked.zone))


@recipe.command()
@click.argument("name", metavar="FORMAT", type=click.Choice([*FORMATS]))
def schema(*, name: str) -> None:
    """Print the JSON Schema of a format, for editors and other programs."""
    print_json(schema_of(name))


@recipe.command("list")
@environment_option
@output_options
@client_options
def list_command(*, daemon: DaemonOptions, environment: str | None, as_json: bool) -> None:
    """List the recipes in the database, which one runs, and which ones are in conflict."""
    where = daemon.environment(environment)
    with daemon.client() as client:
        path = f"{_database(daemon)}/_all_docs?include_docs=true&conflicts=true"
        rows = client.database("GET", path, kind=_Rows).rows
        present = client.get("topic_data", f"{where}/recipe_state", kind=_Message, query="last=true").result
    found = [
        _Listed(
            row.id,
            str((row.doc or {}).get("format", "")),
            _duration(row.doc),
            present.state if row.id == present.recipe_id else "",
            (row.doc or {}).get("_conflicts", []),
        )
        for row in rows
        if not row.id.startswith("_design/")
    ]
    lines = table(("recipe", "format", "lasts", "state"), [each.cells() for each in found])
    print_result(found, lines, as_json=as_json)


@recipe.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@environment_option
@client_options
def put(*, daemon: DaemonOptions, file: Path, environment: str | None) -> None:
    """Check a recipe and store it in the database.

    The id is the document's `_id`, or else the name of the file. A recipe of the same id is replaced, with
    all its versions in conflict; if it runs, the run keeps the old revision. A recipe with errors is not
    stored.
    """
    document, repeated = read_file(file)
    wrong = repeated + errors(check(document))
    echo_findings(wrong, err=True)
    if wrong:
        refuse(f"{file} was not stored: it has {counted(len(wrong), 'error')}")
    recipe_id = str(document.get("_id", file.stem))
    service = f"{daemon.environment(environment)}/check_recipe"
    with daemon.client() as client:
        path = f"{_database(daemon)}/{quote(recipe_id, safe='')}"
        replaced = _stored(client, path) or {}
        revision = {"_rev": replaced["_rev"]} if replaced else {}
        try:
            answer = client.database("PUT", path, {**revision, **document}, kind=_Written)
        except RefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            reason = f"{recipe_id} in the database was changed"
            if "_rev" in document:
                refuse(
                    f"{file} was not stored: {reason} since its _rev; remove _rev from the file to replace it"
                )
            refuse(f"{file} was not stored: {reason} at the same time; run the command again")
        _delete(client, path, replaced.get("_conflicts", []))
        # by its id: a recipe may be larger than the body of a request to the API
        checked = client.call(service, {"recipe_id": recipe_id}, kind=_Answer)
    echo_findings(checked.findings, err=True)
    echo_text(f"growd: stored {recipe_id}, revision {answer.rev}", err=True)


@recipe.command()
@click.argument("recipe_id", metavar="ID", shell_complete=_complete_ids)
@click.argument("revision", metavar="[REVISION]", default="")
@client_options
def resolve(*, daemon: DaemonOptions, recipe_id: str, revision: str) -> None:
    """Show the versions of a recipe in conflict, or keep the one of REVISION.

    A recipe is in conflict if it was edited in two places, between two replications. The database then keeps
    both versions, and growd runs the first one. With REVISION, or its beginning, the other versions are
    deleted, here and by the next replication elsewhere. `growd recipe put` keeps a new version instead.
    """
    path = f"{_database(daemon)}/{quote(recipe_id, safe='')}"
    with daemon.client() as client:
        found = _stored(client, path)
        if found is None:
            refuse(f"there is no recipe {recipe_id}")
        revisions = [found["_rev"], *found.get("_conflicts", [])]
        if not revision:
            echo_lines(_versions(client, path, revisions))
            return
        kept = [each for each in revisions if each.startswith(revision)]
        if len(kept) != 1:
            refuse(f"revision {revision} is not one of {', '.join(revisions)}")
        _delete(client, path, [each for each in revisions if each not in kept])
    echo_text(f"growd: kept revision {kept[0]} of {recipe_id}", err=True)


@recipe.command()
@click.argument("recipe_id", metavar="ID", shell_complete=_complete_ids)
@click.option(
    "--offset", type=float, default=0.0, metavar="SECONDS", help="Begin at this time of the recipe."
)
@click.option("--at", metavar="TIME", help=f"Start at this time: {FORMS}.")
@click.option(
    "--study",
    metavar="NAME=VALUE",
    multiple=True,
    help="A member of the recipe's study for this run, such as replicate=2. May be repeated.",
)
@environment_option
@client_options
def start(
    *,
    daemon: DaemonOptions,
    recipe_id: str,
    offset: float,
    at: str | None,
    study: tuple[str, ...],
    environment: str | None,
) -> None:
    """Start a recipe of the database, now or at a later time.

    A TIME without a date is the next one. It is in the time zone of the chamber unless it names its own, as
    in 2026-11-24T06:00Z. growd keeps a copy of the recipe while it waits; `growd recipe stop` cancels the
    start.
    """
    more: dict[str, Any] = {"study": dict(map(_member, study))} if study else {}
    if at is not None:
        with daemon.client() as client:
            now = time_of(client)
            more["at"] = unix_time_in(partial(zone_of, client), at, now, option="--at", is_next=True)
    _call(daemon, environment, "start_recipe", recipe_id=recipe_id, offset=offset, **more)


def _member(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"--study {text}: expected NAME=VALUE")
    return name, value


@recipe.command()
@click.argument("recipe_id", metavar="[ID]", default="", shell_complete=_complete_ids)
@environment_option
@client_options
def change(*, daemon: DaemonOptions, recipe_id: str, environment: str | None) -> None:
    """Let the newest revision of the running recipe, or the recipe ID, take over.

    The run continues at the same position. Set points that are equal in both recipes have no gap.
    """
    _call(daemon, environment, "change_recipe", recipe_id=recipe_id)


@recipe.command()
@environment_option
@client_options
def stop(*, daemon: DaemonOptions, environment: str | None) -> None:
    """Stop the running recipe and release its set points, or cancel a start that waits."""
    _call(daemon, environment, "stop_recipe")


@recipe.command()
@environment_option
@client_options
def pause(*, daemon: DaemonOptions, environment: str | None) -> None:
    """Pause the running recipe and hold its set points."""
    _call(daemon, environment, "pause_recipe")


@recipe.command()
@environment_option
@client_options
def resume(*, daemon: DaemonOptions, environment: str | None) -> None:
    """Resume a paused recipe."""
    _call(daemon, environment, "resume_recipe")


@recipe.command()
@click.argument("phase", metavar="PHASE")
@environment_option
@client_options
def skip(*, daemon: DaemonOptions, phase: str, environment: str | None) -> None:
    """Skip to the beginning of PHASE: a name, or a number from 1."""
    _call(daemon, environment, "skip_to_phase", phase=phase)


class _Asked:
    """A recipe in a file or in the daemon's database. Ends the program where it is not available."""

    def __init__(self, what: str, *, environment: str | None, daemon: DaemonOptions) -> None:
        self._what = what
        # not Path.is_file, which fails where an id is longer than a file name can be
        self._file = Path(what) if what.endswith(".json") or os.path.isfile(what) else None  # noqa: PTH113
        self._daemon = daemon
        self._config = daemon.configuration()
        self._environment = daemon.environment(environment)

    def findings(self) -> tuple[list[RecipeFinding], str]:
        """The findings, and for which chamber it was checked."""
        if self._file is None:
            return self._ask("check_recipe", {"recipe_id": self._what}).findings, ""
        document, repeated = read_file(self._file)
        try:
            found = self._ask("check_recipe", {"recipe": document}).findings
            chamber = f" in {self._environment} of the daemon at {self._daemon.address().origin}"
        except GrowdError as error:
            found = check(document, self._chamber().reach_of_recipes())
            chamber = f" in {self._environment} of the configuration"
            echo_text(f"growd: checked without the daemon: {error}", err=True)
        return repeated + found, chamber

    @cached_property
    def zone(self) -> tzinfo | None:
        """The time zone of the daemon, for a file that of the configuration."""
        if self._file is not None:
            return self._config.environment.zone()
        with self._daemon.client() as client:
            return zone_of(client)

    def duration(self) -> float:
        """The length in seconds of a recipe without errors."""
        if self._file is None:
            return float(self.plan()["duration"])
        return interpret(read_file(self._file)[0])[0].duration

    def plan(self) -> dict[str, Any]:
        """The plan of a recipe without errors; that of a file starts now."""
        if self._file is None:
            plan = self._ask("recipe_plan", {"recipe_id": self._what}).plan
            if plan is None:
                refuse(f"the daemon has no plan of {self._what or 'the running recipe'}")
            return plan
        self._chamber()
        document, repeated = read_file(self._file)
        wrong = repeated + errors(check(document))
        if wrong:
            lines = "\n".join(f"  {finding}" for finding in wrong)
            refuse(f"{self._what} cannot run: it has {counted(len(wrong), 'error')}:\n{lines}")
        name = document.get("_id")
        return plan_of(name if isinstance(name, str) else self._file.stem, document, time.time(), self.zone)

    def _chamber(self) -> Chamber:
        chambers = self._config.chambers()
        if self._environment not in chambers:
            refuse(f"there is no environment {self._environment}; expected one of {', '.join(chambers)}")
        return Chamber(self._config, self._environment)

    def _ask(self, service: str, arguments: dict[str, Any]) -> _Answer:
        """Raises `GrowdError`; ends the program if the daemon refuses."""
        name = f"{self._environment}/{service}"
        with self._daemon.client() as client:
            answer = client.call(name, arguments, kind=_Answer)
        if not answer.success:
            refuse(_with_similar_ids(answer.message, self._what, self._daemon))
        return answer


def _call(daemon: DaemonOptions, environment: str | None, service: str, **arguments: Any) -> None:
    """Call a service of the recipe runner, and print its message."""
    with daemon.client() as client:
        name = f"{daemon.environment(environment)}/{service}"
        answer = client.call(name, {**arguments, "by": getpass.getuser()}, kind=_Answer)
    if not answer.success:
        refuse(_with_similar_ids(answer.message, arguments.get("recipe_id", ""), daemon))
    echo_text(f"growd: {answer.message}", err=True)


def _database(daemon: DaemonOptions) -> str:
    return daemon.configuration().couchdb.prefix + _DATABASE


def _ids(client: DaemonClient, daemon: DaemonOptions) -> list[str]:
    rows = client.database("GET", f"{_database(daemon)}/_all_docs", kind=_Rows).rows
    return [row.id for row in rows if not row.id.startswith("_design/")]


def _with_similar_ids(refusal: str, recipe_id: str, daemon: DaemonOptions) -> str:
    """A refusal; if there is no recipe of this id, with similar ids."""
    if refusal == f"there is no recipe {recipe_id}":
        with contextlib.suppress(GrowdError), daemon.client() as client:  # some may not read the database
            return refusal + did_you_mean(recipe_id, _ids(client, daemon))
    return refusal


def _stored(client: DaemonClient, path: str) -> dict[str, Any] | None:
    """The document of a recipe, with the revisions of `_conflicts`, or None."""
    try:
        return client.database("GET", f"{path}?conflicts=true", kind=dict[str, Any])
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None


def _delete(client: DaemonClient, path: str, revisions: list[str]) -> None:
    for each in revisions:
        client.database("DELETE", f"{path}?rev={quote(each)}", kind=_Written)


def _versions(client: DaemonClient, path: str, revisions: list[str]) -> Iterator[str]:
    """The revisions, the first in force, and how the others differ from it."""
    texts = []
    for revision in revisions:
        document = client.database("GET", f"{path}?rev={quote(revision)}", kind=dict[str, Any])
        del document["_rev"]
        texts.append(json.dumps(document, indent=2, sort_keys=True).splitlines())
    yield f"{revisions[0]}: growd runs this version"
    for revision, text in zip(revisions[1:], texts[1:], strict=True):
        yield f"{revision}: differs in"
        differences = difflib.unified_diff(texts[0], text, n=1, lineterm="")
        yield from islice((f"  {line}" for line in differences if line[:3] not in _HEADS), _MOST_LINES)


def read_file(file: Path) -> tuple[Any, list[RecipeFinding]]:
    """The document, and an error for each repeated key; ends the program if it is not JSON."""
    try:
        return read(read_text(file))
    except (OSError, EncodingError) as error:
        refuse(f"{file} can't be read: {error.strerror if isinstance(error, OSError) else error}")
    except (ValueError, RecursionError) as error:
        refuse(f"{file} is not JSON: {error}")


def _duration(document: Any) -> float | None:
    """The length of a recipe in seconds; None if it has errors."""
    try:
        return interpret(document)[0].duration
    except InvalidRecipeError:
        return None


def echo_findings(findings: list[RecipeFinding], *, err: bool = False) -> None:
    for finding in findings:
        echo_text(f"{finding.severity:7}  {finding}", err=err)


def _heading(plan: dict[str, Any], zone: tzinfo | None) -> str:
    begin, end = (
        datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M")
        for at in (plan["start"], plan["start"] + plan["duration"])
    )
    length = lasting(plan["duration"])
    return f"{plan['recipe_id']} ({plan['format']}), {length}: from {begin} to {end}"
