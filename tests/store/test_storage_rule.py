"""Which values become points."""

import itertools
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


def stored_by(rule, samples):
    now, stored = 100.0, []
    for step, value in samples:
        now += step
        if rule.admits(value, now):
            stored.append((now, value))
    return stored


def times_of(samples):
    now, all_samples = 100.0, []
    for step, value in samples:
        now += step
        all_samples.append((now, value))
    return all_samples


@given(steps)
def test_stored_points_are_never_closer_than_the_minimum_interval(samples):
    stored = stored_by(StorageRule(CO2), samples)
    assert all(later - earlier >= 5 for (earlier, _), (later, _) in itertools.pairwise(stored))


def test_the_configured_band_takes_the_place_of_both():
    options = StorageRuleOptions(absolute_band=2.0, minimum_interval_s=0.0)
    rule = StorageRule(CO2, Store(variable={CO2.name: options}))
    assert stored_by(rule, [(1, 1_000.0), (1, 1_003.0), (1, 1_004.0)]) == [(101.0, 1_000.0), (102.0, 1_003.0)]


@given(steps)
def test_only_numbers_are_stored(samples):
    assert all(
        value is not None and math.isfinite(value) for _, value in stored_by(StorageRule(CO2), samples)
    )


@given(steps)
def test_a_value_that_comes_after_the_maximum_interval_is_stored(samples):
    stored = stored_by(StorageRule(CO2), samples)
    valid = [(t, v) for t, v in times_of(samples) if v is not None and math.isfinite(v)]
    assert stored[:1] == valid[:1]
    for now, _ in valid:
        last = max(t for t, _ in stored if t <= now)
        assert now - last < 600


@given(steps)
def test_between_the_intervals_a_value_is_stored_exactly_when_it_left_the_band(samples):
    stored = dict(stored_by(StorageRule(CO2), samples))
    last = None
    for now, value in times_of(samples):
        if value is None or not math.isfinite(value):
            assert now not in stored
            continue
        if last is not None and 5 <= now - last[0] < 600:
            band = max(2, 0.01 * abs(last[1]))
            assert (now in stored) == (abs(value - last[1]) > band)
        if now in stored:
            last = (now, float(value))


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
    rule = ChangeRule()
    values = [0.0, 0.0, 5.0, 5.0, 0.0, "lettuce", "lettuce", None, None, math.nan, 1.0]
    assert [rule.admits(value) for value in values] == [
        True, False, True, False, True, True, False, True, False, False, True,
    ]  # fmt: skip
