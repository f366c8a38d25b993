"""Options and words that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from growd.config.profiles import PROFILES, profile_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.config import Config

P = ParamSpec("P")
T = TypeVar("T")


def _keep_profile(context: click.Context, _: click.Parameter, name: str | None) -> None:
    context.meta["profile"] = name


def _file_or_profile(context: click.Context, _: click.Parameter, file: Path | None) -> Path | None:
    profile = context.meta.get("profile")
    return profile_path(profile) if file is None and profile is not None else file


_file_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    callback=_file_or_profile,
    metavar="FILE",
    help="Configuration, in TOML.",
)
_profile_option = click.option(
    "--profile",
    type=click.Choice(PROFILES),
    envvar="GROWD_PROFILE",
    is_eager=True,
    expose_value=False,
    callback=_keep_profile,
    help="A configuration that ships, where no file is given.",
)


def config_option(command: Callable[P, T]) -> Callable[P, T]:
    """The configuration: the parameter `config` is a file, that of a profile, or None."""
    return _file_option(_profile_option(command))


set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SECTION.OPTION=VALUE",
    help="Set one option of the configuration. May be given again.",
)
faults_option = click.option("--faults", metavar="FILE", help="Faults of the simulated hardware, in TOML.")


def hardware_of(config: Config) -> str:
    """What hardware it is, in words."""
    return "simulated hardware" if config.simulator.enabled else "the hardware of this machine"
