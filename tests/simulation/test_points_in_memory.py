"""Points in memory, read as those of a database."""

import io
from contextlib import nullcontext

import msgspec
import pytest

from growd.store.history.history import History
from growd.store.history.query import HistoryQuery
from growd.store.points import PointMaker
from growd.store.reading.source import Series, Span, exported_point
from growd_analysis.points.csv_format import CsvFormat
from growd_analysis.points.export import COLUMNS, Export, ExportQuery
from growd_analysis.points.part_file import StreamFile
from growd_simulation.recipes.points import SOURCE, MemoryReader, PointsInMemory

ENVIRONMENT = "environment_1"
CO2, WARMTH = "air_carbon_dioxide", "air_temperature"
BEGAN = 1_767_225_600.0
maker = PointMaker("0123456789ab")


def point(variable, value, after, **kind):
    return maker.make(ENVIRONMENT, variable, value, BEGAN + after, **kind)


POINTS = [
    point(CO2, 400.0, 0),
    point(WARMTH, 20.5, 1),
    point(CO2, 410.5, 5),
    point(CO2, 405.0, 3),  # late
    point(CO2, 700.0, 4, is_manual=True, by="ada"),
    point(CO2, 600, 2, is_desired=True),
    point(CO2, None, 8, is_desired=True),
    point("recipe_start", "mine", 0, is_desired=True),
    point("door_open", True, 2),
    point(CO2, "fault", 6, category="quality"),
    point("interlock", 'high: "tripped"', 7, category="event"),
    point("air_carbon_dioxide_valve_on", 1.0, 7, category="commanded"),
]


@pytest.fixture
def reader():
    points = PointsInMemory()
    for each in POINTS:
        points.add(each)
    return MemoryReader(points)


async def rows_of(reader, span, start=None, end=None):
    return [exported_point(row) async for rows, _ in reader.pages(span, start, end) for row in rows]


def content(points):
    """What points and documents have in common."""
    return [
        (
            one.kind if hasattr(one, "kind") else one.category or ("measured", "desired")[one.is_desired],
            one.variable,
            one.value,
            one.timestamp - BEGAN,
            one.is_manual,
            one.by,
        )
        for one in points
    ]


async def test_the_points_of_a_time_come_in_its_order(reader):
    span = Span(SOURCE.points, "by_timestamp", (ENVIRONMENT,), 0.0)
    found = await rows_of(reader, span, BEGAN + 1, BEGAN + 5)
    due = [each for each in POINTS if not each.category and 1 <= each.timestamp - BEGAN <= 5]
    assert [one.timestamp for one in found] == sorted(one.timestamp for one in found)
    assert sorted(content(found), key=str) == sorted(content(due), key=str)


async def test_a_series_comes_in_the_order_of_its_times_with_all_fields(reader):
    found = await rows_of(reader, Span(SOURCE.points, "by_variable", (ENVIRONMENT, "measured", CO2), 0.0))
    due = [each for each in POINTS if each.variable == CO2 and not each.is_desired and not each.category]
    assert content(found) == content(sorted(due, key=lambda each: each.timestamp))


async def test_the_newest_points_come_first(reader):
    series = Series((ENVIRONMENT, "measured", CO2), {}, SOURCE.points)
    newest = await reader.newest(series, None, BEGAN + 4.5, 2)
    assert [one.value for one in newest] == [700.0, 405.0]
    assert await reader.newest(Series((ENVIRONMENT, "measured", "soil"), {}, ""), None, BEGAN, 2) == []


async def test_each_series_has_its_newest_point(reader):
    series = {one.key[1:]: one for one in await reader.series(SOURCE.points)}
    assert series.keys() == {
        ("measured", CO2),
        ("measured", WARMTH),
        ("measured", "door_open"),
        ("desired", CO2),
        ("desired", "recipe_start"),
    }
    assert series["measured", CO2].newest == BEGAN + 5
    assert [one.key[1] for one in await reader.series(SOURCE.events)] == ["commanded", "event", "quality"]
    assert await reader.variables(SOURCE.points, ENVIRONMENT, "desired") == [CO2, "recipe_start"]


async def test_the_export_has_the_lines_of_the_same_documents(reader):
    stream = io.BytesIO()
    query = ExportQuery("by_variable", COLUMNS, with_marks=True)
    await Export(reader, query).to_csv(StreamFile(stream), lambda _: None)
    rows = [msgspec.Raw(msgspec.json.encode({"key": [], "value": each.document()})) for each in POINTS]
    csv = CsvFormat(COLUMNS)
    assert sorted(stream.getvalue().splitlines()) == sorted(
        (csv.head + csv.lines(csv.rows(rows))).splitlines()
    )


async def test_the_history_answers_from_memory(reader):
    history = History(
        lambda: SOURCE, nullcontext, lambda _: {CO2, WARMTH}, now=lambda: BEGAN + 10, reader=reader
    )
    query = HistoryQuery(ENVIRONMENT, (CO2,), BEGAN, BEGAN + 10, 10)
    async with history, history.answering(query) as answer:
        told = msgspec.json.decode(msgspec.json.encode(answer))
    (series,) = told["series"]
    assert series["measured"]["mean"] == [400.0, 405.0, 700.0, 410.5]
    assert series["desired"]["last"] == [600.0, None]
    assert [event["kind"] for event in told["events"]] == ["recipe", "interlock"]
