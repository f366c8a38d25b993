"""Points, their documents and ids."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.store.encoding import point_from_json, point_to_json, points_from_json
from growd.store.errors import InvalidPointError
from growd.store.points import PointMaker


def test_a_document_has_six_members_and_its_id():
    point = PointMaker("0123456789ab").make(
        "environment_1", "air_humidity", 61.5, 1_700_000_000.25, is_desired=False
    )
    document = point.document()
    assert document.pop("_id") == point.id
    assert document == {
        "environment": "environment_1",
        "variable": "air_humidity",
        "is_desired": False,
        "is_manual": False,
        "value": 61.5,
        "timestamp": 1_700_000_000.25,
    }


def test_ids_sort_by_time_name_the_device_and_never_repeat():
    maker = PointMaker("0123456789ab")
    times = [-3.0, 12.5, 999_999_999.9, 1_700_000_000.0, 1_700_000_000.001, 4_000_000_000.0]
    ids = [maker.make("e", "v", 1, time, is_desired=True).id for time in times]
    assert ids == sorted(ids)
    assert ids[3].startswith("0123456789ab:1700000000000-")
    same_moment = {maker.make("e", "v", 1, 5.0, is_desired=True).id for _ in range(1000)}
    assert len(same_moment) == 1000


def test_each_device_has_its_own_id():
    devices = {PointMaker.new_device() for _ in range(100)}
    assert len(devices) == 100
    assert {len(device) for device in devices} == {12}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [1], {"a": 1}])
def test_values_that_json_or_the_views_can_not_hold_are_refused(value):
    with pytest.raises(InvalidPointError, match="value must be") as caught:
        PointMaker("d").make("e", "v", value, 0.0, is_desired=False)
    assert caught.value.field == "value"


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("environment", ("", "v", 1, 0.0)),
        ("variable", ("e", "", 1, 0.0)),
        ("timestamp", ("e", "v", 1, math.nan)),
    ],
)
def test_points_without_a_name_or_a_time_are_refused(field, arguments):
    with pytest.raises(InvalidPointError, match=field):
        PointMaker("d").make(*arguments, is_desired=False)


FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(st.one_of(FINITE, st.integers(), st.text(), st.booleans(), st.none()), st.floats(0, 4e9))
def test_every_point_is_valid_json(value, timestamp):
    document = PointMaker("d").make("e", "v", value, timestamp, is_desired=True).document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document


SIMPLE = st.one_of(FINITE, st.integers(-(2**53), 2**53), st.text(), st.booleans(), st.none())
FIELDS = st.dictionaries(st.text(), SIMPLE | st.lists(SIMPLE))


@given(st.lists(st.none() | FIELDS))
def test_a_point_with_any_details_comes_back_from_the_disk(details):
    points = [PointMaker("d").make("e", "v", "x", 1.0, category="event", details=each) for each in details]
    texts = [point_to_json(point) for point in points]
    assert points_from_json(texts) == [point_from_json(text) for text in texts] == points
