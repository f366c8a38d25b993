"""`growd cloud export`: what is written, each point once, and what happens to databases and files."""

import asyncio
import json
import threading
from datetime import UTC, datetime

import pytest

from growd.store.errors import CouchAnswerTooLargeError, CouchUnavailableError
from growd_cloud import export, export_files
from growd_cloud.export_state import ExportFolderError, ExportState
from support.cloud_export import (
    DAY_S,
    NOVEMBER,
    NOW,
    OCTOBER,
    change_state,
    cloud_of,
    device_id,
    document,
    files_of,
    ids_of,
    once,
    points,
    rows_of,
)


@pytest.fixture
async def cloud(database_server):
    async with cloud_of(database_server) as cloud:
        yield cloud


async def test_points_and_events_have_typed_columns_by_month_and_device(tmp_path, cloud):
    await cloud.store(
        [
            document(1, NOVEMBER, "air_temperature", 21.25),
            document(1, NOVEMBER + 1, "air_temperature", None, is_desired=True),
            document(1, NOVEMBER + 2, "recipe_start", "lettuce", is_desired=True),
            document(1, NOVEMBER + 3, "door", True),
        ]
    )
    note = {"category": "event", "by": "eva", "details": {"gain": 2}}
    await cloud.store([document(1, OCTOBER, "note", "grün \N{SEEDLING}", **note)], "events")
    found = await cloud.export(tmp_path / "out", kinds=("points", "events"))
    assert found.rows == {"points": 4, "events": 1}
    rows = sorted(rows_of(tmp_path / "out"), key=lambda row: row["time"])
    assert rows[0] == {
        "time": datetime.fromtimestamp(NOVEMBER, UTC),
        "environment": "environment_1",
        "category": "measured",
        "variable": "air_temperature",
        "value": 21.25,
        "text": None,
        "unit": "degC",
        "is_manual": False,
        "id": rows[0]["id"],
        "month": "2026-11",
        "device": device_id(1),
    }
    columns = [(row["category"], row["value"], row["text"]) for row in rows[1:]]
    assert columns == [("desired", None, None), ("desired", None, "lettuce"), ("measured", None, "true")]
    (event,) = rows_of(tmp_path / "out", "events")
    assert event["month"] == "2026-10"
    assert (event["category"], event["variable"], event["by"]) == ("event", "note", "eva")
    assert (event["text"], event["details"]) == ("grün \N{SEEDLING}", '{"gain":2}')


async def test_deleted_documents_designs_and_documents_of_others_are_no_points(tmp_path, cloud):
    stored = points(2, NOVEMBER)
    name = f"/{cloud.prefix}points_2026_11"
    await cloud.store([*stored, {"_id": "_design/index"}, {"_id": "else", "a": 1}], database="points_2026_11")
    await cloud.export(tmp_path / "out")
    late = points(2, NOVEMBER + 60)
    await cloud.store([*late, {"_id": "_design/more"}, {"_id": "more", "a": 1}], database="points_2026_11")
    revision = (await cloud.ask("GET", f"{name}/{late[0]['_id']}")).json["_rev"]
    await cloud.ask("DELETE", f"{name}/{late[0]['_id']}", rev=revision)
    found = await cloud.export(tmp_path / "out")
    assert ids_of(tmp_path / "out") == once([*stored, *late[1:]])
    assert found.others == 1


async def test_the_next_run_adds_what_is_new(tmp_path, cloud):
    """Also of a point that is in two databases, and without the state of the folder."""
    stored = points(5, NOVEMBER)
    for database in ("points_2026_11", "points_other", "environmental_data_point"):
        await cloud.store(stored, database=database)
    assert (await cloud.export(tmp_path / "out")).rows == {"points": 15}
    assert (await cloud.export(tmp_path / "out")).rows == {"points": 0}
    late = [*points(3, NOVEMBER + 1), *points(1, OCTOBER)]
    await cloud.store(late)
    assert (await cloud.export(tmp_path / "out")).rows == {"points": 12}
    (tmp_path / "out" / "_growd" / "state.sqlite3").unlink()
    assert (await cloud.export(tmp_path / "out")).rows == {"points": 0}
    assert ids_of(tmp_path / "out") == once([*stored, *late])


async def test_changes_that_are_repeated_are_written_once(tmp_path, cloud):
    stored = points(5, NOVEMBER)
    await cloud.store(stored)
    await cloud.export(tmp_path / "out", most_rows=4)
    late = points(5, NOVEMBER + 1_800)
    await cloud.store(late)
    name = f"{cloud.prefix}points_2026_11"
    await change_state(
        tmp_path / "out", lambda state: state.set_place(state.places()[name]._replace(since="0"))
    )
    assert (await cloud.export(tmp_path / "out", most_rows=4)).rows == {"points": 15}
    assert ids_of(tmp_path / "out") == once([*stored, *late])


async def test_a_database_is_read_in_the_order_of_its_ids_at_first(tmp_path, cloud):
    await cloud.store(points(8, NOVEMBER, chambers=4))
    await cloud.export(tmp_path / "out", most_rows=8)
    assert [len(paths) for paths in files_of(tmp_path / "out").values()] == [1, 1, 1, 1]


async def test_with_several_copies_of_a_shard_the_changes_are_read_from_the_first_on(tmp_path, cloud):
    """A copy that lags may answer the reading by ids; the feed of changes has the points that it lacked."""
    stored = points(3, NOVEMBER)
    await cloud.store(stored)
    couch = _OfThreeCopies(cloud, lacking={stored[0]["_id"]})
    batches = [batch async for batch in export.CloudFeed(couch, "points_2026_11").documents(None)]
    read = [each["_id"] for batch in batches for each in batch.points]
    assert set(read) == {each["_id"] for each in stored}


class _OfThreeCopies:
    """A cluster in which the copy that lists documents lacks some of them."""

    def __init__(self, cloud, lacking):
        self._cloud, self._lacking = cloud, lacking

    async def info(self, database):
        return {"instance_start_time": "1", "update_seq": "9-x", "doc_count": 9, "cluster": {"n": 3}}

    async def all_docs(self, database, **query):
        query["startkey"] = json.dumps(query["startkey"])
        answer = await self._cloud.ask("GET", f"/{self._cloud.prefix}{database}/_all_docs", **query)
        return [row for row in answer.json["rows"] if row["id"] not in self._lacking]

    async def changes(self, database, since, limit, include_docs):
        path = f"/{self._cloud.prefix}{database}/_changes"
        return (await self._cloud.ask("GET", path, since=since, limit=limit, include_docs=True)).json


async def test_a_database_that_was_made_again_is_read_again(tmp_path, cloud):
    stored = points(5, NOVEMBER)
    await cloud.store(stored)
    await cloud.export(tmp_path / "out")
    await cloud.drop("points_2026_11")
    other = points(2, NOVEMBER + 7)
    await cloud.store([*stored[:6], *other])
    assert (await cloud.export(tmp_path / "out")).rows == {"points": 6}
    assert ids_of(tmp_path / "out") == once([*stored, *other])


async def test_a_recheck_adds_what_is_missing_and_nothing_twice(tmp_path, cloud):
    stored = points(5, NOVEMBER)
    await cloud.store(stored[:3])
    await cloud.export(tmp_path / "out")
    await cloud.store(stored[3:])
    name = f"{cloud.prefix}points_2026_11"
    end = json.dumps((await cloud.ask("GET", f"/{name}/_changes")).json["last_seq"])
    await change_state(
        tmp_path / "out", lambda state: state.set_place(state.places()[name]._replace(since=end))
    )
    assert (await cloud.export(tmp_path / "out")).rows == {"points": 0}
    await change_state(tmp_path / "out", ExportState.forget_places)
    assert (await cloud.export(tmp_path / "out")).rows == {"points": 12}
    assert ids_of(tmp_path / "out") == once(stored)


async def test_a_database_that_is_gone_is_named_once_and_its_files_stay(tmp_path, cloud):
    stored = [*points(2, OCTOBER), *points(2, NOVEMBER)]
    await cloud.store(stored)
    await cloud.export(tmp_path / "out")
    await cloud.drop("points_2026_10")
    assert (await cloud.export(tmp_path / "out")).gone == [f"{cloud.prefix}points_2026_10"]
    assert (await cloud.export(tmp_path / "out")).gone == []
    assert ids_of(tmp_path / "out") == once(stored)


async def test_closed_months_have_one_file_for_each_device(tmp_path, cloud):
    stored = []
    for hour in range(3):
        new = [*points(1, OCTOBER + hour * 60), *points(1, NOVEMBER + hour * 60)]
        await cloud.store(new)
        stored += new
        await cloud.export(tmp_path / "out")
    files = files_of(tmp_path / "out")
    assert {len(paths) for place, paths in files.items() if "2026-10" in place} == {1}
    assert {len(paths) for place, paths in files.items() if "2026-11" in place} == {3}
    await cloud.export(tmp_path / "out", now=lambda: NOW + 20 * DAY_S)
    assert {len(paths) for paths in files_of(tmp_path / "out").values()} == {1}
    assert ids_of(tmp_path / "out") == once(stored)


async def test_eight_files_of_one_size_become_one(tmp_path, cloud):
    for hour in range(9):
        await cloud.store(points(1, NOVEMBER + hour * 60))
        await cloud.export(tmp_path / "out")
    assert {len(paths) for paths in files_of(tmp_path / "out").values()} == {2}
    assert len(ids_of(tmp_path / "out")) == 27


async def test_large_files_are_merged_part_by_part(tmp_path, cloud, monkeypatch):
    monkeypatch.setattr(export_files, "_SORTED_ROWS", 4)
    stored = points(3, OCTOBER)
    for one in (stored[:6], stored[6:]):
        await cloud.store(one)
        await cloud.export(tmp_path / "out")
    assert {len(paths) for paths in files_of(tmp_path / "out").values()} == {1}
    assert ids_of(tmp_path / "out") == once(stored)


async def test_what_was_read_counts_when_the_database_is_lost(tmp_path, cloud, monkeypatch):
    monkeypatch.setattr(export, "_BATCH", 4)
    stored = points(4, NOVEMBER)
    await cloud.store(stored)
    changed = export.CloudFeed._changed

    async def lost(self, place):
        raise CouchUnavailableError("no answer")

    monkeypatch.setattr(export.CloudFeed, "_changed", lost)
    with pytest.raises(CouchUnavailableError):
        await cloud.export(tmp_path / "out")
    assert ids_of(tmp_path / "out") == once(stored)
    monkeypatch.setattr(export.CloudFeed, "_changed", changed)
    assert (await cloud.export(tmp_path / "out")).rows == {"points": 0}


async def test_an_export_that_is_cancelled_while_it_writes_writes_once(tmp_path, cloud, monkeypatch):
    stored = points(4, NOVEMBER)
    await cloud.store(stored)
    begun, again, continues = threading.Event(), threading.Event(), threading.Event()
    files_write, buffer_write = export_files.PartitionedFiles.write, export._Buffer.write
    calls = []

    def slow(self, *arguments):
        calls.append(arguments)
        begun.set()
        continues.wait()
        return files_write(self, *arguments)

    def noted(self):
        if begun.is_set():
            again.set()
        return buffer_write(self)

    monkeypatch.setattr(export_files.PartitionedFiles, "write", slow)
    monkeypatch.setattr(export._Buffer, "write", noted)
    task = asyncio.create_task(cloud.export(tmp_path / "out", most_rows=1), name="export")
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.to_thread(again.wait)
    continues.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(calls) == 1
    assert ids_of(tmp_path / "out") == once(stored)
    assert (await cloud.export(tmp_path / "out")).rows == {"points": 0}


async def test_an_export_that_is_cancelled_while_it_merges_ends_after_that_merge(
    tmp_path, cloud, monkeypatch
):
    stored = points(2, OCTOBER)
    for one in (stored[:3], stored[3:]):
        await cloud.store(one)
        await cloud.export(tmp_path / "out", now=lambda: OCTOBER)
    begun, continues = threading.Event(), threading.Event()
    merged = export_files._rows

    def slow(files):
        begun.set()
        continues.wait()
        return merged(files)

    monkeypatch.setattr(export_files, "_rows", slow)
    task = asyncio.create_task(cloud.export(tmp_path / "out"), name="export")
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(0)
    continues.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(len(paths) for paths in files_of(tmp_path / "out").values()) == [1, 2, 2]
    assert ids_of(tmp_path / "out") == once(stored)
    await cloud.export(tmp_path / "out")
    assert {len(paths) for paths in files_of(tmp_path / "out").values()} == {1}


async def test_an_answer_that_is_too_large_is_asked_for_in_parts(cloud):
    stored = points(4, NOVEMBER)
    await cloud.store(stored)
    couch = _SmallAnswers(cloud)
    batches = [batch async for batch in export.CloudFeed(couch, "points_2026_11").documents(None)]
    assert [each["_id"] for batch in batches for each in batch.points] == sorted(once(stored))
    assert max(couch.limits) == 2_000


class _SmallAnswers(_OfThreeCopies):
    """A client that reads no answer of more than five documents."""

    def __init__(self, cloud):
        super().__init__(cloud, lacking=())
        self.limits = []

    async def info(self, database):
        return {"instance_start_time": "1", "update_seq": "9-x", "doc_count": 9}

    async def all_docs(self, database, **query):
        self.limits.append(query["limit"])
        if query["limit"] > 5:
            raise CouchAnswerTooLargeError("too large")
        return await super().all_docs(database, **query)

    async def changes(self, database, since, limit, **query):
        path = f"/{self._cloud.prefix}{database}/_changes"
        return (await self._cloud.ask("GET", path, since=since, limit=limit, **query)).json


def test_only_one_export_writes_into_a_folder_without_other_files(tmp_path, said):
    first = ExportState(tmp_path / "out")
    with said.raises(ExportFolderError):
        ExportState(tmp_path / "out")
    first.close()
    ExportState(tmp_path / "out").close()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "thesis.txt").touch()
    with said.raises(ExportFolderError):
        ExportState(tmp_path / "texts")
    assert [path.name for path in (tmp_path / "texts").iterdir()] == ["thesis.txt"]


async def test_a_damaged_file_is_named_and_a_missing_one_is_made_again(tmp_path, cloud):
    stored = points(2, NOVEMBER, chambers=1)
    await cloud.store(stored)
    await cloud.export(tmp_path / "out")
    ((path,),) = files_of(tmp_path / "out").values()
    late = points(1, NOVEMBER + 60, chambers=1)
    await cloud.store(late)
    path.write_bytes(b"PAR1")
    with pytest.raises(ExportFolderError, match=rf"{path.name} is damaged"):
        await cloud.export(tmp_path / "out")
    path.unlink()
    await change_state(tmp_path / "out", ExportState.forget_places)
    assert (await cloud.export(tmp_path / "out")).rows == {"points": 3}
    assert ids_of(tmp_path / "out") == once([*stored, *late])
