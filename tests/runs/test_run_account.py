"""Figures of runs against cases that were computed by hand."""

import pytest

from growd_analysis.figures.figures import Gap, Rating
from support.run_points import (
    CO2,
    LIGHT,
    MIDNIGHT,
    VALVE,
    WARMTH,
    command,
    event,
    figures_of,
    quality,
    set_point,
    value,
)

FAN = "air_flush_on"
DAY = 86_400.0
DLI = "light_daily_integral"
DEFICIT, HUMIDITY = "air_vapour_pressure_deficit", "air_humidity"


def whole(figures, variable=WARMTH):
    found = figures.variable(variable)
    return found.whole.data_s, found.whole.min, found.whole.mean, found.whole.max


class TestTimeWeights:
    def test_each_value_counts_for_the_time_that_it_holds(self):
        figures = figures_of(value(0, WARMTH, 10), value(300, WARMTH, 40), end=400)
        assert whole(figures) == (400, 10, (10 * 300 + 40 * 100) / 400, 40)

    def test_a_value_holds_at_most_so_long(self):
        figures = figures_of(value(0, WARMTH, 10), value(2_000, WARMTH, 40), end=2_110)
        assert whole(figures) == (660 + 110, 10, pytest.approx((10 * 660 + 40 * 110) / 770), 40)

    def test_the_value_from_before_the_start_holds_unless_it_is_old(self):
        figures = figures_of(value(-60, WARMTH, 10), value(100, WARMTH, 20), end=200)
        assert whole(figures) == (200, 10, 15, 20)
        assert whole(figures_of(value(-60, WARMTH, 10), end=200)) == (200, 10, 10, 10)
        figures = figures_of(value(-700, WARMTH, 10), value(100, WARMTH, 20), end=200)
        assert whole(figures) == (100, 20, 20, 20)
        assert whole(figures_of(value(-60, WARMTH, 10), end=200)) == (200, 10, 10, 10)

    def test_a_sensor_without_a_value_ends_the_value(self):
        figures = figures_of(
            value(0, WARMTH, 10),
            quality(50, WARMTH, "fault"),
            quality(150, WARMTH, "ok"),
            value(150, WARMTH, 30),
            end=200,
        )
        assert whole(figures) == (100, 10, 20, 30)
        assert figures_of(value(-20, WARMTH, 10), quality(-10, WARMTH, "stale"), end=100).variables == []

    def test_null_texts_and_points_after_the_end_are_no_values(self):
        others = [value(50, WARMTH, "hot"), value(60, WARMTH, None), value(150, WARMTH, 99)]
        assert whole(figures_of(value(0, WARMTH, 10), *others, end=100)) == (100, 10, 10, 10)

    def test_without_points_there_are_no_figures(self):
        figures = figures_of(end=100)
        assert (figures.variables, figures.outputs, figures.light, figures.events) == ([], [], None, [])
        assert figures.days == [MIDNIGHT]


class TestGaps:
    def test_nothing_is_known_from_a_stop_to_the_next_restart_or_the_end(self):
        figures = figures_of(
            value(0, WARMTH, 10),
            event(100, "stop", "growd stopped"),
            event(400, "restart", "growd started after a clean end"),
            value(410, WARMTH, 20),
            event(500, "stop", "growd stopped"),
            end=600,
        )
        assert whole(figures) == (190, 10, pytest.approx((10 * 100 + 20 * 90) / 190), 20)
        gaps = ((100, 400), (500, 600))
        assert figures.gaps == [Gap(MIDNIGHT + begin, MIDNIGHT + end, clean=True) for begin, end in gaps]

    def test_after_a_power_cut_nothing_is_known_from_the_last_point_on(self):
        figures = figures_of(
            value(0, WARMTH, 10),
            value(50, CO2, 400),
            event(400, "restart", "growd started without a clean end before"),
            value(410, WARMTH, 20),
            end=500,
        )
        assert whole(figures) == (140, 10, pytest.approx((10 * 50 + 20 * 90) / 140), 20)
        assert figures.gaps == [Gap(MIDNIGHT + 50, MIDNIGHT + 400, clean=False)]

    def test_a_power_cut_over_midnight(self):
        figures = figures_of(
            value(0, WARMTH, 10),
            event(700, "restart", "growd started"),
            value(700, WARMTH, 20),
            midnight=MIDNIGHT - 300,
            end=1_000,
        )
        assert figures.days == [MIDNIGHT - 300, MIDNIGHT]
        assert figures.variable(WARMTH).days.data_s == [0, 300]

    def test_a_set_point_from_before_a_restart_is_not_known(self):
        figures = figures_of(
            set_point(0, WARMTH, 20),
            event(10, "stop", "growd stopped"),
            event(20, "restart", "growd started"),
            value(20, WARMTH, 21),
            set_point(60, WARMTH, 25),
            end=100,
        )
        deviation = figures.variable(WARMTH).deviation
        assert (deviation.compared_s, deviation.mean_absolute) == (40, 4)


class TestDeviation:
    def test_an_unknown_value_is_not_within_the_tolerance(self):
        figures = figures_of(
            set_point(0, WARMTH, 20),
            value(50, WARMTH, 20.5),
            quality(100, WARMTH, "fault"),
            set_point(300, WARMTH, None),
            end=400,
        )
        found = figures.variable(WARMTH)
        assert (found.deviation.compared_s, found.deviation.unknown_s) == (50, 250)
        assert (found.deviation.mean_absolute, found.deviation.longest_at) == (0.5, None)
        assert [found.deviation.within] == found.days.within == [pytest.approx(50 / 300)]

    def test_a_day_without_known_light_has_no_integral(self):
        figures = figures_of(
            set_point(0, LIGHT, 6_700),
            value(0, LIGHT, 6_700),
            quality(100, LIGHT, "fault"),
            midnight=MIDNIGHT - 200,
            end=300,
        )
        assert figures.light.days == [pytest.approx(6_700 * 100 / 67 / 1e6), None]

    def test_from_the_set_point_in_force(self):
        figures = figures_of(
            set_point(-5_000, WARMTH, 20),
            value(0, WARMTH, 20.5),
            value(100, WARMTH, 23),
            set_point(150, WARMTH, 24),
            value(250, WARMTH, 21.5),
            end=300,
        )
        deviation = figures.variable(WARMTH).deviation
        assert deviation.compared_s == 300
        assert deviation.mean_absolute == pytest.approx((0.5 * 100 + 3 * 50 + 1 * 100 + 2.5 * 50) / 300)
        assert deviation.tolerance.absolute == 1
        assert deviation.within == pytest.approx(200 / 300)
        assert (deviation.longest_s, deviation.longest_at) == (50, MIDNIGHT + 100)

    @pytest.mark.parametrize(
        ("written", "wins", "at"),
        [
            ({DEFICIT}, {}, [100]),  # humidity follows from the deficit
            ({DEFICIT}, {"is_manual": True}, [50]),
            ({HUMIDITY}, {}, [50]),  # the recipe sets humidity, a person the deficit
            ({DEFICIT, HUMIDITY}, {}, [100]),
        ],
    )
    def test_a_set_point_that_another_one_overrides_is_not_in_force(self, written, wins, at):
        figures = figures_of(
            set_point(0, DEFICIT, 1.0, is_manual=DEFICIT not in written),
            value(0, DEFICIT, 1.0),
            value(0, HUMIDITY, 60),
            set_point(50, HUMIDITY, 60, **wins),
            end=100,
            written=frozenset(written),
        )
        assert [figures.variable(DEFICIT).deviation.compared_s] == at
        assert figures.variable(HUMIDITY).deviation.compared_s == 50

    def test_a_released_override_gives_way(self):
        figures = figures_of(
            set_point(0, HUMIDITY, 60),
            set_point(0, DEFICIT, 1.0),
            value(0, DEFICIT, 1.0),
            set_point(10, HUMIDITY, None),
            set_point(10, HUMIDITY, 68),  # of the planner
            set_point(30, HUMIDITY, 50, is_manual=True),
            set_point(60, HUMIDITY, None),
            end=100,
            written=frozenset({HUMIDITY, DEFICIT}),
        )
        assert figures.variable(DEFICIT).deviation.compared_s == 20 + 40

    def test_the_light_of_a_day_counts_only_if_its_set_point_is_in_force_at_its_end(self):
        figures = figures_of(
            set_point(-500, DLI, 10),
            value(-400, DLI, 9),
            set_point(-300, LIGHT, 100, is_manual=True),
            value(100, DLI, 0),
            midnight=MIDNIGHT,
            start=-1_000,
            end=200,
        )
        assert figures.variable(DLI).deviation is None

    def test_a_set_point_by_hand_outlasts_a_restart(self):
        figures = figures_of(
            set_point(0, WARMTH, 20, is_manual=True),
            event(10, "stop", "growd stopped"),
            event(20, "restart", "growd started"),
            value(20, WARMTH, 21),
            end=100,
        )
        deviation = figures.variable(WARMTH).deviation
        assert (deviation.compared_s, deviation.unknown_s, deviation.mean_absolute) == (80, 10, 1)

    def test_the_longest_time_outside_the_tolerance(self):
        figures = figures_of(
            set_point(0, CO2, 1_000),
            *[value(at, CO2, 900) for at in (0, 400)],  # 100 ppm below; the tolerance is 50
            value(500, CO2, 960),
            value(600, CO2, 1_060),
            end=700,
        )
        deviation = figures.variable(CO2).deviation
        assert (deviation.longest_s, deviation.longest_at) == (500, MIDNIGHT)

    def test_a_gap_ends_an_excursion(self):
        figures = figures_of(
            set_point(0, CO2, 1_000),
            value(0, CO2, 500),
            quality(100, CO2, "fault"),
            value(200, CO2, 500),
            end=250,
        )
        assert figures.variable(CO2).deviation.longest_s == 100

    def test_a_sum_is_compared_at_the_end_of_each_day_and_has_no_mean(self):
        """Light from 05:00 to 21:00 of the first day, half of it on the second; the third has not ended."""
        light = [(hours, min(12.0, 0.75 * (hours - 5))) for hours in range(6, 24)]
        light += [(24 + hours, sum_ / 2) for hours, sum_ in light] + [(48, 0.0), (54, 0.75)]
        figures = figures_of(
            set_point(5 * 3_600, DLI, 12.0),
            set_point(22 * 3_600, DLI, None),  # at night there is none
            set_point(24 * 3_600, DLI, 12.0),
            *(
                value(hours * 3_600 + more, DLI, sum_)
                for hours, sum_ in light
                for more in range(0, 3_600, 600)
            ),
            start=4 * 3_600,
            end=55 * 3_600,
        )
        found = figures.variable(DLI)
        assert (found.whole.mean, found.day, found.whole.max, found.days.mean) == (
            None,
            None,
            12.0,
            3 * [None],
        )
        assert (found.days.mean_absolute, found.days.within) == ([0.0, 6.0, None], [1.0, 0.0, None])
        deviation = found.deviation
        assert (deviation.longest_s, deviation.longest_at) == (DAY, MIDNIGHT + DAY)
        assert deviation.within == pytest.approx(20 / 44)

    def test_the_sum_of_a_day_that_ended_without_a_value_is_not_compared(self):
        points = [value(60, DLI, 12.0), event(120, "stop", "growd stopped"), value(DAY + 60, DLI, 0.1)]
        found = figures_of(set_point(0, DLI, 12.0), *points, end=DAY + 120).variable(DLI)
        assert found.deviation is None

    def test_a_released_set_point_is_not_zero(self):
        points = (set_point(0, CO2, 500), value(0, CO2, 490), set_point(60, CO2, None))
        found = figures_of(*points, end=200).variable(CO2)
        assert (found.deviation.compared_s, found.deviation.mean_absolute) == (60, 10)
        assert found.whole.data_s == 200
        assert figures_of(value(0, WARMTH, 20), end=100).variable(WARMTH).deviation is None


class TestLight:
    def test_by_planned_light_and_darkness(self):
        figures = figures_of(
            set_point(0, LIGHT, 0),
            value(0, WARMTH, 18),
            set_point(100, LIGHT, 8_000),
            value(150, WARMTH, 24),
            set_point(400, LIGHT, None),  # a released lamp is dark
            end=500,
        )
        warmth = figures.variable(WARMTH)
        assert (figures.light_s, figures.dark_s) == (300, 200)
        assert (warmth.day.data_s, warmth.day.mean) == (300, (18 * 50 + 24 * 250) / 300)
        assert (warmth.night.data_s, warmth.night.mean) == (200, (18 * 100 + 24 * 100) / 200)

    def test_a_run_without_light_has_no_day_and_night(self):
        warmth = figures_of(value(0, WARMTH, 18), end=100).variable(WARMTH)
        assert (warmth.day, warmth.night) == (None, None)

    def test_the_integral_from_ppfd(self):
        lit = [value(at, "light_ppfd", 200) for at in range(0, 36_000, 600)]
        light = figures_of(*lit, value(36_000, "light_ppfd", 0), end=36_000).light
        assert (light.variable, light.total) == ("light_ppfd", 7.2)
        assert (light.lux_per_ppfd, light.uncertainty) == (None, None)

    def test_the_integral_from_illuminance_names_its_factor(self):
        lit = [value(at, LIGHT, 6_700) for at in range(0, 43_200, 600)]
        by_hand = value(60, "light_ppfd", 110, is_manual=True)  # one reading is no integral
        light = figures_of(*lit, by_hand, end=43_200, midnight=MIDNIGHT - 21_600).light
        assert light.total == pytest.approx(100 * 43_200 / 1e6)
        assert light.days == [pytest.approx(2.16), pytest.approx(2.16)]
        assert (light.variable, light.lux_per_ppfd, light.uncertainty) == (LIGHT, 67, 0.15)

    def test_a_whole_day_has_the_integral_that_growd_has_told(self):
        lit = [value(at, "light_ppfd", 200) for at in range(0, 3 * int(DAY), 600)]
        told = [value(DAY + at, DLI, min(17.0, at / 3_600)) for at in range(0, int(DAY), 600)]
        light = figures_of(*sorted([*lit, *told], key=lambda point: point.timestamp), end=2.5 * DAY).light
        assert light.days == [pytest.approx(17.28), 17.0, pytest.approx(8.64)]
        assert light.total == pytest.approx(17.28 + 17.0 + 8.64)

    def test_a_day_without_data_has_no_integral(self):
        light = figures_of(value(0, LIGHT, 6_700), value(600, LIGHT, 6_700), end=2 * DAY).light
        assert light.days == [pytest.approx(0.126), None]


class TestOutputs:
    def test_the_time_that_a_valve_was_open_its_doses_and_volume(self):
        figures = figures_of(
            command(0, VALVE, 0),
            *[command(at, VALVE, on) for at in (100, 200, 300) for on in (1,)],
            *[command(at, VALVE, 0) for at in (130, 205, 301)],
            ratings={VALVE: Rating(flow_l_min=2.0)},
            end=400,
        )
        (valve,) = figures.outputs
        assert (valve.known_s, valve.on_s, valve.starts) == (400, 36, 3)
        assert valve.litres == pytest.approx(1.2)
        assert valve.grams == pytest.approx(1.2 * 1.84)
        assert valve.days_litres == [pytest.approx(1.2)]

    def test_energy_and_volume_of_outputs_with_levels(self):
        ratings = {
            "air_heater": Rating(power_w=200.0),
            "nutrient_a": Rating(power_w=6.0, flow_l_min=0.06),
            VALVE: Rating(power_w=10.0),
        }
        commands = [command(at, name, 0.5) for at in range(0, 3_600, 600) for name in ratings]
        found = {one.variable: one for one in figures_of(*commands, ratings=ratings, end=3_600).outputs}
        assert found["air_heater"].energy_kwh == pytest.approx(0.1)
        assert (found["air_heater"].litres, found["air_heater"].grams) == (None, None)
        assert found["nutrient_a"].litres == pytest.approx(1.8)
        assert found["nutrient_a"].grams is None
        assert found[VALVE].energy_kwh == pytest.approx(0.01)  # a switch is on from one half

    def test_a_valve_that_an_interlock_holds_closed_is_not_open_and_a_repeated_command_is_no_dose(self):
        (valve,) = figures_of(
            command(0, VALVE, 1),
            event(60, "interlock", "dose_per_hour: the valve was open for 1800 s"),
            event(100, "interlock", "dose_per_hour: released"),
            command(120, VALVE, 1),
            end=150,
        ).outputs
        assert (valve.known_s, valve.on_s, valve.starts, valve.litres) == (150, 110, 2, None)

    def test_after_the_end_of_a_command_or_a_power_cut_nothing_is_known(self):
        (fan,) = figures_of(command(0, FAN, 1), command(60, FAN, None), command(90, FAN, 0), end=100).outputs
        assert (fan.known_s, fan.on_s, fan.mean_level) == (70, 60, pytest.approx(60 / 70))
        cut = (value(20, WARMTH, 20), event(600, "restart", "growd started"))
        (fan,) = figures_of(command(0, FAN, 1), *cut, end=700).outputs
        assert (fan.known_s, fan.on_s) == (20, 20)

    def test_the_mean_level_of_a_lamp_channel(self):
        red = "light_intensity_red"
        demand = command(0, CO2, 0.4)  # of a controller: no output
        (lamp,) = figures_of(command(0, red, 0.25), demand, command(60, red, 0.75), end=120).outputs
        assert (lamp.mean_level, lamp.on_s, lamp.unit) == (0.5, 60, "fraction")


class TestDays:
    def test_each_day_has_its_own_figures(self):
        figures = figures_of(
            set_point(0, WARMTH, 20),
            value(0, WARMTH, 20),
            value(300, WARMTH, 22),
            command(0, FAN, 1),
            command(400, FAN, 0),
            midnight=MIDNIGHT - 200,
            end=500,
        )
        assert figures.days == [MIDNIGHT - 200, MIDNIGHT]
        days = figures.variable(WARMTH).days
        assert (days.data_s, days.min, days.max) == ([200, 300], [20, 20], [20, 22])
        assert days.mean == [20, pytest.approx((20 * 100 + 22 * 200) / 300)]
        assert days.mean_absolute == [0, pytest.approx(2 * 200 / 300)]
        (fan,) = figures.outputs
        assert (fan.days_known_s, fan.days_on_s, fan.days_starts) == ([200, 300], [200, 200], [1, 0])

    def test_a_run_that_ends_at_midnight_has_no_empty_day(self):
        assert figures_of(value(0, WARMTH, 20), end=DAY).days == [MIDNIGHT]


class TestEvents:
    def test_faults_interlocks_and_holds_last_until_their_end_and_notes_are_counted(self):
        figures = figures_of(
            event(-90, "fault", "scd30: no answer"),
            event(-60, "recovery", "scd30: ok after 30 s"),
            event(-50, "interlock", "light_hours: on for 16 h"),
            event(10, "fault", "scd30: no answer"),
            event(20, "fault", "scd30: no answer: timeout"),
            event(30, "interlock", "light_hours: released"),
            event(35, "hold", "hold: all outputs are held by ann"),
            event(65, "hold", "hold: the hold by ann is released by bob"),
            event(70, "recovery", "scd30: ok after 60.0 s"),
            event(80, "fault", "bh1750: no answer"),
            event(85, "note", "planted: basil"),
            event(90, "note", "watered"),
            end=100,
        )
        found = {(one.kind, one.source): (one.count, one.lasted_s) for one in figures.events if one.lasted_s}
        assert found["fault", "scd30"] == (1, 60)
        assert found["interlock", "light_hours"][1] == 30  # it began before the run
        assert [each for (kind, _), each in found.items() if kind == "hold"] == [(1, 30)]
        times = {one.source: one.times for one in figures.events if one.kind == "fault"}
        assert times["scd30"] == [(MIDNIGHT + 10, MIDNIGHT + 70)]
        assert times["bh1750"] == [(MIDNIGHT + 80, None)]
        assert [(one.source, one.count) for one in figures.events if one.kind == "note"] == [("", 2)]


class TestByHand:
    def test_readings_are_listed_and_no_series(self):
        variable = "water_potential_hydrogen"
        figures = figures_of(value(10, variable, 6.1, is_manual=True, by="ann"), end=100)
        assert figures.variables == []
        (found,) = figures.by_hand
        assert (found.variable, found.value, found.unit, found.by) == (variable, 6.1, "pH", "ann")

    def test_a_reading_of_a_variable_with_a_sensor_is_a_value_too(self):
        figures = figures_of(value(0, WARMTH, 20), value(50, WARMTH, 22, is_manual=True), end=100)
        assert whole(figures) == (100, 20, 21, 22)
        assert len(figures.by_hand) == 1
