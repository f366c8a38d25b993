"""The statements of docs/data-analysis.md, over an export of two chambers."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from growd_analysis.runs.tables import OBSERVATIONS
from support.checkout import ROOT
from support.program import PATIENCE_S

PAGE = ROOT / "docs/data-analysis.md"
PPM = {"environment_1": 400.0, "shelf_2": 1_000.0}
HEADER = "time,environment,category,variable,value,unit,is_manual"


def block(section, language="", number=0):
    """A block of code in a section of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[number]


@pytest.fixture
def points(tmp_path):
    """What `growd db export --category all` writes for a morning."""
    rows = [HEADER]
    for minute in range(0, 121, 5):
        time = f"2026-11-22T{6 + minute // 60:02}:{minute % 60:02}:00.000Z"
        for chamber, ppm in PPM.items():
            rows += [
                f"{time},{chamber},measured,air_carbon_dioxide,{ppm:g},ppm,false",
                f"{time},{chamber},desired,air_carbon_dioxide,{ppm - 100:g},ppm,false",
                f"{time},{chamber},quality,air_carbon_dioxide,ok,,",
            ]
    rows.append("2026-11-22T07:00:00.000Z,shelf_2,desired,air_carbon_dioxide,,ppm,false")
    (tmp_path / "points.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    midnight = datetime(2026, 11, 21, 23, tzinfo=UTC)  # in Berlin
    times = [midnight + timedelta(minutes=10) * step for step in range(144 + 72)]  # a day and a half
    wide = [
        "time,air_temperature,light_illuminance",
        *(f"{time:%Y-%m-%dT%H:%M:%SZ},24,6700" for time in times),
    ]
    (tmp_path / "wide.csv").write_text("\n".join(wide) + "\n", encoding="utf-8")
    return tmp_path


def run(folder, code):
    """What a program prints that runs in a folder, in lines."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_pandas_keeps_chambers_and_categories_apart(points):
    pytest.importorskip("pandas")
    code = "\n".join((block("pandas"), "for key, ppm in hourly.items(): print(key[0], ppm)"))
    printed = run(points, code)
    assert {tuple(line.split()) for line in printed if line.startswith(tuple(PPM))} == {
        (name, str(ppm)) for name, ppm in PPM.items()
    }


def test_the_sums_of_days_run(points):
    pytest.importorskip("pandas")
    code = [block("pandas", number=each) for each in range(3)]
    printed = run(points, "\n".join((*code, "print(*degree_days, *dli)")))[-1]
    assert printed == "20.0 8.64 4.32"  # half a day has half the light, and no mean of the day


def test_duckdb_keeps_chambers_and_categories_apart(points):
    duckdb = pytest.importorskip("duckdb")
    statement = block("DuckDB", "sql").replace("points.csv", str(points / "points.csv"))
    answer = duckdb.sql(statement).fetchall()
    day = datetime(2026, 11, 22, tzinfo=UTC).date()
    assert answer == [(name, day, ppm) for name, ppm in PPM.items()]


def test_two_treatments_are_compared_by_runs_and_not_by_weighings(points):
    duckdb = pytest.importorskip("duckdb")
    header = ",".join(OBSERVATIONS.columns)
    for number, treatment, degrees, masses in (
        (1, "20", 20, (100, 50)),
        (2, "20", 22, (170,)),
        (3, "red", 24, (90,)),
    ):
        folder = points / f"run-{number}"
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps({"study": {"treatment": treatment}}))
        rows = [f"2026-11-22T06:{minute:02}:00.000Z,e,measured,air_temperature,{degrees},degC,false,"
                for minute in (0, 5, 10)]  # fmt: skip
        (folder / "points.csv").write_text("\n".join([f"{HEADER},by", *rows]))
        row = f",Rex,{number},,1,light,{treatment},harvest_fresh_mass,g,%s,2026-11-22T06:00:00.000Z,ada"
        (folder / "observations.csv").write_text("\n".join([header, *(row % each for each in masses)]))
    printed = run(points, block("Two treatments compared", "python"))
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in printed if "│" in line]
    assert [[row[0], *map(float, row[1:3])] for row in cells[-2:]] == [["20", 2, 160], ["red", 1, 90]]
    statement = block("Two treatments compared", "sql").replace("run-*", str(points / "run-*"))
    climate = duckdb.sql(statement).fetchall()
    assert climate == [("20", "air_temperature", 21.0), ("red", "air_temperature", 24.0)]


def test_duckdb_keeps_runs_apart(points):
    duckdb = pytest.importorskip("duckdb")
    for name in ("run-1", "run-2"):
        (points / name).mkdir()
        (points / name / "points.csv").write_text((points / "points.csv").read_text())
    statement = block("A run", "sql").partition(";")[0].replace("run-*", str(points / "run-*"))
    answer = duckdb.sql(statement).fetchall()
    assert sorted(row[1:] for row in answer) == [("air_carbon_dioxide", 50, 400.0, 1_000.0)] * 2
