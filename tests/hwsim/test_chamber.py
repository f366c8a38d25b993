from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growd_hwsim.chamber import Chamber, ChamberParameters, Lamp, light_response, saturation_vapour_g_m3
from support.machine import SleepingTime

NIGHT = ChamberParameters(daylight_lux=0.0)


class Bench:
    def __init__(self, parameters: ChamberParameters = NIGHT, **options) -> None:
        self.time = SleepingTime()
        self.chamber = Chamber(self.time.monotonic, parameters, **options)

    def after(self, seconds: float):
        self.time.sleep(seconds)
        return self.chamber.air()


def test_full_white_is_20_000_lux_at_once():
    bench = Bench()
    assert bench.chamber.illuminance_lux() == 0
    bench.chamber.set_lamp("white", 1.0)
    assert bench.chamber.illuminance_lux() == 20_000
    assert bench.chamber.ppfd_umol_m2_s() == 300


@settings(deadline=None)
@given(st.fixed_dictionaries({channel: st.floats(0, 1) for channel in ("white", "red", "blue")}))
def test_light_is_in_proportion_and_adds_up(levels):
    bench = Bench()
    for channel, level in levels.items():
        bench.chamber.set_lamp(channel, level)
    lamps = NIGHT.lamps
    expected = sum(lamps[channel].illuminance_lux * level for channel, level in levels.items())
    assert bench.chamber.illuminance_lux() == pytest.approx(expected)


def test_daylight_follows_the_hours():
    bench = Bench(ChamberParameters(daylight_lux=300.0), time_of_day_s=0.0)
    by_hour = []
    for _ in range(24):
        by_hour.append(bench.chamber.illuminance_lux())
        bench.time.sleep(3600)
    assert by_hour[12] == max(by_hour) == pytest.approx(300)
    assert by_hour[:7] == [0] * 7
    assert by_hour[18:] == [0] * 6
    assert by_hour[6:13] == sorted(by_hour[6:13])


def test_plants_take_carbon_dioxide_up_in_light_and_give_it_back_in_the_dark():
    bench = Bench()
    bench.chamber.set_lamp("white", 1.0)
    series = [bench.after(600).carbon_dioxide_ppm for _ in range(4)]
    assert series == sorted(series, reverse=True)
    assert series[-1] < 320
    bench.chamber.set_lamp("white", 0.0)
    series = [bench.after(600).carbon_dioxide_ppm for _ in range(4)]
    assert series == sorted(series)
    assert bench.after(86_400).carbon_dioxide_ppm > NIGHT.ambient_carbon_dioxide_ppm  # they respire


def test_more_light_means_less_carbon_dioxide_down_to_the_compensation_point():
    settled = []
    for level in (0.0, 0.2, 0.5, 1.0):
        bench = Bench()
        bench.chamber.set_lamp("white", level)
        settled.append(bench.after(20_000).carbon_dioxide_ppm)
    assert settled == sorted(settled, reverse=True)
    sealed = Bench(ChamberParameters(daylight_lux=0.0, leak_per_h=0.0, dark_respiration_umol_m2_s=0.0))
    sealed.chamber.set_lamp("white", 1.0)
    assert sealed.after(1e6).carbon_dioxide_ppm == pytest.approx(NIGHT.compensation_point_ppm, abs=0.5)


def test_a_sealed_chamber_in_the_dark_fills_with_what_plants_respire():
    sealed = Bench(ChamberParameters(daylight_lux=0.0, leak_per_h=0.0, dark_respiration_umol_m2_s=1.0))
    before = sealed.chamber.air().carbon_dioxide_ppm
    # 0.05 m2 x 1 umol/m2/s at 25 degC, a little less in the cooler room, in the 4.1 mol of 100 l
    assert sealed.after(3600).carbon_dioxide_ppm - before == pytest.approx(3600 * 0.05 / 4.1, rel=0.25)


def test_the_valve_raises_carbon_dioxide_and_the_fan_brings_it_down_to_the_rooms():
    bench = Bench()
    bench.chamber.set_valve(True)
    enriched = bench.after(300).carbon_dioxide_ppm
    # 0.05 l/min in 100 l are 500 ppm each minute, less what leaks
    assert enriched - NIGHT.ambient_carbon_dioxide_ppm == pytest.approx(2500, rel=0.1)
    bench.chamber.set_valve(False)
    bench.chamber.set_fan(True)
    assert bench.after(1200).carbon_dioxide_ppm == pytest.approx(NIGHT.ambient_carbon_dioxide_ppm, abs=15)


def test_lamps_warm_the_air_and_the_room_cools_it():
    bench = Bench()
    bench.chamber.set_lamp("white", 1.0)
    lit = bench.after(20_000).temperature_degc
    gain = NIGHT.lamps["white"].power_w / NIGHT.heat_loss_w_k
    assert lit == pytest.approx(NIGHT.ambient_temperature_degc + gain, abs=0.6)
    bench.chamber.set_lamp("white", 0.0)
    assert bench.after(20_000).temperature_degc == pytest.approx(NIGHT.ambient_temperature_degc, abs=0.6)


def test_plants_moisten_the_air_and_more_so_in_light():
    dark, lit = Bench(), Bench()
    lit.chamber.set_lamp("white", 1.0)
    humid_dark, humid_lit = dark.after(10_000).humidity_percent, lit.after(10_000).humidity_percent
    assert NIGHT.ambient_humidity_percent < humid_dark < humid_lit < 100


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 1e8), st.sampled_from(["white", "red", "blue"]), st.floats(0, 1)),
        max_size=5,
    )
)
def test_any_step_however_long_stays_physical(moves):
    bench = Bench(ChamberParameters())
    for seconds, channel, level in moves:
        bench.chamber.set_lamp(channel, level)
        air = bench.after(seconds)
        assert 40 < air.carbon_dioxide_ppm < 480
        assert 15 < air.temperature_degc < 35
        assert 0 < air.humidity_percent <= 100


def test_how_often_it_is_read_changes_little():
    seldom, often = Bench(), Bench()
    for bench in (seldom, often):
        bench.chamber.set_lamp("white", 0.8)
    for _ in range(3600):
        often.after(1.0)
    once, many = seldom.after(3600.0), often.chamber.air()
    assert once.carbon_dioxide_ppm == pytest.approx(many.carbon_dioxide_ppm, abs=0.5)
    assert once.temperature_degc == pytest.approx(many.temperature_degc, abs=0.02)
    assert once.humidity_percent == pytest.approx(many.humidity_percent, abs=0.1)


def test_same_seed_same_chamber_whatever_time_it_starts_at():
    def series(seed: int, now: float) -> list[float]:
        time = SleepingTime(now)
        chamber = Chamber(time.monotonic, NIGHT, seed=seed)
        values = []
        for _ in range(10):
            time.sleep(512)
            values.append(chamber.air().carbon_dioxide_ppm)
        return values

    assert series(1, 0.0) == series(1, 1024.0)
    assert series(1, 0.0) != series(2, 0.0)


def test_several_threads_may_use_it():
    bench = Bench()
    failed = []

    def use(channel: str) -> None:
        for number in range(300):
            bench.time.now += 1.0
            bench.chamber.set_lamp(channel, number % 10 / 10)
            if not 100 < bench.chamber.air().carbon_dioxide_ppm < 460:
                failed.append(channel)

    threads = [threading.Thread(target=use, args=(channel,)) for channel in ("white", "red", "blue")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize(("channel", "fraction"), [("green", 0.5), ("white", 1.5), ("white", -0.1)])
def test_a_lamp_that_cannot_be_is_refused(channel, fraction):
    with pytest.raises(ValueError, match=channel):
        Bench().chamber.set_lamp(channel, fraction)


def test_other_lamps_can_be_built_in():
    parameters = ChamberParameters(daylight_lux=0.0, lamps={"far_red": Lamp(10.0, 50.0, 5.0)})
    bench = Bench(parameters)
    bench.chamber.set_lamp("far_red", 0.5)
    assert bench.chamber.illuminance_lux() == 5.0


@settings(deadline=None)
@given(st.floats(0, 3000), st.floats(0, 3000), st.floats(0, 0.999))
def test_light_response_rises_to_its_maximum_from_its_quantum_yield(one, other, curvature):
    low, high = sorted((one, other))
    assert light_response(low, 0.05, 20.0, curvature) <= light_response(high, 0.05, 20.0, curvature) + 1e-9
    assert light_response(high, 0.05, 20.0, curvature) <= min(0.05 * high, 20.0) + 1e-9
    assert light_response(1e-3, 0.05, 20.0, curvature) == pytest.approx(5e-5, rel=1e-3)


def test_light_response_is_the_root_of_its_equation():
    initial, maximum, curvature = 0.05 * 300, 20.0, 0.7
    p = light_response(300, 0.05, maximum, curvature)
    assert curvature * p * p - (initial + maximum) * p + initial * maximum == pytest.approx(0, abs=1e-9)
    assert p == pytest.approx((35 - 385**0.5) / 1.4)


@pytest.mark.parametrize(("degc", "g_m3"), [(0, 4.85), (20, 17.3), (30, 30.4)])
def test_saturated_vapour_as_in_tables(degc, g_m3):
    assert math.isclose(saturation_vapour_g_m3(degc), g_m3, rel_tol=0.01)
