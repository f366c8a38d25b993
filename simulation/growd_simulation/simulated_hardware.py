"""Simulated hardware, wired as configured, with a simulated chamber for each environment."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final
from zlib import crc32

from growd.config import chambers_of
from growd.config.outputs import IN_THE_NETWORK, OwnOutput
from growd.device_kinds import OWN_OUTPUTS, SENSOR_KINDS
from growd.own_kinds import BUILT_IN, UnusableError, in_time, reason_of
from growd.recipes.position import time_of_day
from growd_drivers.kinds import SensorKind, UnloadedKind
from growd_hwsim.chamber import SimulatedChamber
from growd_hwsim.chip import SENSORS
from growd_hwsim.chips.gpio_input import SimulatedContact
from growd_hwsim.chips.mqtt_sensor import SimulatedMqttSensor
from growd_hwsim.fault_files import load_faults
from growd_hwsim.hardware import (
    SimulatedHardware,
    WiredChip,
    WiredProbe,
    WiredRelay,
    Wiring,
)
from growd_hwsim.i2c import I2CSlave
from growd_hwsim.network_switches import WiredNetwork
from growd_hwsim.parameters import ChamberParameters
from growd_hwsim.uart import UartSlave
from growd_simulation.truths import truth_at, truth_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from growd.config import Chamber, Config, Output, Sensor
    from growd.runtime.clock import Clock
    from growd_drivers.kinds import OutputKind
    from growd_hwsim.hardware import Truth

HANG_S: Final = 0.1
"""Between two looks whether a simulated call still hangs."""

_log = logging.getLogger(__name__)

_PWM_CHANNELS: Final = 4  # of a Raspberry Pi 5, where each PWM pin has its own channel


def simulated_hardware(config: Config, clock: Clock) -> SimulatedHardware:
    """Open it. Blocking: it reads files. Raises `SimulationError` for a file that can't be used."""
    simulator = config.simulator
    first, *further = chambers_of(config)
    faults = load_faults(Path(simulator.faults)) if simulator.faults else []
    return SimulatedHardware(
        _replayed(config, clock) if simulator.replay else _modelled(first, clock),
        sleep=clock.sleep_blocking,
        monotonic=clock.monotonic,
        hang=partial(clock.sleep_blocking, HANG_S),
        faults=faults,
        wiring=_with_unconfigured(_wiring(first), config),
        further=[(_modelled(each, clock), _wiring(each)) for each in further],
        seed=simulator.seed,
    )


def _modelled(chamber: Chamber, clock: Clock) -> SimulatedChamber:
    """The model. All chambers have one seed: they stand in one room and share its air.

    Before a camera seedlings grow.
    """
    return SimulatedChamber(
        clock.monotonic,
        ChamberParameters.seedlings() if chamber.options.camera else ChamberParameters(),
        seed=chamber.config.simulator.seed,
        time_of_day_s=_since_midnight(chamber.config, clock),
    )


def _replayed(config: Config, clock: Clock) -> SimulatedChamber:
    """The recording."""
    from growd_hwsim.replay import ReplayedChamber, load_recording  # noqa: PLC0415  only with a recording

    simulator = config.simulator
    return ReplayedChamber(
        load_recording(Path(simulator.replay)),
        clock.monotonic,
        ChamberParameters(),
        seed=simulator.seed,
        time_of_day_s=_since_midnight(config, clock),
    )


def _since_midnight(config: Config, clock: Clock) -> float:
    return time_of_day(clock.time(), config.environment.zone())


def _wiring(chamber: Chamber) -> Wiring:
    """The wiring of one environment."""
    light, outputs = chamber.light, chamber.all_outputs
    own = [each for each in outputs if isinstance(each, OwnOutput) and not reason_of(OWN_OUTPUTS[each.kind])]
    sensors = [sensor for sensor in chamber.options.sensor if _has_chip(sensor)]
    chips = (WiredChip(sensor.kind, sensor.bus, sensor.i2c_address) for sensor in sensors if sensor.is_on_i2c)
    return Wiring(
        i2c=(*dict.fromkeys(chips), *_output_chips(own)),
        serial={sensor.port.replace("*", "0"): sensor.kind for sensor in sensors if sensor.port},
        voltages={
            (each.bus, each.i2c_address, each.channel): partial(_volts, truth_of(each, chamber), each.points)
            for each in chamber.options.sensor
            if each.kind == "ads1115"
        },
        thermometers={
            _simulated_id(chamber, each): truth_of(each, chamber)
            for each in chamber.options.sensor
            if each.one_wire_pin is not None
        },
        mqtt=tuple(
            WiredProbe(truth_of(each, chamber), partial(_publisher, each))
            for each in chamber.options.sensor
            if each.kind == "mqtt"
        ),
        switches={
            each.switch_pin: WiredProbe(truth_of(each, chamber), partial(_contact, each))
            for each in chamber.options.sensor
            if each.switch_pin is not None
        },
        lamp_pins={channel.name: channel.pin for channel in light.channel},
        inverted_lamps=light.inverted,
        pwm_chips=dict.fromkeys([chamber.config.gpio.pwm_chip] if chamber.pwm_pins else [], _PWM_CHANNELS),
        relays={output.pin: _relay(output) for output in outputs if output.pin is not None},
        stand_ins=tuple(
            (output, WiredRelay(_moved_by(output), channel=output.channel))
            for output in own
            if not OWN_OUTPUTS[output.kind].chip
        ),
        network=tuple(map(_in_network, (each for each in outputs if each.kind in IN_THE_NETWORK))),
    )


def _volts(
    truth: Truth,
    points: tuple[tuple[float, float], ...],
    hardware: SimulatedHardware,
    model: SimulatedChamber,
) -> float:
    """The voltage of a sensor on a line through two points of volts and value."""
    (volts, first), (other_volts, last) = points
    return volts + (truth(hardware, model) - first) * (other_volts - volts) / (last - first)


def _publisher(sensor: Sensor, truth: Callable[[], float]) -> SimulatedMqttSensor:
    return SimulatedMqttSensor(truth, sensor.topic, key=sensor.key, scale=sensor.scale, offset=sensor.offset)


def _contact(sensor: Sensor, truth: Callable[[], float]) -> SimulatedContact:
    return SimulatedContact(truth, active_high=sensor.active == "high", pull=sensor.pull)


def _with_unconfigured(wiring: Wiring, config: Config) -> Wiring:
    """The same with the sensors that a scan is to find, at places that are free."""
    sensors = [sensor for chamber in chambers_of(config) for sensor in chamber.options.sensor]
    taken = {(sensor.bus, sensor.i2c_address) for sensor in sensors if sensor.is_on_i2c}
    chips, serial, thermometers = list(wiring.i2c), dict(wiring.serial), dict(wiring.thermometers)
    for name in config.simulator.unconfigured:
        kind = SENSOR_KINDS[name]
        if kind.opens == "serial":
            serial.setdefault(f"/dev/serial/by-id/usb-simulated_{name}-port0", name)
        elif kind.opens == "one_wire":
            thermometers.setdefault(f"28-{crc32(name.encode()):012x}", truth_at("water_temperature"))
        elif kind.addresses and (1, kind.addresses[0]) not in taken:
            chips.append(WiredChip(name, 1, kind.addresses[0]))
    return replace(wiring, i2c=tuple(chips), serial=serial, thermometers=thermometers)


def _relay(output: Output) -> WiredRelay:
    return WiredRelay(
        _moved_by(output),
        active_high=output.active == "high",
        channel=output.channel,
        hardware_pwm=output.kind == "hardware_pwm",
    )


def _in_network(output: Output) -> WiredNetwork:
    return WiredNetwork(
        place_in_network(output),
        output.protocol,
        output.relay_number,
        _moved_by(output),
        output.channel,
        partial(_level_of, output),
    )


def _moved_by(output: Output) -> str:
    """What an output moves in the simulated chamber, "" for nothing."""
    return output.role.moves if output.role else ""


def chip_fault(kind: SensorKind | OutputKind, name: str) -> str:
    """Import the simulated chip of a kind of another package: why it can't be used, "" if it can."""
    if not kind.chip:
        return "its package has no simulated chip"
    try:
        chip = in_time(lambda: resolve_name(kind.chip), f"{kind.chip} can't be imported")
        if getattr(chip, "name", None) != name:
            return f"its simulated chip {kind.chip} must have the name {name!r}"
        if isinstance(kind, SensorKind) and getattr(chip, "measurement", None) is None:
            return f"its simulated chip {kind.chip} must have a measurement"
        in_time(lambda: chip(lambda *_: None, lambda: 0.0, seed=0), f"{kind.chip} can't be made")
    except UnusableError as error:
        return str(error)
    base = UartSlave if kind.opens == "serial" else I2CSlave
    is_one = name in SENSORS and issubclass(SENSORS[name], base)
    return "" if is_one else f"its simulated chip {kind.chip} must be a subclass of {base.__name__}"


def place_in_network(output: Output) -> str:
    """The address of a device in the network, without a query, which may have a token; or its topic."""
    return output.url.rstrip("/") or output.url_on.partition("?")[0] or output.topic


def _output_chips(outputs: Iterable[OwnOutput]) -> Iterator[WiredChip]:
    """The simulated chips of outputs of other packages."""
    for output in outputs:
        kind = OWN_OUTPUTS[output.kind]
        if not kind.chip:
            continue
        if fault := chip_fault(kind, output.kind):
            _log.warning("%s is not simulated: %s", output.name, fault)
        else:
            bus, address = output.own["bus"], output.own["address"]
            yield WiredChip(output.kind, bus, address, _moved_by(output), output.channel)


def _simulated_id(chamber: Chamber, sensor: Sensor) -> str:
    """An id that matches the pattern of a sensor on the 1-wire bus."""
    if "*" not in sensor.device:
        return sensor.device
    return sensor.device.partition("*")[0] + f"{crc32(chamber.device(sensor.name).encode()):08x}"


def _has_chip(sensor: Sensor) -> bool:
    """Whether the sensor has a simulated chip. One of another package may have none, or one that fails."""
    if sensor.kind in BUILT_IN or isinstance(kind := SENSOR_KINDS[sensor.kind], UnloadedKind):
        return sensor.kind in BUILT_IN
    if fault := chip_fault(kind, sensor.kind):
        _log.warning("%s is not simulated: %s", sensor.name, fault)
    return not fault


def _level_of(output: Output, place: str, body: bytes) -> float | None:
    """The level that a request or message asks of an output without a protocol, None for another output."""
    if output.kind == "http":
        return {output.url_on: 1.0, output.url_off: 0.0}.get(place)
    if place != output.topic:
        return None
    if output.payload == "on_off":
        return float(body.decode() == output.payload_on)
    return float(body) / (100 if output.payload == "percent" else 1)
