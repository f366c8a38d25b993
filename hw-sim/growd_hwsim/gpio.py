"""Simulated pins below the code of the real pin keeper, in simulated time."""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from growd_drivers.hardware_pwm import channel_of
from growd_drivers.pin_keeper import Keeper
from growd_drivers.pin_lines import NS_PER_S
from growd_drivers.pins import Pins

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd_drivers.hardware_pwm import PwmFiles
    from growd_drivers.pin_lines import Drive

HISTORY_LENGTH = 10_000


@dataclass(frozen=True)
class PinEvent:
    """From `time` (monotonic seconds) the pin is high for the fraction `high` of the time, 0..1.

    `frequency_hz` is 0 for a steady level.
    """

    time: float
    pin: int
    high: float
    frequency_hz: float


class SimulatedLines:
    """As `pin_lines.PinLines`: the levels of outputs, and inputs, whose levels are those of `wires`.

    A pin that is in no wire, or whose wire gives None, has the level of its pull resistor; that of a pin
    without one is low. A wire is asked at each reading; the simulation has no bounces. `on_change(pin, high,
    frequency_hz)` is called with every change. If `is_refused(pin)`, OSError (EBUSY) is raised and the pin
    keeps its level.
    """

    def __init__(
        self,
        on_change: Callable[[int, float, float], None],
        is_refused: Callable[[int], bool],
        wires: Mapping[int, Callable[[], bool | None]],
        pwm_files: PwmFiles | None,
    ) -> None:
        self.wires = dict(wires)
        self.levels: dict[int, float] = {}
        self._on_change = on_change
        self._is_refused = is_refused
        self._pwm_files = pwm_files
        self._pulls: dict[int, str] = {}

    def is_output(self, pin: int) -> bool:
        """As `pin_lines.PinLines`."""
        return pin in self.levels

    def claim(self, pin: int, rest: int, chip: int) -> Drive:
        """As `pin_lines.PinLines`."""
        self._check(pin)
        channel = None if self._pwm_files is None else channel_of(pin, chip, self._pwm_files)
        if channel is not None:
            return channel
        del rest  # the keeper drives it
        return _Dimmed(partial(self.set, pin))

    def claim_input(self, pin: int, pull: str, debounce_ns: int) -> None:
        """As `pin_lines.PinLines`."""
        del debounce_ns
        self._check(pin)
        self._pulls[pin] = pull

    def read(self, pin: int) -> int:
        """As `pin_lines.PinLines`."""
        if pin not in self._pulls:
            raise OSError(errno.EPERM, "it is not set up as an input")
        self._check(pin)
        level = self.wires[pin]() if pin in self.wires else None
        return int(self._pulls[pin] == "up" if level is None else level)

    def set(self, pin: int, high: float, frequency_hz: float) -> None:
        """Drive an output high for a fraction of the time, 0..1."""
        self._check(pin)
        self.levels[pin] = high
        self._on_change(pin, high, frequency_hz)

    def _check(self, pin: int) -> None:
        if self._is_refused(pin):
            raise OSError(errno.EBUSY, "it is in use by gpioset")


class _Dimmed:
    """As `pin_lines.Drive`: a pin whose pulses are not simulated one by one."""

    due: int | None = None

    def __init__(self, drive: Callable[[float, float], None]) -> None:
        self._drive = drive

    def set(self, period_ns: int, high_ns: int, now: int) -> None:
        del now
        if period_ns:
            self._drive(high_ns / period_ns, NS_PER_S / period_ns)
        else:
            self._drive(float(high_ns), 0.0)

    def step(self, now: int) -> None:
        """Nothing is ever due."""


class SimulatedPins(Pins):
    """Simulated lines below a real `Keeper`. `history` has the changes of outputs.

    `on_change(pin, high)` is called with every change, which happens at `moment`. Leases and doses end in
    time, however late somebody looks: call `advance` before. If `hangs(pin)`, there is no answer (ETIMEDOUT).
    The rest is as `SimulatedLines`.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        on_change: Callable[[int, float], None] = lambda _pin, _high: None,
        is_refused: Callable[[int], bool] = lambda _pin: False,
        hangs: Callable[[int], bool] = lambda _pin: False,
        wires: Mapping[int, Callable[[], bool | None]] | None = None,
        pwm_files: PwmFiles | None = None,
    ) -> None:
        super().__init__()
        self.history: deque[PinEvent] = deque(maxlen=HISTORY_LENGTH)
        self.lines = SimulatedLines(self._changed, is_refused, wires or {}, pwm_files)
        self._monotonic = monotonic
        self._on_change = on_change
        self._hangs = hangs
        self._now = round(monotonic() * NS_PER_S)
        self._keeper = Keeper(lambda: self.lines)

    @property
    def moment(self) -> float:
        """The time of the present change, in monotonic seconds."""
        return self._now / NS_PER_S

    def high(self, pin: int) -> float:
        """The fraction of time the pin is high now, 0..1."""
        self.advance(self._monotonic())
        return self.lines.levels.get(pin, 0.0)

    def advance(self, now: float) -> None:
        """End each lease and dose that is over by `now`, in monotonic seconds."""
        with self._lock:
            end = round(now * NS_PER_S)
            while (due := self._keeper.due) is not None and due <= end:
                self._now = due
                self._keeper.step(due)

    def _ask(self, pin: int, request: bytes) -> bytes:
        if self._hangs(pin):
            raise OSError(errno.ETIMEDOUT, "the pin keeper does not answer")
        with self._lock:
            now = self._monotonic()
            self.advance(now)
            self._now = max(self._now, round(now * NS_PER_S))
            return self._keeper.answer(request, self._now)

    def _changed(self, pin: int, high: float, frequency_hz: float) -> None:
        self.history.append(PinEvent(self.moment, pin, high, frequency_hz))
        self._on_change(pin, high)
