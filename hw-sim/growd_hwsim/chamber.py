"""A model of the air, the light and the plants in a small growing chamber.

Carbon dioxide, temperature and water vapour each follow a balance dx/dt = a - b x. Within a step a and b are
held and the balance is solved exactly, so that any step is stable and none overshoots: the model can run at
any speed and after any pause. Reading the chamber brings it up to the present.
"""

from __future__ import annotations

import math
import random
import threading
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STEP_S = 10.0
"""Longest step as long as the pause is not very long."""
MAXIMUM_STEPS = 2000
"""Steps after the longest of pauses: bounds the time that a reading can take."""

_DAY_S = 86_400.0
_GAS_CONSTANT = 8.314  # J/(mol K)
_PRESSURE_PA = 101_325.0
_ZERO_DEGC_K = 273.15


@dataclass(frozen=True)
class Lamp:
    """One lamp channel at full power: illuminance and PPFD at the sensor's and leaves' height, and power.

    Lux per umol/m2/s follow from the spectrum: white LED some 67 (Sharakshane 2018, bioRxiv 215095); red
    660 nm 7.5 and blue 450 nm 6.9 from the CIE luminosity function, 683 lm/W.
    """

    illuminance_lux: float
    ppfd_umol_m2_s: float
    power_w: float


_LAMPS = {
    "white": Lamp(20_000.0, 300.0, 30.0),
    "red": Lamp(1_100.0, 150.0, 12.0),
    "blue": Lamp(550.0, 80.0, 10.0),
}


@dataclass(frozen=True)
class ChamberParameters:
    """A bench-top chamber of 100 l with a tray of young lettuce. Units in the names."""

    # air exchange
    volume_m3: float = 0.1
    leak_per_h: float = 1.5  # air changes; a cabinet with gaps round door and fan
    ambient_carbon_dioxide_ppm: float = 420.0  # NOAA global mean of 2023 is 419.3
    ambient_temperature_degc: float = 22.0
    ambient_humidity_percent: float = 45.0
    valve_flow_l_min: float = 0.05  # pure CO2 at the air's temperature and pressure
    fan_flow_l_min: float = 60.0

    # plants: non-rectangular hyperbola (Thornley 1976, Mathematical Models in Plant Physiology; Marshall and
    # Biscoe 1980, J. Exp. Bot. 31:29), with the leaf constants usual for C3 crops
    leaf_area_m2: float = 0.05
    quantum_yield: float = 0.05  # mol CO2 per mol photons
    curvature: float = 0.7  # 0 is the rectangular hyperbola, 1 Blackman's two lines
    maximum_photosynthesis_umol_m2_s: float = 20.0
    dark_respiration_umol_m2_s: float = 1.0  # at 25 degC, doubling each 10 degC (Q10 = 2)
    compensation_point_ppm: float = 45.0  # Farquhar et al. 1980, without respiration
    half_saturation_ppm: float = 400.0  # Michaelis-Menten in CO2
    reference_carbon_dioxide_ppm: float = 420.0  # where the light response above was measured

    # light
    lamps: Mapping[str, Lamp] = field(default_factory=lambda: MappingProxyType(_LAMPS))
    daylight_lux: float = 300.0  # at noon, through the window of the chamber
    daylight_lux_per_umol: float = 54.0  # Thimijan and Heins 1983, HortScience 18:818
    sunrise_h: float = 6.0
    sunset_h: float = 18.0

    # heat
    heat_capacity_j_k: float = 8_000.0  # walls and water more than air
    heat_loss_w_k: float = 8.0

    # vapour: conductance of leaves and boundary layer together
    leaf_conductance_dark_m_s: float = 0.0003
    leaf_conductance_light_m_s: float = 0.0010
    stomata_open_umol_m2_s: float = 100.0  # PPFD at which they are half open


@dataclass(frozen=True)
class Air:
    """What a sensor of air meets."""

    carbon_dioxide_ppm: float
    temperature_degc: float
    humidity_percent: float


class Chamber:
    """The chamber at the present of `monotonic`; safe to use from several threads.

    It starts with the air of the room, lamps off, at `time_of_day_s` seconds after midnight. The room drifts
    a little (people come and go): a function of time and `seed` alone, so that the same seed and the same
    commands at the same times give the same chamber, however often it is read.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        parameters: ChamberParameters | None = None,
        *,
        seed: int = 0,
        time_of_day_s: float = 8 * 3600.0,
    ) -> None:
        self.parameters = parameters or ChamberParameters()
        self._monotonic = monotonic
        self._start = self._now = monotonic()
        self._time_of_day_s = time_of_day_s
        self._room = _Drift(seed)
        self._lamps = dict.fromkeys(self.parameters.lamps, 0.0)
        self._carbon_dioxide_ppm = self.parameters.ambient_carbon_dioxide_ppm
        self._temperature_degc = self.parameters.ambient_temperature_degc
        self._vapour_g_m3 = self._room_vapour()
        self._valve_open = self._fan_on = False
        self._lock = threading.Lock()

    def set_valve(self, is_open: bool) -> None:  # noqa: FBT001  its name says it
        """Let carbon dioxide in through the valve, or no more, from now on."""
        with self._lock:
            self._advance()
            self._valve_open = is_open

    def set_fan(self, is_on: bool) -> None:  # noqa: FBT001  its name says it
        """Run the exhaust fan, or stop it, from now on."""
        with self._lock:
            self._advance()
            self._fan_on = is_on

    def set_lamp(self, channel: str, fraction: float) -> None:
        """Light a channel with `fraction` (0..1) of its full power from now on."""
        if channel not in self._lamps:
            raise ValueError(f"the chamber has no lamp {channel!r}, only {', '.join(sorted(self._lamps))}")
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"lamp {channel}: fraction must be 0..1, not {fraction}")
        with self._lock:
            self._advance()
            self._lamps[channel] = fraction

    def air(self) -> Air:
        """The air at the sensor now."""
        with self._lock:
            self._advance()
            saturation = saturation_vapour_g_m3(self._temperature_degc)
            humidity = min(100.0 * self._vapour_g_m3 / saturation, 100.0)
            return Air(self._carbon_dioxide_ppm, self._temperature_degc, humidity)

    def illuminance_lux(self) -> float:
        """The light at the sensor now, as the eye weighs it."""
        with self._lock:
            lamps = self.parameters.lamps
            lit = sum(lamps[channel].illuminance_lux * part for channel, part in self._lamps.items())
            return lit + self._daylight_lux(self._monotonic())

    def ppfd_umol_m2_s(self) -> float:
        """The photons that plants use, at leaf height now."""
        with self._lock:
            return self._ppfd(self._monotonic())

    def _advance(self) -> None:
        elapsed = self._monotonic() - self._now
        if elapsed <= 0:
            return
        steps = min(math.ceil(elapsed / STEP_S), MAXIMUM_STEPS)
        begun = self._now
        for step in range(steps):
            self._step(elapsed / steps)
            self._now = begun + elapsed * (step + 1) / steps

    def _step(self, seconds: float) -> None:
        ppfd = self._ppfd(self._now + seconds / 2)
        self._step_carbon_dioxide(seconds, ppfd)
        self._step_temperature(seconds)
        self._step_vapour(seconds, ppfd)

    def _step_carbon_dioxide(self, seconds: float, ppfd: float) -> None:
        """Leak to the room, respiration and injection in, uptake g (C - compensation point) out."""
        p = self.parameters
        exchange = self._exchange_per_s()
        ppm_per_umol = 1.0 / self._moles_of_air()  # umol in mol of air is ppm
        respiration = p.leaf_area_m2 * p.dark_respiration_umol_m2_s * self._q10()
        valve = p.valve_flow_l_min / 60_000.0 / p.volume_m3 * 1e6 if self._valve_open else 0.0
        gained = respiration * ppm_per_umol + valve
        uptake = p.leaf_area_m2 * self._photosynthesis_per_ppm(ppfd) * ppm_per_umol
        room = p.ambient_carbon_dioxide_ppm + 8.0 * self._room.at(self._now - self._start)
        inflow = exchange * room + gained + uptake * p.compensation_point_ppm
        self._carbon_dioxide_ppm = _balance(self._carbon_dioxide_ppm, inflow, exchange + uptake, seconds)

    def _step_temperature(self, seconds: float) -> None:
        p = self.parameters
        lamps = sum(p.lamps[channel].power_w * part for channel, part in self._lamps.items())
        room = p.ambient_temperature_degc + 0.5 * self._room.at(self._now - self._start)
        loss = p.heat_loss_w_k / p.heat_capacity_j_k
        inflow = lamps / p.heat_capacity_j_k + loss * room
        self._temperature_degc = _balance(self._temperature_degc, inflow, loss, seconds)

    def _step_vapour(self, seconds: float, ppfd: float) -> None:
        """Exchange with the room and transpiration; what is beyond saturation condenses."""
        p = self.parameters
        opening = ppfd / (ppfd + p.stomata_open_umol_m2_s)
        dark, light = p.leaf_conductance_dark_m_s, p.leaf_conductance_light_m_s
        transpiration = (dark + (light - dark) * opening) * p.leaf_area_m2 / p.volume_m3
        exchange = self._exchange_per_s()
        saturation = saturation_vapour_g_m3(self._temperature_degc)
        inflow = exchange * self._room_vapour() + transpiration * saturation
        vapour = _balance(self._vapour_g_m3, inflow, exchange + transpiration, seconds)
        self._vapour_g_m3 = min(vapour, saturation)

    def _exchange_per_s(self) -> float:
        p = self.parameters
        fan = p.fan_flow_l_min / 60_000.0 / p.volume_m3 if self._fan_on else 0.0
        return p.leak_per_h / 3600.0 + fan

    def _photosynthesis_per_ppm(self, ppfd: float) -> float:
        """Gross photosynthesis in umol/m2/s for each ppm above the compensation point, at the present CO2."""
        p = self.parameters
        at_reference = light_response(ppfd, p.quantum_yield, p.maximum_photosynthesis_umol_m2_s, p.curvature)
        reference = p.reference_carbon_dioxide_ppm - p.compensation_point_ppm
        above = max(self._carbon_dioxide_ppm - p.compensation_point_ppm, 0.0)
        return (
            at_reference / reference * (reference + p.half_saturation_ppm) / (above + p.half_saturation_ppm)
        )

    def _q10(self) -> float:
        return math.pow(2.0, (self._temperature_degc - 25.0) / 10.0)

    def _moles_of_air(self) -> float:
        kelvin = self._temperature_degc + _ZERO_DEGC_K
        return _PRESSURE_PA * self.parameters.volume_m3 / (_GAS_CONSTANT * kelvin)

    def _room_vapour(self) -> float:
        p = self.parameters
        return p.ambient_humidity_percent / 100.0 * saturation_vapour_g_m3(p.ambient_temperature_degc)

    def _ppfd(self, now: float) -> float:
        lamps = self.parameters.lamps
        lit = sum(lamps[channel].ppfd_umol_m2_s * part for channel, part in self._lamps.items())
        return lit + self._daylight_lux(now) / self.parameters.daylight_lux_per_umol

    def _daylight_lux(self, now: float) -> float:
        """Half a sine wave from sunrise to sunset."""
        p = self.parameters
        hour = (self._time_of_day_s + now - self._start) % _DAY_S / 3600.0
        if not p.sunrise_h < hour < p.sunset_h:
            return 0.0
        return p.daylight_lux * math.sin(math.pi * (hour - p.sunrise_h) / (p.sunset_h - p.sunrise_h))


class _Drift:
    """A slow wander within -1..1: three sine waves with phases from the seed."""

    _PERIODS_S = (5 * 3600.0, 97 * 60.0, 23 * 60.0)

    def __init__(self, seed: int) -> None:
        phases = random.Random(f"room {seed}")  # noqa: S311  a seed, not secrets
        self._phases = [phases.uniform(0.0, 2.0 * math.pi) for _ in self._PERIODS_S]

    def at(self, time: float) -> float:
        waves = zip(self._PERIODS_S, self._phases, strict=True)
        return sum(math.sin(2.0 * math.pi * time / period + phase) for period, phase in waves) / 3.0


def light_response(ppfd: float, quantum_yield: float, maximum: float, curvature: float) -> float:
    """Gross photosynthesis in umol/m2/s: the smaller root of the non-rectangular hyperbola.

    curvature P^2 - (quantum_yield I + maximum) P + quantum_yield I maximum = 0 (Thornley 1976).
    """
    initial = quantum_yield * ppfd
    total = initial + maximum
    # The usual (total - root) / (2 curvature) loses its digits near 0 and fails at curvature 0.
    root = math.sqrt(total * total - 4.0 * curvature * initial * maximum)
    return 2.0 * initial * maximum / (total + root)


def saturation_vapour_g_m3(temperature_degc: float) -> float:
    """Density of saturated water vapour (Magnus form of Alduchov and Eskridge 1996, then the gas law)."""
    pressure_pa = 610.94 * math.exp(17.625 * temperature_degc / (temperature_degc + 243.04))
    return 18.016 * pressure_pa / (_GAS_CONSTANT * (temperature_degc + _ZERO_DEGC_K))


def _balance(value: float, inflow: float, rate: float, seconds: float) -> float:
    """The exact solution of dx/dt = inflow - rate x after `seconds`, for any `rate` from 0."""
    effective_s = -math.expm1(-rate * seconds) / rate if rate > 0 else seconds
    return value + (inflow - rate * value) * effective_s
