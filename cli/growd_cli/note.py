"""`growd note`: write and list the journal of a chamber."""

from __future__ import annotations

import getpass
import json
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from growd.runtime.text import moment, on_one_line, printable, symbol
from growd.variables import SHORT_NAMES, VARIABLES
from growd_cli.options import client_options, environment_option
from growd_cli.output import echo_lines, number, output_options, print_json, text_of
from growd_cli.terminal import echo_text
from growd_cli.times import FORMS, span_of, time_of, unix_time_in, zone_of
from growd_client.methods import ClientMethods

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from growd_cli.options import DaemonOptions
    from growd_client.answers import SavedEntry


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
@click.option("--at", metavar="TIME", help=f"When it happened: {FORMS}.")
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

    TEXT may be missing if there is a photo or a value. A TIME without a date is the last one; it is in the
    time zone of the chamber unless it names its own. growd removes the place and other metadata from photos.
    A correction replaces the text in lists; the old one stays visible.
    """
    where = daemon.environment(environment)
    values = dict(map(_measurement, measured))
    with daemon.client() as client:
        when = (
            None if at is None else unix_time_in(partial(zone_of, client), at, time_of(client), option="--at")
        )
        saved = client.send(
            ClientMethods.write_entry(
                client,
                where,
                text,
                measurements=values,
                photos=photos,
                time=when,
                by=by or getpass.getuser(),
                corrects=corrects,
            )
        )
    if as_json:
        print_json({"message": "Saved the entry", **msgspec.to_builtins(saved)})
    else:
        echo_text(f"growd: saved the entry {saved.id}", err=True)


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

    Times are in the time zone of the chamber.

    Exit status: 0; 1 if entries of the database are missing because it does not answer; 3 if no daemon
    answers.
    """
    where = daemon.environment(environment)
    with daemon.client() as client:
        zone = zone_of(client)
        begin, until = span_of(client, start, end)
        found = client.send(
            ClientMethods.journal(client, where, start=begin, end=until, search=search, limit=limit)
        )
        origin = client.address.origin
    if as_json:
        print_json({name: getattr(found, name) for name in ("entries", "more", "missing")})
    else:
        entries = ("\n".join(_lines(entry, zone, origin)) for entry in found.entries)
        echo_lines(["\n\n".join(entries) or "no entries"])
        if found.more:
            echo_text(f"\nolder entries follow; --limit prints more than {limit}", err=True)
    if found.missing:
        echo_text(f"growd: stored entries are missing: {found.missing}", err=True)
        raise SystemExit(1)


def _lines(entry: SavedEntry, zone: tzinfo | None, origin: str) -> Iterator[str]:
    state = "  (not in the database yet)" if entry.waiting else ""
    heading = f"{moment(entry.time, zone)}  {text_of(entry.by) if entry.by else 'unknown'}"
    yield click.style(heading, bold=True) + f"  {on_one_line(entry.id)}{state}"
    for line in printable(entry.text).splitlines():
        yield textwrap.indent(line, "  ")
    for name, value in entry.measurements.items():
        unit = symbol(VARIABLES[name].unit) if name in VARIABLES else ""
        yield f"  {text_of(name)} = {number(value, name)} {unit}".rstrip()
    for photo in entry.photos:
        yield f"  {origin}{on_one_line(photo.address)} ({photo.size / 1e6:.1f} MB)"
    if entry.refused:
        yield click.style(f"  refused by the database: {printable(entry.refused)}", "red")
    for old in entry.earlier:
        words = on_one_line(" ".join(old.text.splitlines()))
        yield f"  before {moment(old.written, zone)}: {words} ({on_one_line(old.by)})"


def _measurement(words: str) -> tuple[str, Any]:
    name, equals, text = words.partition("=")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if not equals or isinstance(value, str):
        raise click.BadParameter(f"{words}: use VARIABLE=VALUE with a number", param_hint="'--measure'")
    return SHORT_NAMES.get(name.strip().lower(), name.strip()), value
