"""A serial line with one device, over pyserial. It is opened when needed, and again after a failure."""

from __future__ import annotations

import errno
import glob
import os
import termios
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from growd_drivers.errors import DeviceMissingError, HardwareUnavailableError, TransferError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    OpenSerial = Callable[[str, int, float], "SerialLike"]

_CONSOLES: Final = Path("/sys/class/tty/console/active")
_GONE: Final = {errno.ENOENT, errno.ENODEV, errno.ENXIO}


class SerialLike(Protocol):
    """The part of `serial.Serial` that is used here."""

    def read(self, size: int = 1) -> bytes:
        """`size` bytes, or those that came within the time limit of the port."""

    def write(self, data: bytes, /) -> int | None:
        """Send all data."""

    def reset_input_buffer(self) -> None:
        """Discard received data."""

    def close(self) -> None:
        """Close the port."""


def open_port(place: str, baud: int, timeout_s: float, *, consoles: Path = _CONSOLES) -> SerialLike:
    """The serial port at `place`, 8N1, exclusively. Each read and write takes at most `timeout_s`.

    `place` is a path, or a pattern with `*` of which the first usable port is opened. Raises OSError, and
    `HardwareUnavailableError` if the system's console is on the port.
    """
    paths = sorted(glob.glob(place)) or [place]  # noqa: PTH207  a whole pattern, from its root
    for path in paths[:-1]:
        try:
            return _opened(path, baud, timeout_s, consoles)
        except (OSError, HardwareUnavailableError):
            continue  # in use or not permitted: try the next one
    return _opened(paths[-1], baud, timeout_s, consoles)


class SerialLine:
    """The line at `place`, a path or a pattern of paths.

    A port that failed is closed, and opened by its place again at the next use, also if a USB adapter has
    another name by then. `timeout_s` (real seconds) limits each read and write. One thread uses the line,
    until another one takes it over.
    """

    def __init__(self, open_serial: OpenSerial, place: str, *, baud: int, timeout_s: float) -> None:
        self.place = place
        self._open_serial = open_serial
        self._baud = baud
        self._timeout_s = timeout_s
        self._device = "the device"
        self._port: SerialLike | None = None
        self._closed = False
        self._thread: int | None = None

    def label(self, device: str) -> None:
        """Name the device in errors."""
        self._device = device

    @property
    def name(self) -> str:
        """The device as errors name it, such as "MH-Z19 on /dev/serial0"."""
        return f"{self._device} on {self.place}"

    def take_over(self) -> None:
        """Give the line to this thread, since a call of its former thread hangs.

        Calls of the other thread raise `TransferError` from now on. The port is opened again when used.
        """
        self._thread = threading.get_ident()
        self._drop()

    def send(self, data: bytes) -> None:
        """Discard received data, and write `data`.

        Raises `DeviceMissingError` without such a port, `HardwareUnavailableError` for a port that may not
        be used, `TransferError` for other failures.
        """
        with self._lost_on_error() as port:
            port.reset_input_buffer()
            port.write(data)

    def read(self, size: int) -> bytes:
        """`size` bytes, or those that came in time. Raises as `send`."""
        with self._lost_on_error() as port:
            return port.read(size)

    def missing(self, number: int, reason: str) -> DeviceMissingError:
        """The error for a missing device, with the kernel's number."""
        return DeviceMissingError(f"{self.name} {reason}", device=self._device, address=None, errno=number)

    def failed(self, number: int | None, reason: str) -> TransferError:
        """The error for a failed transfer."""
        return TransferError(f"{self.name} {reason}", device=self._device, address=None, errno=number)

    def close(self) -> None:
        """Close the port: later use raises `TransferError`. Closing twice does nothing."""
        self._closed = True
        self._drop()

    @contextmanager
    def _lost_on_error(self) -> Iterator[SerialLike]:
        """The open port. A failure closes it; the next use opens it again."""
        port = self._opened()
        try:
            yield port
        except Exception as error:
            self._check_usable()  # a port that was closed meanwhile may raise any error
            self._drop()
            if isinstance(error, OSError | termios.error) and not isinstance(error, TransferError):
                raise self.missing(errno.ENODEV, "is gone: unplugged, or its port failed") from error
            raise  # a TransferError comes from a bridge on an I2C bus

    def _opened(self) -> SerialLike:
        self._check_usable()
        if self._port is None:
            port = self._open()
            try:
                self._check_usable()  # opening may have taken long
            except TransferError:
                port.close()
                raise
            self._port = port
        return self._port

    def _open(self) -> SerialLike:
        try:
            return self._open_serial(self.place, self._baud, self._timeout_s)
        except TransferError:  # as above
            raise
        except OSError as error:
            raise self._not_opened(error) from error

    def _check_usable(self) -> None:
        if self._closed:
            raise self.failed(errno.EBADF, "can't be reached: the line is closed")
        if self._thread not in (None, threading.get_ident()):
            raise self.failed(errno.EOWNERDEAD, "can't be reached: another thread has taken the line over")

    def _drop(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            with suppress(OSError):  # it is given up anyway
                port.close()

    def _not_opened(self, error: OSError) -> TransferError | HardwareUnavailableError:
        if error.errno in _GONE:
            return self.missing(
                errno.ENODEV,
                "is not there: plug it in, or check the name of its port; on a Raspberry Pi's pins switch "
                "the serial port on with `growd setup-pi`",
            )
        if error.errno in {errno.EACCES, errno.EPERM}:
            return self._unavailable("can't be opened: add growd's user to the group dialout")
        if error.errno in {errno.EAGAIN, errno.EBUSY}:
            return self._unavailable("can't be opened, another program uses the port: stop that program")
        return self.failed(error.errno, f"can't be opened: {error.strerror or error}")

    def _unavailable(self, reason: str) -> HardwareUnavailableError:
        return HardwareUnavailableError(f"{self.name} {reason}", device=self._device)


def _opened(path: str, baud: int, timeout_s: float, consoles: Path) -> SerialLike:
    """The port, with pyserial. A console on it would send to the device."""
    if os.path.basename(os.path.realpath(path)) in _words(consoles):  # noqa: PTH119  as the kernel names it
        raise HardwareUnavailableError(
            f"{path} is the serial console of the system: take it away with `growd setup-pi`",
            device=path,
        )
    from serial import Serial  # type: ignore[attr-defined]  # noqa: PLC0415  few have a line; it has no types

    port: SerialLike = Serial(  # type: ignore[no-untyped-call]
        path, baud, timeout=timeout_s, write_timeout=timeout_s, exclusive=True
    )
    return port


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:
        return []  # no such file: no console
