"""A model of the air, the light and the plants in a small growing chamber.

Carbon dioxide, temperature and water vapour each follow a balance dx/dt = a - b x. A step takes a and b at
its middle and solves the balance exactly, so that steps of any length are stable and agree. Reading the
chamber advances it to the present. The model omits latent heat (a tenth of the lamps' heat) and growth.
"""

from __future__ import annotations

import math
import random
import threading
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from growd_hwsim.actuators import NO_FAULTS, Actuators

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STEP_S = 10.0
"""Longest step, except after a very long pause."""
MAXIMUM_STEPS = 2000
"""Most steps after a pause, besides one for each move of the door. It limits the time of a reading."""

_DAY_S = 86_400.0
_GAS_CONSTANT = 8.314  # J/(mol K)
_PRESSURE_PA = 101_325.0
_ZERO_DEGC_K = 273.15
_AIR_J_M3_K = 1.2 * 1005.0  # density and heat capacity of air at 20 degC
_CO2_G_MOL = 44.01
_LITRES_PER_MINUTE = 60_000.0  # in 1 m3/s


@dataclass(frozen=True)
class Lamp:
    """One lamp channel at full power.

    Measured fixtures have 1.5 to 2.1 umol/J for white, 2.25 for blue and red (Park and Runkle 2018, PLoS ONE
    13:e0202386), the best LEDs twice that (Kusuma, Pattison and Bugbee 2020, Hortic. Res. 7:56).
    """

    power_w: float
    """Electrical power in W, all of which becomes heat in the chamber."""
    efficacy_umol_j: float
    """Photons of 400-700 nm in umol per J of electricity."""
    lux_per_umol: float
    """Illuminance in lx per umol/m2/s of this spectrum."""


_LAMPS = {
    # lux per umol: white LEDs 67 (Sharakshane 2018, bioRxiv 215095); for one wavelength 683 lm/W times
    # the CIE 1924 luminosity function (0.0610 at 660 nm, 0.0380 at 450 nm) times 0.1196 J m / wavelength.
    "white": Lamp(30.0, 2.1, 66.7),
    "red": Lamp(14.0, 2.25, 7.55),
    "blue": Lamp(7.5, 2.25, 6.90),
}


@dataclass(frozen=True)
class ChamberParameters:
    """A bench-top chamber of 100 l, 0.42 m x 0.40 m x 0.60 m, with a closed stand of young lettuce.

    Values without a source are assumptions.
    """

    volume_m3: float = 0.1
    """Volume of air in m3."""
    leak_per_h: float = 1.5
    """Air changes in 1/h with the door closed and the fan off."""
    fan_flow_l_min: float = 60.0
    """Air that the exhaust fan exchanges with the room, in l/min."""
    door_exchange_per_s: float = 0.05
    """Air changes in 1/s with the door open: a twentieth of the air is left after a minute."""
    door_hours: tuple[float, ...] = ()
    """Hours of the day, 0 to 24, at which the door opens."""
    door_open_s: float = 60.0
    """How long the door stays open then, in s."""
    valve_flow_l_min: float = 0.05
    """Flow of pure CO2 through the open valve, in l/min at the pressure and temperature of the air."""
    ambient_carbon_dioxide_ppm: float = 420.0
    """CO2 in the room in ppm: the global mean of 2023 is 419.3 (NOAA Global Monitoring Laboratory)."""
    ambient_temperature_degc: float = 22.0
    """Temperature of the room in degC."""
    ambient_humidity_percent: float = 45.0
    """Relative humidity of the room in percent."""

    growing_area_m2: float = 0.168
    """Area under the lamps in m2, all of it with plants."""
    leaf_area_index: float = 1.0
    """One-sided area of leaves over the growing area."""
    extinction: float = 0.9
    """Extinction of light in the stand, for flat leaves (Van Henten 1994, Agric. Syst. 45:55, c_k)."""
    light_use_g_j: float = 17e-6
    """CO2 in g for each J of light at very high CO2 (Van Henten 1994, c_epsilon)."""
    compensation_point_ppm: float = 40.0
    """CO2 in ppm where photosynthesis ends, at 20 degC; doubles each 10 degC (Van Henten 1994, c_Gamma)."""
    boundary_conductance_m_s: float = 0.004
    """Of the leaves' boundary layer for CO2, in m/s (Van Henten 1994, c_bnd)."""
    stomatal_conductance_m_s: float = 0.007
    """Of the stomata for CO2, in m/s (Van Henten 1994, c_stm)."""
    dark_respiration_umol_m2_s: float = 0.32
    """CO2 in umol for each m2 of growing area and s, at 25 degC; doubles each 10 degC. Maintenance after Van
    Henten 1994 (c_resp 3.47e-7 and 1.16e-7 1/s, for the 14 g/m2 dry mass of this leaf area) is 0.16; growth
    is taken to cost as much again."""
    stomatal_resistance_s_m: float = 60.0
    """Of leaves for vapour in full light, in s/m: r (1500 + PPFD) / (200 + PPFD) at other light (Graamans et
    al. 2017, Agric. Syst. 153:138)."""
    aerodynamic_resistance_s_m: float = 100.0
    """Between leaves and air for vapour, in s/m (Graamans et al. 2017)."""

    lamps: Mapping[str, Lamp] = field(default_factory=lambda: MappingProxyType(_LAMPS))
    """The lamp's channels by name."""
    utilisation: float = 0.8
    """Share of the lamps' photons that reaches the growing area, with reflecting walls."""
    par_umol_j: float = 4.57
    """Photons in umol for each J of light of 400-700 nm; of sunlight (Thimijan and Heins 1983, HortScience
    18:818), and within 5 % of white LEDs."""
    daylight_lux: float = 300.0
    """Daylight at noon through the window of the chamber, in lx."""
    daylight_lux_per_umol: float = 54.0
    """Illuminance in lx for each umol/m2/s of daylight (Thimijan and Heins 1983)."""
    sunrise_h: float = 6.0
    """Hour of the day at which daylight begins."""
    sunset_h: float = 18.0
    """Hour of the day at which daylight ends."""

    heater_w: float = 200.0
    """Heat of the heater in W."""
    cooler_w: float = 100.0
    """Heat that the cooler takes from the air, in W."""
    humidifier_g_h: float = 40.0
    """Water that the humidifier gives to the air, in g/h."""
    dehumidifier_g_h: float = 20.0
    """Water that the dehumidifier takes from the air, in g/h."""
    tank_volume_l: float = 20.0
    """Volume of the full nutrient tank in l."""

    heat_capacity_j_k: float = 8_000.0
    """Heat capacity of the air, the walls and the water, in J/K."""
    heat_loss_w_k: float = 8.0
    """Conductance of the walls in W/K: 1.5 m2 of 5 W/m2/K, as of a single sheet of acrylic."""


class AirState(NamedTuple):
    """The state of the air in the chamber."""

    carbon_dioxide_ppm: float
    temperature_degc: float
    vapour_g_m3: float


class AirInputs(NamedTuple):
    """Influences on the air during a step: the air of the room, light (umol/m2/s), heat of the lamps (W)."""

    room: AirState
    ppfd_umol_m2_s: float = 0.0
    lamp_power_w: float = 0.0
    valve: float = 0.0
    fan: float = 0.0
    door_open: bool = False
    heat_w: float = 0.0
    moisture_g_s: float = 0.0


class Air(NamedTuple):
    """The air at a sensor."""

    carbon_dioxide_ppm: float
    temperature_degc: float
    humidity_percent: float


class Water(NamedTuple):
    """The nutrient solution in the tank."""

    temperature_degc: float
    potential_hydrogen: float
    conductivity_ms_cm: float
    level_percent: float
    volume_l: float
    dissolved_oxygen_mg_l: float


class SimulatedChamber:
    """The chamber at the time of `monotonic`. Thread-safe.

    It starts with the air of the room, lamps and fan off, valve and door closed, `time_of_day_s` seconds
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
        self._monotonic = monotonic
        self._start = self._now = monotonic()
        self._time_of_day_s = time_of_day_s
        self._drift = _Drift(seed)
        self._door_times = _door_times(p)
        self._lamps = dict.fromkeys(p.lamps, 0.0)
        self._lit: _Lit | None = None
        self._actuators = Actuators()
        self.present_faults: Callable[[], Mapping[str, str]] = lambda: NO_FAULTS
        """The faults of actuators and door now: a kind of `actuators` by actuator or door."""
        self._door_held_open = False
        self._vapour_of_room = (
            p.ambient_humidity_percent / 100.0 * saturation_vapour_g_m3(p.ambient_temperature_degc)
        )
        self._state = AirState(p.ambient_carbon_dioxide_ppm, p.ambient_temperature_degc, self._vapour_of_room)
        self._lock = threading.Lock()

    def set_lamp(self, channel: str, fraction: float) -> None:
        """Light a channel with `fraction` (0..1) of its full power."""
        if channel not in self._lamps:
            raise ValueError(f"the chamber has no lamp {channel!r}, only {', '.join(sorted(self._lamps))}")
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"lamp {channel}: fraction must be 0..1, not {fraction}")
        with self._lock:
            self._advance()
            self._lamps[channel] = fraction
            self._lit = None

    def set_actuator(self, name: str, level: float) -> None:
        """Drive one of `ACTUATORS` with `level` (0..1) of what it can do."""
        with self._lock:
            self._advance()
            self._actuators.command(name, level)

    def set_valve(self, is_open: bool) -> None:  # noqa: FBT001  its name says it
        """Open or close the CO2 valve."""
        self.set_actuator("valve", float(is_open))

    def set_fan(self, is_on: bool) -> None:  # noqa: FBT001  its name says it
        """Switch the exhaust fan on or off."""
        self.set_actuator("fan", float(is_on))

    def set_door(self, is_open: bool) -> None:  # noqa: FBT001  its name says it
        """Hold the door open, or release it. It also opens at its hours."""
        with self._lock:
            self._advance()
            self._door_held_open = is_open

    def air(self) -> Air:
        """The air at the sensor now."""
        with self._lock:
            self._advance()
            state = self._state
            saturation = saturation_vapour_g_m3(state.temperature_degc)
            humidity = min(100.0 * state.vapour_g_m3 / saturation, 100.0)
            return Air(state.carbon_dioxide_ppm, state.temperature_degc, humidity)

    def carbon_dioxide_ppm(self) -> float:
        """CO2 in the air at the sensor now."""
        return self.air().carbon_dioxide_ppm

    def illuminance_lux(self) -> float:
        """Illuminance at the sensor now."""
        with self._lock:
            lamps = self.parameters.lamps
            lit = sum(lamps[channel].lux_per_umol * self._lamp_ppfd(channel) for channel in self._lamps)
            return lit + self._daylight_lux(self._monotonic())

    def ppfd_umol_m2_s(self) -> float:
        """PPFD at leaf height now."""
        with self._lock:
            return self._ppfd(self._monotonic())

    def photons_by_source(self) -> dict[str, float]:
        """The parts of the PPFD at the sensor now: of each lamp channel, and of daylight."""
        with self._lock:
            lit = {channel: self._lamp_ppfd(channel) for channel in self._lamps}
            daylight = self._daylight_lux(self._monotonic()) / self.parameters.daylight_lux_per_umol
            return {**lit, "daylight": daylight}

    def water(self) -> Water:
        """The nutrient solution in the tank now."""
        return Water(20.0, 6.0, 1.6, 80.0, 0.8 * self.parameters.tank_volume_l, 8.0)

    def soil_moisture_percent(self) -> float:
        """Water in the soil now, in percent of its volume."""
        return 30.0

    def is_door_open(self) -> bool:
        """Whether the door is open now."""
        with self._lock:
            self._advance()
            return self._door_is_open_at(self._now)

    def _advance(self) -> None:
        end = self._monotonic()
        self._actuators.suffer(self.present_faults())
        longest = max(STEP_S, (end - self._now) / MAXIMUM_STEPS)
        while self._now < end:
            step_end = min(self._now + longest, end, self._next_door_move())
            self._state = step(
                self.parameters, self._state, self._inputs(self._now, step_end), step_end - self._now
            )
            self._now = step_end

    def _inputs(self, begin: float, end: float) -> AirInputs:
        """The influences from `begin` to `end`. Slow ones have their values in the middle."""
        middle = (begin + end) / 2.0
        p, lit = self.parameters, self._lamp_light()
        drift = self._drift.at(middle - self._start)
        levels = self._actuators.levels
        return AirInputs(
            room=AirState(
                p.ambient_carbon_dioxide_ppm + 8.0 * drift,
                p.ambient_temperature_degc + 0.5 * drift,
                self._vapour_of_room,
            ),
            ppfd_umol_m2_s=lit.ppfd_umol_m2_s + self._daylight_lux(middle) / p.daylight_lux_per_umol,
            lamp_power_w=lit.power_w,
            valve=levels["valve"],
            fan=levels["fan"],
            door_open=self._door_is_open_at(middle),
            heat_w=levels["heater"] * p.heater_w - levels["cooler"] * p.cooler_w,
            moisture_g_s=(
                levels["humidifier"] * p.humidifier_g_h - levels["dehumidifier"] * p.dehumidifier_g_h
            )
            / 3600.0,
        )

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
        lit = self._lamp_light().ppfd_umol_m2_s
        return lit + self._daylight_lux(now) / self.parameters.daylight_lux_per_umol

    def _lamp_light(self) -> _Lit:
        """The light of all lamps, calculated again after a change of lamps or parameters."""
        p = self.parameters
        if self._lit is None or self._lit.parameters is not p:
            ppfd = sum(self._lamp_ppfd(channel) for channel in self._lamps)
            power = sum(p.lamps[channel].power_w * part for channel, part in self._lamps.items())
            self._lit = _Lit(p, ppfd, power)
        return self._lit

    def _lamp_ppfd(self, channel: str) -> float:
        p = self.parameters
        lamp = p.lamps[channel]
        photons = self._lamps[channel] * lamp.power_w * lamp.efficacy_umol_j
        return photons * p.utilisation / p.growing_area_m2

    def _daylight_lux(self, now: float) -> float:
        """Half a sine wave from sunrise to sunset."""
        p = self.parameters
        hour = self._since_midnight(now) / 3600.0
        if not p.sunrise_h < hour < p.sunset_h:
            return 0.0
        return p.daylight_lux * math.sin(math.pi * (hour - p.sunrise_h) / (p.sunset_h - p.sunrise_h))


class _Lit(NamedTuple):
    """Light at leaf height and heat of the lamps, with these parameters."""

    parameters: ChamberParameters
    ppfd_umol_m2_s: float
    power_w: float


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


def step(parameters: ChamberParameters, state: AirState, inputs: AirInputs, seconds: float) -> AirState:
    """The state `seconds` after `state`, under constant `inputs`.

    An exponential midpoint rule: of second order, and exact for linear terms. No rate depends on humidity,
    so the midpoint is calculated without it.
    """
    p, (ppm, degc, vapour) = parameters, state
    flows = exchange, _ = _flows_per_s(p, inputs)
    warming = _temperature_rates(p, inputs, exchange)
    rates = _carbon_dioxide_rates(p, ppm, degc, inputs, flows)
    ppm_middle = _balance(ppm, *rates, seconds / 2.0)
    degc_middle = _balance(degc, *warming, seconds / 2.0)
    rates = _carbon_dioxide_rates(p, ppm_middle, degc_middle, inputs, flows)
    moistening = _vapour_rates(p, degc_middle, inputs, flows)
    degc_end = _balance(degc, *warming, seconds)
    return AirState(
        _balance(ppm, *rates, seconds),
        degc_end,
        min(
            max(0.0, _balance(vapour, *moistening, seconds)), saturation_vapour_g_m3(degc_end)
        ),  # the rest condenses
    )


def gross_photosynthesis(
    parameters: ChamberParameters, carbon_dioxide_ppm: float, temperature_degc: float, ppfd_umol_m2_s: float
) -> float:
    """CO2 uptake of the stand without respiration, in umol per m2 of growing area and s.

    The rectangular hyperbola of Goudriaan in light and CO2, with the values for lettuce of Van Henten 1994
    (Agric. Syst. 45:55). Below the compensation point it is 0.
    """
    point = compensation_point_ppm(parameters, temperature_degc)
    return _gross(parameters, carbon_dioxide_ppm, temperature_degc, ppfd_umol_m2_s, point)


def compensation_point_ppm(parameters: ChamberParameters, temperature_degc: float) -> float:
    """CO2 at which gross photosynthesis ends."""
    return parameters.compensation_point_ppm * math.pow(2.0, (temperature_degc - 20.0) / 10.0)


def saturation_vapour_g_m3(temperature_degc: float) -> float:
    """Density of saturated water vapour (Magnus form of Alduchov and Eskridge 1996, then the gas law)."""
    pressure_pa = 610.94 * math.exp(17.625 * temperature_degc / (temperature_degc + 243.04))
    return 18.016 * pressure_pa / (_GAS_CONSTANT * (temperature_degc + _ZERO_DEGC_K))


def _gross(
    p: ChamberParameters, carbon_dioxide_ppm: float, temperature_degc: float, ppfd: float, point: float
) -> float:
    """`gross_photosynthesis` with a given compensation point."""
    above = carbon_dioxide_ppm - point
    if above <= 0.0 or ppfd <= 0.0:
        return 0.0
    efficiency = p.light_use_g_j * 1e6 / _CO2_G_MOL * above / (above + 3.0 * (carbon_dioxide_ppm - above))
    of_light = efficiency * ppfd / p.par_umol_j
    moles_m3 = _PRESSURE_PA / (_GAS_CONSTANT * (temperature_degc + _ZERO_DEGC_K))
    of_carbon_dioxide = _leaf_conductance(p, temperature_degc) * above * moles_m3
    if of_light <= 0.0 or of_carbon_dioxide <= 0.0:  # underflow
        return 0.0
    intercepted = -math.expm1(-p.extinction * p.leaf_area_index)
    return intercepted * of_light * of_carbon_dioxide / (of_light + of_carbon_dioxide)


def _carbon_dioxide_rates(
    p: ChamberParameters, ppm: float, degc: float, inputs: AirInputs, flows: tuple[float, float]
) -> tuple[float, float]:
    """Inflow in ppm/s and loss rate in 1/s, by air exchange, valve and plants.

    Uptake is written as rate (C - compensation point), its form near that point.
    """
    exchange, valve = flows
    moles = _PRESSURE_PA * p.volume_m3 / (_GAS_CONSTANT * (degc + _ZERO_DEGC_K))
    ppm_per_umol_m2 = p.growing_area_m2 / moles  # umol in mol of air is ppm
    warmth = math.pow(2.0, (degc - 25.0) / 10.0)
    respiration = p.dark_respiration_umol_m2_s * warmth * ppm_per_umol_m2
    point = compensation_point_ppm(p, degc)
    gross = _gross(p, ppm, degc, inputs.ppfd_umol_m2_s, point)
    uptake = gross * ppm_per_umol_m2 / (ppm - point) if gross else 0.0
    inflow = exchange * inputs.room.carbon_dioxide_ppm + valve * 1e6 + respiration + uptake * point
    return inflow, exchange + valve + uptake


def _temperature_rates(p: ChamberParameters, inputs: AirInputs, exchange: float) -> tuple[float, float]:
    conductance_w_k = p.heat_loss_w_k + exchange * p.volume_m3 * _AIR_J_M3_K
    rate = conductance_w_k / p.heat_capacity_j_k
    heat_w = inputs.lamp_power_w + inputs.heat_w
    return heat_w / p.heat_capacity_j_k + rate * inputs.room.temperature_degc, rate


def _vapour_rates(
    p: ChamberParameters, degc: float, inputs: AirInputs, flows: tuple[float, float]
) -> tuple[float, float]:
    """Exchange with the room, displacement by the valve, and transpiration."""
    exchange, valve = flows
    light = inputs.ppfd_umol_m2_s
    stomata = p.stomatal_resistance_s_m * (1500.0 + light) / (200.0 + light)
    leaves_m2 = p.leaf_area_index * p.growing_area_m2
    transpiration = leaves_m2 / (stomata + p.aerodynamic_resistance_s_m) / p.volume_m3
    inflow = exchange * inputs.room.vapour_g_m3 + transpiration * saturation_vapour_g_m3(degc)
    inflow += inputs.moisture_g_s / p.volume_m3
    return inflow, exchange + valve + transpiration


def _flows_per_s(p: ChamberParameters, inputs: AirInputs) -> tuple[float, float]:
    """Air exchange with the room, and displacement of air by pure CO2, in 1/s."""
    fan = p.fan_flow_l_min / _LITRES_PER_MINUTE / p.volume_m3 * inputs.fan
    exchange = p.leak_per_h / 3600.0 + fan + (p.door_exchange_per_s if inputs.door_open else 0.0)
    valve = p.valve_flow_l_min / _LITRES_PER_MINUTE / p.volume_m3 * inputs.valve
    return exchange, valve


def _leaf_conductance(p: ChamberParameters, temperature_degc: float) -> float:
    """From air to chloroplasts for CO2, in m/s (Van Henten 1994); none below 5 degC and above 40 degC."""
    t = temperature_degc
    carboxylation = -1.32e-5 * t * t + 5.94e-4 * t - 2.64e-3
    if carboxylation <= 0.0:
        return 0.0
    return 1.0 / (1.0 / p.boundary_conductance_m_s + 1.0 / p.stomatal_conductance_m_s + 1.0 / carboxylation)


def _door_times(p: ChamberParameters) -> list[float]:
    """Seconds after midnight at which the door opens or closes."""
    opened = [hour * 3600.0 for hour in p.door_hours]
    return [second % _DAY_S for opening in opened for second in (opening, opening + p.door_open_s)]


def _balance(value: float, inflow: float, rate: float, seconds: float) -> float:
    """The exact solution of dx/dt = inflow - rate x after `seconds`, for any `rate` from 0."""
    effective_s = -math.expm1(-rate * seconds) / rate if rate > 0 else seconds
    return value + (inflow - rate * value) * effective_s
