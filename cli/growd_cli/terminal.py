"""What commands print as text."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from growd.runtime.text import in_symbols, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STEPS: Final = 1_000  # of the bar of a part


def echo_text(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text for people. All that is not printable is escaped: names and messages come from clients."""
    click.echo(printable(in_symbols(str(text))), err=err, nl=nl)


@contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, if that is a terminal; called with what is done."""
    is_hidden = not sys.stderr.isatty()
    with click.progressbar(length=max(1, length), label=label, file=sys.stderr, hidden=is_hidden) as bar:

        def report(done: int, total: int | None = None) -> None:
            if total is not None:
                bar.length = max(1, total)
            bar.update(max(0, min(done, bar.length or 1) - bar.pos))

        yield report


@contextmanager
def progress_of_parts(label: str) -> Iterator[Callable[[float], None]]:
    """As `progress`, but called with the part that is done, from 0 to 1."""
    with progress(label, _STEPS) as report:
        yield lambda part: report(round(part * _STEPS))
