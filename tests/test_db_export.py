"""`growd db export`: the lines of the list function, whole after cuts, and never a file of two queries."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from yarl import URL

from growd.cli import main
from growd.db_export import Progress, Source, Wanted, exporting
from growd.store import pages
from growd.store.errors import PartFileError
from growd.store.part_file import PartFile
from support.couch_client import client_of, install_design
from support.exporting import LIST, random_points
from support.stand_in import StandIn

PREFIX = "growd_export_"
PLACE = ("[]", "1", "a")  # where a part ends


def points(number=40):
    """Points with one key each, of two environments, so that every order of them is known."""
    return [
        {
            "_id": f"p{n:03}",
            "environment": "chamber" if n % 3 else "other",
            "variable": ("air_temperature", "air_humidity")[n % 2],
            "is_desired": n % 5 == 0,
            "is_manual": False,
            "value": n / 4,
            "timestamp": 1_700_000_000.5 + n,
        }
        for n in range(number)
    ]


@pytest.fixture
async def small_pages(monkeypatch):
    monkeypatch.setattr(pages, "FIRST_ROWS", 3)
    monkeypatch.setattr(pages, "MOST_ROWS", 4)


@asynccontextmanager
async def stored(server, documents):
    """A client of a server that holds these points, and the prefix of its databases."""
    prefix = f"{PREFIX}{uuid4().hex[:12]}_"
    name = f"/{prefix}environmental_data_point"
    async with client_of(server.url, server.auth) as couch:
        assert (await couch("PUT", name)).status == 201
        try:
            await install_design(couch, name, "environmental_data_point")
            await couch("POST", f"{name}/_bulk_docs", {"docs": documents})
            yield Stored(server, couch, prefix)
        finally:
            await couch("DELETE", name)


class Stored:
    """A database of points, as the command and as the list function read it."""

    def __init__(self, server, couch, prefix):
        self.couch = couch
        self.database = f"{prefix}environmental_data_point"
        login = f"{server.auth[0]}:{server.auth[1]}@" if server.auth else ""
        url = server.url.replace("//", f"//{login}")
        self.settings = ("--set", f'couchdb.url="{url}"', "--set", f'couchdb.prefix="{prefix}"')

    async def export(self, file, *arguments):
        return await exported(file, *self.settings, *arguments)

    async def listed(self, view, **query):
        answer = await self.couch("GET", f"/{self.database}/{LIST}/{view}", **query)
        assert answer.status == 200
        return answer.body


async def exported(file, *arguments):
    """Run the command to its end, in a thread: it has an event loop of its own."""
    command = ["db", "export", "-o", str(file), *arguments]
    return await asyncio.to_thread(CliRunner().invoke, main, command, catch_exceptions=False)


@pytest.mark.parametrize("view", ["by_variable", "by_timestamp"])
async def test_the_file_is_what_the_list_function_writes(database_server, tmp_path, small_pages, view):
    cols = "time,environment,category,variable,value,unit,quality"
    async with stored(database_server, random_points(3)) as database:
        done = await database.export(tmp_path / "a.csv", "--view", view, "--cols", cols)
        listed = await database.listed(view, reduce=False, cols=cols.split(","))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "a.csv").read_bytes() == listed
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]
    assert done.stdout == ""


CHOICES = [
    ([], lambda _: True),
    (["--environment", "other"], lambda p: p["environment"] == "other"),
    (["--variable", "air_humidity"], lambda p: p["variable"] == "air_humidity"),
    (["--category", "desired"], lambda p: p["is_desired"]),
    (
        ["--category", "measured", "--variable", "air_humidity"],
        lambda p: not p["is_desired"] and p["value"] % 0.5,
    ),
    (["--start", "1700000010.5", "--end", "2023-11-14T22:13:40.500Z"], lambda p: 2.5 <= p["value"] <= 5),
    (["--end", "1700000009"], lambda p: p["timestamp"] <= 1_700_000_009),
    (["--end", "1700000001"], lambda p: p["timestamp"] <= 1_700_000_001),
    (["--environment", "nowhere"], lambda _: False),
]


@pytest.mark.parametrize("view", ["by_variable", "by_timestamp"])
async def test_what_is_asked_for_is_chosen(database_server, tmp_path, small_pages, view):
    async with stored(database_server, points()) as database:
        for number, (arguments, is_wanted) in enumerate(CHOICES):
            file = tmp_path / f"{number}.csv"
            done = await database.export(file, "--view", view, "--cols", "_id", *arguments)
            assert done.exit_code == 0, done.output
            found = file.read_text().split()[1:]
            assert sorted(found) == [p["_id"] for p in points() if is_wanted(p)], arguments
            noun = "point" if len(found) == 1 else "points"
            assert done.stderr == f"growd: {len(found)} {noun} in {file}\n"


class Cutting:
    """Stands before a database and hands on so many requests, then closes each connection."""

    def __init__(self, upstream, requests):
        self._upstream = upstream
        self.left = requests

    async def __call__(self, reader, writer):
        try:
            there = await asyncio.open_connection(*self._upstream)
            while self.left > 0:
                head = await reader.readuntil(b"\r\n\r\n")
                self.left -= 1
                there[1].write(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                writer.write(await there[0].read(-1))
                break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            there[1].close()
            writer.close()


@asynccontextmanager
async def cut_after(server, requests):
    host, port = server.url.rpartition("/")[2].split(":")
    cutting = Cutting((host, int(port)), requests)
    async with StandIn(cutting) as listener:
        yield listener.url, cutting


@pytest.mark.parametrize("kind", ["csv", "parquet"])
async def test_a_cut_costs_no_point_and_doubles_none(database_server, tmp_path, small_pages, kind):
    file = tmp_path / "a"
    async with (
        stored(database_server, points()) as database,
        cut_after(database_server, 0) as (address, cutting),
    ):
        here, there = (text.rpartition("/")[2] for text in (database_server.url, address))
        own = [text.replace(here, there) for text in database.settings]
        cuts = 0
        while True:
            cutting.left = 4
            done = await exported(file, *own, "--format", kind)
            if done.exit_code == 0:
                break
            assert done.exit_code == 3, done.output
            assert "the same command goes on" in done.stderr
            assert not file.exists()
            cuts += 1
        listed = await database.listed("by_variable", reduce=False)
    assert cuts > 2
    assert "goes on behind" in done.stderr
    if kind == "csv":
        assert file.read_bytes() == listed
    else:
        times = pq.read_table(file).column("timestamp").to_pylist()
        assert sorted(times) == [document["timestamp"] for document in points()]
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


async def test_how_far_it_is_grows_to_the_whole(database_server, tmp_path, small_pages):
    told = []
    async with stored(database_server, points()) as database:
        login = database_server.auth
        source = Source(URL(database_server.url), database.database, "svc", login)
        wanted = Wanted("by_variable", ("value",))
        async with exporting(source, wanted) as reading:
            file = await asyncio.to_thread(PartFile, tmp_path / "a", {})
            await reading.to_csv(file, told.append)
            await asyncio.to_thread(file.finish)
    parts = [progress.part for progress in told]
    assert parts == sorted(parts)
    assert len(set(parts)) > 5
    assert 0 < parts[0] < 0.2
    assert told[-1] == Progress(1.0, 40)


async def test_parquet_has_a_type_for_each_column(database_server, tmp_path):
    columns = ["time", "variable", "value", "is_desired", "timestamp", "extra", "nope"]
    documents = [document | {"extra": ["x", 7, True, [1]][n % 4]} for n, document in enumerate(points(8))]
    async with stored(database_server, documents) as database:
        done = await database.export(
            tmp_path / "a", "--format", "parquet", "--view", "by_timestamp", "--environment", "chamber",
            "--cols", ",".join(columns),
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    table = pq.read_table(tmp_path / "a")
    text, double = pa.string(), pa.float64()
    kinds = [pa.timestamp("ms", tz="UTC"), text, double, pa.bool_(), double, text, text]
    assert table.schema == pa.schema(list(zip(columns, kinds, strict=True)))
    rows = table.to_pylist()
    wanted = [document for document in documents if document["environment"] == "chamber"]
    assert [row["timestamp"] for row in rows] == [document["timestamp"] for document in wanted]
    assert [row["value"] for row in rows] == [document["value"] for document in wanted]
    assert [row["time"].timestamp() for row in rows] == [document["timestamp"] for document in wanted]
    assert {row["extra"] for row in rows} == {"x", "7", "true", "[1]"}
    assert {row["nope"] for row in rows} == {None}


async def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    done = await exported(tmp_path / "a", "--format", "parquet")
    assert (done.exit_code, done.stderr) == (1, "growd: Parquet needs pyarrow: install growd[parquet]\n")


def begun(file, query):
    """The part of a file that was begun and then cut."""
    with PartFile(file, query) as part:
        part.write(b"old", 1, PLACE)
        part.save()
        return part.part


async def test_another_query_is_refused_unless_it_may_begin_anew(database_server, tmp_path, small_pages):
    file = tmp_path / "a.csv"
    async with stored(database_server, points()) as database:
        part = await asyncio.to_thread(begun, file, {"--view": "by_timestamp"})
        refused = await database.export(file)
        assert refused.exit_code == 1
        assert "was begun with another query" in refused.stderr
        assert "--restart" in refused.stderr
        assert part.read_bytes() == b"old"
        assert (await database.export(file, "--restart")).exit_code == 0
        assert file.read_bytes() == await database.listed("by_variable", reduce=False)
        again = await database.export(file)
    assert (again.exit_code, "is there already" in again.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--cols", "a,,b"], "must be different names"),
        (["--cols", "a,a"], "must be different names"),
        (["--start", "yesterday"], "yesterday is no time"),
        (["--end", "nan"], "nan is no time"),
        (["--format", "xml"], "'xml' is not one of"),
    ],
)
async def test_a_wrong_command_line_is_told(tmp_path, arguments, sentence):
    done = await exported(tmp_path / "a", *arguments)
    assert done.exit_code == 2
    assert sentence in done.stderr


async def test_a_database_that_is_not_there_is_told(database_server, tmp_path):
    done = await exported(tmp_path / "a", "--url", "http://127.0.0.1:9")
    assert (done.exit_code, "no whole answer from http://127.0.0.1:9" in done.stderr) == (3, True)
    async with stored(database_server, []) as database:
        missing = await database.export(tmp_path / "b", "--set", 'couchdb.prefix="none_"')
    assert missing.exit_code == 1
    assert " answered 404: " in missing.stderr


async def test_it_reads_through_the_daemon_where_no_database_is_configured(database_server, tmp_path):
    async with stored(database_server, points(5)) as database:
        login = "" if database_server.auth is None else ":".join(database_server.auth) + "@"
        url = database_server.url.replace("//", f"//{login}")  # stands where a daemon's front door would
        prefix = database.settings[2:]
        done = await exported(tmp_path / "a", "--url", url, *prefix)
        assert done.exit_code == 0, done.output
        assert (tmp_path / "a").read_bytes() == await database.listed("by_variable", reduce=False)


async def test_a_folder_that_can_not_be_written_is_told(tmp_path):
    done = await exported(tmp_path / "none" / "a")
    assert done.exit_code == 1
    assert "can't be written: No such file" in done.stderr


# --- The file that comes in parts


def test_what_came_after_the_last_mark_is_dropped(tmp_path):
    with PartFile(tmp_path / "a", {}) as part:
        part.write(b"head", 0, None)
        part.write(b" one", 1, PLACE)
        part.save()
        part.write(b" two", 1, ("[]", "2", "b"))
    with PartFile(tmp_path / "a", {}) as part:
        assert (part.mark.place, part.mark.rows, part.mark.bytes) == (PLACE, 1, 8)
        part.write(b" 2", 1, None)
        part.finish()
    assert (tmp_path / "a").read_bytes() == b"head one 2"


def test_a_head_without_rows_is_begun_anew(tmp_path):
    with PartFile(tmp_path / "a", {}) as part:
        part.write(b"head", 0, None)
        part.save()
    with PartFile(tmp_path / "a", {}) as part:
        assert part.mark.bytes == 0
        assert part.part.read_bytes() == b""


@pytest.mark.parametrize(("part", "mark"), [("", None), (None, "{"), (None, '{"query":1}')])
def test_a_part_that_does_not_fit_its_mark_is_refused(tmp_path, part, mark):
    with PartFile(tmp_path / "a", {}) as file:
        file.write(b"one", 1, PLACE)
        file.save()
    if part is not None:
        file.part.write_text(part)
    if mark is not None:
        (tmp_path / "a.part.json").write_text(mark)
    with pytest.raises(PartFileError, match="--restart begins anew"):
        PartFile(tmp_path / "a", {})
    with PartFile(tmp_path / "a", {}, anew=True) as file:
        assert file.mark.bytes == 0
