"""Output of the commands: tables, trees, JSON, and colour on a terminal."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd.runtime.text import aligned
from growd.variables import VARIABLES
from growd_cli.options import json_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

NAME: Final = "cyan"
HEADING: Final = "bright_black"
_DIGITS: Final = 6
_HUGE: Final = 1e15
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
    click.echo(_json(value, None if on_one_line else 2))


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
    return _json(value)


def safe_json(text: str) -> str:
    """JSON in which all that is not printable is escaped, as it may control a terminal."""
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    # json does not escape DEL
    return "".join(
        sign if sign.isprintable() else json.dumps(sign)[1:-1].replace("\x7f", r"\u007f") for sign in line
    )


def _json(value: Any, indent: int | None = None) -> str:
    return safe_json(json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=indent))


def number(value: float, variable: str = "") -> str:
    """A number for people: with the decimals of what is measured, else with six significant digits.

    Never with an exponent, unless it is huge. Times in UNIX seconds keep all seconds.
    """
    if isinstance(value, int) or not abs(value) < _HUGE:
        return f"{value:g}" if isinstance(value, float) else str(value)
    known = VARIABLES.get(variable)
    places = (
        max(0, _DIGITS - len(f"{abs(value):.0f}")) if known is None or known.is_output else known.precision
    )
    text = f"{value:.{places}f}"
    text = text.rstrip("0").rstrip(".") if places else text
    return "0" if text == "-0" else text


def tree(value: Any, indent: str = "", leaf: Callable[[Any], str] | None = None) -> Iterator[str]:
    """The lines of a value as an indented tree; `leaf` is the text of a number or text in it."""
    leaf = leaf or _rounded
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _member(f"{indent}{click.style(text_of(name), NAME)}:", member, indent, leaf)
    elif isinstance(value, list) and any(isinstance(each, dict | list) and each for each in value):
        for each in value:
            first, *rest = tree(each, indent + "  ", leaf)
            yield f"{indent}- {first[len(indent) + 2 :]}"
            yield from rest
    else:
        yield indent + leaf(value)


def _rounded(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(number(each) if isinstance(each, float) else _json(each) for each in value)}]"
    return number(value) if isinstance(value, float) else text_of(value)


def _member(head: str, member: Any, indent: str, leaf: Callable[[Any], str]) -> Iterator[str]:
    lines = list(tree(member, indent + "  ", leaf))
    is_nested = isinstance(member, dict | list) and (len(lines) > 1 or isinstance(member, dict)) and member
    if is_nested:
        yield head
        yield from lines
    else:
        yield f"{head} {lines[0].strip()}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned rows below their headings; lines are not cut to the width of the terminal."""
    for row, cells in enumerate(aligned(headings, rows)):
        cells[-1] = cells[-1].rstrip()
        if row:
            cells[0] = click.style(cells[0], NAME)
            yield "  ".join(cells).rstrip()
        else:
            yield click.style("  ".join(cells).rstrip(), HEADING)


def quality(word: str) -> str:
    """A quality in its colour."""
    return click.style(word, _STATES.get(word))


def echo_lines(lines: Iterable[str]) -> None:
    """Print the lines of a table or a tree, which are escaped and may be styled."""
    text = "\n".join(lines)
    if text:
        click.echo(text)
