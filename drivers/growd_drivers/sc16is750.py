"""NXP SC16IS740, SC16IS750 and SC16IS760: bridges from I2C to a serial line, as on some MH-Z16 boards.

Source: SC16IS740/750/760 datasheet (NXP, rev. 7): "Register descriptions", and "I2C-bus operation" for the
subaddress, which has the register's number in bits 3 to 6 and is not incremented within a transfer.

Examples of Sandbox Electronics, the maker of such boards, also use the command 0x9C. growd uses 0x86, which
Winsen documents and whose range is sufficient. A part that only knows 0x9C does not answer.
"""

from __future__ import annotations

import errno
import math
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from growd_drivers.errors import DeviceMissingError, SettingError, TransferError, WrongDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd_drivers.i2c import I2CBus
    from growd_drivers.serial_line import OpenSerial, SerialLike

ADDRESS: Final = 0x4D
"""Usual address of such boards; A0 and A1 select one of sixteen."""
CRYSTAL_HZ: Final = 14_745_600
"""Of nearly all boards; suits every common baud rate."""

_PLACE: Final = re.compile(r"i2c-(\d+):0x([0-9a-f]{2})")
_FIFO_LENGTH: Final = 64
_THR: Final = 0x00  # and RHR, when it is read
_FCR, _LCR, _SPR, _TXLVL, _RXLVL, _IOCONTROL = 0x02, 0x03, 0x07, 0x08, 0x09, 0x0E
_DLL, _DLH = 0x00, 0x01  # while LCR has the divisor latch open
_FIFO_ON, _FORGET_RECEIVED, _FORGET_UNSENT = 0x01, 0x02, 0x04  # FCR
_EIGHT_BITS, _LATCH = 0x03, 0x80  # LCR: 8N1, and the divisor latch
_SOFTWARE_RESET: Final = 0x08  # IOControl
_RESET_S: Final = 0.001  # "Reset": 3 us
_SCRATCH: Final = (0x5A, 0xA5)
_WORST_SPEED_ERROR: Final = 0.02  # with which the last of the ten bits of a byte is still read right
_POLL_S: Final = 0.005  # the time of five bytes at 9600 baud


def place_of(bus: int, address: int) -> str:
    """A bridge as the place of a serial line, such as "i2c-1:0x4d"."""
    return f"i2c-{bus}:{address:#04x}"


def with_bridges(
    open_serial: OpenSerial,
    i2c: Callable[[int], I2CBus],
    *,
    sleep: Callable[[float], None],
    monotonic: Callable[[], float],
    crystal_hz: int = CRYSTAL_HZ,
) -> OpenSerial:
    """`open_serial` that also opens places such as "i2c-1:0x4d", the bridge at that address of that bus."""

    def open_either(place: str, baud: int, timeout_s: float) -> SerialLike:
        match = _PLACE.fullmatch(place)
        if match is None:
            return open_serial(place, baud, timeout_s)
        return Sc16is750Port(
            i2c(int(match[1])),
            int(match[2], 16),
            baud,
            timeout_s,
            sleep=sleep,
            monotonic=monotonic,
            crystal_hz=crystal_hz,
        )

    return open_either


class Sc16is750Port:
    """The serial side of a bridge, 8N1, as `SerialLike`. Its user runs in the thread of the I2C bus.

    Opening it checks that the chip has a scratch register, as a bridge has, and resets its UART. Reads and
    writes take at most `timeout_s` of `monotonic`, and wait with `sleep`.

    All methods raise `DeviceMissingError` or `TransferError` for a failed transfer. The constructor also
    raises `WrongDeviceError`, and `SettingError` for a speed that the crystal does not support.
    """

    def __init__(
        self,
        bus: I2CBus,
        address: int,
        baud: int,
        timeout_s: float,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
        crystal_hz: int = CRYSTAL_HZ,
    ) -> None:
        bus.label(address, "SC16IS750")
        self._bus = bus
        self._address = address
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._monotonic = monotonic
        divisor = self._divisor(crystal_hz, baud)
        self._identify()
        self._reset()
        self._set_up(divisor)

    def read(self, size: int = 1) -> bytes:
        """`size` bytes, or those that came in time."""
        received = b""
        for _ in self._moments():
            received += self._take(size - len(received))
            if len(received) == size:
                break
        return received

    def write(self, data: bytes, /) -> int:
        """Write all data into the memory of the bridge.

        Raises `TransferError` if the memory stays full, `DeviceMissingError` (ENODEV) if the bridge has lost
        power since it was opened, since it would send at a wrong speed.
        """
        self._check_set_up()
        rest = data
        for _ in self._moments():
            room = min(self._read(_TXLVL)[0], _FIFO_LENGTH)
            now, rest = rest[:room], rest[room:]
            if now:
                self._write(_THR, now)
            if not rest:
                return len(data)
        raise TransferError(
            f"{self._bus.name_of(self._address)} does not send: its crystal stands still, or CTS holds it",
            device="SC16IS750",
            address=self._address,
            errno=None,
        )

    def reset_input_buffer(self) -> None:
        """Discard received data."""
        self._write(_FCR, bytes([_FIFO_ON | _FORGET_RECEIVED]))

    def close(self) -> None:
        """Does nothing: the bus has other users."""

    def _check_set_up(self) -> None:
        """Check LCR, which shows a power cut between two transfers."""
        if self._read(_LCR)[0] != _EIGHT_BITS:
            raise DeviceMissingError(
                f"{self._bus.name_of(self._address)} has lost its settings, and so its power",
                device="SC16IS750",
                address=self._address,
                errno=errno.ENODEV,
            )

    def _take(self, most: int) -> bytes:
        there = min(self._read(_RXLVL)[0], _FIFO_LENGTH, most)
        return self._read(_THR, there) if there else b""

    def _moments(self) -> Iterator[None]:
        """The moments to poll the bridge until the time limit; bounded, also with a stopped clock."""
        end = self._monotonic() + self._timeout_s
        yield
        for _ in range(math.ceil(self._timeout_s / _POLL_S)):
            if self._monotonic() >= end:
                return
            self._sleep(_POLL_S)
            yield

    def _divisor(self, crystal_hz: int, baud: int) -> int:
        """The crystal's frequency by 16 and the baud rate ("Programmable baud rate generator")."""
        divisor = max(round(crystal_hz / (16 * baud)), 1)
        if abs(crystal_hz / (16 * divisor) / baud - 1) > _WORST_SPEED_ERROR:
            raise SettingError(
                f"{self._bus.name_of(self._address)} can't do {baud} baud with a crystal of {crystal_hz} Hz",
                device="SC16IS750",
            )
        return divisor

    def _identify(self) -> None:
        """Check the scratch register, since there is no id register."""
        for value in _SCRATCH:
            self._write(_SPR, bytes([value]))
            found = self._read(_SPR)[0]
            if found != value:
                raise WrongDeviceError(
                    f"{self._bus.name_of(self._address)} is another chip: it keeps {found:#04x} where "
                    f"a bridge keeps {value:#04x} (its scratch register)",
                    device="SC16IS750",
                    found=found,
                    expected=value,
                )

    def _reset(self) -> None:
        with suppress(DeviceMissingError):  # the reset is not acknowledged ("IOControl")
            self._write(_IOCONTROL, bytes([_SOFTWARE_RESET]))
        self._sleep(_RESET_S)

    def _set_up(self, divisor: int) -> None:
        self._write(_LCR, bytes([_LATCH | _EIGHT_BITS]))
        self._write(_DLL, bytes([divisor & 0xFF]))
        self._write(_DLH, bytes([divisor >> 8]))
        self._write(_LCR, bytes([_EIGHT_BITS]))
        self._write(_FCR, bytes([_FIFO_ON | _FORGET_RECEIVED | _FORGET_UNSENT]))

    def _read(self, register: int, length: int = 1) -> bytes:
        answer = bytearray(length)
        self._bus.writeto_then_readfrom(self._address, bytes([register << 3]), answer)
        return bytes(answer)

    def _write(self, register: int, data: bytes) -> None:
        self._bus.writeto(self._address, bytes([register << 3]) + data)
