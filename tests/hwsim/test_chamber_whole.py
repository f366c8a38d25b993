"""The whole simulated chamber: air, tank, pots and plants exchange water and carbon without a remainder."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growd_hwsim.actuators import ACTUATORS
from growd_hwsim.air import air_mol
from growd_hwsim.chamber import SimulatedChamber
from growd_hwsim.parameters import ChamberParameters
from growd_hwsim.tank import TankParameters
from support.machine import SleepingTime

pytestmark = pytest.mark.long


class Played:
    """A chamber whose actuators move at random, and the water that they gave it."""

    def __init__(self, seed, parameters=None):
        self.clock = SleepingTime()
        self.chamber = SimulatedChamber(self.clock.monotonic, parameters, seed=seed)
        self.given_g = self.filled_ml = 0.0
        self._dice = random.Random(seed)
        self._levels = dict.fromkeys(ACTUATORS, 0.0)

    def play(self, moves):
        for _ in range(moves):
            name, level = self._dice.choice(ACTUATORS), self._dice.choice((0.0, 1.0, self._dice.random()))
            self._levels[name] = level
            self.chamber.set_actuator(name, level)
            self.chamber.set_lamp("white", self._dice.random())
            self.chamber.set_door(self._dice.random() < 0.1)
            self._pass(self._dice.expovariate(1 / 120))

    def _pass(self, seconds):
        tank, soil = self.chamber.parameters.tank, self.chamber.parameters.soil
        dosed = sum(self._levels[name] for name in tank.stocks) * tank.dosing_ml_min
        irrigated = self._levels["irrigation"] * soil.irrigation_ml_min
        filled_ml = self._levels["fill"] * tank.fill_l_min / 0.06 * seconds
        self.filled_ml += filled_ml
        self.given_g += (dosed + irrigated) / 60 * seconds + filled_ml
        self.clock.advance(seconds)
        self.chamber.air()


def water_g(chamber):
    air = chamber.parameters.volume_m3 * chamber.state.vapour_g_m3 + chamber.state.film_g
    return air + chamber.tank.water_g + chamber.soil.water_g


def carbon_mol(chamber):
    in_air = chamber.state.carbon_dioxide_ppm * air_mol(chamber.parameters) / 1e6
    tank = chamber.tank
    return in_air + (tank.mixed.carbon_mmol + tank.gone.carbon_mmol) / 1000


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_the_water_and_the_carbon_of_the_chamber_are_conserved_with_random_actuators(seed):
    played = Played(seed)
    chamber = played.chamber
    water, carbon = water_g(chamber), carbon_mol(chamber)
    played.play(60)
    moved = chamber.moved
    came = moved.vapour_in_g + moved.mist_g + played.given_g
    left = moved.on_coil_g + moved.dehumidified_g + moved.drained_g
    left += chamber.tank.gone_g + chamber.soil.drained_g
    assert water_g(chamber) == pytest.approx(water + came - left, rel=1e-9)
    assert moved.transpired_g > 0
    came = moved.carbon_dioxide_in_mol + played.filled_ml * chamber.parameters.tank.tap.carbon_mmol / 1000
    assert carbon_mol(chamber) == pytest.approx(carbon + came - moved.uptake_mol, rel=1e-9)


def test_plants_that_grow_have_more_leaves_and_take_up_more():
    def after_three_days(*, grows):
        clock = SleepingTime()
        chamber = SimulatedChamber(clock.monotonic, ChamberParameters(grows=grows, fan_flow_l_min=120.0))
        chamber.set_actuator("fan", 1.0)
        for hour in range(3 * 24):
            chamber.set_lamp("white", float(hour % 24 < 16))
            clock.advance(3600)
            chamber.air()
        return chamber

    grown, same = after_three_days(grows=True), after_three_days(grows=False)
    assert same.dry_mass_g_m2() == 14
    assert 40 < grown.dry_mass_g_m2() < 56  # 14 g/m2, and up to 14 g/m2/d
    assert grown.moved.uptake_mol > 1.2 * same.moved.uptake_mol
    assert grown.moved.transpired_g > same.moved.transpired_g


def test_pots_dry_out_without_irrigation_and_are_watered_by_it():
    clock = SleepingTime()
    chamber = SimulatedChamber(clock.monotonic)
    chamber.set_lamp("white", 1.0)
    chamber.set_actuator("fan", 1.0)
    moist = []
    for _ in range(20):
        moist.append(chamber.soil_moisture_percent())
        clock.advance(86_400)
    assert moist == sorted(moist, reverse=True)
    assert 5 < moist[-1] < 20 < moist[0]
    chamber.set_actuator("irrigation", 1.0)
    clock.advance(300)
    assert chamber.soil_moisture_percent() > moist[-1] + 10


def test_plants_in_the_light_empty_a_tank_of_4_l_in_two_weeks():
    clock = SleepingTime()
    small = ChamberParameters(tank=TankParameters(start_l=4.0))
    chamber = SimulatedChamber(clock.monotonic, small)
    chamber.set_lamp("white", 1.0)
    chamber.set_actuator("fan", 1.0)
    daily = []
    for _ in range(15):
        daily.append(chamber.water())
        clock.advance(86_400)
    volume = [each.volume_l for each in daily]
    assert 0.2 < volume[0] - volume[1] < 2
    assert all(after <= before + 1e-9 for before, after in pairwise(volume))
    assert volume[-1] < 0.1
    assert 1.6 < max(each.conductivity_ms_cm for each in daily) < 20
