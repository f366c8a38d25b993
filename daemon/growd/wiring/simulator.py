"""A simulated machine, wired as the configuration says, with a chamber around what each environment has.

Also its clock, which may run fast and never goes back, whatever ends growd.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from growd.device_kinds import SWITCH_KINDS
from growd.runtime.clock import AcceleratedClock, RealClock
from growd.store.errors import LocalStoreError
from growd_hwsim.chamber import ChamberParameters, SimulatedChamber
from growd_hwsim.faults import load_faults
from growd_hwsim.hardware import WiredChip, WiredRelay, Wiring, open_simulated
from growd_hwsim.replay import ReplayedChamber, load_recording

if TYPE_CHECKING:
    from growd import config
    from growd.config import Config
    from growd.runtime.clock import Clock
    from growd.store.local import LocalStore
    from growd_hwsim.hardware import SimulatedHardware

RESERVED_S: Final = 6.0
"""How far ahead simulated time is reserved, in seconds of the machine; renewed each `RENEWED_S`."""

RENEWED_S: Final = 2.0
_KEY: Final = "simulated_time"
_log = logging.getLogger(__name__)

_PWM_CHANNELS: Final = 4  # of a Raspberry Pi 5, on which each pin that can be driven has a channel of its own


def simulated_hardware(config: Config, clock: Clock) -> SimulatedHardware:
    """Open it. Blocking: it reads files. Raises `SimulationError` for a file that can't be used."""
    simulator = config.simulator
    faults = load_faults(Path(simulator.faults)) if simulator.faults else []
    return open_simulated(
        _replayed(config, clock) if simulator.replay else _modelled(config, clock),
        sleep=clock.sleep_blocking,
        monotonic=clock.monotonic,
        faults=faults,
        wiring=_wiring(config),
        further=[(_modelled(config, clock), _wiring(each)) for each in config.chamber.values()],
        seed=simulator.seed,
    )


async def simulated_clock(config: Config, local: LocalStore) -> Clock:
    """The clock of a simulation. It goes on from the time that `local` holds, where that is ahead.

    Without that, and in step with the machine, it is the machine's own clock.
    """
    kept = await local.state(_KEY, 0.0)
    now, speed = time.time(), config.simulator.speed
    if speed == 1 and kept <= now:
        return RealClock()
    clock = AcceleratedClock(speed, max(now, kept))
    await _hold(local, clock.time() + RESERVED_S * speed)
    return clock


async def reserve_time(local: LocalStore, clock: AcceleratedClock) -> None:
    """Keep a time in `local` that the clock has not reached, until cancelled.

    A growd that is killed goes on from there, so that no time is used twice.
    """
    while True:
        await _hold(local, clock.time() + RESERVED_S * clock.speed)
        await asyncio.sleep(RENEWED_S)  # real: it is for a kill of this process


async def release_time(local: LocalStore, clock: AcceleratedClock) -> None:
    """Give back what was reserved, at a clean end: the next run goes on from now."""
    await _hold(local, clock.time())


async def _hold(local: LocalStore, moment: float) -> None:
    try:
        await local.save_state(_KEY, moment)
    except LocalStoreError as error:
        _log.debug("the simulated time can't be saved: %s", error)


def _modelled(config: Config, clock: Clock) -> SimulatedChamber:
    """The model. One seed for all chambers: they stand in one room, whose air they share."""
    simulator = config.simulator
    return SimulatedChamber(
        clock.monotonic, _parameters(config), seed=simulator.seed, time_of_day_s=_since_midnight(clock)
    )


def _replayed(config: Config, clock: Clock) -> SimulatedChamber:
    """What was recorded."""
    simulator = config.simulator
    return ReplayedChamber(
        load_recording(Path(simulator.replay)),
        clock.monotonic,
        _parameters(config),
        seed=simulator.seed,
        time_of_day_s=_since_midnight(clock),
        gap_s=simulator.replay_gap_s,
        loop=simulator.replay_loop,
    )


def _parameters(config: Config) -> ChamberParameters:
    return ChamberParameters(door_hours=config.simulator.door_hours)


def _since_midnight(clock: Clock) -> float:
    local_time = time.localtime(clock.time())
    return local_time.tm_hour * 3600 + local_time.tm_min * 60 + local_time.tm_sec


def _wiring(settings: config.ChamberOptions) -> Wiring:
    """What the configuration says of one environment is how it is wired."""
    light = settings.light
    return Wiring(
        i2c=tuple(
            WiredChip(sensor.kind, sensor.bus, sensor.i2c_address)
            for sensor in settings.sensor
            if sensor.port is None
        ),
        serial={
            sensor.port.replace("*", "0"): sensor.kind
            for sensor in settings.sensor
            if sensor.port is not None
        },
        lamp_pins={channel.name: channel.pin for channel in light.channel if light.enabled},
        inverted_lamps=light.inverted,
        pwm_chips={light.pwm_chip: _PWM_CHANNELS} if light.hardware_pwm else {},
        relays={
            relay.pin: WiredRelay(SWITCH_KINDS[relay.variable].simulated, active_high=relay.active == "high")
            for relay in settings.relay
        },
    )
