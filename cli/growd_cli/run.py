"""`growd run`: the daemon; its subcommands are about runs of recipes."""

from __future__ import annotations

import functools
import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from growd.config import Config, ConfigError, chambers_of, load, load_outputs
from growd.host.data_folder import StartError
from growd.variables import CARBON_DIOXIDE
from growd.wiring.rest import make_safe
from growd_cli import logs
from growd_cli.lazy_group import Command, LazyGroup
from growd_cli.options import (
    config_option,
    data_option,
    faults_option,
    hardware_of,
    refuse,
    set_option,
)
from growd_cli.terminal import echo_text
from growd_drivers.pins import release_pins

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from growd.config import Chamber
    from growd.wiring.app import App, Running

SUBCOMMANDS: Final = {
    "list": Command("growd_cli.runs:list_command", "List the runs of recipes, the newest first."),
    "show": Command("growd_cli.runs:show", "Show a run: its record, notes, measurements by hand and events."),
    "export": Command("growd_cli.run_export:export", "Write a run into one ZIP file."),
    "report": Command("growd_cli.run_reports:report", "Write the report of a run, a page that prints well."),
    "compare": Command("growd_cli.run_reports:compare", "Compare the figures of runs, and plot them."),
}
RESTART: Final = 75
"""Exit status that asks systemd for another start, see growd.service."""
_log = logging.getLogger(__name__)


@click.group(
    cls=LazyGroup,
    places=SUBCOMMANDS,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND [ARGUMENTS]...]",
)
@click.option("--port", metavar="N", help="Port to listen on; 0 for any free port.  [default: 5984]")
@data_option
@config_option
@set_option
@click.option(
    "--speed", metavar="X", help="Run the simulated chamber at up to X times real time; max: without a limit."
)
@faults_option
@click.option("--verbose", is_flag=True, help="Log debug messages too.")
@click.pass_context
def run(context: click.Context, /, **given: Any) -> None:
    """Run the daemon until Ctrl-C.

    Without a configuration, the hardware is simulated and the database is the embedded one. All outputs are
    driven to their safe states first, even if the start then fails.

    With a command, look at runs of recipes instead. The options below are those of the daemon.
    """
    if context.invoked_subcommand is None:
        _run(**given)
    else:
        _refuse_options(context)


def _refuse_options(context: click.Context) -> None:
    """Options before a subcommand are those of the daemon, and would have no effect."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            sentence = f"{parameter.opts[0]} comes after the command {context.invoked_subcommand}"
            raise click.UsageError(sentence, context)


def _run(
    *,
    port: str | None,
    data: Path,
    config: Path | None,
    settings: tuple[str, ...],
    speed: str | None,
    faults: str | None,
    verbose: bool,
) -> None:
    bound = "1e9" if speed == "max" else speed  # no machine reaches it
    named = {"http.port": port, "simulator.speed": bound, "simulator.faults": faults}
    given = tuple(f"{option}={value}" for option, value in named.items() if value is not None)
    flags = {option: f"--{option.partition('.')[2]}" for option, value in named.items() if value is not None}
    to_journal = logs.set_up(verbose=verbose)
    outputs = load_outputs(config, settings + given)
    _make_safe(outputs, data)
    # Importing the rest takes time and may fail: by then the outputs are safe.
    from growd.runtime.event_loop import allow_open_files, run_on_loop  # noqa: PLC0415
    from growd_cli.memory import saving_memory  # noqa: PLC0415

    # the connections to other servers than the CouchDB name the certificates that they trust
    with saving_memory(trusts_all=outputs is None or outputs.couchdb.url.startswith("https:")):
        from growd.wiring.app import App  # noqa: PLC0415
    from growd.wiring.hardware import loop_of  # noqa: PLC0415
    from growd_cli.config_checks import DEVICE_CHECKS, DOUBTS  # noqa: PLC0415

    allow_open_files()
    umask = os.umask(0o077)  # the data may have passwords, such as in the log of a replication
    try:
        read = functools.partial(
            load, config, settings + given, flags=flags, checks=DEVICE_CHECKS, with_drivers=True
        )
        warnings: list[str] = []
        configuration = read(doubts=DOUBTS, warn=warnings.append)
        for warning in warnings:
            _log.warning("%s", warning)
        app = App(configuration, data, read, warnings, file=config)
        greet = functools.partial(_greet, configuration, to_journal=to_journal)
        run_on_loop(app.run(greet), loop_of(configuration))
    except (ConfigError, StartError) as error:
        refuse(_located(error, read))
    finally:
        os.umask(umask)
        release_pins()  # the keeper of pins is the last to end
    _end(app)


def _located(error: Exception, read: Callable[..., Config]) -> Exception:
    """The error, or those of all files that the configuration names, with their lines there."""
    if not str(error).startswith("["):
        return error
    from growd_cli.check import faults_of_files  # noqa: PLC0415  only of an error

    try:
        read(checks=[functools.partial(faults_of_files, with_credentials=True)])
    except ConfigError as located:
        return located
    return error


def _end(app: App) -> None:
    """Start again, or tell how it ended."""
    if app.restarts:
        _restart(is_service=app.is_service)
    if app.shutdown_errors:
        echo_text(f"growd has stopped, but {'; '.join(app.shutdown_errors)}", err=True)
        sys.exit(1)
    echo_text("growd has stopped: outputs are safe, points are stored.")


def _restart(*, is_service: bool) -> None:
    """Start again as at the first time. systemd does that for its service."""
    if is_service:
        sys.exit(RESTART)
    echo_text("growd starts again.")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  our own program


def _make_safe(config: Config | None, data: Path) -> None:
    """A pin that fails does not prevent the start: its actuator keeps trying."""
    outcome = make_safe(config, data)
    for each in (*outcome.safe, *outcome.told):
        _log.debug("%s", each)
    for failure in outcome.failures:
        whose = "an output of the last run" if config is None else "an output"
        _log.error("could not make %s safe at the start: %s", whose, failure)
    if config is None and outcome.safe:
        _log.warning("the configuration is invalid; made the outputs of the last run safe")


def _greet(config: Config, running: Running, *, to_journal: bool) -> None:
    """A greeting at a terminal; one line in the journal."""
    if to_journal:
        _log.info("growd is running at %s with %s", running.address, hardware_of(config))
    else:
        echo_text(_greeting(config, running))


def _greeting(config: Config, running: Running) -> str:
    # 0.0.0.0 and :: are addresses to listen on, not to connect to
    address = running.address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    everywhere = " (and all other addresses of this machine)" if address != running.address else ""
    api = f"{address}/_{config.http.name}/api/0.0.1"
    environment = config.environment.id
    chambers = f"\n  chambers   {', '.join(config.chambers())}" if config.chamber else ""
    hardware = hardware_of(config)
    pace = f", now at {running.speed:g} times real time" if config.simulator.speed != 1 else ""
    chamber = chambers_of(config)[0]
    lux = "light_illuminance"
    light = f"""\
  curl -H 'Content-Type: application/json' -d '[8000]' {api}/topic/{environment}/desired/{lux}
  curl -N {api}/topic_stream/{environment}/measured/{lux}
"""
    lines = f"""
growd is running with {hardware}{pace}.

  page       {address}{everywhere}
  API page   {address}/_{config.http.name}/api/
  database   {running.database}
  data       {running.data}{chambers}

Try these first, in another terminal:

  curl {api}/{_example(chamber)}
{light if chamber.light.enabled and lux in chamber.measured else ""}
Stop it with Ctrl-C.
"""
    return lines.rstrip()


def _example(chamber: Chamber) -> str:
    """A call that answers in this chamber: what it measures, CO2 if it does."""
    measured = sorted(chamber.measured, key=lambda name: name != CARBON_DIOXIDE)
    return f"topic_data/{chamber.environment}/measured/{measured[0]}" if measured else "node/status"
