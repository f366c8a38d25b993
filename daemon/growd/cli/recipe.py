"""`growd recipe`: recipes checked, shown and drawn here; those of `terminal.recipe` are added."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from growd.bus.errors import counted
from growd.cli.client import ClientError
from growd.cli.options import client_options, json_option, refuse
from growd.cli.recipe_runs import (
    COMMANDS,
    complete_files_and_ids,
    environment_of,
    environment_option,
    read_file,
    with_ids_like,
)
from growd.cli.recipe_table import draw, lasting, table_of
from growd.recipes.drawing import plan_of
from growd.recipes.findings import RecipeFinding, errors
from growd.recipes.interpreter import FORMATS, check, interpret, schema_of
from growd.wiring.recipes import reach_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from growd.cli.options import Reach
    from growd.config import ChamberOptions


class _Answer(msgspec.Struct):
    """What the services of recipes answer. `reason` is there where there is no such service."""

    success: bool = False
    message: str = ""
    findings: list[RecipeFinding] = []
    plan: dict[str, Any] | None = None
    reason: str = ""


@click.group()
def recipe() -> None:
    """Check, show, store and run recipes.

    FILE|ID is a file with a recipe in JSON (a path that exists, or that ends in .json), or else the id of a
    recipe in the database, for which the running daemon is asked.
    """


for _command in COMMANDS:
    recipe.add_command(_command)

_what = click.argument("what", metavar="FILE|ID", shell_complete=complete_files_and_ids)


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """The argument and the options that all of them have."""
    for decorate in (client_options, environment_option, _what):
        command = decorate(command)
    return command


@recipe.command("check")
@_common
@json_option
def check_command(*, what: str, as_json: bool, **where: Any) -> None:
    """Check a recipe: print all errors and warnings.

    Each finding has its place as a JSON pointer. A file is checked for the chamber of the running daemon, or
    for that of the configuration where no daemon answers; the last line says which, and how long it lasts.

    The exit status is 0 where the recipe can run, with warnings or without; 1 where it has errors or can't be
    read; 3 where an ID is given and no daemon answers.
    """
    asked = _Asked(what, **where)
    findings, chamber = asked.findings()
    wrong = len(errors(findings))
    if as_json:
        click.echo(json.dumps([msgspec.to_builtins(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{finding.severity:7}  {finding}")
        told = f"{counted(wrong, 'error')}, {counted(len(findings) - wrong, 'warning')}"
        length = "" if wrong else f", and lasts {lasting(asked.duration())}"
        click.echo(f"{what} {'can not run' if wrong else 'can run'}{chamber}{length}: {told}.")
    sys.exit(1 if wrong else 0)


@recipe.command()
@_common
@json_option
def show(*, what: str, as_json: bool, **where: Any) -> None:
    """Print the plan of a recipe: its phases, and their set points.

    Days count from the start of the recipe; `at` is the time of day, or the time since the beginning of the
    phase or of what is repeated in it.
    """
    asked = _Asked(what, **where)
    plan = asked.plan()
    if as_json:
        click.echo(json.dumps(plan, indent=2))
        return
    click.echo(_heading(plan, asked.zone))
    click.echo()
    click.echo(table_of(plan))


@recipe.command()
@_common
@click.option(
    "-o", "--output", "path", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE"
)
def plot(*, what: str, path: Path, **where: Any) -> None:
    """Draw all set points of a recipe over time.

    FILE is a picture: .png, .svg or .pdf. It has a panel for each variable, and marks and names the phases.
    """
    if importlib.util.find_spec("matplotlib") is None:
        refuse("a picture needs matplotlib: pip install matplotlib, in the environment of growd")
    asked = _Asked(what, **where)
    plan = asked.plan()
    try:
        draw(plan, path, _heading(plan, asked.zone))
    except OSError as error:
        refuse(f"{path} can't be written: {error.strerror or error}")
    except ValueError as error:
        refuse(f"{path} can't be drawn: {error}")
    click.echo(f"growd: the plan of {plan['recipe_id']} is in {path}", err=True)


@recipe.command()
@click.argument("name", metavar="FORMAT", type=click.Choice([*FORMATS]))
def schema(*, name: str) -> None:
    """Print the JSON Schema of a format.

    An editor completes and checks recipes with it.
    """
    click.echo(json.dumps(schema_of(name), indent=2))


class _Asked:
    """A recipe of a file, or of the database of the daemon; whatever can't be had ends the program."""

    def __init__(
        self,
        what: str,
        *,
        environment: str | None,
        reach: Reach,
    ) -> None:
        self._what = what
        # not Path.is_file, which fails where an id is longer than a file name can be
        self._file = Path(what) if what.endswith(".json") or os.path.isfile(what) else None  # noqa: PTH113
        self._reach = reach
        self._config = reach.configuration()
        self.zone = self._config.environment.zone()
        self._environment = environment_of(reach, environment)

    def findings(self) -> tuple[list[RecipeFinding], str]:
        """What there is to say of it, and for which chamber it was checked."""
        if self._file is None:
            return self._ask("check_recipe", {"recipe_id": self._what}).findings, ""
        document, repeated = read_file(self._file)
        try:
            found = self._ask("check_recipe", {"recipe": document}).findings
            chamber = f" in {self._environment} of the daemon at {self._reach.address().origin}"
        except ClientError as error:
            found = check(document, reach_of(self._chamber()))
            chamber = f" in {self._environment} of the configuration"
            click.echo(f"growd: checked without the daemon: {error}", err=True)
        return repeated + found, chamber

    def duration(self) -> float:
        """How long it lasts in seconds, of a recipe without errors."""
        if self._file is None:
            return float(self.plan()["duration"])
        return interpret(read_file(self._file)[0])[0].duration

    def _chamber(self) -> ChamberOptions:
        chambers = self._config.chambers()
        if self._environment not in chambers:
            refuse(f"there is no environment {self._environment}; there is {', '.join(chambers)}")
        return chambers[self._environment]

    def plan(self) -> dict[str, Any]:
        """Of a recipe without errors. One of a file is as it would be if it started now."""
        if self._file is None:
            plan = self._ask("recipe_plan", {"recipe_id": self._what}).plan
            if plan is None:
                refuse(f"the daemon has no plan of {self._what}")
            return plan
        self._chamber()
        document, repeated = read_file(self._file)
        wrong = repeated + errors(check(document))
        if wrong:
            lines = "\n".join(f"  {finding}" for finding in wrong)
            refuse(f"{self._what} can not run, for it has {counted(len(wrong), 'error')}:\n{lines}")
        name = document.get("_id")
        return plan_of(name if isinstance(name, str) else self._file.stem, document, time.time(), self.zone)

    def _ask(self, service: str, arguments: dict[str, Any]) -> _Answer:
        """Raises `ClientError`; ends the program where the daemon refuses."""
        name = f"{self._environment}/{service}"
        with self._reach.client() as client:
            answer = client.call(name, arguments, kind=_Answer, also=(400, 404))
        if not answer.success:
            refuse(with_ids_like(answer.message, self._what, self._reach) or answer.reason)
        return answer


def _heading(plan: dict[str, Any], zone: tzinfo | None) -> str:
    begin, end = (
        datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M")
        for at in (plan["start"], plan["start"] + plan["duration"])
    )
    length = lasting(plan["duration"])
    return f"{plan['recipe_id']} ({plan['format']}), {length}: from {begin}, it ends {end}"
