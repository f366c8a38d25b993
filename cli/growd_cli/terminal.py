"""What commands print as text."""

from __future__ import annotations

import click

from growd.runtime.text import printable


def echo_text(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text, with all that is not printable escaped: names and messages come from clients."""
    click.echo(printable(str(text)), err=err, nl=nl)
