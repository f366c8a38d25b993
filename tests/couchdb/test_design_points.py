"""The design document of `environmental_data_point`: views, filter, validation."""

import random

import pytest

from growd.store.encoding import point_from_json, point_to_json
from growd.store.points import PointMaker
from support.couch_client import FILES, install_design, reduces
from support.rows import each

FOLDER = "environmental_data_point"
VIEW = "_design/svc/_view"


def point(identifier, variable, timestamp, **fields):
    return {
        "_id": identifier,
        "environment": "chamber",
        "variable": variable,
        "is_desired": False,
        "is_manual": False,
        "value": 1,
        "timestamp": timestamp,
    } | fields


POINTS = [
    point("co2-1", "air_carbon_dioxide", 10.5),
    point("co2-2", "air_carbon_dioxide", 20.25),
    point("lux-1", "light_illuminance", 15),
    point("lux-wanted", "light_illuminance", 12, is_desired=True),
    point("other", "light_illuminance", 99, environment="other"),
]


@pytest.fixture(params=reduces(), ids=lambda builtin: "_last" if builtin else "js")
async def points(request, couch, database):
    await install_design(couch, database, FOLDER, has_last=request.param)
    answer = await couch("POST", f"{database}/_bulk_docs", {"docs": POINTS})
    assert [outcome["id"] for outcome in answer.json if outcome.get("ok")] == [p["_id"] for p in POINTS]
    return database


async def rows_of(couch, points, view, **query):
    return (await couch("GET", f"{points}/{VIEW}/{view}", **query)).json["rows"]


async def test_views_have_each_point_under_its_keys(couch, points):
    rows = await rows_of(couch, points, "by_variable", reduce=False)
    assert [row["key"] for row in rows] == [
        ["chamber", "desired", "light_illuminance", 12],
        ["chamber", "measured", "air_carbon_dioxide", 10.5],
        ["chamber", "measured", "air_carbon_dioxide", 20.25],
        ["chamber", "measured", "light_illuminance", 15],
        ["other", "measured", "light_illuminance", 99],
    ]
    assert await rows_of(couch, points, "all_vars") == rows
    # the request of a control panel: newest first
    panel = {"startkey": ["chamber", {}], "endkey": ["chamber"], "descending": True, "limit": 4}
    rows = await rows_of(couch, points, "by_timestamp", **panel)
    assert [row["key"][1] for row in rows] == [20.25, 15, 12, 10.5]
    assert rows[-1]["value"].pop("_rev").startswith("1-")
    assert rows[-1]["value"] == POINTS[0]


async def test_by_variable_reduces_to_the_newest_point_of_each_variable(couch, points):
    twins = [point(name, "air_carbon_dioxide", 20.25) for name in ("co2-3", "co2-0")]  # the later id is newer
    many = [point(f"many-{n:04}", "air_temperature", n) for n in range(1500)]  # enough for a rereduce
    await couch("POST", f"{points}/_bulk_docs", {"docs": [*twins, *many]})
    for descending in (False, True):
        rows = await rows_of(couch, points, "by_variable", group_level=3, descending=descending)
        assert {tuple(row["key"]): row["value"]["_id"] for row in rows} == {
            ("chamber", "desired", "light_illuminance"): "lux-wanted",
            ("chamber", "measured", "air_carbon_dioxide"): "co2-3",
            ("chamber", "measured", "air_temperature"): "many-1499",
            ("chamber", "measured", "light_illuminance"): "lux-1",
            ("other", "measured", "light_illuminance"): "other",
        }


def test_all_vars_shares_the_index_of_by_variable():
    # CouchDB keeps one index for views with exactly the same map function
    views = FILES / "design" / FOLDER / "views"
    assert (views / "all_vars/map.js").read_bytes() == (views / "by_variable/map.js").read_bytes()


@each(
    ("asked", "expected"),
    [
        ({}, {"co2-1", "co2-2", "lux-1", "lux-wanted", "other"}),
        ({"environment": "other"}, {"other"}),
        ({"variable": "air_carbon_dioxide"}, {"co2-1", "co2-2"}),
        ({"environment": "chamber", "variable": "light_illuminance", "category": "desired"}, {"lux-wanted"}),
        ({"environment": "chamber", "category": "measured"}, {"co2-1", "co2-2", "lux-1"}),
        ({"category": "none such"}, set()),
    ],
)
async def test_the_filter_passes_the_requested_variables(couch, points, asked, expected):
    answer = await couch("GET", f"{points}/_changes", filter="svc/by_variable", **asked)
    assert {row["id"] for row in answer.json["results"]} == expected


async def test_a_value_may_be_any_scalar_and_a_refused_point_does_not_stop_others(couch, points):
    values = [None, 0, -3.5, "recipe", "", True, False, []]
    docs = [point(f"{n}", "x", 1, value=one, unit="lux", extra={"a": [1]}) for n, one in enumerate(values)]
    answer = await couch("POST", f"{points}/_bulk_docs", {"docs": [*docs, point("last", "x", 1)]})
    assert [outcome["id"] for outcome in answer.json if outcome.get("error") == "forbidden"] == ["7"]
    assert (await couch("DELETE", f"{points}/last", rev=answer.json[-1]["rev"])).status == 200


@each(
    "change",
    [
        {"environment": None},
        {"environment": ""},
        {"variable": 7},
        {"is_desired": "no"},
        {"value": [1]},
        {"value": {"a": 1}},
        {"timestamp": "now"},
    ],
)
async def test_the_error_for_a_malformed_point_names_the_field(couch, points, said, change):
    answer = await couch("PUT", f"{points}/new", point("new", "x", 1) | change)
    assert (answer.status, answer.json["error"]) == (403, "forbidden")
    said(answer.json["reason"])


@each("field", ["environment", "variable", "is_desired", "value", "timestamp"])
async def test_a_point_without_a_field_is_refused(couch, points, field):
    document = point("new", "x", 1)
    del document[field]
    answer = await couch("PUT", f"{points}/new", document)
    assert answer.status == 403
    assert answer.json["reason"].startswith(f"{field} must be ")
    assert answer.json["reason"].endswith("it is missing")


async def test_a_point_that_is_neither_measured_nor_desired_is_refused(couch, points):
    statuses = {"measured": 201, "desired": 201, "commanded": 403, "event": 403, 7: 403}
    for category, status in statuses.items():
        answer = await couch("PUT", f"{points}/{category}", point(f"{category}", "x", 1, category=category))
        assert answer.status == status
    assert "others go into environmental_event" in answer.json["reason"]


async def test_the_time_of_a_point_is_the_same_in_its_file_its_document_and_the_keys_of_views(
    couch, database
):
    await install_design(couch, database, FOLDER)
    dice, maker = random.Random(1), PointMaker("0123456789ab")
    times = [1.79e9 + dice.random() * 1e6 for _ in range(200)]
    made = [maker.make("chamber", "light_illuminance", 1, time, is_desired=False) for time in times]
    documents = [point_from_json(point_to_json(each)).document() for each in made]
    await couch("POST", f"{database}/_bulk_docs", {"docs": documents})
    for view in "by_variable", "by_timestamp":
        answer = await couch("GET", f"{database}/{VIEW}/{view}", reduce=False, include_docs=True)
        read = [(row["id"], row["key"][-1], row["doc"]["timestamp"]) for row in answer.json["rows"]]
        assert sorted(read) == sorted((each.id, each.timestamp, each.timestamp) for each in made)
