"""A device is tried before it is in the configuration: a sensor is read, an output is on for one second."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.config.outputs import ON_A_PIN
from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS
from growd.device_kinds import SENSOR_KINDS
from growd.output_roles import LASTING
from growd.server.errors import ApiError
from growd.wiring.outputs import advice_for_pin, output_device
from growd.wiring.sensors import SensorDevice
from growd_drivers.errors import NotReadyError, OutOfRangeError
from growd_drivers.sc16is750 import place_of

if TYPE_CHECKING:
    from growd.config import Output, Sensor
    from growd.parts import Devices
    from growd.runtime.clock import Clock
    from growd.runtime.worker import Worker
    from growd_drivers.hardware import Hardware

ON_S: Final = 1.0
_LIMIT_S: Final = 15.0
_TRIES: Final = 24  # for the first measurement of an SCD4x or SCD30, 6 s
_POLL_S: Final = 0.25


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
        raise _refusal("; ".join(filter(None, (str(error), advice_for_pin(error))))) from None
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
