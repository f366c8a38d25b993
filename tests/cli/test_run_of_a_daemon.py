"""A run of a real daemon is listed, shown, gets its figures, and is exported, by the commands."""

import asyncio
import base64
import hashlib
import json
from datetime import datetime, timedelta
from itertools import groupby

import pytest

from growd import __version__
from growd.config.profiles import profile_text
from support.program import home_on, started
from support.runs import ExportedRun
from support.terminal import typed

pytestmark = pytest.mark.long

CAMERA = """
[[camera]]
name = "top"
kind = "simulated"
width = 320
light = 0.6
begin = "{begin:%H:%M}"
end = "{end:%H:%M}"
"""
PHOTO = "camera take top"
STEPS = (
    PHOTO,
    "recipe start lettuce_days",
    "topic pub environment_1/notes first leaf",
    *[PHOTO] * 4,
    "recipe stop",
    PHOTO,
)


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "growd.toml"
    begin = datetime.now().astimezone() + timedelta(hours=12)  # it takes photos only when it is asked
    camera = CAMERA.format(begin=begin, end=begin + timedelta(minutes=1))
    file.write_text(profile_text("climate") + camera)
    return file


def check_photos(exported, report, photos, run):
    """The photos of the run, not those before and after it, are in its export and, some, in its report."""
    taken = [photo for photo in reversed(photos) if photo["recipe_run"] == run]
    runs = [photo["recipe_run"] for photo in photos]  # growd took the oldest one at its start
    assert [run for run, _ in groupby(runs)] == ["", run, ""]
    assert len(taken) == 4
    rows = exported.rows("photos.csv")
    assert [(row["camera"], row["sha256"], float(row["canopy_cover"])) for row in rows] == [
        ("top", photo["sha256"], photo["canopy_cover"]) for photo in taken
    ]
    pictures = [exported.members[row["file"]] for row in rows]
    assert [hashlib.sha256(each).hexdigest() for each in pictures] == [row["sha256"] for row in rows]
    shown = (pictures[0], pictures[2], pictures[3])  # the first, the one in the middle, the last
    assert [base64.b64encode(each) in report for each in shown] == [True] * 3
    assert report.count(b"<img") == 3


def check_record(run, password):
    record = run["run"]
    assert (record["growd"], record["end_reason"]) == (__version__, "stopped")
    assert record["figures"]["start"] == record["started"]
    assert record["configuration"]["simulator"]["speed"] == 30
    assert password not in json.dumps(record) or not password


async def test_a_run_is_listed_shown_and_exported(tmp_path, config, database_server):
    async with (
        home_on(database_server, shared=True) as home,
        started(tmp_path / "data", *home.arguments, "--config", str(config), "--speed", "30") as program,
    ):
        await program.until_there(f"{home.recipes}/demo_day", home.headers)
        where = ("--url", program.address, "--set", f"couchdb.prefix={home.prefix}")
        user, password = database_server.auth or ("", "")

        async def ask(*arguments, status=0):
            printed = await typed(*arguments, *where, GROWD_USER=user, GROWD_PASSWORD=password)
            assert printed.status == status, printed
            return printed.out + printed.err

        async def shown():
            runs = json.loads(await ask("run", "list", "--json"))
            if not runs:  # the database does not have it yet
                return {"run": {}}
            return json.loads(await ask("run", "show", runs[0]["short_id"], "--json"))

        async with asyncio.timeout(60):  # a photo that began before the run would stand for one of it
            while not json.loads(await ask("camera", "list", "--json"))["photos"]:
                pass
        for words in STEPS:
            await ask(*words.split(" ", 3))
        photos = json.loads(await ask("camera", "list", "--json"))["photos"]
        async with asyncio.timeout(60):
            while "figures" not in (run := await shown())["run"]:  # noqa: ASYNC110  no event tells it
                await asyncio.sleep(0.2)
        record = run["run"]
        check_record(run, password)
        assert "first leaf" in await ask("run", "show", run["short_id"])

        path = tmp_path / "run.zip"
        assert f" in {path}" in await ask("run", "export", run["short_id"], "-o", str(path))
        exported = await asyncio.to_thread(ExportedRun.read, path)
        exported.check()
        assert exported.json("run.json")["figures"] == record["figures"]
        assert {row["variable"] for row in exported.rows("events.csv")} >= {"recipe_start", "recipe_end"}
        assert exported.rows("points.csv")
        page = tmp_path / "run.html"
        await ask("run", "report", run["short_id"], "-o", str(page))
        check_photos(exported, await asyncio.to_thread(page.read_bytes), photos, record["_id"])
        refused = await ask("run", "export", run["short_id"], "-o", str(path), status=1)
        assert refused == f"growd: {path} exists already: --replace replaces it\n"
        await ask("run", "export", run["short_id"], "-o", str(path), "--replace", "--format", "parquet")
        assert "points.parquet" in (await asyncio.to_thread(ExportedRun.read, path)).members
        assert "there is no run named" in await ask("run", "export", "cccccc", status=1)
