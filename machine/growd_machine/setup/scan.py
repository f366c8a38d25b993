"""What is on the buses of the running daemon, and which pins are free."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.config import chambers_of
from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS
from growd.device_kinds import SENSOR_KINDS

if TYPE_CHECKING:
    from growd.config import Config, Sensor
    from growd.parts import Devices
    from growd.runtime.clock import Clock
    from growd_drivers.kinds import Opening

LIMIT_S: Final = 15.0
"""For one bus. A stuck one takes 1 s per transfer."""

_PINS: Final = range(4, 28)
_OF_BUSES: Final = (14, 15)  # the serial port of the header; those of its I2C bus are 2 and 3


async def scanned(devices: Devices, config: Config, clock: Clock) -> dict[str, Any]:
    """Places with the options that name them, the kinds of sensors that may be there, and their device.

    `problems` has a sentence for each bus that can't be scanned.
    """
    hardware = devices.hardware
    numbers, ports, wires = await asyncio.to_thread(
        lambda: (hardware.i2c_numbers(), hardware.serial_places(), hardware.one_wire.names())
    )
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    for number in numbers:
        line, bus = f"i2c-{number}", hardware.i2c(number)
        worker = devices.workers.named(line, partial(hardware.take_over, line))
        calls = DeviceCalls(f"I2C bus {number}", worker, clock, LIMIT_S)
        try:
            addresses = await calls.run(bus.scan)
        except DEVICE_ERRORS as error:
            problems.append(str(error))
            continue
        finally:
            calls.close()
        for address in addresses:
            place, options = f"I2C {number}, {address:#04x}", {"bus": number, "address": address}
            found.append(_found(config, place, options, _at_address(address)))
    found += [_found(config, port, {"port": port}, _that_open("serial")) for port in ports]
    thermometers = [name for name in wires if name.startswith("28-")]
    found += [_found(config, name, {"device": name}, _that_open("one_wire")) for name in thermometers]
    return {"found": found, "pins": free_pins(config), "problems": problems}


def free_pins(config: Config) -> list[int]:
    """The pins of the header (BCM) that no device of the configuration has."""
    taken = {*_OF_BUSES}
    for chamber in chambers_of(config):
        used = [output.pin for output in chamber.all_outputs]
        used += [channel.pin for channel in chamber.light.channel]
        used += [pin for each in chamber.options.sensor for pin in (each.switch_pin, each.one_wire_pin)]
        taken.update(pin for pin in used if pin is not None)
    return [pin for pin in _PINS if pin not in taken]


def _found(config: Config, place: str, options: dict[str, Any], kinds: list[str]) -> dict[str, Any]:
    there = (
        chamber.device(sensor.name)
        for chamber in chambers_of(config)
        for sensor in chamber.options.sensor
        if _is_at(sensor, options)
    )
    return {"place": place, "options": options, "kinds": kinds, "device": next(there, "")}


def _is_at(sensor: Sensor, options: dict[str, Any]) -> bool:
    if "address" in options:
        at = {"bus": sensor.bus, "address": sensor.i2c_address}
        return sensor.is_on_i2c and at == options
    if "port" in options:
        return sensor.port is not None and fnmatchcase(options["port"], sensor.port)
    return sensor.one_wire_pin is not None and fnmatchcase(options["device"], sensor.device)


def _at_address(address: int) -> list[str]:
    return [name for name, kind in SENSOR_KINDS.items() if address in kind.addresses]


def _that_open(opening: Opening) -> list[str]:
    return [name for name, kind in SENSOR_KINDS.items() if kind.opens == opening]
