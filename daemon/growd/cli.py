"""The command line: `growd run`, `growd check`, `growd status`, and `growd db` from `db_commands`."""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from growd import __version__
from growd.app import App, check_config, open_configured
from growd.client import Client, ClientError, Reach, address_of, client_options, refuse
from growd.clock import RealClock
from growd.config import Config, ConfigError, load
from growd.db_commands import db
from growd.event_loop import run_on_loop
from growd.folders import StartError
from growd.hardware_check import check_hardware, described
from growd.recipe_commands import recipe
from growd.status import is_running, report, status_of
from growd_drivers.errors import DriverError
from growd_hwsim.errors import SimulationError

if TYPE_CHECKING:
    from growd.app import Running
    from growd.hardware_check import Finding

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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="growd")
def main() -> None:
    """growd, the daemon inside a growing chamber."""


@main.command()
@click.option("--port", metavar="N", help="Port to listen on; 0 takes any free one.  [default: 5984]")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("data"),
    envvar="GROWD_DATA",
    show_default=True,
    help="Folder for everything growd keeps.",
)
@config_option
@set_option
@click.option("--speed", metavar="X", help="How many times as fast as real the simulated chamber runs.")
@faults_option
@click.option("--verbose", is_flag=True, help="Say more in the log.")
def run(
    *,
    port: str | None,
    data: Path,
    config: Path | None,
    settings: tuple[str, ...],
    speed: str | None,
    faults: str | None,
    verbose: bool,
) -> None:
    """Run the daemon until Ctrl-C.

    Without a configuration the hardware is simulated and the database is the embedded one.
    """
    named = {"http.port": port, "simulator.speed": speed, "simulator.faults": faults}
    given = tuple(f"{option}={value}" for option, value in named.items() if value is not None)
    _set_up_logging(verbose=verbose)
    allow_open_files()
    try:
        configuration = load(config, settings + given)
        app = App(configuration, data)
        run_on_loop(app.run(lambda running: click.echo(_greeting(configuration, running))))
    except (ConfigError, StartError) as error:
        refuse(str(error))
    if app.complaints:
        click.echo(f"growd has stopped, but {'; '.join(app.complaints)}", err=True)
        sys.exit(1)
    click.echo("growd has stopped: outputs are safe, points are kept.")


@main.command()
@config_option
@set_option
@faults_option
@click.option("--hardware", is_flag=True, help="Ask each device whether it is there.")
def check(*, config: Path | None, settings: tuple[str, ...], faults: str | None, hardware: bool) -> None:
    """Say whether the configuration is sound, and what it names.

    With --hardware each sensor is set up and read, and each output is claimed at its safe value, which it
    keeps. growd must not run meanwhile, unless the hardware is simulated.
    """
    given = () if faults is None else (f"simulator.faults={faults}",)
    try:
        configuration = load(config, settings + given)
        check_config(configuration)
        if hardware:
            sys.exit(0 if _all_answer(configuration) else 1)
    except (ConfigError, DriverError, SimulationError, ClientError) as error:
        refuse(str(error))
    for name, sentence in described(configuration):
        click.echo(f"{name}: {sentence}")
    click.echo(f"The configuration is sound, for {_hardware_of(configuration)}.")


def _all_answer(config: Config) -> bool:
    """Ask the hardware, a line for each device. Raises what opening the hardware raises."""
    if not config.simulator.enabled and config.http.port:
        _check_not_running(config)
    clock = RealClock()
    hardware = open_configured(config, clock)
    try:
        findings = run_on_loop(check_hardware(config, hardware, clock, _tell))
    finally:
        hardware.close()
    answering = sum(finding.answers for finding in findings)
    click.echo(f"{answering} of {len(findings)} devices answer, of {_hardware_of(config)}.")
    return answering == len(findings)


def _tell(finding: Finding) -> None:
    click.echo(f"{finding.device}: {finding.sentence}")


def _check_not_running(config: Config) -> None:
    """Two programs at one pin would switch each other's outputs. Raises `ClientError`."""
    with Client(address := address_of(config.http, None)) as client:
        is_there = is_running(client)
    if is_there:
        raise ClientError(
            f"growd runs at {address} and has the hardware: `growd status` tells how its devices are; "
            "to ask them here, stop it first"
        )


@main.command()
@client_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(*, reach: Reach, as_json: bool) -> None:
    """Tell how the devices and the store of the running daemon are, and what is replicated.

    The exit status is 1 where a device has failed or points can't be kept, 3 where no daemon answers.
    """
    with reach.client() as client:
        found = status_of(client)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found), indent=2))
    else:
        click.echo(report(found, time.time()))
    sys.exit(1 if found.has_failed else 0)


main.add_command(db)
main.add_command(recipe)


def _set_up_logging(*, verbose: bool) -> None:
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def allow_open_files() -> None:
    """As many as the system lets this process have; 1 024, the usual limit, is less than clients may need."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _greeting(config: Config, running: Running) -> str:
    api = f"{running.address}/_{config.http.name}/api/0.0.1"
    environment = config.environment.id
    chambers = f"\n  chambers   {', '.join(config.chambers())}" if config.chamber else ""
    hardware = _hardware_of(config)
    pace = f", {config.simulator.speed:g} times as fast as real" if config.simulator.speed != 1 else ""
    lines = f"""
growd runs, with {hardware}{pace}.

  address    {running.address}
  database   {running.database}
  data       {running.data}{chambers}

Try these first, in another terminal:

  curl {api}/topic_data/{environment}/measured/air_carbon_dioxide
  curl -H 'Content-Type: application/json' -d '[8000]' {api}/topic/{environment}/desired/light_illuminance
  curl -N {api}/topic_stream/{environment}/measured/light_illuminance

Stop it with Ctrl-C.
"""
    return lines.rstrip()


def _hardware_of(config: Config) -> str:
    return "simulated hardware" if config.simulator.enabled else "the hardware of this machine"
