"""CSV from the list function `csv`; tests/points/test_csv_export.py compares its cells with growd's."""

import csv
import io

import pytest

from support.couch_client import install_design, reduces
from support.rows import each

LIST = "_design/svc/_list/csv"
HEAD = b"timestamp,variable,value\r\n"
DESIRED = ["chamber", "desired"]
MEASURED = ["chamber", "measured"]
LIGHT, CO2 = ([*MEASURED, variable] for variable in ("light_illuminance", "air_carbon_dioxide"))
EARLY = b"1000.5,air_carbon_dioxide,400\r\n"
EMPTY = b"1001.5,air_carbon_dioxide,\r\n"
LATE = b"1002,air_carbon_dioxide,401.25\r\n"
BRIGHT = b"1003,light_illuminance,7990.5\r\n"


def point(identifier, variable, timestamp, value, **fields):
    plain = {"environment": "chamber", "is_desired": False, "is_manual": False}
    return plain | {"_id": identifier, "variable": variable, "timestamp": timestamp, "value": value} | fields


POINTS = [
    point("a", "air_carbon_dioxide", 1000.5, 400),
    point("b", "air_carbon_dioxide", 1001.5, None),
    point("c", "air_carbon_dioxide", 1002, 401.25),
    point("d", "light_illuminance", 1000, 8000, is_desired=True),
    point("e", "light_illuminance", 1003, 7990.5),
    point("g", "light_illuminance", 1005, 5, environment="other"),
]


@pytest.fixture(params=reduces(), ids=lambda builtin: "_last" if builtin else "js")
async def points(request, couch, database):
    await install_design(couch, database, "environmental_data_point", has_last=request.param)
    await couch("POST", f"{database}/_bulk_docs", {"docs": POINTS})
    return database


async def export(couch, points, view="by_variable", **query):
    return await couch("GET", f"{points}/{LIST}/{view}", **query)


async def test_the_request_of_the_specification(couch, points):
    answer = await export(
        couch, points, group_level=4, startkey=["chamber", "measured"], endkey=["chamber", "measured", {}]
    )
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
    assert answer.body == HEAD + EARLY + EMPTY + LATE + BRIGHT


@each(
    ("view", "query", "rows"),
    [
        ("by_variable", {"group_level": 4, "startkey": LIGHT, "endkey": [*LIGHT, {}]}, BRIGHT),
        (
            "by_variable",
            {"group_level": 4, "startkey": DESIRED, "endkey": [*DESIRED, {}]},
            b"1000,light_illuminance,8000\r\n",
        ),
        # the request of a control panel: start and end are swapped for descending; null is a row like others
        (
            "by_variable",
            {"group_level": 4, "startkey": [*CO2, {}], "endkey": CO2, "descending": True, "limit": 2},
            LATE + EMPTY,
        ),
        ("by_variable", {"reduce": False, "skip": 1, "limit": 2}, EARLY + EMPTY),
        ("by_variable", {"group_level": 4, "skip": 1, "limit": 2}, EARLY + EMPTY),
        # a coarser group has its newest point
        ("by_variable", {"group_level": 3, "startkey": MEASURED, "endkey": [*MEASURED, {}]}, LATE + BRIGHT),
        ("by_timestamp", {"startkey": ["chamber", 1001.5], "endkey": ["chamber", 1002]}, EMPTY + LATE),
        ("all_vars", {"limit": 2, "descending": True}, b"1005,light_illuminance,5\r\n" + BRIGHT),
        ("by_variable", {"group_level": 4, "startkey": ["x"], "endkey": ["x", {}]}, b""),
    ],
)
async def test_a_query_chooses_rows(couch, points, view, query, rows):
    assert (await export(couch, points, view, **query)).body == HEAD + rows


@each("cols", ["[1", "7", '"value"', "[]", "[1]", '{"a": 1}', ""])
async def test_malformed_cols_is_a_bad_request(couch, points, cols):
    answer = await export(couch, points, group_level=4, cols=cols)
    assert answer.status == 400
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json == {
        "error": "query_parse_error",
        "reason": f"cols must be a JSON array of column names, not {cols}",
    }


async def test_a_thousand_rows_arrive_whole_and_in_order(couch, points):
    docs = [point(f"t{n:05}", "air_temperature", 5000 + n, n / 4) for n in range(1000)]
    await couch("POST", f"{points}/_bulk_docs", {"docs": docs})
    key = ["chamber", "measured", "air_temperature"]
    answer = await export(couch, points, group_level=4, startkey=key, endkey=[*key, {}])
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert [(float(row["timestamp"]), float(row["value"])) for row in rows] == [
        (5000 + n, n / 4) for n in range(1000)
    ]
