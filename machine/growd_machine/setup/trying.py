"""What is on the buses, which pins are free, and how a device does before it is in the configuration."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.config import chambers_of
from growd.config.outputs import ON_A_PIN
from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS
from growd.device_kinds import SENSOR_KINDS
from growd.output_roles import LASTING
from growd.server.errors import ApiError
from growd.wiring.outputs import output_device
from growd.wiring.sensors import SensorDevice
from growd_drivers.errors import NotReadyError, OutOfRangeError
from growd_drivers.sc16is750 import place_of

if TYPE_CHECKING:
    from growd.config import Config, Output, Sensor
    from growd.parts import Devices
    from growd.runtime.clock import Clock
    from growd.runtime.worker import Worker
    from growd_drivers.hardware import Hardware
    from growd_drivers.kinds import Opening

ON_S: Final = 1.0
_LIMIT_S: Final = 15.0
_TRIES: Final = 24  # for the first measurement of an SCD4x or SCD30, 6 s
_POLL_S: Final = 0.25
_PINS: Final = range(4, 28)
_OF_BUSES: Final = (14, 15)  # the serial port of the header; those of its I2C bus are 2 and 3


async def sensor_tried(devices: Devices, sensor: Sensor, clock: Clock) -> dict[str, Any]:
    """Its first reading by variable, or why it has none yet. Raises `ApiError`."""
    kind, hardware = SENSOR_KINDS[sensor.kind], devices.hardware
    if kind.opens in {"gpio", "messages"}:
        raise _refusal(f"a {kind.part} is not tried: add it, and look at its value")
    device = SensorDevice(hardware, sensor)
    if device.prepare is not None:
        await asyncio.to_thread(device.prepare)
    worker = devices.workers.named(sensor.line, partial(hardware.take_over, sensor.line))
    calls = DeviceCalls(sensor.name, worker, clock, _LIMIT_S)
    try:
        return {
            "values": await _reading(device, calls, clock, 2 if kind.warm_up_s else _TRIES),
            "message": "",
        }
    except (NotReadyError, OutOfRangeError) as error:
        return {"values": {}, "message": str(error)}
    except DEVICE_ERRORS as error:
        raise _refusal(str(error)) from None
    finally:
        calls.close()
        if kind.opens == "serial":
            await _given_back(hardware, sensor, worker)


async def output_tried(devices: Devices, output: Output, clock: Clock) -> dict[str, Any]:
    """On for one second, which its pin ends by itself. Raises `ApiError`.

    Only what does no harm in a second: there are no interlocks for an output that is not configured yet.
    """
    if reason := devices.held():
        raise _refusal(f"the outputs are held: {reason}", "held")
    if output.kind not in ON_A_PIN:
        raise _refusal("only outputs on pins are tried: add it, and test it then")
    if output.is_a(*LASTING):
        raise _refusal("valves for CO2 and dosing pumps need their interlocks: add it, and test it then")
    device, name = output_device(devices.hardware, output), f"trial of GPIO {output.pin}"
    calls = DeviceCalls(name, devices.workers.named(name), clock, _LIMIT_S)
    try:
        driver = await calls.run(device.use)
        try:
            await calls.run(driver.write, float(output.safe == "off"), ON_S)
            await clock.sleep(ON_S)
        finally:  # also for a client that has gone: the pin is at rest, and free for the next trial
            await calls.run(device.close)
    except DEVICE_ERRORS as error:
        raise _refusal(str(error)) from None
    finally:
        calls.close()
    return {"values": {}, "message": f"GPIO {output.pin} was on for {ON_S:g} s"}


async def _reading(device: SensorDevice, calls: DeviceCalls, clock: Clock, tries: int) -> dict[str, float]:
    """The first reading. Other devices on the bus are read between two tries."""
    for _ in range(tries - 1):
        try:
            return await calls.run(device.read)
        except (NotReadyError, OutOfRangeError):
            await clock.sleep(_POLL_S)
    return await calls.run(device.read)


async def _given_back(hardware: Hardware, sensor: Sensor, worker: Worker) -> None:
    place = sensor.port or place_of(sensor.bus, sensor.i2c_address)
    await worker.submit(hardware.give_back, place)


def _refusal(sentence: str, code: str = "not_tried") -> ApiError:
    return ApiError(409, code, sentence)


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
        calls = DeviceCalls(f"I2C bus {number}", worker, clock, _LIMIT_S)
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
