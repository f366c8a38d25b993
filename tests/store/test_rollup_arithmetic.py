"""Rollups are exact: from points in any order, from finer rollups, and with points that come late."""

import json
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.store.history.buckets import Buckets
from growd.store.points import PointMaker
from growd.store.rollups.arithmetic import RollupBuilder, as_buckets, coarser, with_late_points
from growd.store.rollups.document import (
    WIDTHS,
    RollupSeries,
    rollup_id,
    rollup_of,
    series_of,
    series_text,
    span_of,
)
from growd.store.rollups.rolled import is_retired_once_sealed, rolled_point, times_of_id
from support.rows import each

SERIES = RollupSeries("environment_1", "measured", "air_temperature")
DAY = 86_400
START = 1_699_920_000 - 1_699_920_000 % DAY
NAMES = st.text(st.characters(), min_size=1, max_size=5)  # also half surrogate pairs
VALUES = st.none() | st.floats(-1e300, 1e300) | st.floats(0, 100) | st.sampled_from([1e308, -1e308])
EXACT = ("at", "min", "max", "last", "last_at", "count", "is_sealed")


def points(span):
    times = st.floats(0, span, exclude_max=True).map(lambda time: START + time)
    inside = times.filter(lambda time: time < START + span)
    return st.lists(st.tuples(inside, VALUES), min_size=1, max_size=30)


def rolled_up(width, values, start=START):
    builder = RollupBuilder(SERIES, width, start)
    for time, value in values:
        builder.add(time, value)
    rollup = builder.rollup()
    assert rollup is not None
    return rollup


def assert_alike(one, other):
    """All is equal, but a mean may differ in its last digits."""
    for column in EXACT:
        assert getattr(one, column) == getattr(other, column), column
    for mean, expected, low, high in zip(one.mean, other.mean, one.min, one.max, strict=True):
        if mean is not None and expected is not None:
            assert low is not None
            assert high is not None
            assert mean == pytest.approx(expected, rel=1e-8, abs=1e-8 * max(abs(low), abs(high)))


def naive(values, width):
    found = {}
    for place in {int((time - START) // width) for time, _ in values}:
        inside = [(time, value) for time, value in values if int((time - START) // width) == place]
        numbers = [value for _, value in inside if value is not None]
        time, last = max((time, float("-inf") if value is None else value) for time, value in inside)
        found[place] = {
            "min": min(numbers, default=None),
            "max": max(numbers, default=None),
            "count": len(numbers),
            "last": last if isfinite(last) else None,
            "last_at": time,
        }
    return found


@pytest.mark.parametrize("width", WIDTHS)
@given(data=st.data())
def test_a_bucket_has_what_its_points_have(width, data):
    values = data.draw(points(WIDTHS[width]))
    rollup = rolled_up(width, values)
    expected = naive(values, width)
    assert rollup.at == sorted(expected)
    for n, place in enumerate(rollup.at):
        assert {name: getattr(rollup, name)[n] for name in expected[place]} == expected[place]
        low, mean, high = rollup.min[n], rollup.mean[n], rollup.max[n]
        if mean is None or low is None or high is None:
            assert (low is None) == (rollup.count[n] == 0)
        else:
            assert low <= mean <= high


@given(points(3_600), st.randoms(use_true_random=False))
def test_the_order_of_points_makes_no_difference(values, shuffler):
    before = rolled_up(300, values)
    shuffler.shuffle(values)
    assert rolled_up(300, values) == before


@given(points(DAY))
def test_hours_and_days_are_those_of_the_points(values):
    by_hour = {}
    for time, value in values:
        by_hour.setdefault(span_of(300, time), []).append((time, value))
    hours = [rolled_up(300, inside, start) for start, inside in by_hour.items()]
    day = coarser(SERIES, 3_600, START, hours)
    assert day is not None
    assert_alike(day, rolled_up(3_600, values))
    month = coarser(SERIES, 86_400, span_of(86_400, START), [day])
    assert month is not None
    assert_alike(month, rolled_up(86_400, values, span_of(86_400, START)))


@given(points(3_600), points(3_600))
def test_late_points_make_the_document_that_it_would_have_been(early, late):
    sealed = with_late_points(SERIES, START, rolled_up(300, early), late)
    assert sealed is not None
    expected = rolled_up(300, [*early, *late])
    expected.is_sealed = True
    assert_alike(sealed, expected)


@given(points(3_600))
def test_buckets_are_those_that_the_history_makes_of_points(values):
    values.sort(key=lambda one: (one[0], float("-inf") if one[1] is None else one[1]))
    rollup = rolled_up(300, values)
    buckets = Buckets(300)
    for time, value in values:
        buckets.add(time, value)
    made, expected = as_buckets([rollup], 300).columns(), buckets.columns()
    means = zip(made.pop("mean"), expected.pop("mean"), rollup.min, rollup.max, strict=True)
    assert made == expected
    for mean, of_points, low, high in means:
        if mean is not None and of_points is not None:
            assert mean == pytest.approx(of_points, rel=1e-8, abs=1e-8 * max(abs(low or 0), abs(high or 0)))


@given(points(3_600))
def test_a_document_is_read_as_it_was_written(values):
    rollup = rolled_up(300, values)
    assert rollup_of(json.loads(json.dumps(rollup.document(), allow_nan=False))) == rollup


def test_a_document_of_another_program_is_no_rollup():
    document = rolled_up(300, [(START, 1.0)]).document()
    assert rollup_of(document) is not None
    assert rollup_of(document | {"mean": []}) is None
    assert rollup_of(document | {"count": ["many"]}) is None
    assert rollup_of({"_id": "note"}) is None
    assert rollup_of(None) is None


@given(NAMES, NAMES, NAMES, st.integers(0, 10**11 - 1), st.integers(0, 10**11 - 1))
def test_ids_are_in_the_order_of_time_and_tell_their_series(environment, category, variable, one, other):
    series = RollupSeries(environment, category, variable)
    first, second = rollup_id(series, 300, min(one, other)), rollup_id(series, 300, max(one, other))
    assert (first < second) == (one != other)
    assert not first.startswith("_")
    assert series_of(first) == series_of(series_text(series)) == series
    first.encode("ascii")


@each("text", ["", "note", "a/b", "a//b/00300/00000000000", "_design/svc"])
def test_other_ids_tell_no_series(text):
    assert series_of(text) is None


POINT = {"environment": "e", "variable": "v", "is_desired": False, "value": 1, "timestamp": 5}


def test_points_are_rolled_up_in_the_series_of_the_view():
    for changes in ({}, {"category": "measured"}, {"is_manual": True}, {"value": True}, {"value": None}):
        point = rolled_point(POINT | changes, is_event=False)
        assert (point.series, point.time) == (RollupSeries("e", "measured", "v"), 5.0)
    assert rolled_point(POINT | {"is_desired": True}, is_event=False).series.category == "desired"


@each(
    "changes",
    [
        {"value": "lettuce_basic"},
        {"value": [1]},
        {"value": 10**400},
        {"timestamp": "2026-11-24"},
        {"timestamp": True},
        {"timestamp": -1},
        {"timestamp": 1_700_000_000_000},
        {"timestamp": float("nan")},
        {"environment": ""},
        {"variable": None},
    ],
)
def test_other_documents_are_not_rolled_up(changes):
    assert rolled_point(POINT | changes, is_event=False) is None


def test_of_events_only_commands_are_rolled_up():
    for category, is_rolled in {"commanded": True, "quality": False, "event": False}.items():
        assert (rolled_point(POINT | {"category": category}, is_event=True) is not None) is is_rolled
    assert rolled_point(POINT, is_event=True) is None


def test_only_unchanged_measurements_and_commands_are_retired():
    assert is_retired_once_sealed(POINT | {"_rev": "1-a"}, is_event=False)
    assert is_retired_once_sealed(POINT | {"category": "commanded"}, is_event=True)
    for changes in ({"_rev": "2-a"}, {"is_manual": True}, {"is_desired": True}, {"value": "text"}):
        assert not is_retired_once_sealed(POINT | changes, is_event=False)


@given(
    st.floats(0, 9e9) | st.integers(0, 2_000_000).flatmap(lambda n: st.floats(n * 3_600 - 1e-3, n * 3_600))
)
def test_the_id_of_a_point_tells_its_hour(time):
    point = PointMaker("0123456789ab").make("e", "v", 1.0, max(0.0, time))
    assert span_of(300, point.timestamp) in {span_of(300, at) for at in times_of_id(point.id)}
    assert times_of_id("5f2b9c") == ()  # of another program
