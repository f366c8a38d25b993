"""The statements of docs/data-analysis.md in DuckDB, over an export of three chambers."""

import asyncio
import os
import re
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from growd_cli.output import print_json
from growd_cloud.devices import (
    DeviceDocument,
    DeviceReport,
    ReportedAlert,
    ReportedEnvironment,
    ReportedValue,
    fleet_row,
)
from support.cloud_export import cloud_of, device_id, document

duckdb = pytest.importorskip("duckdb", reason="DuckDB from PyPI is missing: pip install duckdb")

PAGE = Path(__file__).parents[2] / "docs" / "data-analysis.md"
START = datetime(2026, 11, 3, tzinfo=UTC).timestamp()
CO2 = "air_carbon_dioxide"


def statements():
    """The blocks of the page in SQL for DuckDB; the first one is for all others."""
    return blocks("A fleet in DuckDB", "sql")


def blocks(section, language):
    """The blocks of a section of the page in a language."""
    text = PAGE.read_text(encoding="utf-8").partition(f"## {section}")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def listed(number):
    """A device as `growd fleet list --json` has it."""
    values = {"air_temperature": ReportedValue(20.0, unit="degC"), CO2: ReportedValue(None)}
    report = DeviceReport(
        "host",
        "1.0",
        START,
        alerts=[ReportedAlert("warning", "a text", START)] * number,
        lag={"points": number, "recipes_down": None},
        environments={"environment_1": ReportedEnvironment("lettuce", "running", "early", 60.0, values)},
    )
    device = device_id(number)
    document = DeviceDocument(f"device:{device}", device, f"Chamber {number}", "school", START, report=report)
    return msgspec.to_builtins(fleet_row(document, START))


def rows(answer):
    """The rows as tuples. `fetchall` needs pytz for times."""
    return [tuple(row.values()) for row in answer.to_arrow_table().to_pylist()]


def stored_points():
    minutes = [
        document(chamber, START + 60.0 * minute, variable, value)
        for chamber in range(3)
        for minute in range(0, 120, 10)
        for variable, value in (
            (CO2, 400.0 + chamber),
            ("light_illuminance", 6_700.0),
            ("air_temperature", 20.0),
        )
    ]
    peak = [document(0, START + 1_801.0 + n, CO2, 1_000.0) for n in range(0, 60, 5)]  # dense for a minute
    back = [document(0, START + 1_861.0, CO2, 400.0)]
    marks = [
        document(1, START, "recipe_start", "lettuce_basic", is_desired=True),
        document(1, START + 3_600, "recipe_end", "lettuce_basic", is_desired=True),
        document(2, START + 3_600, "recipe_start", "climate_day", is_desired=True),
    ]
    warm = [document(2, START + 3_601 + n * 600, "air_temperature", 30.0) for n in range(12)]
    return [*minutes, *peak, *back, *marks, *warm]


def stored_events():
    fault = [document(2, START + 3_000, CO2, "fault", category="quality")]
    return [*fault, document(2, START + 3_300, CO2, "ok", category="quality")]


@pytest.fixture
async def answers(tmp_path, database_server, monkeypatch, capsys):
    """The rows of each statement of the page."""
    async with cloud_of(database_server) as cloud:
        await cloud.store(stored_points())
        await cloud.store(stored_events(), "events")
        await cloud.export(tmp_path / "fleet", kinds=("points", "events"))
    print_json({"devices": [*map(listed, range(3))]})  # as growd fleet list --json
    (tmp_path / "devices.json").write_text(capsys.readouterr().out, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run():
        with duckdb.connect() as connection:
            first, *rest = statements()
            connection.execute(first)
            return [rows(connection.sql(each)) for each in rest]

    return await asyncio.to_thread(run)


async def test_the_statements_of_the_page_give_what_was_measured(answers):
    co2, light, faults, recipes, names = answers
    by_chamber = {(row[0], row[2].hour): row[3:] for row in co2}
    mean, covered = by_chamber[device_id(0), 0]
    assert (round(mean, 6), covered) == (400.0 + 600.0 * 60 / 3_600, 1.0)  # not the mean of the points
    assert by_chamber[device_id(1), 0] == (401.0, 1.0)
    assert by_chamber[device_id(1), 1] == (401.0, 1.0)
    assert by_chamber[device_id(1), 2] == (401.0, 60 / 3_600)  # the last value holds for 660 s
    assert by_chamber[device_id(2), 0][1] == pytest.approx(3_000 / 3_600)  # a fault ends the value
    days = {row[0]: row[3] for row in light}
    assert days[device_id(0)] == pytest.approx(100.0 * 7_260 / 1e6)
    assert faults == [(device_id(2), "2026-11", CO2, 1)]
    assert [(name, runs) for name, runs, _ in recipes] == [("climate_day", 1), ("lettuce_basic", 1)]
    assert recipes[1][2] == 20.0
    assert [row[:3] for row in names] == [
        (f"Chamber {n}", "school", number) for n, number in enumerate((49, 38, 49))
    ]


async def test_the_program_of_the_page_runs_a_statement(answers, tmp_path):
    assert answers
    (program,) = blocks("A fleet in DuckDB", "python")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert (process.returncode, b"136" in printed) == (0, True)


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_spark_gives_the_same_hours(answers, tmp_path):
    spark = pytest.importorskip("pyspark", reason="PySpark from PyPI is missing: pip install pyspark")
    assert spark.__version__
    if shutil.which("java") is None:
        pytest.skip("Java is missing: apt install default-jre-headless")
    program = (PAGE.parent / "examples/spark.py").read_text(encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=tmp_path, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    )
    assert await process.wait() == 0

    def read():
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return rows(connection.sql("FROM 'co2/*.parquet' ORDER BY ALL"))

    hours = await asyncio.to_thread(read)
    expected = [row for row in answers[0] if row[0] != device_id(2)]  # Spark's statement has no faults
    found = [row for row in hours if row[0] != device_id(2)]
    assert [(*row[:2], row[2].replace(tzinfo=UTC)) for row in found] == [row[:3] for row in expected]
    assert [row[3:] for row in found] == [pytest.approx(row[3:]) for row in expected]
