"""CSV from the list function `csv`: RFC 4180 bytes, the same from every server."""

import csv
import io

import pytest

from growd.variables import VARIABLES
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


async def test_cols_picks_the_columns_and_an_unknown_one_is_empty(couch, points):
    answer = await export(
        couch, points, cols=["_id", "nope", "is_desired", "toString", "value"], group_level=4, limit=1
    )
    assert answer.body == b"_id,nope,is_desired,toString,value\r\nd,,true,,8000\r\n"


MADE = [
    # a point's own fields, and the cells of time, environment, category, unit, quality
    ({"timestamp": 1795305903.12}, "2026-11-22T00:05:03.120Z,chamber,measured,,ok"),
    ({"timestamp": 1732233600.1235}, "2024-11-22T00:00:00.124Z,chamber,measured,,ok"),
    ({"timestamp": -0.0004}, "1970-01-01T00:00:00.000Z,chamber,measured,,ok"),
    ({"timestamp": -1.5}, "1969-12-31T23:59:58.500Z,chamber,measured,,ok"),
    ({"timestamp": 253402300800}, "'+010000-01-01T00:00:00.000Z,chamber,measured,,ok"),
    ({"timestamp": -62198755200}, "'-000001-01-01T00:00:00.000Z,chamber,measured,,ok"),
    ({"timestamp": 8.7e12}, ",chamber,measured,,ok"),
    ({"timestamp": 0, "is_desired": True}, "1970-01-01T00:00:00.000Z,chamber,desired,,ok"),
    ({"timestamp": 0, "unit": "K", "quality": 0, "time": 7}, "1970-01-01T00:00:00.000Z,chamber,measured,K,0"),
    ({"timestamp": 0, "unit": None, "quality": None}, "1970-01-01T00:00:00.000Z,chamber,measured,,ok"),
    ({"timestamp": 0, "category": "desired"}, "1970-01-01T00:00:00.000Z,chamber,desired,,ok"),
    ({"timestamp": 0, "variable": "toString"}, "1970-01-01T00:00:00.000Z,chamber,measured,,ok"),
    ({"timestamp": 0, "variable": "air_temperature"}, "1970-01-01T00:00:00.000Z,chamber,measured,degC,ok"),
]


async def test_columns_made_from_a_point(couch, points):
    docs = [point(f"made{n:02}", "x", 0, 1) | fields for n, (fields, _) in enumerate(MADE)]
    await couch("POST", f"{points}/_bulk_docs", {"docs": docs})
    cols = ["_id", "time", "environment", "category", "unit", "quality"]
    answer = await export(couch, points, reduce=False, cols=cols)
    lines = [line for line in answer.body.decode().split("\r\n") if line.startswith("made")]
    assert sorted(lines) == [f"made{n:02},{cells}" for n, (_, cells) in enumerate(MADE)]


async def test_each_variable_has_its_unit(couch, points):
    docs = [point(f"unit-{name}", name, 1, 1) for name in VARIABLES]
    await couch("POST", f"{points}/_bulk_docs", {"docs": docs})
    answer = await export(couch, points, reduce=False, cols=["_id", "unit"])
    found = dict(line.split(",") for line in answer.body.decode().splitlines())
    assert {f"unit-{name}": variable.unit for name, variable in VARIABLES.items()}.items() <= found.items()


@each("cols", ["[1", "7", '"value"', "[]", "[1]", '{"a": 1}', ""])
async def test_malformed_cols_is_a_bad_request(couch, points, cols):
    answer = await export(couch, points, group_level=4, cols=cols)
    assert answer.status == 400
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json == {
        "error": "query_parse_error",
        "reason": f"cols must be a JSON array of column names, not {cols}",
    }


AWKWARD = [
    ('a "quoted", listed\r\nand broken', '"a ""quoted"", listed\r\nand broken"'),
    ("one\nline feed", '"one\nline feed"'),
    ("plain words", "plain words"),
    (" spaces kept ", " spaces kept "),
    ("grüße \N{SEEDLING}", "grüße \N{SEEDLING}"),
    ("", ""),
    # a spreadsheet would run this
    ("=1+1", "'=1+1"),
    ("+1", "'+1"),
    ("-1", "'-1"),
    ("@SUM(A1)", "'@SUM(A1)"),
    ("\tx", "'\tx"),
    ('=HYPERLINK("x","y")', '"\'=HYPERLINK(""x"",""y"")"'),
    # numbers and flags are written as JSON and are not formulas
    (-3, "-3"),
    (1e21, "1e+21"),
    (1e-7, "1e-7"),
    (0.1, "0.1"),
    (12.0, "12"),
    (True, "true"),
    (False, "false"),
]


async def test_every_kind_of_cell(couch, points):
    docs = [point(f"x{n}", "x", n, value) for n, (value, _) in enumerate(AWKWARD)]
    await couch("POST", f"{points}/_bulk_docs", {"docs": docs})
    key = ["chamber", "measured", "x"]
    answer = await export(
        couch, points, group_level=4, startkey=key, endkey=[*key, {}], cols=["timestamp", "value"]
    )
    expected = "".join(f"{n},{text}\r\n" for n, (_, text) in enumerate(AWKWARD))
    assert answer.body.decode() == "timestamp,value\r\n" + expected


async def test_a_thousand_rows_arrive_whole_and_in_order(couch, points):
    docs = [point(f"t{n:05}", "air_temperature", 5000 + n, n / 4) for n in range(1000)]
    await couch("POST", f"{points}/_bulk_docs", {"docs": docs})
    key = ["chamber", "measured", "air_temperature"]
    answer = await export(couch, points, group_level=4, startkey=key, endkey=[*key, {}])
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert [(float(row["timestamp"]), float(row["value"])) for row in rows] == [
        (5000 + n, n / 4) for n in range(1000)
    ]
