"""The seam between drivers and buses: real hardware and the simulator both come as a `Hardware`."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING

from growd_drivers.errors import HardwareUnavailableError
from growd_drivers.i2c import I2CBus
from growd_drivers.serial_line import SerialLine, open_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.gpio import GpioLike
    from growd_drivers.i2c import SMBusLike
    from growd_drivers.serial_line import OpenSerial


class Hardware:
    """The buses and serial lines of one machine, and the time its drivers wait on.

    `open_serial` opens the port at a place, as `growd_drivers.serial_line.open_port` does. `sleep` blocks for
    seconds, `monotonic` counts them; both come from one clock. `gpio` is the module `RPi.GPIO` or an object
    with its API.
    """

    def __init__(
        self,
        open_smbus: Callable[[int], SMBusLike],
        open_serial: OpenSerial,
        gpio: GpioLike,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
    ) -> None:
        self.gpio = gpio
        self.sleep = sleep
        self.monotonic = monotonic
        self._open_smbus = open_smbus
        self._open_serial = open_serial
        self._lines: dict[str, SerialLine] = {}
        self._buses: dict[int, I2CBus] = {}
        self._lock = threading.Lock()

    def i2c(self, number: int) -> I2CBus:
        """The I2C bus of that number, opened at the first call and shared by all drivers on it.

        Raises `HardwareUnavailableError` when the machine has no such bus or does not let us use it.
        """
        with self._lock:
            if number not in self._buses:
                self._buses[number] = I2CBus(self._opened(number), number=number)
            return self._buses[number]

    def serial(self, place: str, *, baud: int, timeout_s: float) -> SerialLine:
        """The serial line of a device at `place`, which opens its port at its first use.

        Raises `HardwareUnavailableError` where there is one already: a line has one device.
        """
        with self._lock:
            if place in self._lines:
                raise HardwareUnavailableError(f"{place} has a device already", device=place)
            self._lines[place] = SerialLine(self._open_serial, place, baud=baud, timeout_s=timeout_s)
            return self._lines[place]

    def close(self) -> None:
        """Close all buses and lines. Drivers with outputs are closed before, by their owner."""
        with self._lock:
            while self._lines:
                self._lines.popitem()[1].close()
            while self._buses:
                self._buses.popitem()[1].close()

    def _opened(self, number: int) -> SMBusLike:
        try:
            return self._open_smbus(number)
        except OSError as error:
            raise HardwareUnavailableError(_why_no_bus(number, error), device=f"i2c-{number}") from error


def open_hardware(*, sleep: Callable[[float], None], monotonic: Callable[[], float]) -> Hardware:
    """The hardware of the Raspberry Pi this runs on.

    Raises `HardwareUnavailableError` on another machine, or where the GPIO package is not installed.
    """
    from smbus2 import SMBus  # noqa: PLC0415  only real hardware opens /dev

    return Hardware(SMBus, open_port, _gpio_module(), sleep=sleep, monotonic=monotonic)


def _gpio_module() -> GpioLike:
    try:
        from RPi import GPIO  # noqa: PLC0415  it refuses to be imported off a Pi
    except ModuleNotFoundError as error:
        raise HardwareUnavailableError(
            "the package RPi.GPIO is missing: on a Raspberry Pi install growd with its GPIO package, "
            "`pip install 'growd[pi]'`; on another machine choose simulated hardware",
            device="gpio",
        ) from error
    except (ImportError, RuntimeError, OSError) as error:
        raise HardwareUnavailableError(
            f"the GPIO pins can't be used ({error}): on a Raspberry Pi install `growd[pi]`, "
            "which knows every model; on another machine choose simulated hardware",
            device="gpio",
        ) from error
    module: GpioLike = GPIO
    return module


def _why_no_bus(number: int, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"I2C bus {number} is not there (no /dev/i2c-{number}): switch I2C on with raspi-config"
    if error.errno == errno.EACCES:
        return f"I2C bus {number} can't be opened: add the user growd runs as to the group i2c"
    return f"I2C bus {number} can't be opened: {error.strerror or error}"
