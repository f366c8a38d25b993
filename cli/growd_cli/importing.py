"""`growd import`: data of other systems."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from contextlib import AsyncExitStack, aclosing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd.bus.errors import counted
from growd.config import ConfigError
from growd.recipes.findings import errors
from growd.recipes.interpreter import check as check_recipe
from growd.runtime.clock import EARLIEST
from growd.runtime.event_loop import run_on_loop
from growd.store.bootstrap import Databases
from growd.store.errors import CouchUnavailableError, StoreError
from growd.wiring.files import read_credentials
from growd_analysis.openag.forms import Conversion
from growd_analysis.openag.importing import Import, OldPoints
from growd_analysis.openag.sources import of_couchdb, of_file
from growd_cli.chamber import client_of, front_door
from growd_cli.client import NOT_REACHED
from growd_cli.options import client_options, refuse, refuse_existing, replace_option
from growd_cli.terminal import echo_text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from growd.store.couch import Couch
    from growd_analysis.openag.sources import SourcePage
    from growd_cli.options import DaemonOptions


_AHEAD_S: Final = 86_400.0  # that a clock may be ahead
_MOST_FAULTS: Final = 3  # of a recipe that are printed


class _Retention(msgspec.Struct):
    keep_days: float


class _Node(msgspec.Struct):
    retention: _Retention


def _renamings(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:
    """Each OLD=NEW."""
    pairs = dict(word.partition("=")[::2] for word in words)
    if odd := [f"{old}={new}" for old, new in pairs.items() if not (old and new) or "/" in new]:
        raise click.BadParameter(f"{odd[0]} is not OLD=NEW")
    return pairs


@click.group("import")
def import_() -> None:
    """Import data of other systems."""


@import_.command()
@click.argument("source")
@click.option(
    "--environment",
    "environments",
    multiple=True,
    callback=_renamings,
    metavar="OLD=NEW",
    help="Import the environment OLD as NEW; repeatable.",
)
@click.option(
    "--variable",
    "variables",
    multiple=True,
    callback=_renamings,
    metavar="OLD=NEW",
    help="Import the variable OLD as NEW; repeatable.",
)
@click.option(
    "--conductivity",
    type=click.Choice(["uS/cm", "mS/cm"]),
    default="uS/cm",
    show_default=True,
    help="The unit of the electrical conductivity in SOURCE.",
)
@click.option(
    "--rejected",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write documents that can't be imported to FILE, as JSON lines with the reasons.",
)
@click.option(
    "--source-credentials",
    metavar="FILE",
    default="",
    help="User and password of SOURCE, the two lines of FILE.",
)
@click.option(
    "--old-points",
    type=click.Choice(["refuse", "rollups"]),
    default="refuse",
    show_default=True,
    help="Points older than [retention] keep_days, which growd deletes: refuse them, or import them so that "
    "their rollups stay.",
)
@click.option(
    "--any-time", is_flag=True, help="Import points of before 2000 and of the future too, as they are."
)
@replace_option
@click.option("--dry-run", is_flag=True, help="Convert and count, and write nothing.")
@client_options
def openag(
    *,
    source: str,
    environments: dict[str, str],
    variables: dict[str, str],
    conductivity: str,
    rejected: Path | None,
    source_credentials: str,
    old_points: str,
    any_time: bool,
    replace: bool,
    dry_run: bool,
    daemon: DaemonOptions,
) -> None:
    """Import points, recipes and environments of openag_brain.

    SOURCE is the address of its CouchDB (any version), such as http://user:password@host:5984, or a file: the
    answer of _all_docs?include_docs=true, or one document in each line. Documents keep their ids, so the same
    import again adds nothing. Points older than [retention] keep_days are refused: growd would delete them.
    Documents go into the configured CouchDB, or else through the running growd.

    Exit status: 0 if all was read; 1 if SOURCE can't be read, the database refuses, or all documents are
    rejected; 2 for a usage error; 3 if a database does not answer (run the command again).
    """
    refuse_existing(rejected, replace=replace)
    conversion = Conversion(
        environments,
        variables,
        conductivity == "uS/cm",
        oldest=0.0 if any_time else EARLIEST,
        newest=math.inf if any_time else time.time() + _AHEAD_S,
        fault_of_recipe=lambda recipe: "; ".join(map(str, errors(check_recipe(recipe))[:_MOST_FAULTS])),
    )
    try:
        with nullcontext() if rejected is None else rejected.open("wb") as file, _counter() as report:
            pair = (source, source_credentials)
            accepted = dry_run or old_points == "rollups"
            done, old = run_on_loop(
                _import(pair, daemon, conversion, file, report, is_dry=dry_run, are_old_accepted=accepted)
            )
    except CouchUnavailableError as error:
        refuse(f"{error}; run the same command again", NOT_REACHED)
    except (ConfigError, StoreError) as error:
        refuse(error)
    _print(done, conversion, rejected, is_dry=dry_run)
    _print_old(old, are_refused=dry_run and old_points == "refuse")
    if done.rejected and not done.new.total() + done.present.total():
        refuse("all documents were rejected")


async def _import(
    source: tuple[str, str],
    daemon: DaemonOptions,
    conversion: Conversion,
    file: Any,
    report: Callable[[int], None],
    *,
    is_dry: bool,
    are_old_accepted: bool,
) -> tuple[Import, OldPoints]:
    keep_days = await asyncio.to_thread(_keep_days, daemon)
    async with AsyncExitStack() as stack:
        destination, names = await asyncio.to_thread(_destination, daemon)
        couch = await stack.enter_async_context(destination)
        pages: AsyncGenerator[SourcePage]
        address, credentials = source
        if "://" in address:
            login = await asyncio.to_thread(read_credentials, credentials, "source")
            pages = of_couchdb(await stack.enter_async_context(client_of(address, login, None)))
        else:
            pages = of_file(Path(address))
        old = OldPoints(
            couch, names.rollups, keep_days=keep_days, now=time.time(), are_accepted=are_old_accepted
        )
        done = Import(couch, names, conversion, old, file, is_dry=is_dry, report=report)
        async with aclosing(pages):
            await done.run(pages)
    return done, old


def _destination(daemon: DaemonOptions) -> tuple[AbstractAsyncContextManager[Couch], Databases]:
    """The configured CouchDB, else that of the running growd, and the names of its databases."""
    couchdb = daemon.configuration().couchdb
    names = Databases.prefixed(couchdb.prefix)
    if daemon.is_direct():
        return client_of(couchdb.url, read_credentials(couchdb.credentials_file), None), names
    return front_door(daemon), names


def _keep_days(daemon: DaemonOptions) -> float:
    """That of the running growd if documents go through it, else of the configuration."""
    if daemon.is_direct():
        return daemon.configuration().retention.keep_days
    return daemon.client().get("node", "retention", kind=_Node).retention.keep_days


@contextmanager
def _counter() -> Iterator[Callable[[int], None]]:
    """The number of documents that were read, at a terminal."""

    def show(number: int) -> None:
        sys.stderr.write(f"\rdocuments: {number}")
        sys.stderr.flush()

    is_shown = sys.stderr.isatty()
    try:
        yield show if is_shown else lambda _: None
    finally:
        if is_shown:
            echo_text(err=True)


def _print(done: Import, conversion: Conversion, rejected: Path | None, *, is_dry: bool) -> None:
    verb = "would be imported" if is_dry else "imported"
    for kind in ("point", "recipe", "environment"):
        if done.new[kind] or done.present[kind]:
            echo_text(f"{counted(done.new[kind], kind)} {verb}, {done.present[kind]} there already")
    if done.designs:
        echo_text(f"{counted(done.designs, 'design document')} left out")
    for what, number in sorted(conversion.corrected.items()):
        if number:
            echo_text(f"corrected: {what}: {number}")
    for what, number in sorted(conversion.doubtful.items()):
        echo_text(f"doubtful: {what}: {number}")
    for reason, number in sorted(done.rejected.items()):
        echo_text(f"rejected: {reason}: {number}")
    if done.rejected:
        place = f"they are in {rejected}" if rejected else "--rejected FILE shows them"
        echo_text(f"{counted(sum(done.rejected.values()), 'document')} rejected: {place}")


def _print_old(old: OldPoints, *, are_refused: bool) -> None:
    if old.number:
        echo_text(
            f"older than {old.keep_days:g} days, growd will delete them and keep their rollups: {old.number}"
            + (" (refused without --old-points=rollups)" if are_refused else "")
        )
