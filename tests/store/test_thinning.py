"""Thinning keeps the ends and extremes of each series, and all rare points."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growd.store.point_tables import WIDTHS, is_expendable, thinned
from growd.store.points import PointMaker

MAKER = PointMaker("0123456789ab")

POINTS = st.lists(
    st.builds(
        MAKER.make,
        st.sampled_from(["environment_1", "environment_2"]),
        st.sampled_from(["air_temperature", "air_humidity"]),
        st.one_of(st.integers(-5, 5), st.floats(-5, 5), st.just(10**400), st.text(max_size=2), st.none()),
        st.floats(-1000, 1000),
        is_desired=st.sampled_from([False, False, True]),
        is_manual=st.sampled_from([False, False, False, True]),
        category=st.sampled_from(["", "", "commanded", "event"]),
    ),
    max_size=60,
)


def spans(points, width):
    found = defaultdict(list)
    for point in points:
        if is_expendable(point):
            series = point.environment, point.variable, point.category
            found[*series, point.timestamp // width].append(point)
    return list(found.values())


@settings(max_examples=60)
@given(POINTS, st.sampled_from(WIDTHS))
def test_each_series_keeps_its_ends_and_extremes(points, width):
    gone = thinned(points, width)
    kept = [point for index, point in enumerate(points) if index not in gone]
    assert all(is_expendable(points[index]) for index in gone)
    for span in spans(points, width):
        left = [point for point in span if point in kept]
        assert len(left) <= 4
        assert (left[0], left[-1]) == (span[0], span[-1])
        for extreme in (min, max):
            assert extreme(p.value for p in left) == extreme(p.value for p in span)
    assert thinned(kept, width) == set()


@pytest.mark.parametrize(
    ("point", "may_go"),
    [
        (MAKER.make("e", "v", 1.5, 0.0), True),
        (MAKER.make("e", "v", 0, 0.0), True),
        (MAKER.make("e", "v", 1.5, 0.0, category="commanded"), True),
        (MAKER.make("e", "v", 1.5, 0.0, is_desired=True), False),
        (MAKER.make("e", "v", 1.5, 0.0, is_manual=True), False),
        (MAKER.make("e", "v", 1.5, 0.0, category="event"), False),
        (MAKER.make("e", "v", 1.5, 0.0, category="quality"), False),
        (MAKER.make("e", "v", "open", 0.0), False),
        (MAKER.make("e", "v", None, 0.0), False),
    ],
)
def test_only_measured_or_commanded_numbers_are_expendable(point, may_go):
    assert is_expendable(point) is may_go
