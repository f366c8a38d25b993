"""A model of a small growing chamber: its air, walls, light, plants, nutrient tank and pots.

Reading the chamber advances it to the present. `air`, `tank`, `soil` and `plants` have the balances,
`parameters` the sizes.
"""

from __future__ import annotations

import math
import operator
import random
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from growd_hwsim.actuators import NO_FAULTS, Actuators
from growd_hwsim.air import AirInputs, AirState, Moved, RoomAir, air_flows, step
from growd_hwsim.parameters import ChamberParameters
from growd_hwsim.physics import saturation_vapour_g_m3
from growd_hwsim.plants import dry_mass_g_m2, stand, transpiration_m3_s
from growd_hwsim.soil import Soil
from growd_hwsim.tank import Tank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from growd_hwsim.actuators import Defect
    from growd_hwsim.air import AirFlows
    from growd_hwsim.plants import Stand
    from growd_hwsim.tank import Water

STEP_S = 10.0
"""Longest step, except after a very long pause."""
MAXIMUM_STEPS = 2000
"""Most steps after a pause, besides one for each move of the door. It limits the time of a reading."""

_DAY_S = 86_400.0
_GROWTH = 0.005  # the relative growth after which the leaves are counted again


class Air(NamedTuple):
    """The air at a sensor."""

    carbon_dioxide_ppm: float
    temperature_degc: float
    humidity_percent: float


class SimulatedChamber:
    """The chamber at the time of `monotonic`. Thread-safe.

    It starts with the air of the room, lamps and actuators off, the door closed, `time_of_day_s` seconds
    after midnight. The room drifts as a function of time and `seed`, so that the same seed and the same
    commands at the same times give the same chamber, however often it is read.
    """

    is_recorded = False
    """Whether the air was measured by a sensor, whose lag it includes."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        parameters: ChamberParameters | None = None,
        *,
        seed: int = 0,
        time_of_day_s: float = 8 * 3600.0,
    ) -> None:
        self.parameters = p = parameters or ChamberParameters()
        self.tank = Tank(p.tank)
        self.soil = Soil(p.soil)
        room_degc = p.ambient_temperature_degc
        self._vapour_of_room = p.ambient_humidity_percent / 100.0 * saturation_vapour_g_m3(room_degc)
        self.state = AirState(p.ambient_carbon_dioxide_ppm, room_degc, self._vapour_of_room, room_degc)
        """The air at the last reading."""
        self.present_faults: Callable[[], Mapping[str, Defect]] = lambda: NO_FAULTS
        """The faults of actuators and door now, by actuator or door."""
        self.bring_outputs: Callable[[float], None] = lambda _now: None
        """Brings what drives the actuators to a time, before the chamber goes there."""
        self._monotonic = monotonic
        self._start = self._now = monotonic()
        self._time_of_day_s = time_of_day_s
        self._drift = _Drift(seed)
        self._door_times = _door_times(p)
        self._lamps = Lamps(p)
        self._actuators = Actuators()
        self._door_held_open = False
        self._causes = (p, self._actuators.levels, False)
        self._flows = air_flows(*self._causes)
        self._stand: Stand = stand(p)
        self.moved = Moved()
        """What moved since the start, up to the last reading."""
        self._counted_mol, self._counted_for = 0.0, p
        self._lock = threading.Lock()

    def set_lamp(self, channel: str, fraction: float, at: float | None = None) -> None:
        """Light a channel with `fraction` (0..1) of its full power; `at` is as of `set_actuator`."""
        with self._present(at):
            self._lamps.set(channel, fraction)

    def set_actuator(self, name: str, level: float, at: float | None = None) -> None:
        """Drive one of `ACTUATORS` with `level` (0..1) of what it can do.

        `at` is the time from which on it is driven, for pins that have brought it to the present themselves.
        """
        with self._present(at):
            self._actuators.command(name, level)

    def collect(self, pump: str) -> None:
        """Empty the measuring cylinder and put the hose of a dosing pump into it, "" for none."""
        with self._present():
            self.tank.hose, self.tank.collected_ml = pump, 0.0

    def collected_ml(self) -> float:
        """The volume in the measuring cylinder now."""
        with self._present():
            return self.tank.collected_ml

    def set_door(self, is_open: bool) -> None:  # noqa: FBT001  its name says it
        """Hold the door open, or release it. It also opens at its hours."""
        with self._present():
            self._door_held_open = is_open

    def take_over(self, before: SimulatedChamber) -> None:
        """Go on with the air, water and plants of another chamber, as after a power cut."""
        with self._lock:
            self.parameters, self.state, self.moved = before.parameters, before.state, before.moved
            self.tank, self.soil = before.tank, before.soil

    def level(self, name: str) -> float:
        """The level (0..1) at which an actuator really works now, with its faults."""
        with self._present():
            return self._actuators.levels[name]

    def air(self) -> Air:
        """The air at the sensor now."""
        with self._present():
            state = self.state
            saturation = saturation_vapour_g_m3(state.temperature_degc)
            humidity = min(100.0 * state.vapour_g_m3 / saturation, 100.0)
            return Air(state.carbon_dioxide_ppm, state.temperature_degc, humidity)

    def carbon_dioxide_ppm(self) -> float:
        """CO2 in the air at the sensor now."""
        return self.air().carbon_dioxide_ppm

    def illuminance_lux(self) -> float:
        """Illuminance at the sensor now."""
        with self._present() as now:
            return self._lamps.lit(self.parameters).illuminance_lux + self._daylight_lux(now)

    def ppfd_umol_m2_s(self) -> float:
        """PPFD at leaf height now."""
        with self._present() as now:
            return self._ppfd(now)

    def photons_by_source(self) -> dict[str, float]:
        """The parts of the PPFD at the sensor now: of each lamp channel, and of daylight."""
        with self._present() as now:
            p = self.parameters
            daylight = self._daylight_lux(now) / p.daylight_lux_per_umol
            return {**self._lamps.ppfd_by_channel(p), "daylight": daylight}

    def water(self) -> Water:
        """The nutrient solution in the tank now."""
        with self._present():
            return self.tank.water(self.parameters.tank)

    def soil_moisture_percent(self) -> float:
        """Water in the pots now, in percent of the volume of the substrate."""
        with self._present():
            return self.soil.percent(self.parameters.soil)

    def is_door_open(self) -> bool:
        """Whether the door is open now."""
        with self._present():
            return self._door_is_open_at(self._now)

    def canopy_cover(self) -> float:
        """Share of the growing area that leaves cover now, from above: what they intercept of the light."""
        with self._present():
            return self._stand.intercepted

    def dry_mass_g_m2(self) -> float:
        """Dry mass of the plants now, in g/m2 of growing area; of the start unless they grow."""
        with self._present():
            return self.parameters.dry_mass_g_m2 * self._grown()

    @contextmanager
    def _present(self, at: float | None = None) -> Iterator[float]:
        """The chamber at the present, or at a time at which all outputs are known. Yields the time."""
        now = self._monotonic() if at is None else at
        if at is None:
            self.bring_outputs(now)
        with self._lock:
            self._advance(now)
            yield now

    def _advance(self, end: float) -> None:
        self._actuators.suffer(self.present_faults())
        longest = max(STEP_S, (end - self._now) / MAXIMUM_STEPS)
        while self._now < end:
            step_end = min(self._now + longest, end, self._next_door_move())
            self._step(step_end - self._now, (self._now + step_end) / 2.0)
            self._now = step_end

    def _step(self, seconds: float, middle: float) -> None:
        """Move everything by one step. Slow influences have their values in its middle."""
        p, levels, state, plants = self.parameters, self._actuators.levels, self.state, self._stand
        ppfd = self._ppfd(middle)
        from_tank = self.tank.meet(p.tank, levels, state.temperature_degc, state.carbon_dioxide_ppm, seconds)
        free = transpiration_m3_s(p, plants.leaf_area_index, ppfd)
        saturation = saturation_vapour_g_m3(state.temperature_degc)
        of_soil = p.part_in_soil * free * self.soil.stress(p.soil)
        of_soil = min(of_soil, self.soil.supplied_m3_s(saturation, seconds))
        of_tank = min((1.0 - p.part_in_soil) * free, self.tank.supplied_m3_s(saturation, seconds))
        inputs = AirInputs(
            self._room(middle),
            self._air_flows(middle),
            plants,
            ppfd,
            of_soil + of_tank,
            self._lamps.lit(p).power_w + from_tank.heat_w,
            from_tank.carbon_dioxide_mol_s,
            from_tank.vapour_g_m3,
            from_tank.surface_m3_s,
        )
        self.state, moved = step(p, state, inputs, seconds)
        leaves = of_soil + of_tank
        of_soil_g = moved.transpired_g * of_soil / leaves if leaves else 0.0
        self.soil.advance(p.soil, levels["irrigation"], seconds, of_soil_g)
        self.tank.advance(
            p.tank,
            levels,
            seconds,
            lost_g=moved.evaporated_g + moved.transpired_g - of_soil_g,
            uptake_mol=(1.0 - p.part_in_soil) * moved.uptake_mol,
            leaves=(1.0 - p.part_in_soil) * plants.leaf_area_index,
        )
        self.moved = Moved(*map(operator.add, self.moved, moved))
        self._grow()

    def _room(self, now: float) -> RoomAir:
        p, drift = self.parameters, self._drift.at(now - self._start)
        return RoomAir(
            p.ambient_carbon_dioxide_ppm + 8.0 * drift,
            p.ambient_temperature_degc + 0.5 * drift,
            self._vapour_of_room,
        )

    def _air_flows(self, now: float) -> AirFlows:
        """The flows, calculated again after a move of an actuator or the door."""
        causes = (self.parameters, self._actuators.levels, self._door_is_open_at(now))
        if causes[0] is not self._causes[0] or causes[1:] != self._causes[1:]:
            self._causes = causes
            self._flows = air_flows(*causes)
        return self._flows

    def _grow(self) -> None:
        """Count the leaves again after some growth, and with other parameters."""
        p, uptake_mol = self.parameters, self.moved.uptake_mol
        grown = p.grows and dry_mass_g_m2(abs(uptake_mol - self._counted_mol), p) > _GROWTH * p.dry_mass_g_m2
        if grown or p is not self._counted_for:
            self._counted_for, self._counted_mol = p, uptake_mol
            self._stand = stand(p, self._grown())

    def _grown(self) -> float:
        """The mass of the plants over that at the start."""
        p = self.parameters
        return max(0.01, 1.0 + dry_mass_g_m2(self.moved.uptake_mol, p) / p.dry_mass_g_m2) if p.grows else 1.0

    def _door_is_open_at(self, now: float) -> bool:
        if self._door_held_open or self._actuators.door_is_held_open:
            return True
        if not self.parameters.door_hours:
            return False
        since_midnight = self._since_midnight(now)
        open_s = self.parameters.door_open_s
        opened = (hour * 3600.0 for hour in self.parameters.door_hours)
        return any((since_midnight - second) % _DAY_S < open_s for second in opened)

    def _next_door_move(self) -> float:
        """When the door next opens or closes by itself; later than now, since a step must not be empty."""
        if not self._door_times:
            return math.inf
        since_midnight = self._since_midnight(self._now)
        waits = ((second - since_midnight) % _DAY_S for second in self._door_times)
        following = (self._now + (wait or _DAY_S) for wait in waits)
        return min((move for move in following if move > self._now), default=math.inf)

    def _since_midnight(self, now: float) -> float:
        return (self._time_of_day_s + now - self._start) % _DAY_S

    def _ppfd(self, now: float) -> float:
        p = self.parameters
        return self._lamps.lit(p).ppfd_umol_m2_s + self._daylight_lux(now) / p.daylight_lux_per_umol

    def _daylight_lux(self, now: float) -> float:
        return daylight_lux(self.parameters, self._since_midnight(now) / 3600.0)


class _Drift:
    """A slow drift within -1..1: three sine waves with phases from the seed."""

    _PERIODS_S = (5 * 3600.0, 97 * 60.0, 23 * 60.0)

    def __init__(self, seed: int) -> None:
        phases = random.Random(f"room {seed}")  # noqa: S311  a seed, not secrets
        self._phases = [phases.uniform(0.0, 2.0 * math.pi) for _ in self._PERIODS_S]

    def at(self, time: float) -> float:
        slow, middle, fast = self._PERIODS_S
        of_slow, of_middle, of_fast = self._phases
        turned = 2.0 * math.pi * time
        return (
            math.sin(turned / slow + of_slow)
            + math.sin(turned / middle + of_middle)
            + math.sin(turned / fast + of_fast)
        ) / 3.0


def _door_times(p: ChamberParameters) -> list[float]:
    """Seconds after midnight at which the door opens or closes."""
    opened = [hour * 3600.0 for hour in p.door_hours]
    return [second % _DAY_S for opening in opened for second in (opening, opening + p.door_open_s)]


class Lit(NamedTuple):
    """What lamps give, with these parameters."""

    parameters: ChamberParameters
    ppfd_umol_m2_s: float
    """At leaf height."""
    power_w: float
    """All of it becomes heat."""
    illuminance_lux: float
    """At the sensor."""


class Lamps:
    """The lamp's channels, each at a fraction (0..1) of its full power."""

    def __init__(self, p: ChamberParameters) -> None:
        self._fractions = dict.fromkeys(p.lamps, 0.0)
        self._lit = Lit(p, 0.0, 0.0, 0.0)

    def set(self, channel: str, fraction: float) -> None:
        """Light a channel. Raises ValueError for an unknown one or a fraction outside 0..1."""
        if channel not in self._fractions:
            known = ", ".join(sorted(self._fractions))
            raise ValueError(f"the chamber has no lamp {channel!r}, only {known}")
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"lamp {channel}: fraction must be 0..1, not {fraction}")
        self._fractions[channel] = fraction
        self._lit = self._sum(self._lit.parameters)

    def lit(self, p: ChamberParameters) -> Lit:
        """The light of all channels, calculated again after a change."""
        if p is not self._lit.parameters:
            self._lit = self._sum(p)
        return self._lit

    def ppfd_by_channel(self, p: ChamberParameters) -> dict[str, float]:
        """PPFD of each channel at leaf height."""
        scale = p.utilisation / p.growing_area_m2
        return {
            channel: fraction * p.lamps[channel].power_w * p.lamps[channel].efficacy_umol_j * scale
            for channel, fraction in self._fractions.items()
        }

    def _sum(self, p: ChamberParameters) -> Lit:
        photons = self.ppfd_by_channel(p)
        ppfd = sum(photons.values())
        power = sum(fraction * p.lamps[channel].power_w for channel, fraction in self._fractions.items())
        lux = sum(p.lamps[channel].lux_per_umol * umol for channel, umol in photons.items())
        return Lit(p, ppfd, power, lux)


def daylight_lux(p: ChamberParameters, hour: float) -> float:
    """Daylight in the chamber at an hour of the day: half a sine wave from sunrise to sunset."""
    if not p.sunrise_h < hour < p.sunset_h:
        return 0.0
    return p.daylight_lux * math.sin(math.pi * (hour - p.sunrise_h) / (p.sunset_h - p.sunrise_h))
