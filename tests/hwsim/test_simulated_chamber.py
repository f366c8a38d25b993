import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_hwsim.chamber import SimulatedChamber
from growd_hwsim.parameters import ChamberParameters, LampChannel
from growd_hwsim.physics import saturation_vapour_g_m3
from growd_hwsim.plants import gross_photosynthesis
from growd_hwsim.tank import TankParameters
from support.machine import SleepingTime

NIGHT = ChamberParameters(daylight_lux=0.0)
BARREN = ChamberParameters(
    daylight_lux=0.0, leaf_area_index=0.0, tank=TankParameters(air_conductance_w_k=0.0, surface_m3_s=0.0)
)


class Bench:
    def __init__(self, parameters=NIGHT, **options):
        self.clock = SleepingTime()
        self.chamber = SimulatedChamber(self.clock.monotonic, parameters, **options)

    def after(self, seconds):
        self.clock.advance(seconds)
        return self.chamber.air()


def test_the_light_of_the_lamps_follows_from_their_power():
    bench = Bench()
    assert bench.chamber.illuminance_lux() == bench.chamber.ppfd_umol_m2_s() == 0
    bench.chamber.set_lamp("white", 1.0)
    # 30 W x 2.1 umol/J x 0.8 on 0.168 m2; 66.7 lx for each umol/m2/s
    assert bench.chamber.ppfd_umol_m2_s() == pytest.approx(300)
    assert bench.chamber.illuminance_lux() == pytest.approx(20_010)
    other = Bench(ChamberParameters(daylight_lux=0.0, lamps={"far_red": LampChannel(10.0, 2.0, 0.1)}))
    other.chamber.set_lamp("far_red", 0.5)
    assert other.chamber.illuminance_lux() == pytest.approx(0.5 * 10 * 2 * 0.8 / 0.168 * 0.1)


@given(st.fixed_dictionaries({channel: st.floats(0, 1) for channel in ("white", "red", "blue")}))
def test_light_is_in_proportion_and_adds_up(levels):
    bench = Bench()
    lux = ppfd = 0.0
    for channel, level in levels.items():
        alone = Bench()
        alone.chamber.set_lamp(channel, 1.0)
        lux += level * alone.chamber.illuminance_lux()
        ppfd += level * alone.chamber.ppfd_umol_m2_s()
        bench.chamber.set_lamp(channel, level)
    assert bench.chamber.illuminance_lux() == pytest.approx(lux)
    assert bench.chamber.ppfd_umol_m2_s() == pytest.approx(ppfd)


def test_no_lamp_gives_more_light_than_physics_allow():
    for name, longest_nm, peak_lm_w in (("white", 700, 683), ("red", 660, 683), ("blue", 450, 683)):
        lamp = NIGHT.lamps[name]
        umol_j = longest_nm / 119.6
        assert lamp.efficacy_umol_j < umol_j
        assert lamp.lux_per_umol < peak_lm_w * 119.6 / 400


def test_daylight_follows_the_hours():
    bench = Bench(ChamberParameters(daylight_lux=300.0), time_of_day_s=0.0)
    by_hour = []
    for _ in range(24):
        by_hour.append(bench.chamber.illuminance_lux())
        bench.clock.advance(3600)
    assert by_hour[12] == max(by_hour) == pytest.approx(300)
    assert by_hour[:7] == [0] * 7
    assert by_hour[18:] == [0] * 6
    assert by_hour[6:13] == sorted(by_hour[6:13])


def test_plants_take_up_carbon_dioxide_in_light_and_release_it_in_the_dark():
    bench = Bench()
    bench.chamber.set_lamp("white", 1.0)
    series = [bench.after(600).carbon_dioxide_ppm for _ in range(4)]
    assert series == sorted(series, reverse=True)
    assert series[-1] < 320
    bench.chamber.set_lamp("white", 0.0)
    series = [bench.after(600).carbon_dioxide_ppm for _ in range(4)]
    assert series == sorted(series)
    assert bench.after(86_400).carbon_dioxide_ppm > NIGHT.ambient_carbon_dioxide_ppm  # they respire


def test_respiration_fills_a_sealed_dark_chamber_with_carbon_dioxide():
    sealed = Bench(ChamberParameters(daylight_lux=0.0, leak_per_h=0.0, dark_respiration_umol_m2_s=1.0))
    before = sealed.chamber.air().carbon_dioxide_ppm
    # 0.168 m2 x 1 umol/m2/s at 25 degC, a little less in the cooler room, in the 4.1 mol of 100 l
    assert sealed.after(3600).carbon_dioxide_ppm - before == pytest.approx(3600 * 0.168 / 4.1, rel=0.25)


def test_the_valve_raises_carbon_dioxide_and_the_fan_lowers_it_to_that_of_the_room():
    bench = Bench()
    bench.chamber.set_actuator("valve", 1.0)
    enriched = bench.after(300).carbon_dioxide_ppm
    # 0.05 l/min in 100 l are 500 ppm each minute, less what leaks
    assert enriched - NIGHT.ambient_carbon_dioxide_ppm == pytest.approx(2500, rel=0.1)
    bench.chamber.set_actuator("valve", 0.0)
    bench.chamber.set_actuator("fan", 1.0)
    assert bench.after(1200).carbon_dioxide_ppm == pytest.approx(NIGHT.ambient_carbon_dioxide_ppm, abs=15)


def test_lamps_warm_the_air_and_the_room_cools_it():
    bench = Bench(BARREN)
    bench.chamber.set_lamp("white", 1.0)
    lit = bench.after(20_000).temperature_degc
    gain = NIGHT.lamps["white"].power_w * (1 / NIGHT.inner_conductance_w_k + 1 / NIGHT.outer_conductance_w_k)
    assert lit == pytest.approx(NIGHT.ambient_temperature_degc + gain, abs=0.6)
    with_plants = Bench()
    with_plants.chamber.set_lamp("white", 1.0)
    assert NIGHT.ambient_temperature_degc + 1 < with_plants.after(20_000).temperature_degc < lit
    bench.chamber.set_lamp("white", 0.0)
    assert bench.after(20_000).temperature_degc == pytest.approx(NIGHT.ambient_temperature_degc, abs=0.6)


def test_plants_moisten_the_air_and_more_so_in_light():
    dark, lit = Bench(), Bench()
    lit.chamber.set_lamp("white", 1.0)
    humid_dark, humid_lit = dark.after(10_000).humidity_percent, lit.after(10_000).humidity_percent
    assert NIGHT.ambient_humidity_percent < min(humid_dark, humid_lit)
    assert max(humid_dark, humid_lit) < 100
    assert lit.chamber.moved.transpired_g > 1.5 * dark.chamber.moved.transpired_g > 0


def test_a_reading_after_years_is_physical():
    """And takes a limited number of steps."""
    bench = Bench(ChamberParameters())
    bench.chamber.set_lamp("white", 1.0)
    air = bench.after(1e10)
    assert 30 < air.carbon_dioxide_ppm < 480
    assert 15 < air.temperature_degc < 35
    assert 0 < air.humidity_percent <= 100


def test_the_same_seed_gives_the_same_chamber_at_any_start_time():
    def series(seed, now):
        clock = SleepingTime(now)
        chamber = SimulatedChamber(clock.monotonic, NIGHT, seed=seed)
        values = []
        for _ in range(10):
            clock.advance(512)
            values.append(chamber.air().carbon_dioxide_ppm)
        return values

    assert series(1, 0.0) == series(1, 1024.0)
    assert series(1, 0.0) != series(2, 0.0)


def test_several_threads_may_use_it():
    bench = Bench()
    failed = []

    def use(channel):
        for number in range(300):
            bench.clock.now += 1.0
            bench.chamber.set_lamp(channel, number % 10 / 10)
            if not 100 < bench.chamber.air().carbon_dioxide_ppm < 460:
                failed.append(channel)

    threads = [threading.Thread(target=use, args=(channel,)) for channel in ("white", "red", "blue")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize("level", [1.5, -0.1])
def test_what_cannot_be_is_refused(level):
    chamber = Bench().chamber
    for drive, known, unknown in (
        (chamber.set_lamp, "white", "green"),
        (chamber.set_actuator, "heater", "oven"),
    ):
        with pytest.raises(ValueError, match=known):
            drive(known, level)
        with pytest.raises(ValueError, match=unknown):
            drive(unknown, 0.5)


def test_half_of_a_level_has_half_of_the_effect():
    warmer = []
    for level in (0.0, 0.5, 1.0):
        bench = Bench(BARREN)
        bench.chamber.set_actuator("heater", level)
        warmer.append(bench.after(20_000).temperature_degc)
    assert warmer[1] - warmer[0] == pytest.approx(warmer[2] - warmer[1])
    assert warmer[2] - warmer[0] > 10


def test_the_door_tells_whether_it_is_open():
    bench = Bench(ChamberParameters(door_hours=(9.0,)), time_of_day_s=8.9 * 3600)
    assert not bench.chamber.is_door_open()
    bench.chamber.set_door(True)
    assert bench.chamber.is_door_open()
    bench.chamber.set_door(False)
    bench.clock.advance(370)
    assert bench.chamber.is_door_open()


@given(st.floats(0, 3000), st.floats(0, 3000), st.floats(0, 5000), st.floats(0, 45))
def test_photosynthesis_rises_with_light_and_never_beyond_its_quantum_yield(one, other, ppm, degc):
    low, high = (gross_photosynthesis(NIGHT, ppm, degc, ppfd) for ppfd in sorted((one, other)))
    assert 0 <= low <= high + 1e-9
    # 17e-6 g/J at 4.57 umol/J are 0.085 mol CO2 for each mol of photons
    assert high <= 0.0846 * max(one, other)


def test_photosynthesis_is_the_hyperbola_of_its_source():
    # Van Henten 1994 by hand: 420 ppm, 20 degC, 300 umol/m2/s = 65.65 J/m2/s, in g of CO2
    conductance = 1 / (1 / 0.004 + 1 / 0.007 + 1 / 0.00396)
    of_light = 17e-6 * (420 - 40) / (420 + 2 * 40) * 65.65
    of_carbon_dioxide = conductance * (420 - 40) * 1e-6 * 41.57 * 44.01
    per_leaf = of_light * of_carbon_dioxide / (of_light + of_carbon_dioxide)
    expected = (1 - math.exp(-0.9)) * per_leaf / 44.01 * 1e6
    assert gross_photosynthesis(NIGHT, 420, 20, 300) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("ppm", "degc", "ppfd"),
    [
        (40.0, 20.0, 300.0),
        (10.0, 20.0, 300.0),
        (420.0, 4.0, 300.0),
        (420.0, 41.0, 300.0),
        (420.0, 4.0, 5e-324),
        (420.0, 20.0, 5e-324),
    ],
)
def test_photosynthesis_ends_at_the_compensation_point_in_cold_and_heat_and_in_darkness(ppm, degc, ppfd):
    assert gross_photosynthesis(NIGHT, ppm, degc, ppfd) == 0


@pytest.mark.parametrize(("degc", "g_m3"), [(0, 4.85), (20, 17.3), (30, 30.4)])
def test_saturated_vapour_as_in_tables(degc, g_m3):
    assert math.isclose(saturation_vapour_g_m3(degc), g_m3, rel_tol=0.01)


def test_an_open_door_lets_the_rooms_air_in():
    bench = Bench()
    bench.chamber.set_actuator("valve", 1.0)
    bench.after(600)
    bench.chamber.set_actuator("valve", 0.0)
    enriched = bench.chamber.air().carbon_dioxide_ppm
    bench.chamber.set_door(True)
    left = (bench.after(60).carbon_dioxide_ppm - 420) / (enriched - 420)
    assert left == pytest.approx(math.exp(-3), abs=0.01)
    bench.chamber.set_door(False)
    closed = bench.chamber.air().carbon_dioxide_ppm
    assert bench.after(60).carbon_dioxide_ppm == pytest.approx(closed, rel=0.05)


@pytest.mark.parametrize("pace_s", [1.0, 3600.0])
def test_the_door_opens_at_its_hours_at_any_pace_of_reading(pace_s):
    parameters = ChamberParameters(daylight_lux=0.0, door_hours=(9.0, 23.995), door_open_s=60.0)
    bench = Bench(parameters, time_of_day_s=8.9 * 3600)
    bench.chamber.set_actuator("valve", 1.0)
    end = bench.clock.now + 420.0  # 09:01, as the door closes
    while bench.clock.now < end:
        bench.clock.advance(min(pace_s, end - bench.clock.now))
        air = bench.chamber.air()
    # the room, what the valve gave in that minute at 8.3 ppm/s, and a twentieth of the 2900 ppm from before
    expected = 420 + 8.33 / 0.05 * (1 - math.exp(-3)) + 2900 * math.exp(-3)
    assert air.carbon_dioxide_ppm == pytest.approx(expected, rel=0.02)


def test_the_door_opens_past_midnight_and_each_day():
    parameters = ChamberParameters(daylight_lux=0.0, door_hours=(23.995,), door_open_s=60.0)
    bench = Bench(parameters, time_of_day_s=23.9 * 3600)
    for _ in range(3):
        bench.chamber.set_actuator("valve", 1.0)
        bench.after(330)  # to 23:59:30
        bench.chamber.set_actuator("valve", 0.0)
        assert bench.chamber.air().carbon_dioxide_ppm > 2000
        assert bench.after(72).carbon_dioxide_ppm < 700  # the door was open from 23:59:42 to 00:00:42
        bench.after(86_400 - 402)
