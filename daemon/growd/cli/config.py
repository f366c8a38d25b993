"""`growd config`: the sample of a configuration, the profiles that ship, the reference of all options."""

from __future__ import annotations

import click

from growd.config.profiles import PROFILES, profile_text
from growd.config.sample import reference, sample


@click.group()
def config() -> None:
    """Print a configuration to begin with, or what each option is."""


@config.command("sample")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    help="A configuration that comes with growd, in place of all options.",
)
def print_sample(*, profile: str | None) -> None:
    """Print a configuration in TOML, in which every option stands with its default, as a comment."""
    click.echo(sample() if profile is None else profile_text(profile), nl=False)


@config.command("reference")
def print_reference() -> None:
    """Print all sections and options as Markdown."""
    click.echo(reference(), nl=False)
