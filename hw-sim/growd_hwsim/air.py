"""Carbon dioxide, heat and vapour in the air of the simulated chamber, and heat and water on its walls.

Each follows a balance dx/dt = a - b x; air and walls are one of two equations. A step takes a and b at its
middle and solves the balances exactly, so that steps of any length are stable and agree. What leaves one
store is computed once and enters the other, so that water and energy are conserved exactly. The amount of
air is constant. Heat is counted from liquid water at any temperature.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from growd_hwsim.physics import (
    AIR_J_M3_K,
    GAS_CONSTANT,
    LATENT_J_G,
    PRESSURE_PA,
    ZERO_DEGC_K,
    balance,
    exactly,
    saturation_vapour_g_m3,
)
from growd_hwsim.plants import compensation_point_ppm, gross

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd_hwsim.parameters import ChamberParameters
    from growd_hwsim.plants import Stand

_LITRES_PER_MINUTE = 60_000.0  # in 1 m3/s


class RoomAir(NamedTuple):
    """The air around the chamber."""

    carbon_dioxide_ppm: float
    temperature_degc: float
    vapour_g_m3: float


class AirState(NamedTuple):
    """The air in the chamber, the temperature of the walls, and the film of water on them."""

    carbon_dioxide_ppm: float
    temperature_degc: float
    vapour_g_m3: float
    wall_degc: float
    film_g: float = 0.0


class AirFlows(NamedTuple):
    """What actuators, leaks and the door do to the air."""

    exchange_per_s: float
    """Air exchange with the room, in volumes of the chamber."""
    exchange_w_k: float
    """Heat that it carries."""
    valve_per_s: float
    """Displacement of air by pure CO2."""
    inner_w_k: float
    coil_w_k: float
    coil_per_s: float
    dehumidified_per_s: float
    mist_g_s: float
    heat_w: float


class AirInputs(NamedTuple):
    """Influences on the air during a step."""

    room: RoomAir
    flows: AirFlows
    stand: Stand
    ppfd_umol_m2_s: float = 0.0
    leaves_m3_s: float = 0.0
    """Conductance of the leaves for vapour."""
    heat_w: float = 0.0
    """Of the lamps, and from the tank."""
    carbon_dioxide_mol_s: float = 0.0
    """From the tank."""
    tank_vapour_g_m3: float = 0.0
    """At the surface of the water."""
    tank_surface_m3_s: float = 0.0
    """Conductance from there to the air."""


class Moved(NamedTuple):
    """What moved during a step, or since the start."""

    carbon_dioxide_in_mol: float = 0.0
    """From room and valve, less what left."""
    uptake_mol: float = 0.0
    """CO2 that the plants took up, less what they released."""
    heat_in_j: float = 0.0
    """From lamps, actuators, tank and room to air and walls, less what left, without vapour."""
    vapour_in_g: float = 0.0
    """From the room, less what left."""
    mist_g: float = 0.0
    """From the humidifier."""
    transpired_g: float = 0.0
    evaporated_g: float = 0.0
    """From the tank."""
    on_coil_g: float = 0.0
    """Condensed on the coil of the cooler, and drained."""
    dehumidified_g: float = 0.0
    drained_g: float = 0.0
    """Water that ran off the walls."""


class _Vapour(NamedTuple):
    end: float
    mean: float
    on_walls_g: float
    on_coil_g: float
    dehumidified_g: float


def air_flows(p: ChamberParameters, levels: Mapping[str, float], door_open: bool) -> AirFlows:  # noqa: FBT001  one of the causes
    """The flows with actuators at these levels (0..1)."""
    circulation, dehumidifier = levels["circulation"], levels["dehumidifier"]
    fan = levels["fan"] * p.fan_flow_l_min / _LITRES_PER_MINUTE / p.volume_m3
    coil_w_k = levels["cooler"] * p.cooler_w_k
    exchange = p.leak_per_h / 3600.0 + fan + (p.door_exchange_per_s if door_open else 0.0)
    return AirFlows(
        exchange,
        exchange * p.volume_m3 * AIR_J_M3_K,
        levels["valve"] * p.valve_flow_l_min / _LITRES_PER_MINUTE / p.volume_m3,
        p.inner_conductance_w_k * (1.0 + p.circulation_gain * circulation),
        coil_w_k,
        coil_w_k / AIR_J_M3_K / p.volume_m3,  # Lewis relation
        dehumidifier * p.dehumidifier_m3_s / p.volume_m3,
        levels["humidifier"] * p.humidifier_g_h / 3600.0,
        levels["heater"] * p.heater_w + dehumidifier * p.dehumidifier_w + circulation * p.circulation_w,
    )


def air_mol(p: ChamberParameters) -> float:
    """The amount of air in the chamber, taken at the temperature of the room."""
    return PRESSURE_PA * p.volume_m3 / (GAS_CONSTANT * (p.ambient_temperature_degc + ZERO_DEGC_K))


def step(p: ChamberParameters, state: AirState, inputs: AirInputs, seconds: float) -> tuple[AirState, Moved]:
    """The state `seconds` (above 0) later under constant `inputs`, by an exponential midpoint rule."""
    flows, room = inputs.flows, inputs.room
    given_w = inputs.heat_w + flows.heat_w + flows.coil_w_k * p.cooler_coil_degc
    given_w += flows.exchange_w_k * room.temperature_degc
    degc = _middle_degc(p, state, inputs, given_w, seconds)
    vapour = _vapour(p, state, inputs, degc, seconds)
    transpired_g = inputs.leaves_m3_s * (saturation_vapour_g_m3(degc) - vapour.mean) * seconds
    evaporated_g = inputs.tank_surface_m3_s * (inputs.tank_vapour_g_m3 - vapour.mean) * seconds
    mist_g = flows.mist_g_s * seconds
    cooled_g = transpired_g + evaporated_g + mist_g - vapour.dehumidified_g
    air_w = given_w - LATENT_J_G / seconds * cooled_g
    outside_w = p.outer_conductance_w_k * room.temperature_degc
    wall_w = outside_w + LATENT_J_G / seconds * vapour.on_walls_g
    air_end, wall_end, air_mean, wall_mean = _two_nodes(p, state, flows, (air_w, wall_w), seconds)
    ppm_end, ppm_mean, uptake_mol = _carbon_dioxide(p, state, inputs, degc, seconds)
    air_end, vapour_end, fog_g = _without_fog(p, air_end, vapour.end)
    film_g = max(0.0, state.film_g + vapour.on_walls_g + fog_g)
    drained_g = max(0.0, film_g - p.film_capacity_g)
    lost_w = (flows.exchange_w_k + flows.coil_w_k) * air_mean + p.outer_conductance_w_k * wall_mean
    ppm_s = flows.exchange_per_s * (room.carbon_dioxide_ppm - ppm_mean) + flows.valve_per_s * (1e6 - ppm_mean)
    vapour_g_s = flows.exchange_per_s * (room.vapour_g_m3 - vapour.mean) - flows.valve_per_s * vapour.mean
    return AirState(ppm_end, air_end, vapour_end, wall_end, film_g - drained_g), Moved(
        ppm_s * seconds * air_mol(p) / 1e6,
        uptake_mol,
        (given_w + outside_w - lost_w) * seconds,
        vapour_g_s * seconds * p.volume_m3,
        mist_g,
        transpired_g,
        evaporated_g,
        vapour.on_coil_g,
        vapour.dehumidified_g,
        drained_g,
    )


def _middle_degc(
    p: ChamberParameters, state: AirState, inputs: AirInputs, given_w: float, seconds: float
) -> float:
    """The air in the middle of the step, with the walls and the evaporation of its beginning."""
    flows, (_, degc, vapour, wall, _) = inputs.flows, state
    evaporating_g_s = inputs.leaves_m3_s * (saturation_vapour_g_m3(degc) - vapour)
    evaporating_g_s += inputs.tank_surface_m3_s * (inputs.tank_vapour_g_m3 - vapour)
    evaporating_g_s += flows.mist_g_s
    into_w = given_w + flows.inner_w_k * wall - LATENT_J_G * evaporating_g_s
    rate = (flows.exchange_w_k + flows.inner_w_k + flows.coil_w_k) / p.air_heat_capacity_j_k
    return balance(degc, into_w / p.air_heat_capacity_j_k, rate, seconds / 2.0)


def _vapour(p: ChamberParameters, state: AirState, inputs: AirInputs, degc: float, seconds: float) -> _Vapour:
    """Vapour by air exchange, valve, leaves, tank, humidifier, cold coils and walls.

    Coils only take water; the walls give back at most their film.
    """
    flows, volume, vapour, film = inputs.flows, p.volume_m3, state.vapour_g_m3, state.film_g / p.volume_m3
    leaves, tank = inputs.leaves_m3_s / volume, inputs.tank_surface_m3_s / volume
    inflow = flows.exchange_per_s * inputs.room.vapour_g_m3 + leaves * saturation_vapour_g_m3(degc)
    inflow += tank * inputs.tank_vapour_g_m3 + flows.mist_g_s / volume
    rate = flows.exchange_per_s + flows.valve_per_s + leaves + tank
    at_wall = saturation_vapour_g_m3(state.wall_degc)
    at_coil = saturation_vapour_g_m3(p.cooler_coil_degc) if flows.coil_per_s else math.inf
    at_drier = saturation_vapour_g_m3(p.dehumidifier_coil_degc) if flows.dehumidified_per_s else math.inf
    coil = flows.coil_per_s if vapour > at_coil else 0.0
    drier = flows.dehumidified_per_s if vapour > at_drier else 0.0
    wall = p.wall_vapour_m3_s / volume if film or vapour > at_wall else 0.0
    dried = 0.0
    while True:
        source = inflow + (wall and wall * at_wall) + (coil and coil * at_coil) + (drier and drier * at_drier)
        end, mean = exactly(vapour, source, rate + wall + coil + drier, seconds)
        if coil and mean < at_coil:
            coil = 0.0
        elif drier and mean < at_drier:
            drier = 0.0
        elif wall and wall * (mean - at_wall) * seconds < -film:
            wall, dried = 0.0, film
            inflow += film / seconds
        else:
            break
    scale = volume * seconds
    return _Vapour(
        end,
        mean,
        wall * (mean - at_wall) * scale - dried * volume,
        coil and coil * (mean - at_coil) * scale,
        drier and drier * (mean - at_drier) * scale,
    )


def _two_nodes(
    p: ChamberParameters, state: AirState, flows: AirFlows, given_w: tuple[float, float], seconds: float
) -> tuple[float, float, float, float]:
    """Air and walls at the end, and their means: x' = M x + u, by the eigenvalues of M."""
    inner = flows.inner_w_k
    a = (flows.exchange_w_k + flows.coil_w_k + inner) / p.air_heat_capacity_j_k
    b = inner / p.air_heat_capacity_j_k
    c = inner / p.wall_heat_capacity_j_k
    d = (p.outer_conductance_w_k + inner) / p.wall_heat_capacity_j_k
    air_in, wall_in = given_w[0] / p.air_heat_capacity_j_k, given_w[1] / p.wall_heat_capacity_j_k
    determinant = a * d - b * c
    air_rest = (d * air_in + b * wall_in) / determinant
    wall_rest = (c * air_in + a * wall_in) / determinant
    half = math.sqrt((a - d) * (a - d) / 4.0 + b * c)
    slow, fast = half - (a + d) / 2.0, -half - (a + d) / 2.0
    of_slow, of_fast = math.exp(slow * seconds), math.exp(fast * seconds)
    one = (of_slow - of_fast) / (2.0 * half)
    zero = of_slow - slow * one
    air, wall = state.temperature_degc - air_rest, state.wall_degc - wall_rest
    air_end = air_rest + zero * air + one * (b * wall - a * air)
    wall_end = wall_rest + zero * wall + one * (c * air - d * wall)
    air_gone, wall_gone = state.temperature_degc - air_end, state.wall_degc - wall_end
    air_mean = air_rest + (d * air_gone + b * wall_gone) / determinant / seconds
    wall_mean = wall_rest + (c * air_gone + a * wall_gone) / determinant / seconds
    return air_end, wall_end, air_mean, wall_mean


def _carbon_dioxide(
    p: ChamberParameters, state: AirState, inputs: AirInputs, degc: float, seconds: float
) -> tuple[float, float, float]:
    """CO2 at the end, its mean, and the net uptake in mol; by air exchange, valve, plants and tank."""
    ppm, flows, mol = state.carbon_dioxide_ppm, inputs.flows, air_mol(p)
    given = flows.exchange_per_s * inputs.room.carbon_dioxide_ppm + flows.valve_per_s * 1e6
    given += inputs.carbon_dioxide_mol_s / mol * 1e6
    lost = flows.exchange_per_s + flows.valve_per_s
    released, taken = _plant_rates(p, inputs, ppm, state.temperature_degc, mol)
    middle = balance(ppm, given + released, lost + taken, seconds / 2.0)
    released, taken = _plant_rates(p, inputs, middle, degc, mol)
    end, mean = exactly(ppm, given + released, lost + taken, seconds)
    return end, mean, (taken * mean - released) * seconds * mol / 1e6


def _plant_rates(
    p: ChamberParameters, inputs: AirInputs, ppm: float, degc: float, mol: float
) -> tuple[float, float]:
    """What the plants release in ppm/s, and the rate in 1/s at which they take up CO2.

    Uptake is written as rate (C - compensation point), its form near that point.
    """
    stand, ppm_per_umol_m2 = inputs.stand, p.growing_area_m2 / mol  # umol in mol of air is ppm
    respiration = stand.respiration_umol_m2_s * math.pow(2.0, (degc - 25.0) / 10.0) * ppm_per_umol_m2
    point = compensation_point_ppm(p, degc)
    uptake = gross(p, stand.intercepted, ppm, degc, inputs.ppfd_umol_m2_s)
    taken = uptake * ppm_per_umol_m2 / (ppm - point) if uptake else 0.0
    return respiration + taken * point, taken


def _without_fog(p: ChamberParameters, degc: float, vapour: float) -> tuple[float, float, float]:
    """Air and vapour after what is beyond saturation has condensed and warmed the air; the water in g."""
    saturated = saturation_vapour_g_m3(degc)
    if vapour <= saturated:
        return degc, vapour, 0.0
    warming = LATENT_J_G * p.volume_m3 / p.air_heat_capacity_j_k  # K for each g/m3
    slope = saturated * (17.625 * 243.04 / (degc + 243.04) ** 2 - 1.0 / (degc + ZERO_DEGC_K))
    excess = (vapour - saturated) / (1.0 + warming * slope)
    return degc + warming * excess, vapour - excess, excess * p.volume_m3
