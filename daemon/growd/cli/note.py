"""`growd note`: write and list the journal of a chamber."""

from __future__ import annotations

import getpass
import json
import math
import textwrap
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd.cli.options import client_options
from growd.cli.output import output_options, print_json, text_of
from growd.cli.runs import environment_option
from growd.client.calls import journal, write_entry
from growd.runtime.text import moment, printable
from growd.variables import SHORT_NAMES, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from growd.cli.options import DaemonOptions
    from growd.client.answers import SavedEntry

_FORMS: Final = 'use UNIX seconds, "18:00" or "2026-11-24 18:00"'


@click.group()
def note() -> None:
    """Write and list the journal: notes, photos, and what was measured by hand."""


@note.command()
@click.argument("text", default="")
@click.option(
    "--photo",
    "photos",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="Add a photo (JPEG, PNG or WebP); repeatable.",
)
@click.option(
    "--measure",
    "measured",
    multiple=True,
    metavar="VARIABLE=VALUE",
    help="Add a value that was measured by hand, such as plant_height=12.5; repeatable.",
)
@click.option("--at", metavar="TIME", help=f"When it happened: {_FORMS.removeprefix('use ')}.")
@click.option("--by", default="", metavar="NAME", help="Who writes it.  [default: the user or login]")
@click.option("--correct", "corrects", default="", metavar="ID", help="Replace the text of this entry.")
@environment_option
@output_options
@client_options
def add(
    *,
    daemon: DaemonOptions,
    environment: str | None,
    text: str,
    photos: tuple[Path, ...],
    measured: tuple[str, ...],
    at: str | None,
    by: str,
    corrects: str,
    as_json: bool,
) -> None:
    """Save TEXT, photos and values in the journal, all or nothing; they are on disk when this ends.

    TEXT may be missing if there is a photo or a value. A TIME without a date is the last one, in the time
    zone of the chamber ([environment] time_zone, or that of this machine). growd removes the place and other
    metadata from photos. A correction replaces the text in lists; the old one stays visible.
    """
    settings = daemon.configuration().environment
    when = None if at is None else _past(at, settings.zone(), time.time())
    values = dict(map(_measurement, measured))
    call = write_entry(
        environment or settings.id,
        text,
        values,
        photos,
        time=when,
        by=by or getpass.getuser(),
        corrects=corrects,
    )
    with daemon.client() as client:
        saved = client.send(call)
    if as_json:
        print_json({"message": "Saved the entry", **msgspec.to_builtins(saved)})
    else:
        click.echo(f"growd: saved the entry {saved.id}", err=True)


@note.command("list")
@click.option(
    "--search", default="", metavar="WORDS", help="Only entries with this in text, author or variables."
)
@click.option("--start", metavar="TIME", help="Only entries from this time on.")
@click.option("--end", metavar="TIME", help="Only entries before this time.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    metavar="COUNT",
    help="Print the newest COUNT entries.",
)
@environment_option
@output_options
@client_options
def list_command(
    *,
    daemon: DaemonOptions,
    environment: str | None,
    search: str,
    start: str | None,
    end: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List entries, newest first, with the addresses of their photos.

    Exit status: 0; 1 if entries of the database are missing because it does not answer; 3 if no daemon
    answers.
    """
    settings = daemon.configuration().environment
    zone, now = settings.zone(), time.time()
    begin = _past(start, zone, now) if start else None
    until = _past(end, zone, now, after=begin or 0.0) if end else None
    with daemon.client() as client:
        found = client.send(journal(environment or settings.id, begin, until, search, limit))
        origin = client.address.origin
    if as_json:
        shown = msgspec.to_builtins(found)
        print_json({name: shown[name] for name in ("entries", "more", "missing")})
    else:
        entries = ("\n".join(_lines(entry, zone, origin)) for entry in found.entries)
        click.echo("\n\n".join(entries) or "no entries")
        if found.more:
            click.echo(f"\nolder entries follow; --limit prints more than {limit}", err=True)
    if found.missing:
        click.echo(f"growd: stored entries are missing: {found.missing}", err=True)
        raise SystemExit(1)


def _lines(entry: SavedEntry, zone: tzinfo | None, origin: str) -> Iterator[str]:
    state = "  (not in the database yet)" if entry.waiting else ""
    heading = f"{moment(entry.time, zone)}  {text_of(entry.by) if entry.by else 'unknown'}"
    yield click.style(heading, bold=True) + f"  {entry.id}{state}"
    for line in printable(entry.text).splitlines():
        yield textwrap.indent(line, "  ")
    for name, value in entry.measurements.items():
        unit = VARIABLES[name].unit if name in VARIABLES else ""
        yield f"  {text_of(name)} = {value} {unit}".rstrip()
    for photo in entry.photos:
        yield f"  {origin}{photo.address} ({photo.size / 1e6:.1f} MB)"
    if entry.refused:
        yield click.style(f"  refused by the database: {printable(entry.refused)}", "red")
    for old in entry.earlier:
        words = printable(old.text).replace("\n", " ")
        yield f"  before {moment(old.written, zone)}: {words} ({printable(old.by)})"


def _measurement(words: str) -> tuple[str, Any]:
    name, equals, text = words.partition("=")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if not equals or isinstance(value, str):
        raise click.BadParameter(f"{words}: use VARIABLE=VALUE with a number", param_hint="'--measure'")
    return SHORT_NAMES.get(name.strip().lower(), name.strip()), value


def _past(text: str, zone: tzinfo | None, now: float, *, after: float = 0.0) -> float:
    """UNIX seconds of a time in words. Without a date it is the last one before `now`; if that is not after
    `after`, it is the next one.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = _moment(text, zone, now, after)
    if not math.isfinite(seconds) or seconds < 0:
        raise click.BadParameter(f"{text} is not a time: {_FORMS}")
    return seconds


def _moment(text: str, zone: tzinfo | None, now: float, after: float) -> float:
    today = datetime.fromtimestamp(now, zone)
    try:
        clock = datetime.strptime(text, "%H:%M").time()  # noqa: DTZ007  a time of day
    except ValueError:
        pass
    else:
        days = [datetime.combine(today + timedelta(days=day), clock, zone).timestamp() for day in (-1, 0, 1)]
        last = max(day for day in days if day <= now)
        return last if last > after else min(day for day in days if day > now)
    try:
        given = datetime.fromisoformat(text)
        if given.tzinfo is None:
            given = given.replace(tzinfo=zone) if zone is not None else given.astimezone()
        return given.timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text} is not a time: {_FORMS}") from None
