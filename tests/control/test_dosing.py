import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.control.dosing import Doser

DEMAND = st.floats(0, 1)
LEAST = st.floats(0.1, 60)


def edges(doser, demands, tick_s):
    """Drive it as a controller does, by ticks and at each edge: whether it was on, and for how long."""
    lasted, found, was_on = 0.0, [], doser.is_on
    for demand in demands:
        left = tick_s
        while left > 1e-9:
            step = min(left, doser.until_edge(demand) or left)
            doser.advance(demand, step)
            lasted, left = lasted + step, left - step
            if doser.is_on != was_on:
                found.append((was_on, lasted))
                lasted, was_on = 0.0, doser.is_on
    return found


@given(LEAST, LEAST, st.lists(DEMAND, min_size=1, max_size=100), st.floats(0.1, 30))
def test_the_minimum_times_hold(on, off, demands, tick_s):
    found = edges(Doser(on, off), demands, tick_s)
    for was_on, lasted in found[1:]:  # what was before the first edge began before the test
        assert lasted >= (on if was_on else off) - 1e-6


@given(LEAST, LEAST, DEMAND, st.floats(0.1, 60))
def test_the_average_share_of_on_time_is_the_demand(on, off, demand, tick_s):
    doser, ticks = Doser(on, off), 500
    found = edges(doser, [demand] * ticks, tick_s)
    time_on = sum(lasted for was_on, lasted in found if was_on)
    if doser.is_on:
        time_on += ticks * tick_s - sum(lasted for _, lasted in found)
    assert time_on == pytest.approx(demand * ticks * tick_s, abs=on + off + 1e-6)


@given(LEAST, LEAST, st.lists(st.tuples(DEMAND, st.floats(0, 1000)), max_size=100))
def test_the_time_that_is_due_is_bounded(on, off, steps):
    doser = Doser(on, off)
    for demand, seconds in steps:
        doser.advance(demand, seconds)
        assert abs(doser.owed_s) <= on + off
        assert doser.until_edge(demand) >= 0


@given(LEAST, LEAST, st.lists(DEMAND, max_size=50))
def test_a_demand_of_0_stays_off_and_of_1_stays_on(on, off, before):
    doser = Doser(on, off)
    for demand in before:
        doser.advance(demand, 1.0)
    doser.shut()
    assert not doser.is_on
    assert doser.until_edge(0.0) == math.inf
    for _ in range(200):
        doser.advance(1.0, 1.0)
    assert doser.is_on
    assert doser.until_edge(1.0) == math.inf


@given(LEAST, LEAST, st.lists(DEMAND, max_size=50), st.floats(0, 100))
def test_a_dose_ends_at_its_minimum_time_when_the_demand_ends(on, off, before, seconds):
    doser = Doser(on, off)
    for demand in (*before, 1.0, 1.0, 1.0):
        doser.advance(demand, on + off)
    assert doser.is_on
    doser.advance(1.0, seconds)
    if doser.advance(0.0, 0.0):
        assert doser.until_edge(0.0) <= on
        doser.advance(0.0, doser.until_edge(0.0))
    assert not doser.is_on
    assert doser.owed_s <= 0


@given(LEAST, LEAST, st.floats(0, 300), st.lists(DEMAND, min_size=1, max_size=100), st.floats(0.1, 30))
def test_starts_are_a_cycle_apart(on, off, cycle, demands, tick_s):
    found = edges(Doser(on, off, cycle), demands, tick_s)
    pairs = [first[1] + second[1] for first, second in itertools.pairwise(found) if first[0]]
    assert all(apart >= cycle - 1e-6 for apart in pairs)


@pytest.mark.parametrize("demand", [0.05, 0.3, 0.5, 0.9])
def test_a_cycle_keeps_the_share_of_on_time(demand):
    doser, time_on = Doser(4.0, 4.0, 300.0), 0.0
    for _ in range(20_000):
        time_on += doser.is_on
        doser.advance(demand, 1.0)
    assert time_on == pytest.approx(demand * 20_000, abs=300)


def test_a_held_dose_is_given_afterwards_unless_its_demand_ends():
    doser = Doser(4.0, 2.0)
    while not doser.is_on:
        doser.advance(0.5, 1.0)
    for _ in range(60):
        assert doser.advance(0.5, 1.0, is_held=True)
        assert doser.until_edge(0.5) == math.inf
    given_s = 0
    while doser.advance(0.5, 1.0):
        given_s += 1
    assert 2 * 4 <= given_s <= 2 * (4 + 2)
    doser = Doser(4.0, 2.0, 90.0)
    doser.advance(1.0, 10.0)
    assert doser.advance(1.0, 10.0, is_held=True)
    assert not doser.advance(0.0, 1.0, is_held=True)
