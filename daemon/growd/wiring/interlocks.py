"""The interlocks of a chamber, as its configuration has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd.control.interlocks.base import InputUnknown, Interlock, SensorReadings
from growd.control.interlocks.carbon_dioxide import (
    CarbonDioxideCeiling,
    DosePerHour,
    NoRise,
    ValveOpenTooLong,
)
from growd.control.interlocks.light import LightHours, LightOverTemperature
from growd.control.interlocks.node import PATIENCE_S, Interlocks, Memory
from growd.control.interlocks.on_times import OnTimes
from growd.variables import CARBON_DIOXIDE, FAN, ILLUMINANCE, TEMPERATURE, VALVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import ChamberOptions, RelayOptions

USUALLY_NEEDED: Final = {VALVE: CARBON_DIOXIDE}


@dataclass(frozen=True)
class Safeguards:
    """What is needed of a chamber to make its interlocks.

    `sensors` has the names of the sensors of each variable that is measured, `stale_after` says after how
    many seconds one of them is not known any more, `patient` makes a time limit on this machine's work one of
    the clock. `zone` is where days begin and end, None for the machine's.
    """

    chamber: ChamberOptions
    sensors: Mapping[str, Sequence[str]]
    stale_after: Callable[[str], float]
    patient: Callable[[float], float]
    zone: tzinfo | None

    def interlocks(self, bus: Bus, environment: str, memory: Memory) -> Interlocks:
        """All interlocks of the chamber, which `memory` keeps over a restart."""
        used = {CARBON_DIOXIDE, TEMPERATURE, *self._needed()} if self._channels or self._switched else set()
        sensors = {name: devices for name, devices in self.sensors.items() if name in used}
        readings = SensorReadings({variable: self.stale_after(variable) for variable in sensors})
        valves, fans, lamps = OnTimes(), OnTimes(), OnTimes()
        made = [*self._of_valve(valves, fans, readings), *self._of_lamp(lamps, readings)]
        made += [InputUnknown(readings, name, outputs) for name, outputs in self._needed().items()]
        made += self._ceiling(readings)  # the last, for it starts the fan whatever the others say
        interlocks = Interlocks(
            bus,
            environment,
            made,
            readings,
            sensors={name: devices if len(devices) > 1 else () for name, devices in sensors.items()},
            memory=memory,
            patience_s=self.patient(PATIENCE_S),
        )
        interlocks.track(valves, [VALVE])
        interlocks.track(fans, [FAN])
        interlocks.track(lamps, self._channels)
        return interlocks

    @property
    def _channels(self) -> list[str]:
        light = self.chamber.light
        return [channel.name for channel in light.channel] if light.enabled else []

    @property
    def _switched(self) -> set[str]:
        return {relay.variable for relay in self.chamber.relay}

    def _of_valve(self, times: OnTimes, fans: OnTimes, readings: SensorReadings) -> Iterator[Interlock]:
        limits = self.chamber.interlock
        if VALVE not in self._switched:
            return
        yield ValveOpenTooLong(times, limits.valve_open_s, limits.valve_rest_s)
        yield DosePerHour(times, limits.dose_limit_s, limits.valve_flow_l_min)
        if CARBON_DIOXIDE in self.sensors:
            yield NoRise(
                times, readings, open_s=limits.no_rise_open_s, rise_ppm=limits.no_rise_ppm, fans=fans
            )

    def _of_lamp(self, times: OnTimes, readings: SensorReadings) -> Iterator[Interlock]:
        limits, channels = self.chamber.interlock, self._channels
        if channels and TEMPERATURE in self.sensors:
            yield LightOverTemperature(
                readings, channels, limits.light_off_degc, limits.light_hysteresis_degc
            )
        if channels:
            yield LightHours(times, channels, limits.light_hours, self.zone)

    def _ceiling(self, readings: SensorReadings) -> Iterator[Interlock]:
        limits = self.chamber.interlock
        held = self._switched & ({VALVE, FAN} if limits.ceiling_starts_fan else {VALVE})
        if CARBON_DIOXIDE in self.sensors and held:
            sensors = self.sensors[CARBON_DIOXIDE]
            yield CarbonDioxideCeiling(
                readings, held, limits.ceiling_ppm, limits.ceiling_hysteresis_ppm, sensors
            )

    def _needed(self) -> dict[str, set[str]]:
        """The outputs that need a variable to be known, by that."""
        needed: dict[str, set[str]] = {}
        for relay in self.chamber.relay:
            if variable := self._needed_by(relay):
                needed.setdefault(variable, set()).add(relay.variable)
        if self.chamber.light.enabled and self.chamber.light.needs_sensor:
            needed.setdefault(ILLUMINANCE, set()).add(ILLUMINANCE)
        return needed

    def _needed_by(self, relay: RelayOptions) -> str:
        """The variable without which a relay must not be on, "" for none."""
        if relay.needs is not None:
            return relay.needs
        usual = USUALLY_NEEDED.get(relay.variable, "")
        return usual if usual in self.sensors else ""
