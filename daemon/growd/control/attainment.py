"""Set points that are not reached: which ones, for how long, and the likely reason."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from growd.bus.messages import Quality
from growd.control.missed_reasons import UNKNOWN, MissedReasons
from growd.control.topics import desired, measured
from growd.runtime.clock import until_beat
from growd.runtime.sentence import Sentence, document, problem
from growd.runtime.text import duration, told_apart
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.control.watched_loops import Loop

logger = logging.getLogger(__name__)

PERIOD_S: Final = 5.0
MISSED_S: Final = 900.0
"""A set point missed for this long is reported by `growd status` and the log."""

FOLLOWED_S: Final = 120.0
"""Allowed lag behind a moving set point: older set points count for this long."""

PROGRESS: Final = 0.9
"""An error that shrinks below this share of itself makes progress: its time starts again."""

RUNAWAY: Final = 3.0
"""From this many times `Loop.far` on it is a failure."""

_MAY_LEAK: Final = Sentence(
    "the valve is closed, and may be stuck open or leak: close the bottle, and air the room", "valve_may_leak"
)

REASON_S: Final = 300.0
"""Another reason has to hold for this long: the text must not swap each time that an output switches."""


class Attainment(StrEnum):
    """State of a set point. `settling`: undecided yet. `idle`: there is no set point to reach."""

    IDLE = "idle"
    SETTLING = "settling"
    REACHED = "reached"
    MISSED = "missed"


@dataclass
class _LoopState:
    """The state of one loop. Times are monotonic seconds."""

    loop: Loop
    state: Attainment = Attainment.SETTLING
    text: str = ""
    since: float | None = None  # when it left its band
    error: float | None = None  # then, or at the last progress; None while it is not measured
    is_low: bool | None = None  # whether it is below its set point
    blocked_since: float | None = None  # when a cause began to hold it off its set point
    last: tuple[float | None, float | None] = (None, None)  # measured value, set point
    band: tuple[float, float | None] | None = None  # values that count as at the set point
    set_points: deque[tuple[float, float]] = field(default_factory=deque)
    is_logged: bool = False
    reason: str = ""
    other_since: float | None = None  # when another reason began
    shown: str = ""  # the reason as it is shown

    def is_problem(self, now: float) -> bool:
        """Whether it has been missed for `MISSED_S`."""
        return self.since is not None and now - self.since >= MISSED_S

    @property
    def is_failure(self) -> bool:
        """Whether it is several times too far where no output moves it back: one of them may run on."""
        value, set_point = self.last
        if value is None or set_point is None or self.loop.is_moved(is_low=value < set_point):
            return False
        return abs(value - set_point) >= RUNAWAY * self.loop.far

    def leave(self, state: Attainment, text: str) -> None:
        """Set a state in which the set point is not missed."""
        self.state, self.text, self.since, self.last = state, text, None, (None, None)
        self.error = self.is_low = self.blocked_since = None
        self.reason, self.other_since = "", None

    def steady(self, reason: str, now: float) -> str:
        """The reason to show: another one after `REASON_S`, but at once in place of an unknown one."""
        if reason == self.reason:
            self.other_since = None
        elif self.other_since is None and self.reason not in ("", UNKNOWN):
            self.other_since = now
        if self.other_since is None or now - self.other_since >= REASON_S:
            self.reason, self.other_since = reason, None
        return self.reason

    def restart(self, now: float, error: float) -> None:
        """Count the missed time from now on."""
        self.since, self.error = now, error

    def is_other_case(self, now: float, *, is_low: bool, is_blocked: bool) -> bool:
        """Whether it is missed on the other side now, or a cause of at least `MISSED_S` has ended.

        Shorter causes do not count: an interlock that comes and goes must not hide a missed set point.
        """
        if self.is_low is not None and is_low is not self.is_low:
            return True
        return not is_blocked and self.blocked_since is not None and now - self.blocked_since >= MISSED_S


class AttainmentWatch:
    """The node `<environment>/attainment`: whether each controlled variable reaches its set point.

    A set point is missed while the variable is outside its band and makes no progress, and while its sensor
    fails. It is not judged while the sensor warms up or an override is active. A step of the set point, and
    the end of a cause that lasted `MISSED_S`, start the time again; a moving one may be followed `FOLLOWED_S`
    late. `why_held` returns why an interlock holds one of the given outputs, or "".

    `problems` lists set points missed for `MISSED_S`; they are logged too.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        loops: Iterable[Loop],
        why_held: Callable[[Iterable[str]], str] = lambda _: "",
    ) -> None:
        self.node = bus.node(f"{environment}/attainment")
        self._bus = bus
        self._clock = bus.clock
        self._environment = environment
        self._tracks = [_LoopState(loop) for loop in loops]
        self._reasons = MissedReasons(bus, environment, why_held)
        self.node.describe("attainment", self._attainment)
        self.node.describe("problems", self._problems)

    async def run(self) -> None:
        """Check until cancelled."""
        with self._bus.liveness.heartbeat(self.node.name) as heart:
            while True:
                heart.beat()
                self._reasons.watch_doses(each.loop for each in self._tracks)
                for track in self._tracks:
                    now = self._clock.monotonic()
                    self._check(track, now)
                    self._log(track, now)
                await self._clock.sleep(until_beat(self._clock, PERIOD_S))

    def _attainment(self) -> list[dict[str, Any]]:
        """The state of each loop; a set point that has just changed is judged at once."""
        now = self._clock.monotonic()
        for track in self._tracks:
            known = track.set_points[-1][1] if track.set_points else None
            if self._set_point(track.loop) != known:
                self._check(track, now)
        return [self._information(track, now) for track in self._tracks]

    def _information(self, track: _LoopState, now: float) -> dict[str, Any]:
        value, set_point = track.last
        is_missed = track.state is Attainment.MISSED
        return {
            "environment": self._environment,
            "variable": track.loop.variable,
            "state": str(track.state),
            "text": track.text,
            "value": value,
            "set_point": set_point,
            "is_lasting": track.is_problem(now),
            "is_failure": track.is_problem(now) and track.is_failure,
            "since": self._clock.time() - now + track.since if is_missed and track.since is not None else 0.0,
            "reason": document(track.shown) if is_missed else None,
            "band": track.band,
        }

    def _problems(self) -> list[dict[str, Any]]:
        now = self._clock.monotonic()
        return [
            problem(
                Sentence(f"{track.text}; for {duration(now - track.since)}", "set_point_missed"),
                name=f"{self._environment}/{track.loop.variable}",
                is_failure=track.is_failure,
            )
            for track in self._tracks
            if track.since is not None and track.is_problem(now)
        ]

    def _log(self, track: _LoopState, now: float) -> None:
        """Log the start and the end of a problem."""
        if track.is_problem(now) and not track.is_logged:
            track.is_logged = True
            logger.warning("%s", track.text)
        elif track.is_logged and track.state in (Attainment.REACHED, Attainment.IDLE):
            track.is_logged = False
            logger.info("%s", track.text)

    def _check(self, track: _LoopState, now: float) -> None:
        name = track.loop.variable
        as_is = self._bus.topics.get(measured(self._environment, name)).last
        set_point = self._set_point(track.loop)
        is_overridden = self._is_overridden(track.loop)
        if set_point is None or set_point <= track.loop.idle_up_to or is_overridden:
            track.set_points.clear()
            track.band = None
            if not is_overridden and (value := self._unwanted(track, as_is)) is not None:
                self._miss(track, set_point or 0.0, value, _MAY_LEAK, now, is_blocked=False)
                return
            track.leave(Attainment.IDLE, f"{self._environment}: {name} has no set point to reach")
            return
        is_step = self._note_set_point(track, set_point, now)
        track.band = track.loop.limits_about(set_point)
        if as_is is not None and as_is.quality is Quality.OK:
            self._judge(track, set_point, float(as_is.value), now, is_step=is_step)
        elif as_is is None or as_is.quality is Quality.WARM_UP:
            track.leave(Attainment.SETTLING, f"{self._environment}: the sensor of {name} has no reading yet")
        else:
            reason = Sentence("its sensor has no valid reading", "variable_unknown", variable=name)
            self._miss(track, set_point, None, reason, now, is_blocked=True)

    @staticmethod
    def _unwanted(track: _LoopState, as_is: Message | None) -> float | None:
        """The value of a variable that is high though nothing raises it on purpose, as a stuck valve does."""
        value = float(as_is.value) if as_is is not None and as_is.quality is Quality.OK else 0.0
        return value if value > track.loop.resting_at_most else None

    def _set_point(self, loop: Loop) -> float | None:
        """The present set point, None without one, and while another one wins over it."""
        value: float | None = self._bus.topics.get(desired(self._environment, loop.variable)).known
        last = self._bus.topics.get(desired(self._environment, loop.through)).last if loop.through else None
        is_direct = last is not None and last.known is not None and "/planners/" not in last.node
        return None if is_direct else value

    def _note_set_point(self, track: _LoopState, set_point: float, now: float) -> bool:
        """Keep the set points of the last `FOLLOWED_S`. Returns whether this one is a step."""
        recent = track.set_points
        is_step = not recent or abs(set_point - recent[-1][1]) > track.loop.band(set_point)
        if not recent or recent[-1][1] != set_point:
            recent.append((now, set_point))
        while len(recent) > 1 and recent[1][0] <= now - FOLLOWED_S:
            recent.popleft()
        return is_step

    def _judge(self, track: _LoopState, set_point: float, value: float, now: float, *, is_step: bool) -> None:
        loop, recent = track.loop, [wanted for _, wanted in track.set_points]
        lowest, highest = min(recent), max(recent)
        if abs(value - set_point) <= loop.allowed(set_point, is_low=value < set_point):
            track.leave(Attainment.REACHED, f"{self._environment}: {loop.variable} is at its set point")
        elif is_step or lowest - loop.band(lowest) <= value <= highest + loop.band(highest):
            track.leave(Attainment.SETTLING, f"{self._environment}: {loop.variable} moves to its set point")
        elif track.error is not None and abs(value - set_point) < PROGRESS * track.error:
            track.leave(Attainment.SETTLING, f"{self._environment}: {loop.variable} moves to its set point")
            track.restart(now, abs(value - set_point))
        else:
            self._miss_measured(track, set_point, value, now)

    def _miss_measured(self, track: _LoopState, set_point: float, value: float, now: float) -> None:
        loop, is_low, error = track.loop, value < set_point, abs(value - set_point)
        cause = self._reasons.cause(loop, is_low=is_low)
        if track.is_other_case(now, is_low=is_low, is_blocked=bool(cause)):
            track.leave(
                Attainment.SETTLING, f"{self._environment}: {loop.variable} can move to its set point"
            )
            track.restart(now, error)
            track.is_logged = False
        else:
            reason = cause or self._reasons.limit(loop, is_low=is_low)
            if not cause and not loop.is_dosed:  # a reason with times changes each time
                reason = track.steady(reason, now)
            self._miss(track, set_point, value, reason, now, is_blocked=bool(cause))
            track.error = error if track.error is None else track.error
        track.is_low = is_low

    def _miss(
        self,
        track: _LoopState,
        set_point: float,
        value: float | None,
        reason: str,
        now: float,
        *,
        is_blocked: bool,
    ) -> None:
        track.since = now if track.since is None else track.since
        if not is_blocked:
            track.blocked_since = None
        elif track.blocked_since is None:
            track.blocked_since = now
        variable = VARIABLES[track.loop.variable]
        shown, wanted = "unknown", f"{set_point:.6g}"
        if value is not None:
            shown, wanted = told_apart(value, round(set_point, variable.precision), variable.precision)
            shown += f" {variable.unit}"
        track.state, track.shown = Attainment.MISSED, reason
        track.last = value, set_point
        track.text = (
            f"{self._environment}: set point not reached: {variable.name} is {shown}, "
            f"its set point is {wanted} {variable.unit}: {reason}"
        )

    def _is_overridden(self, loop: Loop) -> bool:
        """Whether it or one of its outputs has an override."""
        for variable in (loop.variable, *loop.outputs):
            left = self._bus.parameters.declared(f"{self._environment}/controllers/{variable}/override_left")
            if left is not None and left.value > 0:
                return True
        return False
