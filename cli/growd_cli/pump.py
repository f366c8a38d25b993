"""`growd pump`: what dosing pumps give, and their guided calibration."""

from __future__ import annotations

import contextlib
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd.runtime.text import moment
from growd_cli.client import ordered
from growd_cli.options import client_options, environment_option
from growd_cli.output import number, output_options, print_result, table, text_of
from growd_cli.terminal import echo_text
from growd_cli.times import zone_of
from growd_client.errors import GrowdError, RefusedError

if TYPE_CHECKING:
    from growd_cli.options import DaemonOptions
    from growd_client.connection import DaemonClient

_POLL_S: Final = 0.2
_HEADINGS: Final = ("pump", "variable", "ml/min", "dead s", "calibrated", "by", "due")
_HELP: Final = "type the millilitres, r to give the dose again, or q to end without a change"


class _Dose(msgspec.Struct):
    seconds: float
    ran_s: float | None
    ml: float | None


class _Session(msgspec.Struct):
    pump: str
    next_s: float
    missing: int
    is_dosing: bool
    waits_for_ml: bool
    doses: list[_Dose]
    reason: str
    note: str
    simulated_ml: float | None


class _Pump(msgspec.Struct):
    pump: str
    variable: str
    ml_min: float
    dead_s: float
    configured_ml_min: float
    last: dict[str, Any] | None
    due: dict[str, Any] | None


class _Node(msgspec.Struct):
    session: _Session | None
    pumps: list[_Pump]


@click.group()
def pump() -> None:
    """Calibrate dosing pumps, and list what they give."""


@pump.command("list")
@environment_option
@output_options
@client_options
def list_command(*, daemon: DaemonOptions, environment: str | None, as_json: bool) -> None:
    """List the dosing pumps: flow and dead time in force, and their last calibration."""
    where = daemon.environment(environment)
    with daemon.client() as client:
        found, zone = _node(client, where).pumps, zone_of(client)
    rows = []
    for each in found:
        last = each.last or {}
        when = moment(last["time"], zone) if last else "never"
        due = "now" if each.due and each.due["is_due"] else ""
        by = text_of(last["by"]) if last else ""
        rows.append((each.pump, each.variable, number(each.ml_min), number(each.dead_s), when, by, due))
    print_result(found, table(_HEADINGS, rows), as_json=as_json)


@pump.command()
@click.argument("name")
@environment_option
@client_options
def calibrate(*, daemon: DaemonOptions, environment: str | None, name: str) -> None:
    """Calibrate the dosing pump NAME with measured doses into a measuring cylinder.

    It takes about five minutes. No other dosing pump runs meanwhile. Ctrl-C ends it without a change, and so
    does growd after a quarter of an hour without an answer.
    """
    with daemon.client() as client:
        guide = _Guide(client, daemon.environment(environment))
        guide.call("begin", pump=name)
        try:
            guide.run()
        except BaseException:
            with contextlib.suppress(GrowdError):
                guide.call("cancel")
            raise


@pump.command()
@click.argument("name")
@environment_option
@client_options
def cancel(*, daemon: DaemonOptions, environment: str | None, name: str) -> None:
    """End the calibration of the dosing pump NAME, here or elsewhere, without a change."""
    with daemon.client() as client:
        place = daemon.environment(environment)
        session = _node(client, place).session
        if session is None or session.pump != name:
            raise RefusedError(f"no calibration of {name} is open", HTTPStatus.BAD_REQUEST)
        echo_text(f"growd: {_Guide(client, place).call('cancel')}", err=True)


class _Guide:
    """The dialogue of a session that is open."""

    def __init__(self, client: DaemonClient, environment: str) -> None:
        self._client = client
        self._environment = environment
        _node(client, environment)

    def call(self, step: str, **arguments: Any) -> str:
        """Call a service of the session; returns its sentence. Raises `GrowdError`."""
        return ordered(self._client, f"{self._environment}/pump_calibration/{step}", arguments)

    def session(self) -> _Session:
        """The open session. Raises `GrowdError` if there is none."""
        session = _node(self._client, self._environment).session
        if session is None:
            raise RefusedError("the calibration has ended, and nothing has changed", HTTPStatus.BAD_REQUEST)
        return session

    def run(self) -> None:
        """Fill the hose, give all doses, and save."""
        pump = self.session().pump
        echo_text(f"Put the end of the hose of {pump} into a measuring cylinder, at its usual height.")
        while click.confirm(f"Run {pump} for {self.session().next_s:.1f} s to fill the hose?", default=True):
            self._dose()
        while missing := self.session().missing:
            echo_text(f"{missing} more to measure. Empty the cylinder.")
            self._measured_dose()
        while reason := self.session().reason:
            echo_text(f"{reason}.")
            self._measured_dose()
        if not click.confirm("Save it, and use it from now on?", default=True):
            raise click.Abort
        echo_text(f"{self.call('save')}.")

    def _dose(self) -> _Session:
        """Give a dose, and wait for its end."""
        echo_text(f"{self.call('dose')} ...")
        while (session := self.session()).is_dosing:
            time.sleep(_POLL_S)
        if session.note:
            echo_text(f"{session.note}.")
        return session

    def _measured_dose(self) -> None:
        """Give a dose until its volume is typed."""
        click.prompt("Press Enter to run the pump", default="", show_default=False, prompt_suffix=" ")
        while not (session := self._dose()).waits_for_ml:
            click.confirm("Try again?", default=True, abort=True)
        usual = None if session.simulated_ml is None else f"{session.simulated_ml:.2f}"
        ml = _typed(f"{session.doses[-1].ran_s:.2f} s. ml in the cylinder", usual)
        if ml is None:
            self._measured_dose()
        else:
            echo_text(f"{self.call('measured', ml=ml)}.")


def _typed(question: str, usual: str | None) -> float | None:
    """The volume that a person types; None to give the dose again."""
    while True:
        words = str(click.prompt(question, default=usual)).strip().lower()
        if words == "q":
            raise click.Abort
        if words == "r":
            return None
        try:
            return float(words.replace(",", "."))
        except ValueError:
            echo_text(f"{text_of(words)} is not a number: {_HELP}")


def _node(client: DaemonClient, environment: str) -> _Node:
    """What there is of pumps. Raises `GrowdError`, also without any."""
    try:
        return client.get("node", f"{environment}/pump_calibration", kind=_Node)
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise RefusedError(f"{environment} has no dosing pumps", error.status) from None
