"""The simulated nutrient tank and the pots: what goes in comes out, and probes see plausible values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growd_hwsim.actuators import ACTUATORS
from growd_hwsim.faults import Fault
from growd_hwsim.physics import WATER_J_G_K
from growd_hwsim.soil import Soil, SoilParameters
from growd_hwsim.tank import (
    Solutes,
    Stock,
    Tank,
    TankParameters,
    alkalinity,
    free_carbon_dioxide,
    potential_hydrogen,
    saturated_oxygen_mg_l,
)
from support.machine import SleepingTime, simulated

P = TankParameters()
S = SoilParameters()
OFF = dict.fromkeys(ACTUATORS, 0.0)
DRIVEN = ("water_heater", "water_cooler", "fill", "drain", "water_pump", "aeration", *P.stocks)


@dataclass
class Rig:
    """A tank in air of 22 degC with 420 ppm, and what went through it."""

    p: TankParameters = P
    outgassed_mmol: float = 0.0

    def __post_init__(self):
        self.tank = Tank(self.p)

    def run(self, seconds, step_s=10.0, **at):
        """Let time pass with actuators at these levels, without plants; the water at the end."""
        for _ in range(round(seconds / step_s)):
            self.step(step_s, **at)
        return self.tank.water(self.p)

    def step(self, seconds, lost_g=0.0, uptake_mol=0.0, leaves=0.0, **at):
        to_air = self.tank.meet(self.p, OFF | at, 22.0, 420.0, seconds)
        self.outgassed_mmol += to_air.carbon_dioxide_mol_s * seconds * 1000.0
        self.tank.advance(self.p, OFF | at, seconds, lost_g=lost_g, uptake_mol=uptake_mol, leaves=leaves)
        return to_air


def ran_out(seconds, flow_ml_min, level=1.0):
    return flow_ml_min / 60.0 * seconds * level


levels = st.fixed_dictionaries({name: st.sampled_from([0.0, 0.0, 1.0]) | st.floats(0, 1) for name in DRIVEN})
acts = st.lists(
    st.tuples(
        levels,
        st.floats(0.1, 600),
        st.floats(0, 1),
        st.floats(-1e-3, 1e-3).filter(lambda mol: abs(mol) > 1e-9),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=100)
@given(acts)
def test_water_salts_charge_phosphate_and_carbon_are_conserved(played):
    rig = Rig()
    tank, start = rig.tank, (rig.tank.water_g, rig.tank.mixed)
    given_g, given_solutes, fed = 0.0, Solutes(), 0.0
    for at, seconds, most_g, uptake_mol in played:
        lost_g = min(most_g, tank.water_g / 3)
        before = tank.mixed
        litres = (tank.water_g - lost_g) / 1000
        rig.step(seconds, lost_g, uptake_mol, **at)
        given_g -= lost_g
        for name, stock in P.stocks.items():
            ml = ran_out(seconds, P.dosing_ml_min, at[name])
            given_g, given_solutes = given_g + ml, given_solutes.plus(stock, ml)
        filled = ran_out(seconds, 1000 * P.fill_l_min, at["fill"])
        given_g, given_solutes = given_g + filled, given_solutes.plus(P.tap, filled)
        if uptake_mol > 1e-9:
            of_salt = 0.5 * before.salt_meq / P.salt_meq_mol
            of_phosphate = 0.5 * before.phosphate_mmol / P.phosphate_mmol_mol
            fed += min(uptake_mol, of_salt, of_phosphate, uptake_mol * litres)
    assert tank.water_g + tank.gone_g == pytest.approx(start[0] + given_g)
    stores = tank.mixed.and_(tank.unmixed).and_(tank.gone)
    came = start[1].and_(given_solutes)
    assert stores.salt_meq == pytest.approx(came.salt_meq - P.salt_meq_mol * fed)
    assert stores.phosphate_mmol == pytest.approx(came.phosphate_mmol - P.phosphate_mmol_mol * fed)
    assert stores.alkalinity_meq == pytest.approx(came.alkalinity_meq + P.alkalinity_meq_mol * fed, abs=1e-6)
    assert stores.carbon_mmol == pytest.approx(came.carbon_mmol - rig.outgassed_mmol)
    water = tank.water(P)
    assert 0 <= water.potential_hydrogen <= 14
    assert 0 <= water.level_percent <= 100 + 1e-9
    assert min(water.conductivity_ms_cm, water.dissolved_oxygen_mg_l) >= 0


@settings(max_examples=100)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(1e-3, 1e7))
def test_the_heat_of_the_tank_is_conserved_in_steps_of_any_length(heater, cooler, pump, seconds):
    rig = Rig()
    before = rig.tank.temperature_degc
    to_air = rig.step(seconds, water_heater=heater, water_cooler=cooler, water_pump=pump)
    mean = 22.0 + to_air.heat_w / P.air_conductance_w_k
    given_w = heater * P.heater_w + pump * P.pump_w - cooler * P.cooler_w_k * (mean - P.cooler_coil_degc)
    stored_j = (rig.tank.temperature_degc - before) * rig.tank.water_g * WATER_J_G_K
    expected = (given_w - to_air.heat_w) * seconds
    assert stored_j == pytest.approx(expected, abs=1e-6 * max(1e3, abs(given_w) * seconds))
    assert 5 <= rig.tank.temperature_degc <= 60


def test_the_ph_of_known_solutions():
    assert potential_hydrogen(0.0, 0.0, 0.0) == pytest.approx(7.0)
    assert potential_hydrogen(0.0, 0.0, 420 * 0.034e-3 + 2.5e-3) == pytest.approx(5.6, abs=0.05)  # rain
    assert potential_hydrogen(-1.0, 0.0, 0.0) == pytest.approx(3.0, abs=0.01)  # a strong acid, 1 mmol/l
    assert potential_hydrogen(1.0, 2.0, 0.0) == pytest.approx(7.2, abs=0.01)  # half of the phosphate
    assert potential_hydrogen(1.5, 0.0, 1.6) == pytest.approx(7.5, abs=0.1)  # tap water


@settings(max_examples=200)
@given(st.floats(0.5, 13.5), st.floats(0, 10), st.floats(0, 10), st.floats(0, 14))
def test_ph_and_alkalinity_belong_together(ph, phosphate, carbon, near):
    found = potential_hydrogen(alkalinity(ph, phosphate, carbon), phosphate, carbon, near)
    assert found == pytest.approx(ph, abs=1e-4)
    assert 0 < free_carbon_dioxide(ph) < 1


@pytest.mark.parametrize(("degc", "mg_l"), [(5, 12.77), (15, 10.08), (25, 8.26), (35, 6.95)])
def test_saturated_oxygen_as_in_tables(degc, mg_l):
    assert saturated_oxygen_mg_l(degc) == pytest.approx(mg_l, rel=0.015)


def test_a_tank_that_is_left_alone_keeps_its_values_and_takes_the_temperature_of_the_air():
    rig = Rig()
    start = rig.tank.water(P)
    assert (start.potential_hydrogen, start.conductivity_ms_cm) == (pytest.approx(6.0), pytest.approx(1.6))
    assert (start.level_percent, start.volume_l) == (80, 16)
    water = rig.run(3 * 86_400, 600.0)
    assert water.potential_hydrogen == pytest.approx(6.0, abs=0.01)
    assert water.conductivity_ms_cm == pytest.approx(1.6)
    assert water.temperature_degc == pytest.approx(22.0, abs=0.01)


def test_a_dose_of_acid_lowers_ph_after_it_has_mixed_and_a_base_undoes_it():
    rig = Rig()
    rig.run(4, 1.0, ph_down=1.0, water_pump=1.0)  # 2 ml
    assert rig.tank.water(P).potential_hydrogen > 5.8
    lowered = rig.run(600, water_pump=1.0).potential_hydrogen
    assert 5.2 < lowered < 5.7
    rig.run(4, 1.0, ph_up=1.0, water_pump=1.0)
    assert rig.run(600, water_pump=1.0).potential_hydrogen == pytest.approx(6.0, abs=0.03)


def test_without_the_pump_a_dose_mixes_slowly():
    still, stirred = Rig(), Rig()
    for rig, pump in ((still, 0.0), (stirred, 1.0)):
        rig.run(10, nutrient_a=1.0, water_pump=pump)
    risen = [
        rig.run(120, water_pump=pump).conductivity_ms_cm - 1.6 for rig, pump in ((still, 0), (stirred, 1))
    ]
    assert risen[1] > 5 * risen[0] > 0
    # 5 ml of 2.4 meq/ml in 16 l
    assert stirred.run(600, water_pump=1.0).conductivity_ms_cm - 1.6 == pytest.approx(0.075, rel=0.02)


def test_tap_water_dilutes_cools_and_raises_ph_and_its_carbon_dioxide_leaves_with_aeration():
    rig = Rig()
    rig.run(60, fill=1.0)
    water = rig.tank.water(P)
    assert water.volume_l == pytest.approx(18)
    assert water.conductivity_ms_cm == pytest.approx((16 * 1.6 + 2 * 0.3) / 18)
    assert water.temperature_degc == pytest.approx((16 * 21 + 2 * 15) / 18, abs=0.05)
    before = rig.outgassed_mmol
    assert rig.run(4 * 3600, aeration=1.0).potential_hydrogen > water.potential_hydrogen
    assert rig.outgassed_mmol > before + 1


def test_a_full_tank_runs_over_and_an_empty_one_stays_empty():
    rig = Rig()
    assert rig.run(600, fill=1.0).level_percent == pytest.approx(100)
    assert rig.tank.gone_g > 1000
    assert rig.run(1200, drain=1.0, aeration=1.0, water_pump=1.0).volume_l == pytest.approx(0, abs=1e-6)
    assert rig.run(3600, water_heater=1.0).temperature_degc < 30  # the heater is not covered


def test_plants_raise_ph_take_salts_and_oxygen_and_without_aeration_there_is_little_left():
    still, aerated = Rig(), Rig()
    for rig, aeration in ((still, 0.0), (aerated, 1.0)):
        for _ in range(24 * 60):
            rig.step(60.0, 0.0, 0.05 / 24 / 60, 5.0, aeration=aeration)
    still_water, water = still.tank.water(P), aerated.tank.water(P)
    assert 6.2 < water.potential_hydrogen < 6.8  # 1.5 g of dry mass in a day
    assert water.conductivity_ms_cm == pytest.approx(1.6 - 75 * 0.05 / 160, rel=1e-6)
    assert still_water.dissolved_oxygen_mg_l < 3
    assert water.dissolved_oxygen_mg_l > 7.5


def test_other_stocks_can_be_dosed():
    rig = Rig(replace(P, stocks={"nutrient_c": Stock(salt_meq=1.0)}))
    rig.run(60, nutrient_c=1.0, nutrient_a=1.0, water_pump=1.0)
    assert rig.run(3600, water_pump=1.0).conductivity_ms_cm == pytest.approx((256 + 30) / 160.3, rel=0.001)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 600), st.floats(0, 1)), min_size=1, max_size=30))
def test_the_water_of_the_pots_is_conserved(played):
    soil, given_g = Soil(S), 0.0
    start = soil.water_g
    for irrigation, seconds, most_g in played:
        transpired_g = min(most_g, soil.water_g / 3)
        soil.advance(S, irrigation, seconds, transpired_g)
        given_g += irrigation * S.irrigation_ml_min / 60 * seconds - transpired_g
    assert soil.water_g + soil.drained_g == pytest.approx(start + given_g)
    assert 0 <= soil.percent(S) <= S.saturated_percent


def test_pots_drain_to_their_field_capacity_and_dry_ones_give_no_water():
    soil = Soil(S)
    for _ in range(60):
        soil.advance(S, 1.0, 10.0, 0.0)
    wet = soil.percent(S)
    assert wet > S.field_capacity_percent + 5
    for _ in range(600):
        soil.advance(S, 0.0, 10.0, 0.0)
    assert soil.percent(S) == pytest.approx(S.field_capacity_percent, abs=0.1)
    assert soil.stress(S) == 1
    soil.advance(S, 0.0, 10.0, soil.water_g - S.wilting_percent * S.volume_l * 10)
    assert soil.stress(S) == 0


def test_a_weak_pump_gives_a_share_after_its_dead_time_into_the_tank_or_a_cylinder():
    clock = SleepingTime()
    machine = simulated(clock)
    chamber = machine.chamber
    tank = replace(chamber.parameters.tank, dosing_ml_min=60, dosing_dead_s=0.5)
    chamber.parameters = replace(chamber.parameters, tank=tank)
    machine.faults.inject(Fault("weak", "ph_down", amount=0.8))

    def dose(seconds):
        chamber.set_actuator("ph_down", 1.0)
        clock.advance(seconds)
        chamber.set_actuator("ph_down", 0.0)
        clock.advance(1)

    chamber.collect("ph_down")
    before = chamber.tank.unmixed
    for _ in range(2):
        dose(5.5)
    assert chamber.collected_ml() == pytest.approx(2 * 0.8 * 5)
    assert chamber.tank.unmixed == before
    chamber.collect("")
    dose(5.5)
    assert chamber.collected_ml() == 0
    assert chamber.tank.unmixed != before
    machine.close()
