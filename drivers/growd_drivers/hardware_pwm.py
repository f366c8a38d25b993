"""Output pins with hardware PWM: pulses from a peripheral of the processor.

Source: Linux, Documentation/driver-api/pwm.rst ("Using PWMs with the sysfs interface"); drivers/pwm/core.c,
pwm-bcm2835.c (Pi 1 to 4) and pwm-rp1.c (Pi 5). `dtoverlay=pwm-2chan` in config.txt gives the pins to the
peripheral at boot. From then on

- they must not be set up as GPIO, which would take them away from the peripheral;
- a pin is low until its channel is enabled, so an inverted lamp is lit from boot until growd starts;
- a running channel goes on after its program has ended. It is left exported and enabled: unexporting it would
  make the pin low, which lights an inverted lamp.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from growd_drivers.errors import HardwareUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    Place = tuple[int, int]

_CHANNELS_BY_COUNT: Final = {
    2: {12: 0, 13: 1, 18: 0, 19: 1},  # BCM2835 to BCM2711: the overlay's README
    4: {12: 0, 13: 1, 18: 2, 19: 3},  # RP1 peripherals: GPIO functions, PWM0
}
_FIRST_PERIOD_NS: Final = 5_000_000  # for a new channel: 200 Hz, the usual frequency


class PwmFiles(Protocol):
    """Files below /sys/class/pwm."""

    def read(self, path: str, /) -> str:
        """The text of a file. Raises OSError."""

    def write(self, path: str, text: str, /) -> None:
        """Write an existing file. Raises OSError."""


class SysfsFiles:
    """The kernel's files."""

    def __init__(self, root: Path = Path("/sys/class/pwm")) -> None:
        self._root = root

    def read(self, path: str, /) -> str:
        """As `PwmFiles`."""
        return (self._root / path).read_text(encoding="ascii")

    def write(self, path: str, text: str, /) -> None:
        """As `PwmFiles`, in one write, which sysfs requires."""
        descriptor = os.open(
            self._root / path, os.O_WRONLY
        )  # without O_CREAT or O_RDWR, which `export` refuses
        try:
            os.write(descriptor, text.encode("ascii"))
        finally:
            os.close(descriptor)


def channels_on(chip: int, files: PwmFiles) -> dict[int, Place]:
    """The chip and channel of each header pin (BCM) that pwmchip`chip` can drive.

    A Pi 5 is recognised by its number of channels. Its chip has the number 2 in Linux 6.6 and 0 in 6.12;
    another such chip drives the fan. Raises `HardwareUnavailableError` without such a chip.
    """
    try:
        with _explained(chip):
            count = int(files.read(f"pwmchip{chip}/npwm"))
    except OSError as error:
        raise HardwareUnavailableError(f"hardware PWM: {error.strerror}", device="pwm") from error
    if count not in _CHANNELS_BY_COUNT:
        known = " or ".join(map(str, _CHANNELS_BY_COUNT))
        raise HardwareUnavailableError(
            f"hardware PWM: pwmchip{chip} has {count} channels; that of a Raspberry Pi's pins has {known}",
            device="pwm",
        )
    return {pin: (chip, channel) for pin, channel in _CHANNELS_BY_COUNT[count].items()}


def channel_of(pin: int, chip: int, files: PwmFiles | None = None) -> PwmChannel | None:
    """The channel of a pin, not driven yet; None if no chip drives such a pin, or for the chip -1.

    Raises OSError with advice.
    """
    if chip < 0 or all(pin not in pins for pins in _CHANNELS_BY_COUNT.values()):
        return None
    files = files or SysfsFiles()
    try:
        return PwmChannel(files, *channels_on(chip, files)[pin])
    except HardwareUnavailableError as error:
        raise OSError(errno.ENODEV, str(error)) from error


class PwmChannel:
    """A channel of a PWM chip, as `pin_lines.Drive`. Its directory appears when it is exported.

    A steady level is a duty cycle of 0 or 100 %. After a change of frequency the duty cycle may be wrong for
    one period, since sysfs takes one number at a time.
    """

    due: int | None = None

    def __init__(self, files: PwmFiles, chip: int, number: int) -> None:
        self._files = files
        self._chip = chip
        self._number = number
        self._is_fresh = False

    def set(self, period_ns: int, high_ns: int, now: int) -> None:
        """As `Drive`. Raises EACCES until udev has given the files of a new channel to the group gpio."""
        del now
        with _explained(self._chip, self._number):
            if not self._is_exported():
                self._files.write(f"pwmchip{self._chip}/export", str(self._number))
                self._is_fresh = True
            self._set(high_ns / (period_ns or 1), period_ns)

    def step(self, now: int) -> None:
        """Nothing is ever due: the peripheral makes the pulses."""

    def _is_exported(self) -> bool:
        try:
            self._read("period")
        except FileNotFoundError:
            return False
        return True

    def _set(self, high: float, period_ns: int) -> None:
        """In an order that the kernel accepts: no period of 0, no duty beyond the period."""
        # After an export the peripheral is off, but the kernel may still have enable = 1 and ignore a 1.
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
        self._files.write(self._path(name), text)

    def _path(self, name: str) -> str:
        return f"pwmchip{self._chip}/pwm{self._number}/{name}"


@contextmanager
def _explained(chip: int, channel: int = 0) -> Iterator[None]:
    """Add advice to an error of the kernel."""
    try:
        yield
    except OSError as error:
        name = f"pwmchip{chip}"
        sentences = {
            errno.ENOENT: f"there is no {name}: set dtoverlay=pwm-2chan in config.txt, or pwm_chip to "
            "another chip in /sys/class/pwm",
            errno.EACCES: f"{name} may not be written: add growd's user to the group gpio, "
            "which owns it on Raspberry Pi OS",
            errno.ENODEV: f"{name} has no channel {channel}",
            errno.EBUSY: f"channel {channel} of {name} is in use by the kernel, perhaps for the fan",
            errno.EINVAL: f"channel {channel} of {name} does not take this frequency",
        }
        sentence = sentences.get(error.errno or 0, f"{name}: {error.strerror or error}")
        raise OSError(error.errno or errno.EIO, sentence) from error
