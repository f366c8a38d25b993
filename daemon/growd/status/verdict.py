"""The verdict on a status: one sentence that says whether all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from growd.bus.errors import counted
from growd.bus.messages import Quality
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from growd.status.model import Notice, Status

VerdictState = Literal["well", "attention", "trouble", "held", "starting"]
STATES: Final = ("well", "attention", "trouble", "held", "starting")


class Verdict(msgspec.Struct, frozen=True):
    """Whether all is well: the worst notice, or else a sentence of its own.

    `effects` counts those of all causes, `problems` the causes.
    """

    state: VerdictState
    code: str
    text: str
    fields: dict[str, Any] = {}
    remedy: str = ""
    effects: int = 0
    problems: int = 0

    @property
    def line(self) -> str:
        """The sentence with the remedy and the number of further problems."""
        advice = f" {self.remedy}" if self.remedy else ""
        more = f" (and {self.problems - 1} more)" if self.problems > 1 else ""
        return f"{self.text}{'.' if advice else ''}{advice}{more}"


def verdict_of(status: Status, notices: list[Notice]) -> Verdict:
    """The verdict on a status with these notices.

    A hold is its own state, unless an output is not known to be safe. A start is calm while nothing has
    failed, until a sensor has had time to answer, and the database to start.
    """
    causes = [each for each in notices if each.severity != "note"]
    holds = [each for each in causes if each.kind == "hold" and each.severity == "warning"]
    failures = [each for each in causes if each.severity == "failure"]
    if holds and not status.unsafe:
        return _of("held", holds[0], causes)
    if failures:
        return _of("trouble", failures[0], causes)
    if (starting := _starting(status, causes)) is not None:
        return starting
    if causes:
        return _of("attention", causes[0], causes)
    aims = [each for each in status.variables if each.is_sensed and each.state not in ("free", "unknown")]
    reached = sum(each.state == "at_set_point" for each in aims)
    fields = {"at_set_point": reached, "with_set_point": len(aims)}
    if not aims:
        return Verdict("well", "all_well_no_set_points", "All well: no set point is in force", fields)
    text = f"All well: {reached} of {counted(len(aims), 'value')} at set point"
    return Verdict("well", "all_well", text, fields)


def _of(state: VerdictState, notice: Notice, causes: list[Notice]) -> Verdict:
    effects = sum(len(each.effects) for each in causes)
    return Verdict(state, notice.code, notice.text, notice.fields, notice.remedy, effects, len(causes))


def _starting(status: Status, causes: list[Notice]) -> Verdict | None:
    if _is_starting(status):
        return Verdict("starting", "starting", "growd starts: no sensor has answered yet")
    if status.awaits_database and not causes:
        return Verdict("starting", "database_starts", "growd starts: the database has not answered yet")
    return None


def _is_starting(status: Status) -> bool:
    if status.stage == "starting":
        return True
    sensed = [
        each.measured
        for each in status.variables
        if each.is_sensed and not VARIABLES[each.variable].is_derived
    ]
    return bool(sensed) and all(each is None or each.quality == Quality.WARM_UP for each in sensed)
