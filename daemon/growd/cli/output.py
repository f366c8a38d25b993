"""Output of the commands: tables, trees, JSON, and colour on a terminal."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

import click

from growd.cli.options import json_option
from growd.runtime.text import aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

NAME: Final = "cyan"
HEADING: Final = "bright_black"
_STATES: Final = {"ok": "green", "warm-up": "yellow", "stale": "yellow", "fault": "red"}


def _choose_colour(ctx: click.Context, _: click.Parameter, when: str) -> None:
    if when == "auto":
        # None: click removes colours if standard output is not a terminal
        ctx.color = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    else:
        ctx.color = when == "always"


_colour = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    expose_value=False,
    callback=_choose_colour,
    help="Use colours; auto: on a terminal, unless NO_COLOR is set.",
)


def output_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--json`, passed to the command as `as_json`, and `--color`."""
    return json_option(_colour(command))


def print_json(value: Any, *, on_one_line: bool = False) -> None:
    """Print a JSON document, with the members in the order of the API."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=None if on_one_line else 2))


def print_result(value: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a result as JSON, or else as these lines."""
    if as_json:
        print_json(value)
    else:
        echo_lines(lines)


def text_of(value: Any) -> str:
    """A value on one line: printable text as it is, anything else as JSON."""
    if isinstance(value, str) and value.isprintable() and value:
        return value
    # escape control characters, which could move the cursor; json does not escape DEL
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value).replace("\x7f", r"\u007f")


def tree(value: Any, indent: str = "") -> Iterator[str]:
    """The lines of a value as an indented tree."""
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _member(f"{indent}{click.style(text_of(name), NAME)}:", member, indent)
    elif isinstance(value, list) and any(isinstance(each, dict | list) and each for each in value):
        for each in value:
            first, *rest = tree(each, indent + "  ")
            yield f"{indent}- {first[len(indent) + 2 :]}"
            yield from rest
    else:
        yield indent + text_of(value)


def _member(head: str, member: Any, indent: str) -> Iterator[str]:
    lines = list(tree(member, indent + "  "))
    is_nested = isinstance(member, dict | list) and (len(lines) > 1 or isinstance(member, dict)) and member
    if is_nested:
        yield head
        yield from lines
    else:
        yield f"{head} {lines[0].strip()}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned rows below their headings; lines are not cut to the width of the terminal."""
    for number, cells in enumerate(aligned(headings, rows)):
        cells[-1] = cells[-1].rstrip()
        if number:
            cells[0] = click.style(cells[0], NAME)
            yield "  ".join(cells).rstrip()
        else:
            yield click.style("  ".join(cells).rstrip(), HEADING)


def bullets(heading: str, names: Sequence[str]) -> Iterator[str]:
    """A list below its heading, in the style of rostopic and rosnode."""
    if not names:
        yield f"{heading}: None"
        return
    yield f"{heading}:"
    for name in names:
        yield f" * {click.style(name, NAME)}"


def quality(word: str) -> str:
    """A quality in its colour."""
    return click.style(word, _STATES.get(word))


def echo_lines(lines: Iterable[str]) -> None:
    """Print the lines of a table or a tree."""
    text = "\n".join(lines)
    if text:
        click.echo(text)
