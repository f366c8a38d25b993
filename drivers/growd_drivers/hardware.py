"""The buses, lines and pins below the drivers, either real or simulated."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from growd_drivers.bus_clear import clear_bus
from growd_drivers.bus_speed import bus_speed_hz
from growd_drivers.errors import HardwareUnavailableError
from growd_drivers.hardware_pwm import SysfsFiles
from growd_drivers.i2c import I2CBus, cannot_clear
from growd_drivers.network_switch import ask_http
from growd_drivers.one_wire import SysfsOneWire
from growd_drivers.pins import kept_pins
from growd_drivers.sc16is750 import with_bridges
from growd_drivers.serial_line import SerialLine, open_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.hardware_pwm import PwmFiles
    from growd_drivers.i2c import SMBusLike
    from growd_drivers.mqtt import MqttClient
    from growd_drivers.network_switch import AskHttp
    from growd_drivers.one_wire import OneWireFiles
    from growd_drivers.pins import Library, Pins
    from growd_drivers.serial_line import OpenSerial


class Hardware:
    """The I2C buses, serial lines and pins of one machine.

    `open_serial` is as `serial_line.open_port`; places such as "i2c-1:0x4d" are bridges on the buses here.
    `clear_bus` is as `bus_clear.clear_bus`, `bus_speed_hz` as `bus_speed.bus_speed_hz`. `sleep` and
    `monotonic` are of one clock. `pins` are those of the header; a machine without devices on them has none.
    `pwm_files` are the PWM chips (default: /sys/class/pwm). `one_wire` are the devices on the 1-wire bus
    (default: /sys/bus/w1/devices). `mqtt` is None without a broker.
    """

    pins: Pins
    pwm_chip = 0
    """Number of the chip for hardware PWM in /sys/class/pwm."""

    def __init__(
        self,
        open_smbus: Callable[[int], SMBusLike],
        open_serial: OpenSerial,
        pins: Pins | None,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
        clear_bus: Callable[[int], None] = cannot_clear,
        pwm_files: PwmFiles | None = None,
        bus_speed_hz: Callable[[int], int | None] = bus_speed_hz,
        mqtt: MqttClient | None = None,
        one_wire: OneWireFiles | None = None,
        ask_http: AskHttp = ask_http,
    ) -> None:
        self.one_wire = one_wire or SysfsOneWire()
        if pins is not None:
            self.pins = pins
        self.mqtt = mqtt
        self.ask_http = ask_http
        self.pwm_files = pwm_files or SysfsFiles()
        self.sleep = sleep
        self.monotonic = monotonic
        self._open_smbus = open_smbus
        self._open_serial = open_serial
        self._clear_bus = clear_bus
        self._bus_speed_hz = bus_speed_hz
        self._lines: dict[str, SerialLine] = {}
        self._buses: dict[int, I2CBus] = {}
        self._lock = threading.Lock()

    def i2c(self, number: int) -> I2CBus:
        """The I2C bus of that number, for all drivers on it. It opens at its first use."""
        with self._lock:
            if number not in self._buses:
                self._buses[number] = I2CBus(
                    self._open_smbus, number=number, clear=self._clear_bus, speed_hz=self._bus_speed_hz
                )
            return self._buses[number]

    def serial(self, place: str, *, baud: int, timeout_s: float) -> SerialLine:
        """The serial line of a device at `place`, which opens its port at its first use.

        Raises `HardwareUnavailableError` if the line has a device already.
        """
        with self._lock:
            if place in self._lines:
                raise HardwareUnavailableError(f"{place} has a device already", device=place)
            open_serial = with_bridges(
                self._open_serial, self.i2c, sleep=self.sleep, monotonic=self.monotonic
            )
            self._lines[place] = SerialLine(open_serial, place, baud=baud, timeout_s=timeout_s)
            return self._lines[place]

    def i2c_numbers(self) -> list[int]:
        """The I2C buses of the machine. From 10 on they are those of displays and cameras. Blocking."""
        numbers = (path.name.removeprefix("i2c-") for path in Path("/dev").glob("i2c-*"))
        return sorted(int(number) for number in numbers if number.isdecimal() and len(number) == 1)

    def serial_places(self) -> list[str]:
        """The serial port of the header and the USB adapters. Blocking."""
        found = [Path("/dev/serial0"), *Path("/dev/serial/by-id").glob("*")]
        return sorted(str(path) for path in found if path.exists())

    def give_back(self, place: str) -> None:
        """Close the line of a device that was only tried, so that another can have it."""
        with self._lock:
            line = self._lines.pop(place, None)
        if line is not None:
            line.close()

    def take_over(self, name: str) -> None:
        """Give a bus or line to this thread, since a call of its former thread hangs.

        `name` is a bus such as "i2c-1", with the lines of its bridges, or the place of a serial line.
        """
        with self._lock:
            buses = [bus for number, bus in self._buses.items() if name == f"i2c-{number}"]
            lines = [
                line for place, line in self._lines.items() if place == name or place.startswith(f"{name}:")
            ]
        for bus in buses:
            bus.take_over()
        for line in lines:
            line.take_over()

    def recoveries(self, name: str) -> int:
        """How often the bus of that name was cleared and opened again."""
        with self._lock:
            return sum(bus.recoveries for number, bus in self._buses.items() if name == f"i2c-{number}")

    def stand_in(self, _output: object) -> Callable[[float], None] | None:
        """What takes the levels of an output instead of its driver, in a simulation without its chip."""
        return None

    def picture(self, number: int, width: int) -> bytes | None:  # noqa: ARG002  of the simulator
        """A photo (JPEG) of the simulated chamber of that number, None without one. Blocking."""
        return None

    def close(self) -> None:
        """Close all buses and lines. The owner of drivers with outputs closes them before; pins stay open."""
        with self._lock:
            while self._lines:
                self._lines.popitem()[1].close()
            while self._buses:
                self._buses.popitem()[1].close()


def open_hardware(
    *,
    sleep: Callable[[float], None],
    monotonic: Callable[[], float],
    mqtt: MqttClient | None = None,
    library: Library | None = "gpiod",
) -> Hardware:
    """The hardware of this machine. Raises `HardwareUnavailableError` if it has no pins of a Raspberry Pi.

    Without a `library` for pins it needs none.
    """
    from smbus2 import SMBus  # noqa: PLC0415  only real hardware opens /dev

    pins = None
    if library is not None:
        pins = kept_pins(library)
        pins.open()
    return Hardware(SMBus, open_port, pins, sleep=sleep, monotonic=monotonic, clear_bus=clear_bus, mqtt=mqtt)
