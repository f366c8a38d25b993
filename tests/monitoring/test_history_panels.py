"""What the Infinity data source makes of an answer of `history`: the rows of its jq expressions.

The plugin runs gojq; jq reads the same language.
"""

import json
import shutil
import subprocess

import pytest
from yarl import URL

from support.daemon import serving
from support.dashboards import HISTORY, dashboard, filled, targets
from support.history import stored_past
from support.rollups import measured

JQ = shutil.which("gojq") or shutil.which("jq")
T = 1_790_000_000
pytestmark = pytest.mark.skipif(JQ is None, reason="gojq and jq are missing (Debian: gojq or jq)")


async def rows(server, start, *points):
    """The rows of each query of the dashboard, from `start` to a minute after T."""
    async with stored_past(server) as stored:
        await stored.store(*points)
        async with serving(history=stored.history) as daemon:
            values = {"variable": "air_temperature", "environment": "environment_1", "url": daemon.origin}
            times = {"__from:date:seconds": str(start), "__to:date:seconds": str(T + 60)}
            return [
                made(each, await asked(daemon.session, filled(each["url"], **values, **times)))
                for each in targets(dashboard("history"), HISTORY)
            ]


async def asked(session, url):
    async with session.get(URL(url, encoded=True)) as answer:
        text = await answer.text()
        assert answer.status == 200, text
        return text


def made(query, answer):
    """The rows of an answer, with the columns of the query only."""
    assert (query["type"], query["parser"], JQ is not None) == ("json", "jq-backend", True)
    found = subprocess.check_output([JQ or "jq", query["root_selector"]], input=answer, text=True)
    columns = {each["selector"]: each["text"] for each in query["columns"]}
    return [{text: row.get(name) for name, text in columns.items()} for row in json.loads(found)]


async def test_buckets_set_points_and_events_become_rows(database_server):
    values, set_points, events = await rows(
        database_server,
        T,
        measured("air_temperature", 20, T - 3_000, is_desired=True),
        *[measured("air_temperature", value, T + n / 2) for n, value in enumerate((21, 22))],
        measured("air_temperature", 23, T + 10),
        measured("air_temperature", 24, T + 30, is_desired=True),
        measured("air_temperature", None, T + 40, is_desired=True),
        measured("fault", "scd30: no answer", T + 5, category="event"),
    )
    assert values == [
        {"time": T * 1000, "minimum": 21, "mean": 21.5, "maximum": 22},
        {"time": (T + 10) * 1000, "minimum": 23, "mean": 23, "maximum": 23},
    ]
    assert set_points == [
        {"time": (T - 3_000) * 1000, "set point": 20},
        {"time": (T + 30) * 1000, "set point": 24},
        {"time": (T + 40) * 1000, "set point": None},
    ]
    (event,) = events
    assert (event["time"], event["kind"], event["source"]) == ((T + 5) * 1000, "fault", "scd30")


async def test_a_gap_begins_where_the_value_was_no_longer_known(database_server):
    values, _, _ = await rows(
        database_server,
        T,
        measured("air_temperature", 21, T),
        measured("air_temperature", "fault", T + 20, category="quality"),
        measured("air_temperature", 22, T + 40),
    )
    assert [(row["time"] / 1000 - T, row["mean"]) for row in values] == [(0, 21), (20, None), (40, 22)]


async def test_a_time_without_points_has_no_rows(database_server):
    assert await rows(database_server, T) == [[], [], []]
