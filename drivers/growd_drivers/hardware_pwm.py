"""Output pins whose pulse width a PWM peripheral of the processor makes: exact, and at no cost.

Source: Linux, Documentation/driver-api/pwm.rst ("Using PWMs with the sysfs interface"); drivers/pwm/core.c,
pwm-bcm2835.c (Pi 1 to 4) and pwm-rp1.c (Pi 5) for what a pin does in between. The pins are given to the
peripheral at boot, by `dtoverlay=pwm-2chan` in config.txt. From then on

- they must not be set up as GPIO: that takes a pin away from the peripheral. So nothing here is passed on to
  the GPIO package for them;
- a pin is low until its channel is enabled. An inverted lamp is lit from boot until the daemon starts, unless
  its circuit is dark at a low pin: no program can help that;
- a channel that runs goes on when its program has ended, by whatever. So it is left exported and enabled: to
  give it back would make its pin low, which lights an inverted lamp.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from growd_drivers.errors import HardwareUnavailableError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from growd_drivers.gpio import GpioLike, PwmLike

    Place = tuple[int, int]

_CHANNELS_BY_COUNT: Final = {
    2: {12: 0, 13: 1, 18: 0, 19: 1},  # BCM2835 to BCM2711: the overlay's README
    4: {12: 0, 13: 1, 18: 2, 19: 3},  # RP1 peripherals: GPIO functions, PWM0
}
_FIRST_PERIOD_NS: Final = 5_000_000  # of a channel that has none yet: `PwmLight`'s 200 Hz
_NS_PER_S: Final = 1_000_000_000
_PATIENCE_S: Final = 1.0  # until udev has given the group gpio the files of a channel just exported
_POLL_S: Final = 0.05


class PwmFiles(Protocol):
    """What is used of /sys/class/pwm; paths are below it."""

    def read(self, path: str, /) -> str:
        """The text of a file. Raises OSError."""

    def write(self, path: str, text: str, /) -> None:
        """Write a file that is there. Raises OSError."""


class SysfsFiles:
    """The kernel's files."""

    def __init__(self, root: Path = Path("/sys/class/pwm")) -> None:
        self._root = root

    def read(self, path: str, /) -> str:
        """As `PwmFiles`."""
        return (self._root / path).read_text(encoding="ascii")

    def write(self, path: str, text: str, /) -> None:
        """As `PwmFiles`; in one write, as sysfs wants it."""
        descriptor = os.open(self._root / path, os.O_WRONLY)  # neither made nor read: export can't be
        try:
            os.write(descriptor, text.encode("ascii"))
        finally:
            os.close(descriptor)


def channels_on(chip: int, files: PwmFiles) -> dict[int, Place]:
    """The chip and channel of each pin (BCM) on the header that pwmchip`chip` can drive.

    A Pi 5 is told by the number of its channels. Its chip has the number 2 in Linux 6.6 and 0 in 6.12, and
    one more such chip drives the fan. Raises `HardwareUnavailableError` where there is no such chip.
    """
    try:
        with _explained(chip):
            count = int(files.read(f"pwmchip{chip}/npwm"))
    except OSError as error:
        raise HardwareUnavailableError(f"hardware PWM: {error}", device="pwm") from error
    if count not in _CHANNELS_BY_COUNT:
        known = " or ".join(map(str, _CHANNELS_BY_COUNT))
        raise HardwareUnavailableError(
            f"hardware PWM: pwmchip{chip} has {count} channels; that of a Raspberry Pi's pins has {known}",
            device="pwm",
        )
    return {pin: (chip, channel) for pin, channel in _CHANNELS_BY_COUNT[count].items()}


class HardwarePwmGpio:
    """RPi.GPIO's API, where the pins (BCM) of `channels` are those of a PWM chip and channel each.

    All other pins are those of `gpio`. A steady level of such a pin is a duty cycle of 0 or 100 %. When the
    frequency of a running channel changes, it may have a wrong duty cycle for one period: sysfs takes one
    number at a time. Failures are OSError with a sentence that says what to do. Raises `SettingError` where
    two pins have one channel: they would always be alike.
    """

    def __init__(
        self,
        gpio: GpioLike,
        channels: Mapping[int, Place],
        *,
        sleep: Callable[[float], None],
        files: PwmFiles | None = None,
    ) -> None:
        _check_channels(channels)
        self.BCM = gpio.BCM
        self.OUT = gpio.OUT
        self._gpio = gpio
        files = files or SysfsFiles()
        self._channels = {pin: _Channel(files, *place, sleep=sleep) for pin, place in channels.items()}

    def setmode(self, mode: int, /) -> None:
        """Number the other pins as the processor does (BCM)."""
        self._gpio.setmode(mode)

    def setwarnings(self, enabled: bool, /) -> None:  # noqa: FBT001  RPi.GPIO's signature
        """Warn of other pins that are already in use, or not."""
        self._gpio.setwarnings(enabled)

    def setup(self, channel: int, direction: int, *, initial: int) -> None:
        """Make a pin an output at a level."""
        if channel in self._channels:
            self._channels[channel].drive(float(bool(initial)))
        else:
            self._gpio.setup(channel, direction, initial=initial)

    def output(self, channel: int, value: int, /) -> None:
        """Drive a pin low (0) or high (1)."""
        if channel in self._channels:
            self._channels[channel].drive(float(bool(value)))
        else:
            self._gpio.output(channel, value)

    def PWM(self, channel: int, frequency: float, /) -> PwmLike:  # noqa: N802  RPi.GPIO's name
        """A PWM on an output pin, not yet started."""
        if channel in self._channels:
            return SysfsPwm(self._channels[channel], frequency)
        return self._gpio.PWM(channel, frequency)


class SysfsPwm:
    """`RPi.GPIO.PWM` on a channel of a PWM chip."""

    def __init__(self, channel: _Channel, frequency_hz: float) -> None:
        self._channel = channel
        self._period_ns = round(_NS_PER_S / frequency_hz)
        self._is_running = False

    def start(self, dutycycle: float, /) -> None:
        """Begin with a duty cycle in percent."""
        self._is_running = True
        self.ChangeDutyCycle(dutycycle)

    def ChangeDutyCycle(self, dutycycle: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        """Go on with another duty cycle in percent; does nothing before `start`, and after `stop`."""
        if self._is_running:
            self._channel.drive(dutycycle / 100.0, self._period_ns)

    def stop(self) -> None:
        """End; the channel goes on as it is: a pin that went low would flash an inverted lamp."""
        self._is_running = False


class _Channel:
    """One channel: its directory appears when it is exported."""

    def __init__(self, files: PwmFiles, chip: int, number: int, *, sleep: Callable[[float], None]) -> None:
        self._files = files
        self._chip = chip
        self._number = number
        self._sleep = sleep
        self._waits_left = 0
        self._is_fresh = False

    def drive(self, high: float, period_ns: int | None = None) -> None:
        """Have the pin high for that fraction of the time, 0..1. Without a period, that of before is kept."""
        with _explained(self._chip, self._number):
            if not self._is_exported():
                self._export()
            self._set(high, period_ns)

    def _is_exported(self) -> bool:
        try:
            self._read("period")
        except FileNotFoundError:
            return False
        return True

    def _export(self) -> None:
        self._files.write(f"pwmchip{self._chip}/export", str(self._number))
        self._waits_left = round(_PATIENCE_S / _POLL_S)
        self._is_fresh = True

    def _set(self, high: float, period_ns: int | None) -> None:
        """In an order in which the kernel takes each step: no period of 0, no duty beyond the period."""
        # The kernel may remember a 1 from before the export, which switched the peripheral off: another 1
        # would not reach it.
        if self._is_fresh and self._read("enable") == "1":
            self._write("enable", "0")
        self._is_fresh = False
        before_ns = int(self._read("period"))
        after_ns = period_ns or before_ns or _FIRST_PERIOD_NS
        duty_ns = str(round(high * after_ns))
        if after_ns > before_ns:
            self._write("period", str(after_ns))
        self._write("duty_cycle", duty_ns)
        if after_ns < before_ns:
            self._write("period", str(after_ns))
        if self._read("polarity") != "normal":
            self._write("enable", "0")  # "can only be changed if the PWM is not enabled"
            self._write("polarity", "normal")
        if self._read("enable") != "1":
            self._write("enable", "1")

    def _read(self, name: str) -> str:
        return self._files.read(self._path(name)).strip()

    def _write(self, name: str, text: str) -> None:
        while True:
            try:
                return self._files.write(self._path(name), text)
            except PermissionError:
                if not self._waits_left:
                    raise
                self._waits_left -= 1
                self._sleep(_POLL_S)

    def _path(self, name: str) -> str:
        return f"pwmchip{self._chip}/pwm{self._number}/{name}"


@contextmanager
def _explained(chip: int, channel: int = 0) -> Iterator[None]:
    """Say what to do about what the kernel refused."""
    try:
        yield
    except OSError as error:
        name = f"pwmchip{chip}"
        sentences = {
            errno.ENOENT: f"there is no {name}: have dtoverlay=pwm-2chan in config.txt, or another chip of "
            "those in /sys/class/pwm",
            errno.EACCES: f"{name} may not be written: add growd's user to the group gpio, "
            "which udev gives it to on Raspberry Pi OS",
            errno.ENODEV: f"{name} has no channel {channel}",
            errno.EBUSY: f"channel {channel} of {name} is in use in the kernel: is it that of the fan?",
            errno.EINVAL: f"channel {channel} of {name} does not take this frequency",
        }
        raise OSError(sentences.get(error.errno or 0, f"{name}: {error.strerror or error}")) from error


def _check_channels(channels: Mapping[int, Place]) -> None:
    pins: dict[Place, int] = {}
    for pin, place in channels.items():
        if place in pins:
            raise SettingError(
                f"hardware PWM: GPIO {pins[place]} and GPIO {pin} have the same channel, {place[1]} of "
                f"pwmchip{place[0]}: take another pin for one of them",
                device="pwm",
            )
        pins[place] = pin
