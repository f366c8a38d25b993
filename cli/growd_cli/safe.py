"""`growd safe`: drive all outputs to their safe states, without the daemon; and hold them there."""

from __future__ import annotations

import getpass
import logging
import sys
import time
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from growd.config import chambers_of, load_outputs
from growd.config.outputs import OwnOutput
from growd.host.data_folder import running_in
from growd.host.hold import MOST_CHARACTERS, Hold, Holder, read_holds, release_hold, save_hold
from growd.wiring.rest import make_others_safe, make_safe
from growd_cli.client import ordered
from growd_cli.options import client_options, data_option, refuse
from growd_cli.terminal import echo_text
from growd_client.errors import NotReachedError
from growd_drivers.last_run import FILE_NAMES

if TYPE_CHECKING:
    from pathlib import Path

    from growd.config import Config
    from growd.wiring.rest import Outcome
from growd_cli.options import DaemonOptions

_TIMEOUT_S: Final = 20.0  # the answer waits for outputs and disk


@click.command()
@click.option(
    "--hold",
    "reason",
    is_flag=False,
    flag_value="",
    metavar="[REASON]",
    help="Hold all outputs at their safe states until --release, also over restarts.",
)
@click.option("--release", "is_release", is_flag=True, help="Release the hold of --hold.")
@data_option
@client_options
@click.pass_context
def safe(
    context: click.Context, *, daemon: DaemonOptions, data: Path, reason: str | None, is_release: bool
) -> None:
    """Drive all outputs to their safe states, and exit.

    The outputs are those of the configuration or, if it is invalid, those of the last run in the data
    folder. growd must not be running: it owns the outputs, and makes them safe when it stops.

    --hold and --release ask the running growd. Without one they change the data folder, and --hold makes the
    outputs safe; the next start begins held.
    """
    logging.basicConfig(format="growd: %(message)s")
    if reason is None and not is_release:
        sys.exit(int(not _make_safe(daemon, data)))
    if reason is not None and is_release:
        raise click.UsageError("--hold and --release exclude each other")
    if reason is not None and len(reason) > MOST_CHARACTERS:
        raise click.BadParameter(f"expected at most {MOST_CHARACTERS} characters", param_hint="--hold")
    is_named = context.get_parameter_source("data") is ParameterSource.COMMANDLINE
    why_alone = "" if is_named and running_in(data) is None else _ask(daemon, reason)
    if why_alone is not None:
        _change_alone(daemon, data, reason, why_alone)


def _ask(daemon: DaemonOptions, reason: str | None) -> str | None:
    """Ask the running growd to set or release the hold. Returns why none answers, None if it is done."""
    service, arguments = ("hold/release", {}) if reason is None else ("hold/set", {"reason": reason})
    try:
        with daemon.client(_TIMEOUT_S) as client:
            echo_text(ordered(client, service, arguments))
    except NotReachedError as error:
        return str(error)
    return None


def _change_alone(daemon: DaemonOptions, data: Path, reason: str | None, why_alone: str) -> None:
    """Set or release the hold in the data folder. The next start reads it, or a reload."""
    if not data.is_dir():
        folder = f"there is no data folder {data}; name it with --data"
        refuse(
            f"{f'{why_alone}; ' if why_alone else ''}{folder} "
            "(of the service: --config /etc/growd/growd.toml --data /var/lib/growd)"
        )
    trouble = _changed(data, reason)
    if owner := running_in(data):
        wait = "it reads the hold at its next start, or at `systemctl reload growd`"
        running = f"growd is running in the data folder {data} (process {owner}), but {why_alone}"
        refuse(f"{trouble or wait}; {running}")
    is_safe = reason is None or _make_safe(daemon, data)
    if trouble:
        refuse(trouble)
    sys.exit(int(not is_safe))


def _changed(data: Path, reason: str | None) -> str:
    """Change the file and print what is in force. Returns what failed, or ""."""
    try:
        if reason is None:
            was_held = release_hold(data, Holder.PERSON)
            echo_text("the hold is released" if was_held else "there was no hold to release")
        else:
            save_hold(data, Hold(Holder.PERSON, reason, getpass.getuser(), time.time()))
    except OSError as error:
        what = "released" if reason is None else "saved"
        return f"the hold was not {what} in {data}: {error.strerror or error}"
    for hold in read_holds(data):
        echo_text(f"the next start begins held: {hold}")
    return ""


def _make_safe(daemon: DaemonOptions, data: Path) -> bool:
    """Drive the outputs, and print each. Returns whether all are safe."""
    configuration = load_outputs(daemon.config, daemon.settings)
    outcome = make_safe(configuration, data)
    if configuration is not None and not configuration.simulator.enabled and _has_others(configuration):
        # by now the pins are safe, and an import may take its time
        loaded = load_outputs(daemon.config, daemon.settings, with_drivers=True)
        make_others_safe(loaded or configuration, outcome)
    name = str(daemon.config or "the configuration")
    if configuration is None and (outcome.safe or outcome.failures):
        echo_text(f"growd: {name} is invalid; these are the outputs of the last run", err=True)
    for sentence in (*map(str, outcome.safe), *outcome.told):
        echo_text(sentence)
    if not outcome.safe and not outcome.told and not outcome.failures:
        _report_no_outputs(configuration, name, data)
    return _report_failures(outcome, data)


def _has_others(config: Config) -> bool:
    """Whether an output has a driver of another package."""
    return any(isinstance(output, OwnOutput) for each in chambers_of(config) for output in each.all_outputs)


def _report_no_outputs(configuration: Config | None, name: str, data: Path) -> None:
    if configuration is None:
        refuse(f"no outputs are known: {name} is invalid, and {data / FILE_NAMES[0]} lists none")
    if configuration.simulator.enabled:
        echo_text("The hardware is simulated: there are no outputs to make safe.")
    else:
        echo_text("The configuration has no outputs.")


def _report_failures(outcome: Outcome, data: Path) -> bool:
    """Ends with status 1 if growd owns the outputs. Returns whether all are safe."""
    for failure in outcome.failures:
        echo_text(f"growd: not safe: {failure}", err=True)
    owner = running_in(data)
    if owner is not None and (outcome.safe or outcome.told or outcome.failures):
        refuse(
            f"growd is running in the data folder {data} (process {owner}) and owns these outputs; "
            "stop it to make them safe: systemctl stop growd, or Ctrl-C"
        )
    return not outcome.failures
