"""The actuators of a chamber: one for the lamp, and one for each other output."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from growd.config.outputs import CONTACT_STARTS, IN_THE_NETWORK, ON_A_PIN
from growd.control.actuation import Actuator, OutputActuator, SwitchActuator
from growd.control.lamp import LightActuator
from growd.control.wear import OutputCounters, Rated
from growd.loops import switching_s
from growd.output_roles import OutputClass, lease_of
from growd.parts import Experiments
from growd.runtime.worker import WorkerError, Workers
from growd.wiring.outputs import Lamp, output_device
from growd_drivers.errors import DriverError
from growd_drivers.network_switch import NETWORK_LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Chamber, Output
    from growd.control.actuation import GivenDose
    from growd.control.calibration_log import RecordKeeper
    from growd.control.dose_accounts import DoseAccounts
    from growd.control.hold import OutputHold
    from growd.control.interlocks.node import Interlocks
    from growd.control.interlocks.saved_states import Memory
    from growd.control.pumps import PumpFlow
    from growd.runtime.worker import Worker
    from growd.wiring.outputs import OutputDevice
    from growd_drivers.hardware import Hardware

DEVICE_TIMEOUT_S: Final = 2.0
NETWORK_TIMEOUT_S: Final = 2 * NETWORK_LIMIT_S + 1.0
"""Above the limit of a command, so that the driver says what is wrong."""

_REST_S: Final = 1.0  # at most half of the shortest pause of a controller, which is exact
DEVICE_CLOSE_S: Final = 5.0  # time limit for closing an output at shutdown
PINS: Final = "pins"
"""The name of the thread of all pins."""


@dataclass
class Common:
    """What all environments share."""

    bus: Bus
    hardware: Hardware
    """Its owner closes it."""
    memory: Memory
    """Keeps what has to outlast a restart."""
    report: Callable[[str], None]
    """Gets a sentence for each output that may not be safe at the end."""
    experiments: Experiments = field(default_factory=Experiments)
    records: RecordKeeper | None = None
    """Keeps the calibrations."""
    zone: tzinfo | None = None
    """In which days begin (None: local)."""
    hold: OutputHold | None = None
    """Keeps all outputs safe while it is set."""

    def __post_init__(self) -> None:
        self.workers = Workers(self.bus.clock.monotonic)
        """A thread for each bus, each serial line and each output."""


class ChamberOutputs:
    """All outputs of a chamber, each with its actuator."""

    def __init__(self, chamber: Chamber, common: Common, flows: Mapping[str, PumpFlow]) -> None:
        self._chamber = chamber
        self._bus = common.bus
        self._hardware = common.hardware
        self._workers = common.workers
        self._report_unsafe = common.report
        rated = rated_outputs(chamber)
        self.counters = OutputCounters(common.bus, chamber.environment, rated, common.memory, flows)
        self._flows = flows
        self._actuators: list[Actuator] = []
        self._devices: list[tuple[Worker, OutputDevice]] = []

    def actuators(self, interlocks: Interlocks) -> list[Actuator]:
        """New actuators, which ask `interlocks` before they write."""
        self._devices.clear()
        outputs = (self._actuator(output, interlocks) for output in self._chamber.outputs)
        self._actuators = [*self._lamp(interlocks), *outputs]
        return self._actuators

    def unsafe(self) -> list[str]:
        """The actuators whose outputs are not known to be safe."""
        return [actuator.node.name for actuator in self._actuators if not actuator.is_safe]

    async def make_safe(self) -> None:
        """Make all outputs safe, after their components have ended."""
        await all_of(self._report, (actuator.make_safe() for actuator in self._actuators))
        await self.counters.close()

    async def close(self) -> None:
        """Close all outputs, which leaves them safe, and report those that do not answer."""
        await all_of(self._report, (self._close(worker, device) for worker, device in self._devices))

    def _lamp(self, interlocks: Interlocks) -> Iterator[Actuator]:
        if not self._chamber.light.enabled:
            return
        lamp = Lamp(self._hardware, self._chamber)
        channels = self._chamber.channels_by_path.values()
        worker = self._worker("light" if channels else PINS, lamp.devices)
        leases = [lease_of(OutputClass.LIGHT), *(each.lease for each in channels)]
        yield LightActuator(
            self._bus,
            self._chamber.environment,
            write=lamp.write,
            worker=worker,
            mix=self._chamber.lamp_mix,
            ramp_s=self._chamber.light.ramp_s,
            switched=self._chamber.switched_channels,
            stale_after_s=self._chamber.light.stale_after_s,
            # one channel after the other, so that one that is away is no failure of the others
            write_timeout_s=DEVICE_TIMEOUT_S + sum(map(_limit_s, channels)),
            lease=min(leases, key=lambda each: each.renewed_s),
            guard=interlocks.guard("light", {}),
            counted=lambda channel, *written: self.counters.wrote(lamp_name(channel), *written),
        )

    def _actuator(self, output: Output, interlocks: Interlocks) -> Actuator:
        device = output_device(self._hardware, output)
        _, pause_s = switching_of(self._chamber, output.own_variable)
        make = OutputActuator if output.can_dim else partial(SwitchActuator, rest_s=min(_REST_S, pause_s / 2))
        safe_on = output.safe == "on"
        return make(
            self._bus,
            self._chamber.environment,
            output.name,
            output.own_variable,
            write=lambda level, valid_s: device.use().write(level, valid_s),
            worker=self._worker(
                PINS if output.kind in ON_A_PIN else output.name, [device], getattr(output, "line", "")
            ),
            safe_on=safe_on,
            stale_after_s=output.stale_after_s,
            write_timeout_s=_limit_s(output),
            lease=output.lease,
            guard=interlocks.guard(output.name, {output.own_variable: float(safe_on)}),
            counted=lambda _, *written: self.counters.wrote(output.name, *written),
            role=output.role,
            dosed=self._dosed(output),
        )

    def _worker(self, name: str, devices: Iterable[OutputDevice], line: str = "") -> Worker:
        """One thread per output, so that a hanging output blocks no other; on a bus or line its thread.

        All pins have one thread, since the keeper of pins answers in time. No bus or line has a name as an
        output has.
        """
        if line:
            worker = self._workers.named(line, partial(self._hardware.take_over, line))
        elif name == PINS:
            worker = self._workers.named(PINS)
        else:
            worker = self._workers.named(f"{self._chamber.environment}/{name}")
        self._devices += [(worker, device) for device in devices]
        return worker

    def _dosed(self, output: Output) -> Callable[[GivenDose], None] | None:
        """What gets the doses of an output."""
        if output.role is None or not output.is_a(OutputClass.DOSING):
            return None
        return self._doses.account_of(output.name, output.role.name, lambda: self._flows[output.name].ml_min)

    @cached_property
    def _doses(self) -> DoseAccounts:
        from growd.control.dose_accounts import DoseAccounts  # noqa: PLC0415  most chambers have no doses

        return DoseAccounts(self._bus, self._chamber.environment)

    async def _close(self, worker: Worker, device: OutputDevice) -> None:
        try:
            async with asyncio.timeout(DEVICE_CLOSE_S):
                await worker.run(device.close)
        except TimeoutError:
            self._report(f"{device.name} does not answer: its outputs may not be safe")
        except (DriverError, WorkerError) as error:
            self._report(f"{device.name}'s outputs may not be safe: {error}")

    def _report(self, sentence: str) -> None:
        several = bool(self._chamber.config.chamber)
        self._report_unsafe(f"in {self._chamber.environment} {sentence}" if several else sentence)


def switching_of(chamber: Chamber, variable: str) -> tuple[float, float]:
    """The shortest time on and off of the outputs of an own variable: of the class, or a longer one of them.

    0 if they can be dimmed.
    """
    outputs = chamber.by_own_variable[variable]
    if all(each.can_dim for each in outputs):
        return 0.0, 0.0
    role = outputs[0].role
    on_s, off_s = switching_s(role.output_class if role else None)
    return (
        max(on_s, *(each.minimum_on_s for each in outputs)),
        max(off_s, *(each.minimum_off_s or 0.0 for each in outputs)),
    )


def lamp_name(channel: str) -> str:
    """A channel of the lamp among the outputs."""
    return f"light {channel}"


def rated_outputs(chamber: Chamber) -> Iterator[Rated]:
    """What is known of each output, the channels of the lamp among them."""
    for channel in chamber.light.channel:
        kind = "relay" if chamber.light.is_switched else "pwm"
        starts = CONTACT_STARTS if chamber.light.is_switched else None
        yield _rated_channel(channel.name, kind, channel.power_w, starts)
    for output in chamber.channels_by_path.values():
        yield _rated_channel(output.channel, output.kind, output.power_w, output.starts_rated)
    for output in chamber.outputs:
        role = output.role
        if role is None:
            continue
        yield Rated(
            output.name,
            role.name,
            output.own_variable,
            role.output_class,
            output.kind,
            output.power_w,
            output.flow_ml_min,
            output.starts_rated,
        )


def _rated_channel(channel: str, kind: str, power_w: float | None, starts: int | None) -> Rated:
    name, part, variable = lamp_name(channel), f"lamp, {channel}", f"light_intensity_{channel}"
    return Rated(name, part, variable, OutputClass.LIGHT, kind, power_w, rated_starts=starts)


def _limit_s(output: Output) -> float:
    return NETWORK_TIMEOUT_S if output.kind in IN_THE_NETWORK else DEVICE_TIMEOUT_S


async def all_of(report: Callable[[str], None], steps: Iterable[Awaitable[object]]) -> None:
    """Take all steps at the same time, each to its end, also when another one fails."""
    for result in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(result, BaseException):
            report(f"outputs may not be safe: {result!r}")
