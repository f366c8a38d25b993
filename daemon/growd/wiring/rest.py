"""Makes outputs safe before growd starts, and after it has ended for any reason.

This needs only the configuration, or else the outputs of the last run: no lock and no database. A start does
it first; `growd safe` does only this. The keeper of pins drives pins.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.config import Config, ConfigError, Output, chambers_of
from growd.config.outputs import IN_THE_NETWORK, OwnOutput
from growd.runtime.files import read_regular, write_atomically
from growd.wiring.outputs import http_switch, messages_of, output_device
from growd_drivers.errors import DriverError
from growd_drivers.hardware import open_hardware
from growd_drivers.last_run import FILE_NAMES, LastRun, SafePin, last_run
from growd_drivers.network_switch import ask_http
from growd_drivers.pins import kept_pins, refusals, release_pins

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

    from growd.config import Chamber
    from growd_drivers.hardware import Hardware
    from growd_drivers.pins import Pins

_NETWORK_S: Final = 4.0  # for all devices in the network together
_log = logging.getLogger(__name__)


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
    for channel in light.channel:
        name = chamber.device(f"light {channel.name}")
        yield SafePin(name, channel.pin, int(light.inverted), _chip(chamber, light.kind))


def _chip(chamber: Chamber, kind: str) -> int | None:
    return chamber.config.gpio.pwm_chip if kind == "hardware_pwm" else None


def _outputs(chamber: Chamber) -> Iterator[SafePin]:
    for output in chamber.all_outputs:
        if output.pin is not None:
            is_high = (output.safe == "on") == (output.active == "high")
            yield SafePin(chamber.device(output.name), output.pin, int(is_high), _chip(chamber, output.kind))


def keep_run(data: Path, config: Config, driven: Container[int]) -> None:
    """Save the outputs of this run, of pins those that are `driven`. Blocking. Raises OSError.

    A simulated run keeps those of the last real one, which may still be on.
    """
    last, _ = last_run(data)
    if config.simulator.enabled:
        run = dataclasses.replace(last, is_simulated=True)
    else:
        over_http = {name: _given(each) for name, each in _in_the_network(config) if each.kind == "http"}
        pins = [pin for pin in safe_pins(config) if pin.pin in driven]
        run = LastRun(pins, network=over_http, library=config.gpio.library)
    if not run.outputs and not run.network and not last.outputs and not last.network:
        return
    content = run.encoded()
    for name in FILE_NAMES:
        if not _is_saved(data / name, content):
            write_atomically(data / name, content)


def _is_saved(path: Path, content: bytes) -> bool:
    with suppress(OSError):
        return read_regular(path, len(content) + 1) == content
    return False


def make_safe(config: Config | None, data: Path) -> Outcome:
    """Drive the outputs of a configuration, or else of the last run, to their safe levels. Blocking.

    Other pins of the last real run are driven too if they are still outputs: since the configuration dropped
    them they may have become something else, such as a bus. A pin that fails does not stop the others, and
    one of an earlier run is no failure of a simulated one.
    """
    last, trouble = last_run(data)
    is_lost = bool(trouble) and not last.outputs and not last.network
    if trouble:
        _log.error("%s", trouble)
    known = [] if last.is_simulated else last.outputs
    pins = known if config is None else safe_pins(config)
    named = {pin.pin for pin in pins}
    outcome = Outcome()
    if pins or last.outputs:
        library = last.library if config is None or config.simulator.enabled else config.gpio.library
        dropped = [pin for pin in last.outputs if pin.pin not in named]
        _rest(kept_pins(library), pins, dropped, outcome)
    if is_lost and config is not None:
        outcome.failures.append("the outputs of the last run are not known: one that moved may be on")
    if config is not None and config.simulator.enabled:
        release_pins()
        outcome.failures.clear()
    elif config is not None:
        _tell_network([*_in_the_network(config)], config, outcome)
    elif not last.is_simulated:
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
        hardware = open_hardware(sleep=time.sleep, monotonic=time.monotonic, library=None)
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


def _rest(keeper: Pins, pins: list[SafePin], dropped: list[SafePin], outcome: Outcome) -> None:
    try:
        keeper.open()
    except (DriverError, OSError) as error:
        outcome.failures.append(str(error))
        return
    for pin in (*pins, *dropped):
        try:
            with refusals(pin.device, pin.pin):
                if keeper.claim(pin.pin, pin.level, pin.pwm_chip, only_if_driven=pin in dropped):
                    outcome.safe.append(pin)
        except DriverError as error:
            outcome.failures.append(str(error))
        except Exception as error:  # noqa: BLE001  the other pins must rest
            outcome.failures.append(f"{pin.device}: internal error at GPIO {pin.pin}: {error!r}")


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

            from growd.host.mqtt import publish_once  # noqa: PLC0415  likewise
            from growd.wiring.mqtt import read_broker  # noqa: PLC0415  likewise

            identifier = f"growd-safe-{os.getpid()}-{output.name}"
            messages = messages_of(output, float(output.safe == "on"))
            asyncio.run(publish_once(read_broker(config.mqtt), identifier, messages))
    except (DriverError, ConfigError, OSError) as error:
        results[name] = str(error) if str(error).startswith(name) else f"{name}: {error}"
    except Exception as error:  # noqa: BLE001  the others must be told
        results[name] = f"{name}: internal error: {error!r}"
    else:
        results[name] = ""
