"""What the pin keeper needs of a library of pins, and software PWM. Imports the standard library only."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

NS_PER_S: Final = 1_000_000_000
_MOST_PULSES_PER_S: Final = 1_000


class Drive(Protocol):
    """What drives one output. `due` is when it must take its next step, in monotonic ns, None for never."""

    due: int | None

    def set(self, period_ns: int, high_ns: int, now: int) -> None:
        """Drive it with these pulses, or at this steady level. Raises OSError."""

    def step(self, now: int) -> None:
        """Take the step that is due. Raises OSError."""


class PinLines(Protocol):
    """The pins of a machine. All methods raise OSError."""

    def is_output(self, pin: int) -> bool:
        """Whether a pin is an output now, in any process."""

    def claim(self, pin: int, rest: int, chip: int) -> Drive:
        """Make a pin an output at a level, without another level before; by a PWM chip unless it is -1."""

    def claim_input(self, pin: int, pull: str, debounce_ns: int) -> None:
        """Make a pin an input, whose level changes after `debounce_ns` at a new one."""

    def read(self, pin: int) -> int:
        """The level of an input, 0 or 1."""


class PulsedLine:
    """A line at a steady level, or with software PWM. `drive(is_high)` sets its level.

    Each period starts at a multiple of its length, so periods do not drift. A pulse that was too long or too
    short, because the process was woken late, is made up for by the next one.
    """

    def __init__(self, drive: Callable[[bool], object], rest: int) -> None:
        self.due: int | None = None
        self._drive = drive
        self._period_ns = 0
        self._high_ns = rest
        self._is_high = bool(rest)
        self._start = 0  # of the present period
        self._rose = 0
        self._length = 0  # of the present pulse, as wanted
        self._owed = 0  # time at high level

    def set(self, period_ns: int, high_ns: int, now: int) -> None:
        """As `Drive`."""
        if 0 < period_ns * _MOST_PULSES_PER_S < NS_PER_S:
            raise OSError(errno.EINVAL, f"software PWM has up to {_MOST_PULSES_PER_S} Hz")
        self.due = None
        self._period_ns, self._high_ns = period_ns, high_ns
        self._owed = 0
        if not period_ns:
            self._set(bool(high_ns))
            return
        self._start = self._rose = now - now % period_ns
        self._length = high_ns
        self._set(now - self._start < high_ns)
        if 0 < high_ns < period_ns:
            self.due = self._start + (high_ns if self._is_high else period_ns)

    def step(self, now: int) -> None:
        """Change the level, which is due."""
        start = now - now % self._period_ns
        if self._is_high:
            self._owe(self._length - (now - self._rose))
        if start > self._start:
            self._owe(((start - self._start) // self._period_ns - 1) * self._high_ns)  # missed periods
            self._start = start
            self._rise(now)
        else:
            self.due = start + self._period_ns  # also if this fails
            self._change(False)

    def _rise(self, now: int) -> None:
        """Begin the pulse of this period, unless earlier ones were longer by as much."""
        self._length = self._high_ns + self._owed
        self._owed = min(self._length, 0)
        self._rose = now
        self._change(self._length > 0)
        self.due = now + self._length if self._is_high else self._start + self._period_ns

    def _owe(self, missing_ns: int) -> None:
        """Owe at most a period, so that a long interruption is not made up for."""
        self._owed = min(max(self._owed + missing_ns, -self._period_ns), self._period_ns)

    def _change(self, is_high: bool) -> None:  # noqa: FBT001  it is the level
        if is_high != self._is_high:
            self._set(is_high)

    def _set(self, is_high: bool) -> None:  # noqa: FBT001  it is the level
        self._drive(is_high)
        self._is_high = is_high
