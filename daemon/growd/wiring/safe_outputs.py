"""Drives output pins to their safe levels before growd starts, and after it has ended for any reason.

This needs only the configuration, or else a small file in the data folder with the outputs of the last run:
no lock, no database, no network. A start does it first; `growd safe` does only this.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final
from zlib import crc32

import msgspec
from msgspec import Meta

from growd.config import Config, ConfigError, Output, chambers_of
from growd.config.base import Pin  # noqa: TC001  msgspec reads it
from growd.config.outputs import IN_THE_NETWORK, OwnOutput
from growd.runtime.atomic_file import read_regular, write_atomically
from growd.wiring.outputs import advice_for_pin, http_switch, messages_of, output_device
from growd_drivers.errors import DriverError
from growd_drivers.gpio import claim_output, is_output
from growd_drivers.hardware import gpio_module, open_hardware
from growd_drivers.hardware_pwm import HardwarePwmGpio, SysfsFiles, channels_on
from growd_drivers.network_switch import ask_http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from growd.config import Chamber
    from growd.host.mqtt_connection import Broker
    from growd_drivers.gpio import GpioModule
    from growd_drivers.hardware import Hardware
    from growd_drivers.hardware_pwm import PwmFiles

FILE_NAME: Final = "outputs.json"
_MOST_BYTES: Final = 65_536
_NETWORK_S: Final = 4.0  # for all devices in the network together
_log = logging.getLogger(__name__)


class SafePin(msgspec.Struct, frozen=True):
    """An output pin (BCM) and its safe level (0 or 1); with hardware PWM also the number of the PWM chip."""

    device: str
    pin: Pin
    level: Annotated[int, Meta(ge=0, le=1)]
    pwm_chip: Annotated[int, Meta(ge=0)] | None = None

    def __str__(self) -> str:
        return f"{self.device}: GPIO {self.pin} is {'high' if self.level else 'low'}, its safe level"


class LastRun(msgspec.Struct):
    """The outputs of the last run with real hardware, and whether a simulated run came after it.

    `network` has the given options of those that are driven over HTTP, by their names. `check` is the CRC-32
    of all: a damaged number would be another pin.
    """

    outputs: list[SafePin] = []
    is_simulated: bool = False
    network: dict[str, dict[str, Any]] = {}
    check: int = 0

    def sum(self) -> int:
        """The right value of `check`."""
        network = (self.network,) if self.network else ()  # an earlier version had none
        return crc32(msgspec.json.encode((self.outputs, self.is_simulated, *network)))


@dataclass
class Outcome:
    """The pins that were driven to their safe levels, and a sentence for each that was not."""

    safe: list[SafePin] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """Sentences on the devices in the network that were told their safe state."""

    failures: list[str] = field(default_factory=list)


def safe_pins(config: Config) -> list[SafePin]:
    """The outputs of all environments, valves and fans first; none with simulated hardware."""
    if config.simulator.enabled:
        return []
    return [pin for chamber in chambers_of(config) for pin in (*_outputs(chamber), *_lamp(chamber))]


def _lamp(chamber: Chamber) -> Iterator[SafePin]:
    light = chamber.light
    chip = light.pwm_chip if light.hardware_pwm and not light.switched else None
    for channel in light.channel:
        name = chamber.device(f"light {channel.name}")
        yield SafePin(name, channel.pin, int(light.inverted), chip)


def _outputs(chamber: Chamber) -> Iterator[SafePin]:
    for output in chamber.all_outputs:
        if output.pin is not None:
            is_high = (output.safe == "on") == (output.active == "high")
            chip = output.pwm_chip if output.kind == "hardware_pwm" else None
            yield SafePin(chamber.device(output.name), output.pin, int(is_high), chip)


def last_run(data: Path) -> LastRun:
    """The saved outputs. If the file can't be read, log it and return none. Blocking."""
    try:
        content = read_regular(data / FILE_NAME, _MOST_BYTES)
        run = msgspec.json.decode(content, type=LastRun) if content else None
    except (OSError, ValueError, msgspec.DecodeError) as error:  # ValueError: text that is not UTF-8
        _log.error("the outputs of the last run can't be read from %s: %s", data / FILE_NAME, error)
        return LastRun()
    if run is not None and run.check != run.sum():
        _log.error("the outputs of the last run are not known: %s is damaged", data / FILE_NAME)
        return LastRun()
    return run or LastRun()


def keep_run(data: Path, config: Config) -> None:
    """Save the outputs of this run if they have changed. Blocking. Raises OSError.

    A simulated run keeps those of the last real one, which may still be on.
    """
    last = last_run(data)
    if not config.simulator.enabled:
        over_http = {name: _given(each) for name, each in _in_the_network(config) if each.kind == "http"}
        run = LastRun(safe_pins(config), network=over_http)
    elif last.outputs or last.network:
        run = LastRun(last.outputs, is_simulated=True, network=last.network)
    else:
        return
    run.check = run.sum()
    if run != last:
        write_atomically(data / FILE_NAME, msgspec.json.format(msgspec.json.encode(run)) + b"\n")


def make_safe(config: Config | None, data: Path, pwm_files: PwmFiles | None = None) -> Outcome:
    """Drive the outputs of a configuration, or else of the last run, to their safe levels. Blocking.

    Other pins of the last real run are driven too if they are still outputs: since the configuration dropped
    them they may have become something else, such as a bus. A pin that fails does not stop the others.
    """
    last = last_run(data)
    known = [] if last.is_simulated else last.outputs
    pins = known if config is None else safe_pins(config)
    named = {pin.pin for pin in pins}
    dropped = [pin for pin in last.outputs if pin.pin not in named]
    outcome = Outcome()
    _drive_pins(pins, dropped, pwm_files, outcome)
    if config is not None and not config.simulator.enabled:
        _tell_network([*_in_the_network(config)], config, outcome)
    elif config is None and not last.is_simulated:
        _tell_network([*_last_in_the_network(last)], Config(), outcome)
    return outcome


def make_others_safe(
    config: Config, outcome: Outcome, open_hardware: Callable[..., Hardware] = open_hardware
) -> None:
    """Make the outputs of other packages safe, whose drivers are loaded. Blocking. Adds to `outcome`."""
    others = [
        (chamber.device(output.name), output)
        for chamber in chambers_of(config)
        for output in chamber.all_outputs
        if isinstance(output, OwnOutput)
    ]
    if not others:
        return
    try:
        hardware = open_hardware(sleep=time.sleep, monotonic=time.monotonic, has_pins=False)
    except DriverError as error:
        outcome.failures += [f"{name}: {error}" for name, _ in others]
        return
    for name, output in others:
        device = output_device(hardware, output)
        try:
            device.use()
            device.close()
        except DriverError as error:
            outcome.failures.append(f"{name}: {error}")
        else:
            outcome.told.append(f"{name}: was driven to its safe state")
    hardware.close()


def _drive_pins(
    pins: list[SafePin], dropped: list[SafePin], pwm_files: PwmFiles | None, outcome: Outcome
) -> None:
    if not pins and not dropped:
        return
    try:
        gpio = gpio_module()
    except DriverError as error:
        outcome.failures.append(str(error))
        return
    for pin in (*pins, *dropped):
        try:
            if pin in dropped and not _is_driven(gpio, pin):
                continue
            _drive(gpio, pin, pwm_files or SysfsFiles())
        except DriverError as error:
            outcome.failures.append("; ".join(filter(None, (str(error), advice_for_pin(error)))))
        except Exception as error:  # noqa: BLE001  the other pins must be driven
            outcome.failures.append(f"{pin.device}: internal error at GPIO {pin.pin}: {error!r}")
        else:
            outcome.safe.append(pin)


def _in_the_network(config: Config) -> Iterator[tuple[str, Output]]:
    """The outputs in the network, with their names for people."""
    for chamber in chambers_of(config):
        for output in chamber.all_outputs:
            if output.kind in IN_THE_NETWORK:
                yield chamber.device(output.name), output


def _given(output: Output) -> dict[str, Any]:
    """The options that differ from their defaults, as JSON: few, so that the file stays small."""
    given, usual = (msgspec.json.decode(msgspec.json.encode(each)) for each in (output, Output(name="")))
    return {name: value for name, value in given.items() if value != usual[name]}


def _last_in_the_network(run: LastRun) -> Iterator[tuple[str, Output]]:
    """Those of the last run, if this version can read them."""
    for name, section in run.network.items():
        try:
            yield name, msgspec.convert(section, Output)
        except msgspec.ValidationError as error:
            _log.error("%s: its section of the last run can't be read: %s", name, error)


def _tell_network(outputs: list[tuple[str, Output]], config: Config, outcome: Outcome) -> None:
    """Tell all devices in the network at the same time; those that do not answer in time are failures."""
    results: dict[str, str] = {}
    threads = []
    for name, output in outputs:
        results[name] = f"{name}: no answer within {_NETWORK_S:g} s"
        told = partial(_tell, config, output, name, results)
        threads.append(threading.Thread(target=told, name=f"safe {name}", daemon=True))
    for thread in threads:
        thread.start()
    end = time.monotonic() + _NETWORK_S
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    for name, failure in dict(results).items():
        if failure:
            outcome.failures.append(failure)
        else:
            outcome.told.append(f"{name}: was told to be safe")


def _tell(config: Config, output: Output, name: str, results: dict[str, str]) -> None:
    """In a thread of its own."""
    try:
        if output.kind == "http":
            http_switch(output, ask_http)  # which makes it safe
        else:
            import asyncio  # noqa: PLC0415  imported only for such an output: pins must be safe soon

            from growd.wiring.mqtt import read_broker  # noqa: PLC0415  likewise

            asyncio.run(_publish(read_broker(config.mqtt), output))
    except (DriverError, ConfigError, OSError) as error:
        results[name] = str(error) if str(error).startswith(name) else f"{name}: {error}"
    except Exception as error:  # noqa: BLE001  the others must be told
        results[name] = f"{name}: internal error: {error!r}"
    else:
        results[name] = ""


async def _publish(broker: Broker, output: Output) -> None:
    from growd.host.mqtt_connection import MqttConnection  # noqa: PLC0415  likewise

    connection = MqttConnection(broker, f"growd-safe-{os.getpid()}-{output.name}")
    try:
        await connection.open()
        for topic, body in messages_of(output, float(output.safe == "on")):
            await connection.publish(topic, body)
    finally:
        connection.close()


def _is_driven(gpio: GpioModule, pin: SafePin) -> bool:
    return pin.pwm_chip is not None or is_output(gpio, pin.pin, device=pin.device)


def _drive(gpio: GpioModule, pin: SafePin, files: PwmFiles) -> None:
    places = {} if pin.pwm_chip is None else channels_on(pin.pwm_chip, files)
    here = {pin.pin: places[pin.pin]} if pin.pin in places else {}
    driver = HardwarePwmGpio(gpio, here, sleep=time.sleep, files=files) if here else gpio
    claim_output(driver, pin.pin, pin.level, device=pin.device)
