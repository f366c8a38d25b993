"""A simulated /sys/class/pwm. It refuses what the kernel refuses.

Source: Linux, drivers/pwm/sysfs.c and core.c, with pwm-bcm2835.c below.
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_hwsim.errors import kernel_error

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

HISTORY_LENGTH = 10_000
_HIGHEST = 2**32 - 1  # of clock ticks in a period; taken for ns here
_LOWEST_NS = 2


@dataclass
class _State:
    """The kernel's state of a channel; `is_on` is that of the peripheral."""

    period: int = 0
    duty_cycle: int = 0
    enable: int = 0
    polarity: str = "normal"
    is_exported: bool = False
    is_on: bool = False
    refusals_left: int = 0

    @property
    def high(self) -> float:
        if not self.is_on:
            return 0.0
        share = self.duty_cycle / self.period
        return share if self.polarity == "normal" else 1.0 - share


class SimulatedPwmSysfs:
    """As `growd_drivers.hardware_pwm.PwmFiles`: the files of `chips`, with the number of channels of each.

    `pins` has the chip and channel of each pin (BCM). `on_change(pin, high)` is called with the fraction of
    time that a pin is high. `is_refused(pin)` is asked before each write. Channels `in_use` are those of a
    kernel driver. A new channel refuses `refusals` writes, until udev has changed its group. `may_export` is
    False for a user who is not in the group.
    """

    def __init__(
        self,
        pins: Mapping[int, tuple[int, int]],
        *,
        chips: Mapping[int, int] | None = None,
        on_change: Callable[[int, float], None] | None = None,
        is_refused: Callable[[int], bool] | None = None,
        in_use: Collection[tuple[int, int]] = (),
        refusals: int = 0,
        may_export: bool = True,
    ) -> None:
        self.history: deque[tuple[str, str]] = deque(maxlen=HISTORY_LENGTH)
        """Path and text of each successful write."""
        self._pins = dict(pins)
        self._states = {
            (chip, channel): _State()
            for chip, count in ({0: 2} if chips is None else chips).items()
            for channel in range(count)
        }
        self._on_change = on_change
        self._is_refused = is_refused
        self._in_use = in_use
        self._refusals = refusals
        self._may_export = may_export
        self._lock = threading.RLock()

    def read(self, path: str, /) -> str:
        """The text of a file."""
        chip, *names = path.split("/")
        with self._lock:
            count = self._count(chip)
            if names == ["npwm"]:
                return f"{count}\n"
            _, state, name = self._attribute(chip, names)
            return f"{getattr(state, name)}\n"

    def write(self, path: str, text: str, /) -> None:
        """Write a file."""
        self._check_refused(path)
        chip, *names = path.split("/")
        with self._lock:
            self._count(chip)
            if names in (["export"], ["unexport"]):
                self._export(chip, _number(text), out=names == ["export"])
            else:
                place, state, name = self._attribute(chip, names)
                if state.refusals_left:
                    state.refusals_left -= 1
                    raise kernel_error(errno.EACCES)
                self._apply(place, state, name, text.strip())
            self.history.append((path, text))

    def high(self, pin: int) -> float:
        """The fraction of time the pin is high now, 0..1."""
        return self._states[self._pins[pin]].high

    def _count(self, chip: str) -> int:
        count = sum(f"pwmchip{number}" == chip for number, _ in self._states)
        if not count:
            raise kernel_error(errno.ENOENT)
        return count

    def _attribute(self, chip: str, names: list[str]) -> tuple[tuple[int, int], _State, str]:
        for place, state in self._states.items():
            if f"pwmchip{place[0]}" == chip and names[:1] == [f"pwm{place[1]}"] and state.is_exported:
                if names[1:] in (["period"], ["duty_cycle"], ["enable"], ["polarity"]):
                    return place, state, names[1]
                break
        raise kernel_error(errno.ENOENT)

    def _export(self, chip: str, channel: int, *, out: bool) -> None:
        if not self._may_export:
            raise kernel_error(errno.EACCES)
        place = (int(chip.removeprefix("pwmchip")), channel)
        if place not in self._states:
            raise kernel_error(errno.ENODEV)
        state = self._states[place]
        if out and (state.is_exported or place in self._in_use):
            raise kernel_error(errno.EBUSY)
        if not out and not state.is_exported:
            raise kernel_error(errno.ENODEV)
        before = state.high
        state.is_exported = out
        state.is_on = False  # by request() and by free(); the kernel's state stays
        state.refusals_left = self._refusals
        self._notify(place, before)

    def _check_refused(self, path: str) -> None:
        """Without the lock, so that a hanging pin does not block the others."""
        for pin, (chip, channel) in self._pins.items():
            is_meant = path.startswith(f"pwmchip{chip}/pwm{channel}/")
            if is_meant and self._is_refused is not None and self._is_refused(pin):
                raise kernel_error(errno.EIO)

    def _apply(self, place: tuple[int, int], state: _State, name: str, text: str) -> None:
        """As pwm_apply_state: an unchanged state does not reach the peripheral."""
        asked = _State(state.period, state.duty_cycle, state.enable, state.polarity)
        if name == "polarity":
            if text not in ("normal", "inversed"):
                raise kernel_error(errno.EINVAL)
            if state.enable:
                raise kernel_error(errno.EBUSY)
            asked.polarity = text
        else:
            setattr(asked, name, _number(text))
        if asked.enable > 1 or not _LOWEST_NS <= asked.period <= _HIGHEST or asked.duty_cycle > asked.period:
            raise kernel_error(errno.EINVAL)
        before = state.high
        values = ("period", "duty_cycle", "enable", "polarity")
        if any(getattr(asked, value) != getattr(state, value) for value in values):
            for value in values:
                setattr(state, value, getattr(asked, value))
            state.is_on = bool(state.enable)
        self._notify(place, before)

    def _notify(self, place: tuple[int, int], before: float) -> None:
        now = self._states[place].high
        if self._on_change is not None and now != before:
            for pin, its in self._pins.items():
                if its == place:
                    self._on_change(pin, now)


def _number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise kernel_error(errno.EINVAL) from None
    if number < 0:
        raise kernel_error(errno.EINVAL)
    return number
