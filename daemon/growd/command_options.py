"""Options and words that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from growd.config import Config

config_option = click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Configuration, in TOML."
)
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
