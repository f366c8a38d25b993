"""Steps of the simulated air: stable, accurate, and with nothing made or lost."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growd_hwsim.actuators import ACTUATORS
from growd_hwsim.air import AirInputs, AirState, RoomAir, air_flows, air_mol, step
from growd_hwsim.parameters import ChamberParameters
from growd_hwsim.physics import LATENT_J_G, saturation_vapour_g_m3
from growd_hwsim.plants import gross_photosynthesis, stand

P = ChamberParameters()
ROOM = RoomAir(420.0, 22.0, 8.7)
START = AirState(420.0, 22.0, 8.7, 22.0)
PLANTS, NO_PLANTS = stand(P), stand(P, 0.0)
LEAVES_M3_S = 5e-4
DRIVEN = ("door", "valve", "fan", "heater", "cooler", "humidifier", "dehumidifier", "circulation")

temperatures = st.floats(6, 39)
states = st.builds(
    lambda ppm, air, wall, humidity, film: AirState(
        ppm, air, humidity * saturation_vapour_g_m3(air), wall, film
    ),
    st.floats(0, 40_000),
    temperatures,
    temperatures,
    st.floats(0, 1),
    st.sampled_from([0.0, 1e-3, 5.0, 90.0]),
)
levels = st.fixed_dictionaries({name: st.sampled_from([0.0, 0.0, 1.0]) | st.floats(0, 1) for name in DRIVEN})


def flows(**at):
    return air_flows(P, dict.fromkeys(ACTUATORS, 0.0) | at, bool(at.get("door")))


inputs = st.builds(
    AirInputs,
    room=st.just(ROOM),
    flows=st.builds(lambda at: flows(**at), levels),
    stand=st.just(PLANTS),
    ppfd_umol_m2_s=st.floats(0, 2000),
    leaves_m3_s=st.floats(0, LEAVES_M3_S),
    heat_w=st.floats(0, 100),
    carbon_dioxide_mol_s=st.floats(0, 1e-6),
    tank_vapour_g_m3=st.builds(saturation_vapour_g_m3, st.floats(5, 35)),
    tank_surface_m3_s=st.just(P.tank.surface_m3_s),
)


def energy_j(state):
    return (
        P.air_heat_capacity_j_k * state.temperature_degc
        + P.wall_heat_capacity_j_k * state.wall_degc
        + LATENT_J_G * P.volume_m3 * state.vapour_g_m3
    )


def water_g(state):
    return P.volume_m3 * state.vapour_g_m3 + state.film_g


@settings(max_examples=300)
@given(states, inputs, st.floats(1e-3, 1e6))
def test_no_step_makes_or_loses_water_heat_or_carbon_dioxide(state, acting, seconds):
    after, moved = step(P, state, acting, seconds)
    given_mol = moved.carbon_dioxide_in_mol + acting.carbon_dioxide_mol_s * seconds - moved.uptake_mol
    before_mol, after_mol = (each.carbon_dioxide_ppm * air_mol(P) / 1e6 for each in (state, after))
    assert after_mol - before_mol == pytest.approx(
        given_mol, rel=1e-9, abs=1e-9 * (1 + abs(moved.uptake_mol))
    )
    given_g = moved.vapour_in_g + moved.mist_g + moved.transpired_g + moved.evaporated_g
    taken_g = moved.on_coil_g + moved.dehumidified_g + moved.drained_g
    scale = max(abs(given_g), taken_g, 1.0)
    assert water_g(after) - water_g(state) == pytest.approx(given_g - taken_g, abs=1e-8 * scale)
    given_j = moved.heat_in_j + LATENT_J_G * (moved.vapour_in_g - moved.on_coil_g)
    scale = max(abs(moved.heat_in_j), 1e3, LATENT_J_G * abs(moved.vapour_in_g))
    assert energy_j(after) - energy_j(state) == pytest.approx(given_j, abs=1e-7 * scale)


@settings(max_examples=200)
@given(states, inputs, st.floats(1e-3, 1e7))
def test_any_step_stays_within_what_is_physical(state, acting, seconds):
    after, moved = step(P, state, acting, seconds)
    assert 0 <= after.carbon_dioxide_ppm <= 1e6
    for degc in (after.temperature_degc, after.wall_degc):
        assert -10 < degc < 90
    assert 0 <= after.vapour_g_m3 <= saturation_vapour_g_m3(after.temperature_degc) * (1 + 1e-9)
    assert 0 <= after.film_g <= P.film_capacity_g
    assert moved.on_coil_g >= 0
    assert moved.dehumidified_g >= 0
    assert moved.drained_g >= 0


@settings(max_examples=50)
@given(states, inputs)
def test_steps_of_a_second_and_of_a_chamber_step_agree(state, acting):
    fine = coarse = step(P, state, acting, 60.0)[0]  # past fog, and walls that dry
    for _ in range(60):
        fine, _ = step(P, fine, acting, 1.0)
    for _ in range(6):
        coarse, _ = step(P, coarse, acting, 10.0)
    # a tenth of the SCD30's resolution (10 ppm), half of that of its temperature, one percent of humidity
    assert coarse.carbon_dioxide_ppm == pytest.approx(fine.carbon_dioxide_ppm, rel=1e-3, abs=1.0)
    assert coarse.temperature_degc == pytest.approx(fine.temperature_degc, abs=0.05)
    assert coarse.vapour_g_m3 == pytest.approx(fine.vapour_g_m3, abs=0.2)


@settings(max_examples=50)
@given(states, levels)
def test_dry_air_without_plants_moves_exactly_with_any_steps(state, at):
    acting = AirInputs(ROOM, flows(**at | {"humidifier": 0.0, "cooler": 0.0, "dehumidifier": 0.0}), NO_PLANTS)
    state = state._replace(vapour_g_m3=0.0, film_g=0.0)
    once, _ = step(P, state, acting, 60.0)
    cut = state
    for seconds in (1.0, 9.0, 30.0, 20.0):
        cut, _ = step(P, cut, acting, seconds)
    assert once == pytest.approx(cut, rel=1e-9)


def test_uptake_and_exchange_add_up_to_the_change():
    """The balance in mol, summed from the sources' own formulas over seconds."""
    acting = AirInputs(ROOM, flows(), PLANTS, ppfd_umol_m2_s=300.0, heat_w=30.0)
    state, moved_ppm = START._replace(carbon_dioxide_ppm=1500.0), 0.0
    ppm_per_umol_m2 = P.growing_area_m2 / air_mol(P)
    for _ in range(1800):
        following, _ = step(P, state, acting, 1.0)
        ppm = (state.carbon_dioxide_ppm + following.carbon_dioxide_ppm) / 2
        degc = (state.temperature_degc + following.temperature_degc) / 2
        respired = P.dark_respiration_umol_m2_s * 2 ** ((degc - 25) / 10)
        moved_ppm += P.leak_per_h / 3600 * (ROOM.carbon_dioxide_ppm - ppm)
        moved_ppm += (respired - gross_photosynthesis(P, ppm, degc, 300.0)) * ppm_per_umol_m2
        state = following
    assert moved_ppm < -500
    assert state.carbon_dioxide_ppm - 1500.0 == pytest.approx(moved_ppm, rel=1e-4)


def test_the_valve_of_a_sealed_chamber_gives_its_flow_to_the_air():
    sealed = flows(valve=1.0)._replace(exchange_per_s=0.0, exchange_w_k=0.0)
    after, moved = step(P, START, AirInputs(ROOM, sealed, NO_PLANTS), 120.0)
    replaced = 1 - math.exp(-0.05 * 2 / 100)  # 0.1 l of 100 l, mixed all the while
    assert after.carbon_dioxide_ppm == pytest.approx(420 + (1e6 - 420) * replaced, rel=1e-9)
    assert moved.carbon_dioxide_in_mol == pytest.approx(0.1 / 24.2, rel=0.01)  # 24.2 l/mol at 22 degC


def test_steady_states_are_those_of_the_balances():
    acting = AirInputs(ROOM, flows(valve=1.0, fan=1.0), NO_PLANTS, heat_w=30.0)
    steady, _ = step(P, START, acting, 1e6)
    fan, leak, valve = 0.01, 1.5 / 3600, 0.05 / 60_000 / 0.1
    exchange = fan + leak
    expected = (exchange * 420 + valve * 1e6) / (exchange + valve)
    assert steady.carbon_dioxide_ppm == pytest.approx(expected, rel=1e-9)
    walls_w_k = 1 / (1 / 16.0 + 1 / 16.0)
    assert steady.temperature_degc == pytest.approx(22 + 30 / (walls_w_k + exchange * 0.1 * 1206), rel=1e-9)
    assert steady.wall_degc == pytest.approx((22 + steady.temperature_degc) / 2, rel=1e-9)
    assert steady.vapour_g_m3 == pytest.approx(exchange * 8.7 / (exchange + valve), rel=1e-9)


def test_a_step_of_the_heater_has_the_two_time_constants_of_air_and_walls():
    state, acting, degc = START, AirInputs(ROOM, flows(heater=1.0), NO_PLANTS), []
    for _ in range(6000):
        state, _ = step(P, state, acting, 1.0)
        degc.append(state.temperature_degc)
    # 200 W into 600 J/K at first; 16 W/K to the walls: 600 J/K over it is 37 s; 8500 J/K over 16 W/K: 530 s
    assert degc[4] - 22 == pytest.approx(5 * 200 / 600, rel=0.1)
    assert degc[120] - 22 == pytest.approx(200 / 16, rel=0.25)
    assert degc[-1] - 22 == pytest.approx(200 / 8.05, rel=0.01)
    rest = [degc[-1] - each for each in degc]
    assert 1000 / math.log(rest[500] / rest[1500]) == pytest.approx(530, rel=0.05)


def test_droplets_cool_the_air_that_they_moisten():
    acting = AirInputs(ROOM, flows(humidifier=1.0), NO_PLANTS)
    after, moved = step(P, START, acting, 10.0)
    assert moved.mist_g == pytest.approx(40 / 360)
    assert after.vapour_g_m3 - 8.7 == pytest.approx(1.1, rel=0.02)
    assert after.temperature_degc - 22 == pytest.approx(-LATENT_J_G * moved.mist_g / 600, rel=0.15)


def test_vapour_condenses_on_cold_walls_warms_them_and_evaporates_again():
    acting = AirInputs(ROOM, flows()._replace(exchange_per_s=0.0, exchange_w_k=0.0), NO_PLANTS)
    humid = AirState(420.0, 25.0, saturation_vapour_g_m3(24.9), 22.0)
    wet, _ = step(P, humid, acting, 300.0)
    dry, _ = step(P, humid._replace(vapour_g_m3=5.0), acting, 300.0)
    assert wet.film_g > 0.1
    assert wet.wall_degc > dry.wall_degc
    assert wet.vapour_g_m3 == pytest.approx(saturation_vapour_g_m3(wet.wall_degc), rel=0.03)
    dried, _ = step(P, wet, acting._replace(flows=flows(fan=1.0)), 3600.0)
    assert dried.film_g == 0


def test_the_cooler_and_the_dehumidifier_dry_the_air_to_the_dew_point_of_their_coils():
    for name, coil_degc in (("cooler", P.cooler_coil_degc), ("dehumidifier", P.dehumidifier_coil_degc)):
        sealed = flows(**{name: 1.0})._replace(exchange_per_s=0.0)
        after, moved = step(P, START._replace(vapour_g_m3=15.0), AirInputs(ROOM, sealed, NO_PLANTS), 7200.0)
        assert after.vapour_g_m3 == pytest.approx(saturation_vapour_g_m3(coil_degc), rel=0.01)
        assert moved.on_coil_g + moved.dehumidified_g > 0.3
    assert after.temperature_degc > 26  # the dehumidifier heats, the cooler cools
    cold, _ = step(P, START, AirInputs(ROOM, flows(cooler=1.0), NO_PLANTS), 7200.0)
    assert cold.temperature_degc == pytest.approx(22 - 6 * 17 / (8.05 + 6), abs=0.3)


def test_air_beyond_saturation_becomes_fog_that_settles_on_the_walls():
    acting = AirInputs(ROOM, flows(humidifier=1.0), NO_PLANTS)
    state = START
    for _ in range(60):
        state, _ = step(P, state, acting, 60.0)
    assert state.vapour_g_m3 == pytest.approx(saturation_vapour_g_m3(state.temperature_degc), rel=0.01)
    assert state.film_g > 5
