"""The long grow: its checker finds what passes a limit, and days of it pass none."""

import json
import random
import subprocess
import sys
from itertools import pairwise

import pytest
from lettuce import (
    DAY_S,
    FAULTS,
    FAULTS_A_DAY,
    HOUR_S,
    NEVER_TOGETHER,
    RESTART,
    Checker,
    fresh_g,
    planned,
    replant,
)
from measuring import HERE

from growd.config import InterlockOptions
from growd_hwsim.chamber import SimulatedChamber
from growd_hwsim.faults import Fault
from growd_hwsim.parameters import ChamberParameters
from support.machine import SleepingTime

LIMITS = InterlockOptions()


class Watched:
    """A checked chamber, whose outputs nothing limits."""

    def __init__(self):
        self.clock = SleepingTime(0.0)
        hot_room = ChamberParameters(ambient_temperature_degc=30.0)
        self.chamber = SimulatedChamber(self.clock.monotonic, hot_room)
        self.checker = Checker(LIMITS)
        self.checker.watch(self.chamber, self.clock.monotonic)

    def run(self, seconds, **levels):
        """The limits that were passed so far."""
        for name, level in levels.items():
            self.chamber.set_actuator(name, level)
        for _ in range(int(seconds / 60)):
            self.clock.advance(60)
            self.checker.check(self.chamber, self.clock.now, {"scd30", "i2c-1:0x48"})
        return set(self.checker.passed)


@pytest.mark.parametrize("pair", NEVER_TOGETHER)
def test_a_pair_that_works_against_each_other_passes_a_limit(pair):
    watched = Watched()
    assert watched.run(60) == watched.run(60, **{pair[0]: 1.0}) == set()
    assert watched.run(60, **{pair[1]: 0.1}) == {" and ".join(pair)}


@pytest.mark.parametrize(
    ("actuator", "expected"),
    [
        ("heater", "heater on above its cut-off"),
        ("valve", "valve open above the ceiling"),
        ("valve", "valve on for longer than allowed"),
        ("valve", "dose of CO2 in an hour"),
        ("fill", "filled above the high level"),
        ("fill", "fill on for longer than allowed"),
        ("ph_down", "ph_down on for longer than allowed"),
        ("nutrient_a", "nutrient_a: volume in an hour"),
    ],
)
def test_an_output_that_nothing_limits_passes_its_limit(actuator, expected):
    assert expected in Watched().run(1.5 * HOUR_S, **{actuator: 1.0})


def test_many_short_doses_pass_the_volume_of_a_day():
    watched = Watched()
    for _ in range(15):  # 15 ml each hour
        watched.run(60, ph_down=0.5)
        passed = watched.run(HOUR_S - 60, ph_down=0.0)
    assert passed == {"ph_down: volume in a day"}


def test_a_welded_relay_is_not_what_growd_wrote():
    watched = Watched()
    watched.chamber.present_faults = lambda: {"heater": Fault("welded", "heater")}
    assert watched.run(2 * HOUR_S, heater=0.0) == set()
    assert watched.chamber.air().temperature_degc > LIMITS.heater_off_degc


def test_transplants_take_the_place_of_grown_plants():
    clock = SleepingTime(0.0)
    parameters = ChamberParameters(grows=True, dry_mass_g_m2=1.0, leaf_area_index=0.07)
    chamber = SimulatedChamber(clock.monotonic, parameters)
    for channel in ("white", "red", "blue"):
        chamber.set_lamp(channel, 1.0)
    clock.advance(5 * DAY_S)
    grown_g = fresh_g(chamber)
    replant(chamber)
    assert fresh_g(chamber) == pytest.approx(20 * parameters.growing_area_m2)
    assert grown_g > 1.2 * fresh_g(chamber)


def test_the_plan_has_each_fault_and_none_during_another():
    plan = planned(30, random.Random(1))
    assert {(each.kind, each.device) for each in plan if each.kind != RESTART} == set(FAULTS)
    assert len(plan) >= 30 * FAULTS_A_DAY
    struck = [each for each in plan if each.kind != RESTART]
    assert all(one.end <= two.begin for one, two in pairwise(struck))
    assert plan[-1].end < 30 * DAY_S


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_two_days_with_faults_pass_no_limit_and_keep_the_climate():
    done = subprocess.run(
        [sys.executable, HERE / "lettuce.py", "--days", "2", "--seed", "3", "--json"],
        capture_output=True, text=True, check=False, timeout=590,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = {row["case"]: row["growd"] for row in json.loads(done.stdout)["rows"]}
    assert rows["limits of interlocks passed"] == 0, done.stderr
    assert rows["checks of all limits"] > 2_500
    assert rows["fault power cut and restart: times"] >= 1
    for case in ("air_temperature: within 1 degC", "air_humidity: within 5 percent"):
        assert rows[case] > 85
    assert rows["water_potential_hydrogen: within 0.3 pH"] > 95
