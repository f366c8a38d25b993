"""What all interlocks share. Pure: no bus and no clock here; times are passed in."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

from growd.runtime.sentence import Sentence, code_of, document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

STATE_LOST: Final = "interlock_state_lost"
"""The code of the reason of an interlock that assumes the worst."""
_CHECK_HELD: Final = Sentence("check that what it holds works, then reset it", "check_held")
UNREAD: Final = "the state before the start has not been read yet"
SAVED_SHARE: Final = 0.1
"""Share of a limit: the state is saved again after this much use, and assumed used after an unclean end."""
QUIET_S: Final = 300.0
"""Grace period for a sensor at the start. The longest warm-up, of an MH-Z19, takes 240 s."""
_NEVER: Final[tuple[float | None, float]] = (None, 0.0)


class SensorReadings:
    """The last reading of each sensor: unknown if it is not ok, or older than `stale_after_s`."""

    def __init__(self, stale_after_s: Mapping[str, float]) -> None:
        self._stale_after = dict(stale_after_s)
        self._last: dict[str, dict[str, tuple[float | None, float]]] = {name: {} for name in stale_after_s}

    def take(self, variable: str, device: str, value: float | None, now: float) -> None:
        """Store a reading. `device` is "" for the combined value of all sensors of the variable."""
        self._last[variable][device] = (value, now)

    def known(self, variable: str, now: float) -> dict[str, float]:
        """All known values of a variable, by device."""
        limit = self._stale_after[variable]
        return {
            device: value
            for device, (value, came) in self._last[variable].items()
            if value is not None and now - came <= limit
        }

    def combined(self, variable: str, now: float) -> float | None:
        """The combined value of all sensors of a variable, None if it is unknown."""
        value, came = self._last[variable].get("", _NEVER)
        return value if value is not None and now - came <= self._stale_after[variable] else None

    def unseen(self, variable: str, way: str, now: float) -> str:
        """Why a rise or a fall of a variable could not be seen now, or ""."""
        is_known = self.combined(variable, now) is not None
        return "" if is_known else f"{variable} is unknown, so a {way} could not be seen"


class Guard(Protocol):
    """What an actuator asks before each write, and reports after it. Both return at once."""

    @property
    def is_on_hold(self) -> bool:
        """Whether all outputs are held at their safe states. Commands that come meanwhile are dropped."""

    def permit(self, output: str, level: float) -> float:
        """The level that an output may have now, if `level` is wanted."""

    def wrote(
        self, output: str, level: float | None, lasted_s: float = 0.0, was_on_s: float | None = None
    ) -> None:
        """An output has this level from now on, None if the write failed, which took `lasted_s`.

        `was_on_s` is for how long it really was not safe since the write before, None if that is not known.
        """

    def watch(self, nudge: Callable[[], None]) -> None:
        """Call `nudge()` whenever the permitted levels may have changed."""


class Interlock(ABC):
    """One reason to hold the outputs in `holds`, whoever commands them.

    `reason` says why it has tripped, and is "" otherwise. `reset_hint` is set for an interlock that stays
    tripped until somebody resets it, and says what to check first. `now` is monotonic seconds, `wall` UNIX
    seconds.
    """

    reset_hint = ""
    is_routine = False
    """Part of each day's operation, such as the pause of a compressor: it holds outputs and never trips."""
    is_expected = False
    """Configured for normal operation: it trips with an event, and without a warning or alert."""
    is_of_tank = False
    """It protects what is in the tank, so it does not hold a dose into a measuring cylinder."""
    devices: frozenset[str] = frozenset()
    """The only devices whose outputs it holds; empty for all that have these own variables."""
    reads: frozenset[str] = frozenset()
    """The measured variables whose readings go to `on_reading`."""
    follows: frozenset[str] = frozenset()
    """The variables whose set points go to `on_set_point`."""
    listens: frozenset[str] = frozenset()
    """The topics whose messages go to `on_message`."""

    def __init__(self, name: str, holds: Iterable[str], limits: Mapping[str, tuple[float, str]]) -> None:
        self.name = name
        self.holds = frozenset(holds)
        self.limits = dict(limits)
        """The configured limits with their units, for display."""
        self.reason = ""
        self.is_quiet = False
        """Tripped only because growd has just started: no event, no log line."""

    @property
    def has_tripped(self) -> bool:
        """Whether it has tripped. `reason` of one that is routine says what it holds meanwhile."""
        return bool(self.reason) and not self.is_routine

    @property
    def needs_reset(self) -> bool:
        """Whether it stays tripped until somebody resets it."""
        return bool(self.reason and self.reset_hint)

    @property
    def is_assumed(self) -> bool:
        """Whether it counts as tripped since its saved state was lost."""
        return bool(code_of(self.reason)["code"] == STATE_LOST)

    @property
    def remedy(self) -> str:
        """What to do before a reset."""
        return _CHECK_HELD if self.is_assumed and self.reset_hint else self.reset_hint

    @abstractmethod
    def update(self, now: float, wall: float) -> None:
        """Trip or release, from the current readings and times."""

    def on_reading(self, variable: str, device: str, value: float | None, now: float) -> None:  # noqa: B027
        """Take a reading, None if it is not ok. `device` is "" for the combined value of all sensors."""

    def on_message(self, topic: str, value: float | None, now: float) -> None:  # noqa: B027
        """Take a message of one of `listens`, None if it is not ok."""

    def on_permitted(self, device: str, output: str, level: float, now: float) -> None:  # noqa: B027
        """An output of a device will be written to this level, which all interlocks permit."""

    def on_set_point(self, variable: str, value: float | None) -> None:  # noqa: B027
        """Take a set point, None for none."""

    def held_level(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002  for subclasses
        """The level of an output in place of `level` while this interlock has tripped."""
        return 0.0

    def due_s(self, now: float) -> float:  # noqa: ARG002  for subclasses
        """Seconds until it must be updated to end an output in time; infinity for no such time."""
        return math.inf

    def why_no_reset(self, now: float) -> str:  # noqa: ARG002  for subclasses
        """Why it cannot be reset now, or ""."""
        return f"{self.name} releases by itself"

    def reset(self) -> None:  # noqa: B027  most interlocks release by themselves
        """Release at a user's request."""

    @property
    def stays_on(self) -> bool:
        """Whether it found an output that stays on although it is written off."""
        return False

    @property
    def is_failure(self) -> bool:
        """Whether it found a failure that growd cannot end."""
        return self.needs_reset or self.stays_on

    @property
    def problem(self) -> str:
        """A problem that needs attention although the interlock has not tripped, or ""."""
        return ""


class PersistentInterlock(Interlock):
    """An interlock whose state survives a restart. It is tripped until `restore` is called."""

    def __init__(self, name: str, holds: Iterable[str], limits: Mapping[str, tuple[float, str]]) -> None:
        super().__init__(name, holds, limits)
        self._is_restored = False
        self._saved: Any = None  # the `_mark` on the disk
        self._marked: Any = None  # that of the last state
        self._trip_unread(UNREAD)
        self.is_quiet = True

    @property
    def is_restored(self) -> bool:
        return self._is_restored

    @property
    def needs_reset(self) -> bool:
        return self._is_restored and super().needs_reset  # an unknown state cannot be reset

    def unreadable(self, why: str) -> None:
        """Report that the saved state could not be read so far."""
        if not self._is_restored:
            self._trip_unread(f"the state before the start cannot be read: {why}")
            self.is_quiet = False

    def restore(
        self, saved: Any, now: float, away: float, *, was_clean: bool, lost: str = "it is damaged"
    ) -> bool:
        """Continue from the state saved `away` seconds ago (None: nothing was saved).

        `was_clean` says that growd ended properly. Returns False if the state is invalid; the worst case is
        assumed then, with `lost` as the reason.
        """
        self._is_restored = True
        self.reason = ""
        self.is_quiet = False
        self._saved = self._mark()
        try:
            if saved is not None:
                self._restore(saved, now, away, was_clean=was_clean)
                self._saved = self._mark()
        except (TypeError, ValueError):
            self._assume_worst(now, lost)
            return False
        return True

    def state(self, now: float, *, as_reset: bool = False) -> Any:
        """The state to save, as JSON; with `as_reset`, the state after a reset."""
        self._marked = self._mark(as_reset=as_reset)
        return self._state(now, as_reset=as_reset)

    def mark_saved(self) -> None:
        """The last result of `state` is on the disk."""
        self._saved = self._marked

    def needs_saving(self) -> bool:
        """Whether the state has changed enough since it was saved."""
        return bool(self._mark() != self._saved)

    def _mark(self, *, as_reset: bool = False) -> Any:  # noqa: ARG002  for subclasses
        """The part of the state that is saved when it changes; None if all counts at a clean end only."""
        return None

    @abstractmethod
    def _state(self, now: float, *, as_reset: bool) -> Any: ...

    @abstractmethod
    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None: ...

    @abstractmethod
    def _assume_worst(self, now: float, why: str) -> None: ...

    def _trip_unread(self, reason: str) -> None:
        self.reason = reason


class LatchedInterlock(PersistentInterlock):
    """One that stays tripped until somebody resets it, also over a restart."""

    def why_no_reset(self, now: float) -> str:
        if not self._is_restored:
            return self.reason
        return self._why_it_must_hold(now) if self.has_tripped else f"{self.name} has not tripped"

    def reset(self) -> None:
        self.reason = ""

    @abstractmethod
    def _why_it_must_hold(self, now: float) -> str:
        """Why it cannot be reset although it has tripped, or ""."""

    def _mark(self, *, as_reset: bool = False) -> Any:
        return "" if as_reset or not self.has_tripped else document(self.reason)

    def _restore_reason(self, saved: Any) -> None:
        match saved:
            case "":
                self.reason = ""
            case {"code": str(code), "fields": dict(fields), "text": str(text)}:
                self.reason = Sentence(text, code, **fields)
            case _:
                raise TypeError("the reason is not a sentence")

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self.reason = Sentence(f"its state before the start is unknown: {why}", STATE_LOST, reason=why)


class InputUnknown(Interlock):
    """Outputs are safe while a variable that they need is unknown: its sensor is silent, faulty or warms up.

    The first `QUIET_S` seconds are quiet, since any sensor may still warm up.
    """

    def __init__(self, readings: SensorReadings, variable: str, holds: Iterable[str]) -> None:
        super().__init__(f"{variable}_unknown", holds, {})
        self.reads = frozenset({variable})
        self._readings = readings
        self._variable = variable
        self.reason = Sentence(f"{variable} has not been measured yet", "not_measured_yet", variable=variable)
        self.is_quiet = True
        self._began: float | None = None

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._began = now if self._began is None else self._began
        if self._readings.combined(self._variable, now) is not None:
            self.reason = ""
            self.is_quiet = False
        elif not self.reason or (self.is_quiet and now - self._began >= QUIET_S):
            self.is_quiet = False
            text = f"{self._variable} is unknown: its sensor is silent, faulty or warming up"
            self.reason = Sentence(text, "variable_unknown", variable=self._variable)

    def held_level(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        return safe
