"""`growd config`: the sample configuration, the shipped profiles, the reference of all options."""

from __future__ import annotations

import click

from growd.config.profiles import PROFILES, profile_text
from growd_cli.config_sample import reference, sample
from growd_cli.output import echo_lines


@click.group()
def config() -> None:
    """Print a sample configuration or the reference of all options."""


@config.command("sample")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    help="Print this configuration, which ships with growd, instead.",
)
def print_sample(*, profile: str | None) -> None:
    """Print a configuration (TOML) with all options and their defaults as comments."""
    echo_lines((sample() if profile is None else profile_text(profile)).splitlines())


@config.command("reference")
def print_reference() -> None:
    """Print the reference of all sections and options as Markdown."""
    echo_lines(reference().splitlines())
