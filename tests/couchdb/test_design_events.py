"""The design document of `environmental_event`: commands, qualities and events."""

import pytest

from growd.store.points import PointMaker
from support.couch_client import install_design, reduces
from support.rows import each

DESIGN = "_design/svc"
MAKER = PointMaker("0123456789ab")
EVENTS = [
    MAKER.make("chamber", "air_carbon_dioxide", 0.5, 1.0, category="commanded"),
    MAKER.make("chamber", "air_carbon_dioxide", None, 2.0, category="commanded"),
    MAKER.make("chamber", "air_temperature", "stale", 3.0, category="quality"),
    MAKER.make("chamber", "restart", "growd started", 4.0, category="event"),
    MAKER.make("other", "restart", "growd started", 5.0, category="event"),
]


@pytest.fixture(params=reduces(), ids=lambda builtin: "_last" if builtin else "js")
async def events(request, couch, database):
    await install_design(couch, database, "environmental_event", has_last=request.param)
    documents = [event.document() for event in EVENTS]
    answer = await couch("POST", f"{database}/_bulk_docs", {"docs": documents})
    assert all(outcome.get("ok") for outcome in answer.json)
    return database


def key(number):
    event = EVENTS[number]
    return [event.environment, event.category, event.variable, event.timestamp]


async def test_views_have_each_event_under_its_keys(couch, events):
    answer = await couch("GET", f"{events}/{DESIGN}/_view/by_variable", reduce=False)
    assert [row["key"] for row in answer.json["rows"]] == [key(number) for number in (0, 1, 3, 2, 4)]
    assert answer.json["rows"][0]["value"].items() >= EVENTS[0].document().items()
    newest = await couch("GET", f"{events}/{DESIGN}/_view/by_variable", group_level=3)
    assert [row["value"]["timestamp"] for row in newest.json["rows"]] == [2, 4, 3, 5]
    answer = await couch("GET", f"{events}/{DESIGN}/_view/by_timestamp", startkey=["chamber", 2])
    keys = [["chamber", 2], ["chamber", 3], ["chamber", 4], ["other", 5]]
    assert [row["key"] for row in answer.json["rows"]] == keys


async def test_csv_leaves_unit_and_quality_to_measured_values(couch, events):
    answer = await couch(
        "GET",
        f"{events}/{DESIGN}/_list/csv/by_variable",
        group_level=4,
        startkey=["chamber", "commanded"],
        endkey=["chamber", "commanded", {}],
        cols=["category", "variable", "value", "unit", "quality"],
    )
    assert answer.body == (
        b"category,variable,value,unit,quality\r\n"
        b"commanded,air_carbon_dioxide,0.5,,\r\ncommanded,air_carbon_dioxide,,,\r\n"
    )


async def test_the_filter_passes_the_requested_variables(couch, events):
    for asked, expected in (({}, {0, 1, 2, 3, 4}), ({"category": "event", "environment": "other"}, {4})):
        answer = await couch("GET", f"{events}/_changes", filter="svc/by_variable", **asked)
        assert {row["id"] for row in answer.json["results"]} == {EVENTS[number].id for number in expected}


@each("category", ["measured", "desired", "", None, 7])
async def test_measured_and_desired_points_are_refused(couch, events, category):
    document = EVENTS[0].document() | {"_id": "new", "category": category}
    answer = await couch("PUT", f"{events}/new", document)
    assert (answer.status, answer.json["reason"].partition(",")[0]) == (
        403,
        "category must be a text other than measured and desired",
    )
