"""`growd safe`: drive all outputs to their safe states, without the daemon."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click

from growd.cli.options import config_option, data_option, refuse, set_option
from growd.config import load_outputs
from growd.host.data_folder import running_in
from growd.runtime.text import printable
from growd.wiring.safe_outputs import FILE_NAME, make_safe

if TYPE_CHECKING:
    from pathlib import Path

    from growd.config import Config
    from growd.wiring.safe_outputs import Outcome


@click.command()
@data_option
@config_option
@set_option
def safe(*, data: Path, config: Path | None, settings: tuple[str, ...]) -> None:
    """Drive all outputs to their safe states, and exit.

    The outputs are those of the configuration or, if it is invalid, those of the last run in the data
    folder. growd must not be running: it owns the outputs, and makes them safe when it stops.
    """
    logging.basicConfig(format="growd: %(message)s")
    configuration = load_outputs(config, settings)
    outcome = make_safe(configuration, data)
    name = str(config or "the configuration")
    if configuration is None and (outcome.safe or outcome.failures):
        click.echo(f"growd: {name} is invalid; these are the outputs of the last run", err=True)
    for pin in outcome.safe:
        click.echo(printable(str(pin)))
    if not outcome.safe and not outcome.failures:
        _report_no_outputs(configuration, name, data)
    _report_failures(outcome, data)


def _report_no_outputs(configuration: Config | None, name: str, data: Path) -> None:
    if configuration is None:
        refuse(f"no outputs are known: {name} is invalid, and {data / FILE_NAME} lists none")
    if configuration.simulator.enabled:
        click.echo("The hardware is simulated: there are no outputs to make safe.")
    else:
        click.echo("The configuration has no outputs.")


def _report_failures(outcome: Outcome, data: Path) -> None:
    """Ends with status 1 if an output may not be safe."""
    for failure in outcome.failures:
        click.echo(f"growd: not safe: {printable(failure)}", err=True)
    owner = running_in(data)
    if owner is not None and (outcome.safe or outcome.failures):
        refuse(
            f"growd is running in the data folder {data} (process {owner}) and owns these outputs; "
            "stop it to make them safe: systemctl stop growd, or Ctrl-C"
        )
    if outcome.failures:
        sys.exit(1)
