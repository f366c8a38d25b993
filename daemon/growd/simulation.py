"""A simulated machine that is wired as the configuration says, with the chamber that it names around it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from growd.devices import SENSOR_KINDS
from growd_hwsim.chamber import Chamber, ChamberParameters
from growd_hwsim.faults import load_faults
from growd_hwsim.hardware import WiredChip, WiredRelay, Wiring, open_simulated
from growd_hwsim.replay import ReplayedChamber, load_recording

if TYPE_CHECKING:
    from growd.clock import Clock
    from growd.config import Config
    from growd_hwsim.hardware import SimulatedHardware

_MOVES: Final[dict[str, Literal["valve", "fan"]]] = {
    "air_carbon_dioxide_valve_on": "valve",
    "air_flush_on": "fan",
}  # what a relay for a variable moves in the simulated chamber
_PWM_CHANNELS: Final = 4  # of a Raspberry Pi 5, on which each pin that can be driven has a channel of its own


def simulated_hardware(config: Config, clock: Clock) -> SimulatedHardware:
    """Open it. Blocking: it reads files. Raises `SimulationError` for a file that can't be used."""
    simulator = config.simulator
    faults = load_faults(Path(simulator.faults)) if simulator.faults else []
    return open_simulated(
        _chamber(config, clock),
        sleep=clock.sleep_blocking,
        monotonic=clock.monotonic,
        faults=faults,
        wiring=_wiring(config),
        seed=simulator.seed,
    )


def _chamber(config: Config, clock: Clock) -> Chamber:
    """The model, or what was recorded."""
    simulator = config.simulator
    parameters = ChamberParameters(door_hours=simulator.door_hours)
    local_time = time.localtime(clock.time())
    since_midnight = local_time.tm_hour * 3600 + local_time.tm_min * 60 + local_time.tm_sec
    if not simulator.replay:
        return Chamber(clock.monotonic, parameters, seed=simulator.seed, time_of_day_s=since_midnight)
    return ReplayedChamber(
        load_recording(Path(simulator.replay)),
        clock.monotonic,
        parameters,
        seed=simulator.seed,
        time_of_day_s=since_midnight,
        gap_s=simulator.replay_gap_s,
        loop=simulator.replay_loop,
    )


def _wiring(config: Config) -> Wiring:
    """The simulated machine is wired as the configuration says."""
    light = config.light
    return Wiring(
        i2c=tuple(
            WiredChip(sensor.kind, sensor.bus, sensor.address or SENSOR_KINDS[sensor.kind].address)
            for sensor in config.sensor
            if sensor.port is None
        ),
        serial={
            sensor.port.replace("*", "0"): sensor.kind for sensor in config.sensor if sensor.port is not None
        },
        lamp_pins={channel.name: channel.pin for channel in light.channel},
        inverted_lamps=light.inverted,
        pwm_chips={light.pwm_chip: _PWM_CHANNELS} if light.hardware_pwm else {},
        relays={
            relay.pin: WiredRelay(_MOVES[relay.variable], active_high=relay.active == "high")
            for relay in config.relay
        },
    )
