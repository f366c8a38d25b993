"""A set point of the light of a day plans the lamp; one of PPFD is one of its illuminance."""

import math
from datetime import UTC, datetime

import pytest
from closed_loop import ENVIRONMENT
from hypothesis import given
from hypothesis import strategies as st
from light_days import DLI, EXPECTED, FULL_PPFD, MIDNIGHT, PPFD, TARGET_MOL, Chamber, coarse, days

from growd.bus.messages import Quality
from growd.control.derived.daylight import BIN_S, BINS, SUNNIER, DaylightProfile
from growd.control.planning.light_day import DAY_S, LightStep, Window, level_for, level_in_the_dark, light_mol

pytestmark = pytest.mark.long

HOUR_S = 3_600.0
LUX = "e/desired/light_illuminance"


# the plan


def steps(*daylight, seconds=HOUR_S, share=1.0):
    return [LightStep(seconds, share, each) for each in daylight]


@given(st.lists(st.tuples(st.floats(0, 600), st.floats(0, 1)), min_size=1, max_size=20), st.floats(0, 30))
def test_the_level_gives_what_is_missing_if_the_lamp_can(rest, missing):
    found = [LightStep(HOUR_S, share, daylight) for daylight, share in rest]
    level = level_for(found, missing, 400.0)
    assert 0 <= level <= 400
    if light_mol(found, 0) <= missing <= light_mol(found, 400):
        assert light_mol(found, level) == pytest.approx(missing, rel=1e-3, abs=1e-3)
    elif missing < light_mol(found, 0):
        assert level == 0  # daylight alone is enough
    else:
        assert level == 400


def test_the_lamp_fills_daylight_up():
    assert level_for(steps(0, 0), 2 * 0.36, 400) == pytest.approx(100, rel=1e-3)
    assert level_for(steps(0, 300), 0.36 + 1.08, 400) == pytest.approx(100, rel=1e-3)
    assert level_in_the_dark(steps(0, 300), 2 * 0.36) == pytest.approx(100)
    assert level_in_the_dark(steps(0, share=0.0), 1.0) == math.inf


@pytest.mark.parametrize(
    ("window", "lit"),
    [
        (Window(6 * HOUR_S, 22 * HOUR_S), {6, 14, 21}),
        (Window(20 * HOUR_S, 4 * HOUR_S), {0, 3, 20, 23}),
        (Window(), {0, 12, 23}),
    ],
)
def test_a_window_may_go_over_midnight(window, lit):
    dark = set(range(24)) - {hour for hour in range(24) if window.share(hour * HOUR_S)}
    assert not lit & dark
    length = (window.end - window.begin) % DAY_S or DAY_S
    assert len(dark) == 24 - length / HOUR_S
    assert sum(seconds for middle, seconds in window.steps(0.0) if window.share(middle)) == length


def test_a_ramp_rises_and_falls_within_the_window():
    window = Window(6 * HOUR_S, 22 * HOUR_S, HOUR_S)
    shares = [window.share(hour * HOUR_S) for hour in (6, 6.5, 7, 14, 21, 21.5, 22)]
    assert shares == [0, 0.5, 1, 1, 1, 0.5, 0]


# daylight of the days before


def test_the_brightest_and_the_expected_daylight_come_from_the_days_before():
    profile = DaylightProfile(UTC)
    for day, ppfd in enumerate([100.0, 300.0]):
        for number in range(BINS):
            profile.add(ppfd, BIN_S, MIDNIGHT + day * DAY_S + (number + 0.5) * BIN_S)
    assert profile.add(50.0, BIN_S, MIDNIGHT + 2 * DAY_S + 60)  # a day has ended
    assert profile.brightest() == [pytest.approx(SUNNIER * 300)] * BINS
    assert profile.expected() == [pytest.approx(200 * 50 / 200)] * BINS  # a quarter as bright today
    later = DaylightProfile(UTC)
    later.restore(profile.state())
    assert later.brightest() == profile.brightest()


def test_without_a_day_before_no_daylight_is_expected():
    profile = DaylightProfile(UTC)
    profile.add(500.0, 60.0, MIDNIGHT + HOUR_S)
    assert (sum(profile.brightest()), sum(profile.expected())) == (0, 0)


@pytest.mark.parametrize("saved", [[[1.0]], [["x"] * BINS], 3])
def test_invalid_saved_days_are_refused(saved):
    with pytest.raises((ValueError, TypeError)):
        DaylightProfile(UTC).restore(saved)


# whole days


async def test_days_with_clouds_have_their_light():
    light, room = await days(2, TARGET_MOL, seed=7)
    assert light == [pytest.approx(TARGET_MOL, rel=0.02)] * 2
    assert room.lit_outside_s == 0
    assert room.lamp_mol < 0.8 * 2 * TARGET_MOL  # daylight counts


async def test_a_lamp_that_is_too_weak_is_told_before_noon():
    room = Chamber(noon_ppfd=0.0, strength=0.5)
    room.want(TARGET_MOL)
    with coarse():
        async with room.running():
            await room.clock.advance(4 * HOUR_S)
            assert room.trouble == ""
            await room.clock.advance(8 * HOUR_S)
            told = room.trouble
    assert "will reach" in told
    assert f"of {TARGET_MOL:g} mol/m2 today" in told
    assert "50 % of it" in told


async def test_what_is_out_of_reach_is_told_at_once():
    room = Chamber(noon_ppfd=0.0)
    room.want(30.0)
    with coarse():
        async with room.running():
            most = FULL_PPFD * 16 * HOUR_S * 1e-6
            assert f"will reach {most:.4g} of 30 mol/m2 today" in room.trouble
            found = room.planner.node.details()["attainment"]
            assert [(each["variable"], each["state"]) for each in found] == [(DLI, "missed")]
            await room.clock.advance(6 * HOUR_S)
            assert room.duty == pytest.approx(1.0)
            assert room.value(EXPECTED) == pytest.approx(most, rel=0.02)


async def test_a_ppfd_that_the_lamp_cannot_give_is_told_with_a_remedy():
    room = Chamber(noon_ppfd=0.0)
    client = room.bus.node("another client").publisher(f"{ENVIRONMENT}/desired/{PPFD}")
    with coarse():
        async with room.running():
            for share, names in ((1.0, []), (2.0, [f"{ENVIRONMENT}/{PPFD}"]), (0.5, [])):
                client.publish(share * FULL_PPFD)
                await room.clock.advance(60)
                found = room.planner.node.details()["problems"]
                assert [each["name"] for each in found if each["remedy"]] == names
                assert bool(room.trouble) is bool(names)


@pytest.mark.nightly
async def test_enough_daylight_keeps_the_lamp_dark():
    light, room = await days(2, 4.0, noon_ppfd=900.0, seed=3)
    assert min(light[1:]) > 4.0
    assert room.planner.node.details()["problems"] == []
    assert room.lamp_mol < 0.3 * sum(light)


async def test_a_switched_lamp_is_at_full_light_or_dark_and_seldom_switched():
    room = Chamber(is_switched=True, seed=5)
    switchings, before = 0, 0.0
    room.want(TARGET_MOL)
    with coarse():
        async with room.running():
            await room.pass_day()
            start = room.light_mol
            for _ in range(24 * 6):
                await room.clock.advance(600)
                assert room.duty in (0.0, 1.0)
                switchings, before = switchings + (room.duty != before), room.duty
    assert room.light_mol - start == pytest.approx(TARGET_MOL, rel=0.04)
    assert switchings <= 12


async def test_the_lamp_is_dark_while_the_set_point_of_the_recipe_is_zero():
    room = Chamber(noon_ppfd=0.0)

    def recipe(variable, wall):
        hour = datetime.fromtimestamp(wall, UTC).hour
        return {DLI: 3.0 if 10 <= hour < 14 else 0.0}.get(variable)

    room.planner.outlook_by(recipe)
    with coarse():
        async with room.running():
            for hour in range(24):
                room.want(recipe(DLI, room.clock.time()))
                await room.clock.advance(HOUR_S - 120)
                assert bool(room.duty) is (10 <= hour < 14)
                await room.clock.advance(120)
    assert room.light_mol == pytest.approx(3.0, rel=0.02)


async def test_light_that_is_not_measured_counts_as_planned():
    room = Chamber(noon_ppfd=0.0)
    room.want(TARGET_MOL)
    with coarse():
        async with room.running():
            await room.clock.advance(8 * HOUR_S)
            room.quality = Quality.FAULT
            await room.clock.advance(6 * HOUR_S)
            room.quality = Quality.OK
            await room.clock.advance(10 * HOUR_S)
    assert room.light_mol == pytest.approx(TARGET_MOL, rel=0.03)


async def test_a_set_point_of_the_lamp_wins():
    room = Chamber(noon_ppfd=0.0)
    client = room.bus.node("another client").publisher(LUX)
    room.want(TARGET_MOL)
    with coarse():
        async with room.running():
            client.publish(5_000.0)
            await room.clock.advance(7 * HOUR_S)
            assert room.bus.topics.get(LUX).last.node == "another client"
            assert room.planner.expected_mol() is None
            client.publish(None, Quality.STALE)
            await room.clock.advance(60)
            assert room.duty > 0.2


async def test_a_set_point_of_ppfd_is_one_of_illuminance():
    room = Chamber(noon_ppfd=0.0)
    client = room.bus.node("another client").publisher("e/desired/light_ppfd")
    room.want(TARGET_MOL)
    with coarse():
        async with room.running():
            client.publish(100.0)
            await room.clock.advance(60)
            assert room.bus.topics.get(LUX).last.value == pytest.approx(6_700)
            assert room.trouble == ""  # the light of the day has no set point in force
            client.publish(None, Quality.STALE)
            await room.clock.advance(60)
            assert room.bus.topics.get(LUX).last.value == 0  # it is midnight
