"""A run is exported into one file, with all that belongs to it."""

import asyncio
import base64
import errno
import os
import subprocess
from datetime import UTC, datetime

import pytest
from pyarrow import parquet

from growd.store.errors import PartFileError
from growd.store.reading.source import MissingError
from growd_analysis.points.csv_format import iso_time
from growd_analysis.runs.run_zip import RunZip
from growd_hwsim.replay import load_recording
from support.history import ENVIRONMENT
from support.rollups import measured
from support.runs import ExportedRun, export_run, run_document

HOUR, DAY = 3_600.0, 86_400.0
MIDNIGHT = 1_790_000_000 // DAY * DAY
T = MIDNIGHT - 2 * HOUR + 130.0  # within a bucket of five minutes
CO2, TEMPERATURE, FAN = "air_carbon_dioxide", "air_temperature", "air_flush_on"
RECIPE = {"format": "simple", "operations": [[0, CO2, 900]]}
RUN = run_document(
    "aaaaaa1111",
    T,
    recipe_id="lettuce/a",
    recipe_rev="1-x",
    recipe=RECIPE,
    started_by="ada",
    revisions=[
        {"time": T + 60, "elapsed": 60, "by": "bob", "recipe_id": "b", "recipe_rev": "1-y", "recipe": RECIPE}
    ],
    ended=T + 3 * HOUR,
    ended_by="",
    end_reason="finished",
    growd="1.2.3",
    configuration={"light": {"enabled": True}},
    figures={"days": [T]},
    study={
        "organism": "NCBI:4236",
        "cultivar": "Rex",
        "factor": "light",
        "treatment": "blue",
        "replicate": "2",
    },
)
PICTURE = bytes(range(256)) * 1_000
POINTS = (
    measured(TEMPERATURE, 19.5, T - 5_000),  # too old to hold
    measured(CO2, 410, T - 100),  # the value at the start
    *[measured(CO2, 420.5 + number, T + 1 + 60 * number) for number in range(180)],
    measured(TEMPERATURE, 21, T),
    measured(TEMPERATURE, 22.5, T + 30, is_manual=True, by="ada"),
    measured(TEMPERATURE, 23, T + 3 * HOUR + 1),  # after the end
    measured(CO2, 900, T, is_desired=True),
    measured(CO2, None, T + 3 * HOUR, is_desired=True),
    measured("recipe_start", "lettuce/a", T, is_desired=True),
    measured("label", '=HYPERLINK("x"), "y"', T + 2),  # a topic of a client
    measured(FAN, 1, T + 90, category="commanded"),
    measured(FAN, None, T + 120, category="commanded"),
    measured(CO2, "warm-up", T - DAY, category="quality"),
    measured(CO2, "ok", T + 1, category="quality"),
    measured("fault", "scd30: no answer", T + 5, category="event"),
    measured("note", "first leaf\nsecond line", T + 10, category="event", is_manual=True, by="ada"),
    measured("harvest_fresh_mass", 120.5, T + DAY, is_manual=True, by="ada"),
    measured(CO2, 1, T + 5, environment="shelf_2"),
)


@pytest.fixture
async def with_run(stored):
    await stored.store_documents([RUN], stored.names.runs)
    await stored.store(*[dict(point) for point in POINTS])
    note = stored.maker.make(ENVIRONMENT, "note", "a photo", T + 20, category="event", by="bob").document()
    photos = {
        "photo-1.png": {"content_type": "image/png", "data": base64.b64encode(PICTURE).decode()},
        "../é.png": {"content_type": "image/png", "data": base64.b64encode(b"x").decode()},
    }
    await stored.couch.put(stored.names.events, note | {"_attachments": photos})


@pytest.fixture
async def exported(stored, archive, with_run, tmp_path):
    found = await export_run(archive, stored.source, "aaaaaa", tmp_path / "run.zip")
    assert found.counts is not None
    assert found.counts.points == len(found.rows("points.csv"))
    assert found.counts.events == len(found.rows("events.csv"))
    return found


def at(row):
    return datetime.fromisoformat(row["time"]).timestamp()


async def test_the_members_are_those_of_the_run_with_their_checksums(stored, archive, exported, tmp_path):
    exported.check()
    assert exported.folder == "run-aaaaaa"
    assert await asyncio.to_thread(os.listdir, tmp_path) == ["run.zip"]
    sums = ["sha256sum", "-c", "SHA256SUMS"]
    folder = await asyncio.to_thread(exported.unpack)
    done = await asyncio.to_thread(
        subprocess.run, sums, cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count(": OK")) == (0, len(exported.members) - 1)
    assert exported.json("run.json") == RUN
    names = list(exported.json("run.json"))
    assert names == sorted(names)
    assert exported.json("recipes/1.json") == {"_id": "lettuce/a", **RECIPE}
    assert exported.json("recipes/2.json") == {"_id": "b", **RECIPE}
    text = exported.members["README.txt"].decode()
    for name in exported.members.keys() - {"README.txt"}:
        assert name.partition("/")[0] in text
    assert "all points as they were stored" in text
    assert "air_temperature                      degC" in text
    assert "rollups.csv" not in text
    again = await export_run(archive, stored.source, RUN["_id"], tmp_path / "again.zip", now=2.1e9)
    first, second = [await asyncio.to_thread(each.path.read_bytes) for each in (exported, again)]
    assert first == second


async def test_numbers_and_texts_are_tables_and_the_journal_has_notes_with_their_photos(exported):
    rows = exported.rows("points.csv")
    assert {row["environment"] for row in rows} == {ENVIRONMENT}
    assert all(row["value"] == "" or float(row["value"]) is not None for row in rows)
    co2 = [row for row in rows if (row["category"], row["variable"]) == ("measured", CO2)]
    assert [float(row["value"]) for row in co2] == [410, *(420.5 + number for number in range(180))]
    assert [at(row) for row in co2] == [T - 100, *(T + 1 + 60 * number for number in range(180))]
    temperature = [row for row in rows if row["variable"] == TEMPERATURE]
    assert [(row["value"], row["is_manual"], row["by"]) for row in temperature] == [
        ("21", "false", ""),
        ("22.5", "true", "ada"),
    ]
    desired = [row for row in rows if row["category"] == "desired"]
    assert [(row["variable"], row["value"], row["unit"]) for row in desired] == [
        (CO2, "900", "ppm"),
        (CO2, "", "ppm"),
    ]
    assert [row["value"] for row in rows if row["category"] == "commanded"] == ["1", ""]
    recording = await asyncio.to_thread(load_recording, exported.path)  # as a simulator replays it
    begin = float(exported.rows("replay.csv")[0]["timestamp"])
    for number in range(180):
        assert recording.at(CO2, T + 2 + 60 * number - begin)[0] == 420.5 + number
    assert recording.at(TEMPERATURE, T + 20 - begin)[0] == 21
    events = [(row["category"], row["variable"], row["value"]) for row in exported.rows("events.csv")]
    assert events == [
        ("measured", "label", '\'=HYPERLINK("x"), "y"'),
        ("desired", "recipe_start", "lettuce/a"),
        ("quality", CO2, "warm-up"),
        ("quality", CO2, "ok"),
        ("event", "fault", "scd30: no answer"),
        ("event", "note", "first leaf\nsecond line"),
        ("event", "note", "a photo"),
    ]
    journal = exported.json("journal.json")
    assert [note["text"] for note in journal["notes"]] == ["first leaf\nsecond line", "a photo"]
    (yields,) = [one for one in journal["measurements"] if one["variable"] == "harvest_fresh_mass"]
    assert (yields["value"], yields["unit"], yields["time"]) == (120.5, "g", T + DAY)
    weird, photo = journal["notes"][1]["photos"]
    assert exported.members[photo] == PICTURE
    assert exported.members[weird] == b"x"
    assert not [name for name in exported.members if ".." in name or not name.isascii()]


def test_the_experiment_has_the_names_of_miappe_and_brapi(exported):
    fields = {(row["section"], row["field"]): row["value"] for row in exported.rows("study.csv")}
    assert fields == {
        ("Study", "Start date of study"): iso_time(T),
        ("Study", "End date of study"): iso_time(T + 3 * HOUR),
        ("Biological Material", "Organism"): "NCBI:4236",
        ("Biological Material", "Infraspecific name"): "Rex",
        ("Experimental Factor", "Experimental Factor type"): "light",
        ("Observation Unit", "Observation Unit factor value"): "blue",
        ("Observation Unit", "Observation unit ID"): RUN["_id"],
        ("Observation Unit", "Spatial distribution"): "replicate:2",
    }
    (mass,) = [
        row
        for row in exported.rows("observations.csv")
        if row["observationVariableName"] == "harvest_fresh_mass"
    ]
    assert mass == {
        "studyName": "",
        "germplasmName": "Rex",
        "observationUnitDbId": RUN["_id"],
        "observationUnitName": RUN["_id"],
        "replicate": "2",
        "factor": "light",
        "modality": "blue",
        "observationVariableName": "harvest_fresh_mass",
        "scale": "g",
        "value": "120.5",
        "observationTimeStamp": iso_time(T + DAY),
        "collector": "ada",
    }


async def test_parquet_has_types(stored, archive, with_run, tmp_path):
    exported = await export_run(archive, stored.source, "aaaaaa", tmp_path / "run.zip", kind="parquet")
    exported.check()
    assert await asyncio.to_thread(os.listdir, tmp_path) == ["run.zip"]
    folder = await asyncio.to_thread(exported.unpack)
    points = await asyncio.to_thread(parquet.read_table, folder / "points.parquet")
    assert str(points.schema.field("time").type) == "timestamp[ms, tz=UTC]"
    assert str(points.schema.field("value").type) == "double"
    rows = [row for row in points.to_pylist() if row["variable"] == CO2 and row["category"] == "measured"]
    assert rows[1]["time"] == datetime.fromtimestamp(T + 1, UTC)
    assert sum(row["value"] for row in rows) == pytest.approx(410 + sum(420.5 + n for n in range(180)))
    by_hand = [row for row in points.to_pylist() if row["by"] == "ada"]
    assert [row["is_manual"] for row in by_hand] == [True]
    events = (await asyncio.to_thread(parquet.read_table, folder / "events.parquet")).to_pylist()
    assert [row["value"] for row in events if row["variable"] == "fault"] == ["scd30: no answer"]


async def test_rollups_stand_for_retired_points(stored, archive, exported, tmp_path):
    until = int(MIDNIGHT)
    stored.now = T + 30 * DAY
    await stored.feed.catch_up()
    await stored.retire(until)
    retired = await export_run(archive, stored.source, "aaaaaa", tmp_path / "retired.zip")
    retired.check()
    whole = [row for row in exported.rows("points.csv") if row["variable"] == CO2]
    whole = [row for row in whole if row["category"] == "measured" and at(row) >= T]
    early = [row for row in whole if at(row) < until]
    buckets = [row for row in retired.rows("rollups.csv") if row["variable"] == CO2]
    assert sum(int(row["count"]) for row in buckets) == len(early) + 1  # with the value before the start
    assert float(buckets[-1]["last"]) == float(early[-1]["value"])
    assert at({"time": buckets[-1]["last_time"]}) == at(early[-1])
    late = [row for row in retired.rows("points.csv") if row["variable"] == CO2]
    late = [row for row in late if row["category"] == "measured"]
    assert late == [row for row in whole if at(row) >= until]
    # what is never retired is complete
    for name in ("events.csv", "journal.json"):
        assert retired.members[name] == exported.members[name]
    assert [row for row in retired.rows("points.csv") if row["is_manual"] == "true"]
    replayed = [row for row in retired.rows("replay.csv") if row["variable"] == CO2]
    assert len(replayed) == len(buckets) + len(whole) - len(early)
    assert float(replayed[0]["value"]) == float(buckets[0]["last"])
    text = retired.members["README.txt"].decode()
    assert "measured and commanded points had been retired" in " ".join(text.split())
    assert [row["variable"] for row in retired.rows("rollups.csv") if row["category"] == "commanded"] == [FAN]
    await stored.retire(int(MIDNIGHT + DAY))  # of some series only rollups are left
    found = await export_run(archive, stored.source, "aaaaaa", tmp_path / "later.zip")
    assert found.counts.buckets == len(found.rows("rollups.csv"))
    assert {row["variable"] for row in found.rows("rollups.csv")} >= {CO2, TEMPERATURE, FAN}


async def test_a_run_that_goes_on_ends_now(stored, archive, with_run, tmp_path):
    going = RUN | {"_id": "0123456789ab:1790000000000-bbbbbb1111", "ended": None, "end_reason": None}
    await stored.store_documents([going], stored.names.runs)
    found = await export_run(archive, stored.source, "bbbbbb", tmp_path / "run.zip", now=T + 65)
    assert [float(row["value"]) for row in found.rows("replay.csv") if row["variable"] == CO2] == [
        410,
        420.5,
        421.5,
    ]
    assert "the run had not ended at the export" in found.members["README.txt"].decode()


async def test_a_failed_export_leaves_nothing(stored, archive, with_run, tmp_path, monkeypatch):
    path = tmp_path / "run.zip"
    described = await archive.describe(await archive.find("aaaaaa"), 2e9)
    described["notes"][0]["photos"] = ["missing.png"]

    async def with_missing_photo(*_):
        return described

    monkeypatch.setattr(archive, "describe", with_missing_photo)
    with pytest.raises(MissingError):
        await export_run(archive, stored.source, "aaaaaa", path)
    assert await asyncio.to_thread(os.listdir, tmp_path) == []


def test_a_file_that_exists_is_kept(tmp_path, said):
    path = tmp_path / "run.zip"
    path.write_text("mine")
    with said.raises(PartFileError):
        RunZip(path, "run")
    with RunZip(path, "run", replace=True) as file:
        file.add("a", b"b")
    assert path.read_text() == "mine"  # not finished
    with RunZip(path, "run", replace=True) as file:
        file.add("a", b"b")
        file.finish()
    assert ExportedRun.read(path).members["a"] == b"b"


def test_a_full_disk_is_one_sentence(tmp_path, said):
    with said.raises(PartFileError):
        RunZip(tmp_path.__class__("/dev/full/run.zip"), "run")

    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        pytest.raises(PartFileError, match=r"run.zip.part can't be written: No space left on device"),
        RunZip(tmp_path / "run.zip", "run") as file,
        file.member("a"),
    ):
        full()
    assert list(tmp_path.iterdir()) == []
