"""The state as a whole: a verdict, and one line for systemd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from growd.bus.errors import counted
from growd.bus.messages import Quality
from growd.control.health import State
from growd.runtime.text import moment
from growd.status.notices import notices_of
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from growd.status.model import Notice, RecipeStatus, Status

VerdictState = Literal["well", "attention", "trouble", "held", "starting"]
STATES: Final = ("well", "attention", "trouble", "held", "starting")
_NO_SET_POINTS: Final = "all_well_no_set_points", "no set point is in force"
_NOTHING_TO_REACH: Final = "all_well_nothing_to_reach", "no measured value has a set point to reach now"


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
    aims = [each for each in status.variables if each.is_sensed and each.has_set_point]
    reached = sum(each.state == "at_set_point" for each in aims)
    fields = {"at_set_point": reached, "with_set_point": len(aims)}
    if not aims:  # a set point of 0, or of an output, may be in force
        is_set = any(each.is_set for each in status.variables)
        code, words = _NOTHING_TO_REACH if is_set else _NO_SET_POINTS
        return Verdict("well", code, f"All well: {words}", fields)
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


_LEADS: Final = {"held": "HELD: ", "trouble": "FAILED: ", "attention": "warning: "}


def health(status: Status) -> str:
    """What does not work: "stuck" loops, "failing" parts, "unsafe" outputs, "losing points"; else empty."""
    if status.stuck:
        return "stuck"
    if any(component.is_failing for component in status.components):
        return "failing"
    if status.has_unsafe_output:
        return "unsafe"
    return "losing points" if status.store is not None and status.store.is_losing else ""


def readiness(status: Status) -> str:
    """Why growd is not ready to be used, "starting" or "stopping"; empty while it is.

    A database that is away does not count: points wait for it.
    """
    return "" if status.stage == "running" else status.stage


def service_line(status: Status) -> str:
    """Such as "All well: 8 of 8 values at set point; 2 of 3 devices well; 0 points waiting"."""
    well = sum(device.state == State.OK for device in status.devices)
    devices = f"{well} of {counted(len(status.devices), 'device')} well"
    waiting = 0 if status.store is None else status.store.waiting
    recipes = [_recipe(recipe) for recipe in status.recipes if recipe.state != "idle"]
    points = f"{counted(waiting, 'point')} waiting"
    if status.store is not None and status.store.shipping:
        points += f", the database stores no points: {status.store.shipping}"
    verdict = verdict_of(status, notices_of(status))
    lead = _LEADS.get(verdict.state, "")
    return "; ".join([f"{lead}{verdict.line}", devices, *recipes, points])


def _recipe(recipe: RecipeStatus) -> str:
    if recipe.state == "waiting":
        return f"recipe {recipe.recipe_id} waits until {moment(recipe.starts_at)}"
    place = f" in phase {recipe.phase}" if recipe.phase else ""
    return f"recipe {recipe.recipe_id}{place}{' (paused)' if recipe.state == 'paused' else ''}"
