"""From demands of control loops, and set points of its own, to the level of an output."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from growd.control.controllers import Controller
from growd.control.dosing import Doser
from growd.control.topics import OUTPUT_LEVEL, commanded, output_level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from growd.bus import Bus
    from growd.bus.messages import Message

COMMAND_STALE_S: Final = 5.0
SAME_END_S: Final = 0.25
"""A dose whose end moves by no more, as messages wait, has the same end."""


class Demand(msgspec.Struct, frozen=True):
    """A control loop that an output works for."""

    variable: str
    raises: bool = True
    """Whether the output raises the variable: it follows a command above 0, else one below 0."""
    helps: Callable[[], bool] = lambda: True
    """Whether the output can move the variable that way now."""


class OutputController(Controller):
    """The level of the outputs of one own variable, 0..1, from the largest demand of all their loops.

    A set point of the own variable wins; `share` is the level for it. A demand that says for how long it
    holds is a dose. A dimmed output gets the level itself. A switched one gets doses (`growd.control.dosing`)
    whose share of time is the level; a set point of 0 or full level switches it at once. A dose counts while
    any of `outputs` (names) is really on, so one that an interlock holds is given afterwards.

    Parameters of a switched one: `minimum_on`, `minimum_off` and `minimum_cycle` (s).
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        variable: str,
        demands: Iterable[Demand] = (),
        *,
        outputs: Sequence[str] = (),
        can_dim: bool = False,
        share: Callable[[float, float], float] = lambda level, _: level,
        minimum_on_s: float = 4.0,
        minimum_off_s: float = 2.0,
        minimum_cycle_s: float = 0.0,
    ) -> None:
        self._demands = {commanded(environment, each.variable): each for each in demands}
        self._levels: dict[str, float | None] = {}  # that were written; None if it is not known
        if not can_dim:
            topics = (bus.topics.declare(output_level(environment, each), OUTPUT_LEVEL) for each in outputs)
            self._levels = {topic.name: None for topic in topics}
        more_inputs = (*self._demands, *self._levels)
        super().__init__(bus, environment, variable, more_inputs=more_inputs)
        self._can_dim = can_dim
        self._share = share
        self._doser = Doser(minimum_on_s, minimum_off_s, minimum_cycle_s)
        if not can_dim:
            self._minimum_on = self._number("minimum_on", minimum_on_s, 0.1, 3_600, "s")
            self._minimum_off = self._number("minimum_off", minimum_off_s, 0.1, 3_600, "s")
            self._minimum_cycle = self._number("minimum_cycle", minimum_cycle_s, 0.0, 3_600, "s")
        self._set_point: float | None = None
        self._commands: dict[str, tuple[float, float, float]] = {}  # by topic: level, arrival, end
        self._dose: tuple[float, float] | None = None  # the end that was asked for, and the real one
        self._demand: float | None = None  # of the doser, None while it is not dosing
        self._advanced = self._clock.monotonic()

    def end_dose(self) -> None:
        """End a dose and drop what is due: the switch is off from now on, for `minimum_off` at least."""
        self._doser.end()
        self._dose = None
        self._advanced = self._clock.monotonic()

    def _take_input(self, message: Message) -> bool:
        value = message.known
        if message.topic == self._desired_topic:
            self._set_point = value
        elif message.topic in self._levels:
            self._levels[message.topic] = value
        elif value is None:
            self._commands.pop(message.topic, None)
        else:
            sign = 1.0 if self._demands[message.topic].raises else -1.0
            level = max(0.0, min(1.0, sign * value))
            came, now = self._published_at(message), self._clock.monotonic()
            # A dose keeps its length although its message has waited for a moment.
            begins = min(now, came + SAME_END_S)
            ends = math.inf if message.valid_s is None else begins + message.valid_s
            before = self._commands.get(message.topic)
            self._commands[message.topic] = level, came, ends
            return before is None or before[::2] != (level, ends) or not self._is_fresh(before[1], now)
        return True

    def _automatic(self) -> float | None:
        level = self._level()
        if self._can_dim:
            return level
        if self._is_dose_due():
            self._doser.shut()
            self._demand = None
            return 1.0
        return self._dosed(level, is_at_once=self._desired in (0.0, 1.0))

    def _valid_s(self) -> float | None:
        return None if self._dose is None else max(0.0, self._dose[1] - self._clock.monotonic())

    def _is_dose_due(self) -> bool:
        """Whether a dose of a loop is due or being given. A loop ends it early by a command of 0."""
        now, asked = self._clock.monotonic(), self._asked_end()
        if asked is not None and self._dose is None:
            self._dose = asked, max(asked, now + self._minimum_on.value)
        elif asked is not None and self._dose is not None and abs(asked - self._dose[0]) > SAME_END_S:
            self._dose = asked, asked
        is_ended = self._dose is not None and asked is None and now < self._dose[0] - SAME_END_S
        if self._dose is not None and (is_ended or now >= self._dose[1] or self._level() is None):
            self._dose = None
        return self._dose is not None

    def _is_fresh(self, came: float, now: float) -> bool:
        return now - came <= COMMAND_STALE_S

    def _asked_end(self) -> float | None:
        """When the dose ends that loops ask for now, None without one."""
        now = self._clock.monotonic()
        fresh = (
            ends
            for topic, (level, came, ends) in self._commands.items()
            if level > 0 and self._is_fresh(came, now) and self._demands[topic].helps()
        )
        known = [ends for ends in fresh if now < ends < math.inf]
        return max(known, default=None) if self._desired is None else None

    def _dosed(self, level: float | None, *, is_at_once: bool) -> float | None:
        now = self._clock.monotonic()
        seconds, self._advanced = now - self._advanced, now
        demand = None if is_at_once else level
        if demand is None or seconds > COMMAND_STALE_S:  # an override was active: restart dosing from zero
            self._doser.shut()
        elif self._demand is not None:
            self._doser.advance(self._demand, seconds, is_held=self._is_off())
        self._doser.minimum_on_s = self._minimum_on.value
        self._doser.minimum_off_s = self._minimum_off.value
        self._doser.minimum_cycle_s = self._minimum_cycle.value
        self._demand = demand
        return level if demand is None else float(self._doser.advance(demand, 0.0, is_held=self._is_off()))

    def _is_off(self) -> bool:
        """Whether all outputs are known to be off, whatever is commanded."""
        return bool(self._levels) and all(level == 0 for level in self._levels.values())

    @property
    def _desired(self) -> float | None:
        """The level for the set point of the own variable, None without one."""
        if self._set_point is None:
            return None
        shortest_s = 0.0 if self._can_dim else self._minimum_on.value
        return max(0.0, min(1.0, self._share(self._set_point, shortest_s)))

    def _level(self) -> float | None:
        """The level that is asked for, None for no command."""
        if (desired := self._desired) is not None:
            return desired
        now = self._clock.monotonic()
        fresh = [
            level if now < ends and self._demands[topic].helps() else 0.0
            for topic, (level, came, ends) in self._commands.items()
            if self._is_fresh(came, now)
        ]
        return max(fresh, default=None)

    def _until_edge(self) -> float:
        if self._dose is not None:
            return max(0.0, self._dose[1] - self._clock.monotonic())
        return math.inf if self._can_dim or self._demand is None else self._doser.until_edge(self._demand)
