"""Winsen MH-Z19B, MH-Z19C and MH-Z16: carbon dioxide, over a serial line.

Sources: "MH-Z19B CO2 Module User's Manual" 1.0 ("Commands" for frames, "Notes" for warm-up and calibration);
the manuals of the MH-Z19C and MH-Z16, which have the same frames; ESPEasy for the command 0x99 (range) of the
MH-Z19B manual of March 2017, since 1.0 has its value in another place.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd_drivers.errors import DeviceMissingError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.serial_line import SerialLine

BAUD: Final = 9600
ANSWER_S: Final = 0.4
"""Time limit of one read in real seconds; a frame takes 9 ms. A reading has at most `_MOST_READS`."""

WARM_UP_S: Final = 180.0  # "Preheat time: 3 min"; the MH-Z19C needs 1 min
RANGES_PPM: Final = (2000, 5000, 10_000)
DEFAULT_RANGE_PPM: Final = 10_000
ZERO_POINT_PPM: Final = 400  # fresh air
MINIMUM_SPAN_PPM: Final = 1000  # "lower than 1000 ppm is not suitable as span"

_FRAME_LENGTH: Final = 9
_START: Final = 0xFF
_SENSOR: Final = 0x01
_READ: Final = 0x86
_ZERO: Final = 0x87
_SPAN: Final = 0x88
_SELF_CALIBRATION: Final = 0x79
_RANGE: Final = 0x99  # with 32 bits in the bytes 4 to 7
_MOST_READS: Final = 4


@dataclass(frozen=True)
class Mhz19Sample:
    """One measurement, in ppm by volume."""

    carbon_dioxide_ppm: float


class Mhz19:
    """An MH-Z19 with a range of `range_ppm`: 2000, 5000 or 10 000 (the default), if the part supports it.

    Its automatic baseline treats the lowest value of a day as fresh air (400 ppm), which is wrong in a closed
    or enriched chamber ("not suitable for agriculture greenhouse"). Range and baseline can't be read back, so
    they are sent whenever the sensor may have been switched on.

    During its warm-up of 3 minutes the sensor sends plausible constants, and `read` returns them.

    The constructor does not talk to the sensor. It raises `SettingError` for an invalid range.
    """

    BAUD = BAUD
    ANSWER_S = ANSWER_S
    SENDS_DEFAULT_RANGE = True

    def __init__(
        self,
        line: SerialLine,
        *,
        monotonic: Callable[[], float],
        device: str = "MH-Z19",
        range_ppm: int | None = None,
        self_calibration: bool = False,
    ) -> None:
        del monotonic  # which each driver on a serial line gets
        self._device = device
        self._sends_range = self.SENDS_DEFAULT_RANGE or range_ppm is not None
        self._range_ppm = DEFAULT_RANGE_PPM if range_ppm is None else range_ppm
        self._check_range(self._range_ppm)
        line.label(device)
        self._line = line
        self._is_self_calibrating = self_calibration
        self._is_set_up = False

    def read(self) -> Mhz19Sample:
        """The present measurement.

        Raises `DeviceMissingError` without an answer, `TransferError` for an invalid answer,
        `HardwareUnavailableError` for a port that may not be used.
        """
        try:
            ppm = self._ask()
        except DeviceMissingError:
            self.set_up_again()  # it may have lost its power
            raise
        if not self._is_set_up:
            if self._sends_range:
                self._send_range()
            self._send_self_calibration()
            self._is_set_up = True
        return Mhz19Sample(float(ppm))

    def set_up_again(self) -> None:
        """Send range and baseline after the next answer, since the sensor was switched on."""
        self._is_set_up = False

    def set_self_calibration(self, on: bool) -> None:  # noqa: FBT001  its only argument
        """Switch the automatic baseline on or off. Raises as `read` for the line."""
        self._is_self_calibrating = on
        self._send_self_calibration()

    def calibrate_zero(self) -> None:
        """Calibrate the zero point: the air of the last 20 minutes is fresh air, 400 ppm.

        The sensor must have warmed up. Raises as `read` for the line.
        """
        self._line.send(_command(_ZERO))

    def calibrate_span(self, span_ppm: int) -> None:
        """Calibrate the span, after the zero point: the air of the last 20 minutes has `span_ppm`.

        Raises `SettingError` outside 1000 ppm to the end of the range, and as `calibrate_zero`.
        """
        if not MINIMUM_SPAN_PPM <= span_ppm <= self._range_ppm:
            sentence = f"span_ppm must be {MINIMUM_SPAN_PPM}..{self._range_ppm}, not {span_ppm}"
            raise SettingError(f"{self._device}: {sentence}", device=self._device)
        self._line.send(_command(_SPAN, *span_ppm.to_bytes(2, "big")))

    def _ask(self) -> int:
        """Ask, and read until there is a whole frame. Other bytes are skipped."""
        self._line.send(_command(_READ))
        received = b""
        for _ in range(_MOST_READS):
            wanted = _missing(received)
            more = self._line.read(wanted)
            received += more
            ppm = _ppm_in(received)
            if ppm is not None:
                return ppm
            if len(more) < wanted:
                break
        if not received:
            raise self._line.missing(errno.ETIMEDOUT, "does not answer: check its wiring and power")
        raise self._line.failed(errno.EBADMSG, f"sent no whole frame, but {received.hex(' ')}")

    def _check_range(self, range_ppm: int) -> None:
        if range_ppm not in RANGES_PPM:
            known = ", ".join(map(str, RANGES_PPM))
            raise SettingError(
                f"{self._device}: range_ppm must be one of {known}, not {range_ppm}", device=self._device
            )

    def _send_range(self) -> None:
        self._line.send(_command(_RANGE, 0, 0, 0, *self._range_ppm.to_bytes(2, "big")))

    def _send_self_calibration(self) -> None:
        self._line.send(_command(_SELF_CALIBRATION, 0xA0 if self._is_self_calibrating else 0x00))


class Mhz16(Mhz19):
    """An MH-Z16. Its manuals have no command for the range, so only a `range_ppm` that is given is sent."""

    SENDS_DEFAULT_RANGE = False


def checksum(frame: bytes) -> int:
    """Of the bytes 1 to 7 of a frame, for its byte 8 ("Checksum calculation method")."""
    return -sum(frame[1:8]) & 0xFF


def _command(command: int, *data: int) -> bytes:
    frame = bytes([_START, _SENSOR, command, *data]).ljust(_FRAME_LENGTH - 1, b"\0")
    return frame + bytes([checksum(frame)])


def _ppm_in(received: bytes) -> int | None:
    """The value of the first whole answer with a right checksum, at any position."""
    for start in range(len(received) - _FRAME_LENGTH + 1):
        frame = received[start : start + _FRAME_LENGTH]
        if frame[:2] == bytes([_START, _READ]) and frame[8] == checksum(frame):
            return int.from_bytes(frame[2:4], "big")
    return None


def _missing(received: bytes) -> int:
    """The number of bytes missing from the first answer that may have begun."""
    head = bytes([_START, _READ])
    for start in range(max(0, len(received) - _FRAME_LENGTH + 1), len(received)):
        if head.startswith(received[start : start + 2]):
            return _FRAME_LENGTH - (len(received) - start)
    return _FRAME_LENGTH
