"""Which values become points."""

import math

from hypothesis import given
from hypothesis import strategies as st

from growd.config import StorageRuleOptions, Store
from growd.store.storage_rule import ChangeRule, StorageRule
from growd.variables import VARIABLES, Variable

CO2 = Variable("air_carbon_dioxide", "ppm", 0, 40_000, 0, absolute_band=2, relative_band=0.01)
PLAIN = Variable("x", "", -1e9, 1e9, absolute_band=0, relative_band=0)

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
anything = st.one_of(
    finite, st.just(math.nan), st.just(math.inf), st.none(), st.integers(-5, 5), st.booleans()
)
steps = st.lists(st.tuples(st.floats(0.01, 700), anything), max_size=60)


@given(steps)
def test_numbers_are_stored_by_the_intervals_and_between_them_when_they_left_the_band(samples):
    rule, now, last = StorageRule(CO2), 100.0, None
    for step, value in samples:
        now += step
        is_stored = rule.admits(value, now)
        if value is None or not math.isfinite(value):
            assert not is_stored
            continue
        if last is None or now - last[0] >= 600:
            assert is_stored
        elif now - last[0] < 5:
            assert not is_stored
        else:
            assert is_stored == (abs(value - last[1]) > max(2, 0.01 * abs(last[1])))
        if is_stored:
            last = (now, float(value))


def test_the_configured_rule_of_a_variable_applies_to_it():
    rule = StorageRuleOptions(absolute_band=2.0, minimum_interval_s=0.0)
    settings = Store(maximum_interval_s=60.0, variable={CO2.name: rule})
    own = StorageRule(CO2, settings)  # the configured band takes the place of both
    assert [own.admits(value, at) for at, value in enumerate((1_000.0, 1_003.0, 1_004.0))] == [
        True,
        True,
        False,
    ]
    other = StorageRule(VARIABLES["air_humidity"], settings)
    assert [other.admits(50.0, at) for at in (0.0, 59.0, 60.0)] == [True, False, True]


def test_zero_is_an_ordinary_value():
    rule = StorageRule(VARIABLES["light_illuminance"])
    assert rule.admits(0.0, 0.0)
    assert [rule.admits(0.0, now) for now in range(5, 600, 5)] == [False] * 119
    assert rule.admits(0.0, 600.0)
    assert rule.admits(500.0, 605.0)
    assert rule.admits(0.0, 610.0)


def test_the_larger_of_the_two_bands_applies():
    rule = StorageRule(CO2)
    assert rule.admits(100, 0)
    assert not rule.admits(101.9, 10)  # within 2 ppm
    assert rule.admits(102.1, 20)
    assert rule.admits(10_000, 30)
    assert not rule.admits(10_090, 40)  # within 1 %
    assert rule.admits(10_101, 50)


def test_without_a_band_every_change_is_stored():
    rule = StorageRule(PLAIN)
    assert [rule.admits(value, 10.0 * at) for at, value in enumerate([1, 1, 1.5, 1.5, True, False])] == [
        True, False, True, False, True, True,
    ]  # fmt: skip


def test_desired_values_are_stored_when_they_change():
    rule = ChangeRule(PLAIN)
    values = [0.0, 0.0, 5.0, 5.0, 0.0, "lettuce", "lettuce", None, None, math.nan, 1.0]
    assert [rule.admits(value) for value in values] == [
        True, False, True, False, True, True, False, True, False, False, True,
    ]  # fmt: skip


def test_of_a_ramp_what_leaves_the_dead_band_and_its_end_are_stored():
    rule = ChangeRule(CO2)  # within 2 ppm
    values = [400.0, 401.0, 402.0, 406.0, 406.5, 406.5, 406.5, 407.0, None, 407.5]
    assert [value for value in values if rule.admits(value, repeats=True)] == [
        400.0,
        406.0,
        406.5,
        None,
        407.5,
    ]
    assert rule.admits(407.6)
