"""`growd db export`: contents, continuation after interruptions, errors."""

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from yarl import URL

from growd.store.errors import PartFileError
from growd.store.points import PointMaker
from growd.store.reading import pages
from growd.store.reading.source import PointSource
from growd_analysis.points import wide
from growd_analysis.points.export import Export, ExportQuery, Progress, reading
from growd_analysis.points.part_file import PartFile
from growd_cli.main import main
from support.couch_client import client_of, install_design
from support.exporting import LIST, random_points
from support.stand_in import StandIn

PREFIX = "growd_export_"
PLACE = ("[]", "1", "a")  # the place in a mark


def points(number=40):
    """Points of two environments with different keys, so that their order is known."""
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
async def stored(server, documents, events=()):
    """A server with these points."""
    prefix = f"{PREFIX}{uuid4().hex[:12]}_"
    folders = {"environmental_data_point": documents, "environmental_event": events}
    async with client_of(server.url, server.auth) as couch:
        try:
            for folder, docs in folders.items():
                assert (await couch("PUT", f"/{prefix}{folder}")).status == 201
                await couch("POST", f"/{prefix}{folder}/_bulk_docs", {"docs": list(docs)})
                await install_design(couch, f"/{prefix}{folder}", folder)
            yield Stored(server, couch, prefix)
        finally:
            for folder in folders:
                await couch("DELETE", f"/{prefix}{folder}")


class Stored:
    """A database of points, read by the command and by the list function."""

    def __init__(self, server, couch, prefix):
        self.couch = couch
        self.database = f"{prefix}environmental_data_point"
        self.events = f"{prefix}environmental_event"
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
    """Run the command in a thread, since it has its own event loop."""
    command = ["db", "export", "-o", str(file), *arguments]
    return await asyncio.to_thread(CliRunner().invoke, main, command, catch_exceptions=False)


@pytest.mark.parametrize("view", ["by_variable", "by_timestamp"])
async def test_the_file_equals_the_output_of_the_list_function(database_server, tmp_path, small_pages, view):
    cols = "time,environment,category,variable,value,unit,quality"
    async with stored(database_server, random_points(3)) as database:
        done = await database.export(tmp_path / "a.csv", "--view", view, "--cols", cols, "--category", "all")
        listed = await database.listed(view, reduce=False, cols=cols.split(","))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "a.csv").read_bytes() == listed
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]
    assert done.stdout == ""


CHOICES = [
    (["--category", "all", "--environment", "other"], lambda p: p["environment"] == "other"),
    (["--category", "all", "--variable", "air_humidity"], lambda p: p["variable"] == "air_humidity"),
    (["--category", "desired"], lambda p: p["is_desired"]),
    (["--variable", "air_humidity"], lambda p: not p["is_desired"] and p["value"] % 0.5),
    (["--variable", "light_ppfd"], lambda _: False),  # growd has this variable
    (
        ["--category", "all", "--start", "1700000010.5", "--end", "2023-11-14T22:13:40.500"],  # in UTC
        lambda p: 2.5 <= p["value"] <= 5,
    ),
    (["--category", "all", "--end", "1700000001"], lambda p: p["timestamp"] <= 1_700_000_001),
]


@pytest.mark.long
@pytest.mark.parametrize("view", ["by_variable", "by_timestamp"])
async def test_options_choose_the_points(database_server, tmp_path, small_pages, view):
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
    """A proxy that passes on some requests, then closes each connection."""

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


async def cut_and_resumed(server, database, file, *arguments, requests):
    """Export through connections that are cut after some requests, until it is done; the last result."""
    async with cut_after(server, 0) as (address, cutting):
        here, there = (text.rpartition("/")[2] for text in (server.url, address))
        settings = [text.replace(here, there) for text in database.settings]
        cuts = 0
        while True:
            cutting.left = requests
            done = await exported(file, *settings, *arguments)
            if done.exit_code == 0:
                assert cuts > 2
                return done
            assert done.exit_code == 3, done.output
            assert "the same command resumes" in done.stderr
            assert not file.exists()
            cuts += 1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["csv", "parquet"])
async def test_an_interrupted_export_loses_and_doubles_no_point(database_server, tmp_path, small_pages, kind):
    file = tmp_path / "a"
    async with stored(database_server, points()) as database:
        wanted = ("--format", kind, "--category", "all", "--cols", "timestamp,variable,value")
        done = await cut_and_resumed(database_server, database, file, *wanted, requests=4)
        listed = await database.listed("by_variable", reduce=False)
    assert "resuming behind" in done.stderr
    if kind == "csv":
        assert file.read_bytes() == listed
    else:
        times = pq.read_table(file).column("timestamp").to_pylist()
        assert sorted(times) == [document["timestamp"] for document in points()]
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


async def test_progress_grows_to_one(database_server, tmp_path, small_pages):
    reported = []
    async with stored(database_server, points()) as database:
        login = database_server.auth
        source = PointSource(URL(database_server.url), database.database, database.events, "svc", login)
        wanted = ExportQuery("by_variable", ("value",))
        async with reading(source) as reader:
            file = await asyncio.to_thread(PartFile, tmp_path / "a", {})
            await Export(reader, wanted).to_csv(file, reported.append)
            await asyncio.to_thread(file.finish)
    parts = [progress.part for progress in reported]
    assert parts == sorted(parts)
    assert len(set(parts)) > 5
    assert 0 < parts[0] < 0.2
    assert reported[-1] == Progress(1.0, 40)


async def test_parquet_has_a_type_for_each_column(database_server, tmp_path):
    columns = ["time", "variable", "value", "is_desired", "timestamp", "extra", "none"]
    documents = [
        document | {"extra": ["x", 7, True, [1]][n % 4], "none": None} for n, document in enumerate(points(8))
    ]
    async with stored(database_server, documents) as database:
        done = await database.export(
            tmp_path / "a", "--format", "parquet", "--view", "by_timestamp", "--environment", "chamber",
            "--category", "all", "--cols", ",".join(columns),
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
    assert {row["none"] for row in rows} == {None}


def begun(file, query):
    """The part of an interrupted export."""
    with PartFile(file, query) as part:
        part.write(b"old", 1, PLACE)
        part.save()
        return part.part


async def test_another_query_is_refused_without_replace(database_server, tmp_path, small_pages):
    file = tmp_path / "a.csv"
    async with stored(database_server, points()) as database:
        part = await asyncio.to_thread(begun, file, {"--view": "by_timestamp"})
        refused = await database.export(file)
        assert refused.exit_code == 1
        assert "was begun with another query" in refused.stderr
        assert "--replace" in refused.stderr
        assert part.read_bytes() == b"old"
        again = ("--replace", "--category", "all", "--cols", "timestamp,variable,value")
        assert (await database.export(file, *again)).exit_code == 0
        assert file.read_bytes() == await database.listed("by_variable", reduce=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--cols", "a,,b"], "must be different names"),
        (["--cols", "a,a"], "must be different names"),
        (["--start", "yesterday"], "yesterday is not a time"),
        (["--format", "xml"], "'xml' is not one of"),
        (["--every", "60"], "--every needs --wide"),
        (["--wide", "--cols", "time"], "--cols can't be used with --wide"),
        (["--wide", "--category", "event"], "--wide can't show events"),
        (["--start", "2026-11-02T00:00Z", "--end", "2026-11-01T00:00Z"], "--start must not be after --end"),
        (["--wide", "--every", "0.5"], "0.5 is not in the range"),
    ],
)
async def test_a_wrong_command_line_is_refused(tmp_path, arguments, sentence):
    done = await exported(tmp_path / "a", *arguments)
    assert (done.exit_code, sentence in done.stderr) == (2, True), done.stderr


async def test_a_missing_database_and_an_unwritable_folder_are_reported(database_server, tmp_path):
    async with stored(database_server, []) as database:
        missing = await database.export(tmp_path / "b", "--set", 'couchdb.prefix="none_"')
    assert (missing.exit_code, " answered 404: " in missing.stderr) == (1, True)
    unwritable = await exported(tmp_path / "none" / "a")
    assert (unwritable.exit_code, "can't be written: No such file" in unwritable.stderr) == (1, True)


async def test_without_a_configured_database_it_reads_through_the_daemon(database_server, tmp_path):
    async with stored(database_server, points(5)) as database:
        login = "" if database_server.auth is None else ":".join(database_server.auth) + "@"
        url = database_server.url.replace("//", f"//{login}")  # in place of a daemon
        whole = ("--category", "all", "--cols", "timestamp,variable,value")
        for segment, name in (("", "svc"), ("/_svc", "openag")):
            settings = (*database.settings[2:], "--set", f'http.name="{name}"')
            done = await exported(tmp_path / name, "--url", url + segment, *settings, *whole)
            assert done.exit_code == 0, done.output
            assert (tmp_path / name).read_bytes() == await database.listed("by_variable", reduce=False)


# --- FILE.part


def test_rows_behind_the_last_mark_are_dropped(tmp_path):
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


def test_no_file_is_made_before_the_first_row(tmp_path):
    with PartFile(tmp_path / "a", {}) as part:
        part.write(b"head", 0, None)
        part.save()
    assert [*tmp_path.iterdir()] == []
    with PartFile(tmp_path / "a", {"another": "query"}) as part:
        part.write(b"head", 0, None)
        part.finish()
    assert (tmp_path / "a").read_bytes() == b"head"


@pytest.mark.parametrize(("part", "mark"), [("", None), (None, "{"), (None, '{"query":1}')])
def test_a_part_that_does_not_match_its_mark_is_refused(tmp_path, part, mark):
    with PartFile(tmp_path / "a", {}) as file:
        file.write(b"one", 1, PLACE)
        file.save()
    if part is not None:
        file.part.write_text(part)
    if mark is not None:
        (tmp_path / "a.part.json").write_text(mark)
    with pytest.raises(PartFileError, match="--replace starts over"):
        PartFile(tmp_path / "a", {})
    with PartFile(tmp_path / "a", {}, replace=True) as file:
        assert file.mark.bytes == 0


# --- Default contents, and wide tables

MAKER = PointMaker("0123456789ab")
T0 = 1_700_000_040.0  # 22:14:00, a whole minute


def made(variable, value, at, *, environment="chamber", **options):
    return MAKER.make(environment, variable, value, T0 + at, **options).document()


SEASON = [
    made("air_temperature", 20.5, -10),
    made("air_temperature", 21, 5, is_manual=True),
    made("air_humidity", 40, 61),
    made("air_temperature", 22, 700),
    made("air_temperature", 24, 700 + 7200),
    made("light_illuminance", 800, -5, is_desired=True),
    made("light_illuminance", None, 130, is_desired=True),
    made("recipe_start", "basil", -5, is_desired=True),
]
HAPPENED = [
    made("air_flush_on", 1, 62, category="commanded"),
    made("air_flush_on", None, 121, category="commanded"),
    made("air_temperature", "stale", 1000, category="quality"),
    made("restart", "growd started", 3, category="event"),
]


async def rows_of(database, *arguments):
    done = await database.export("-", *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout.split()


async def test_the_default_is_measured_points(database_server):
    async with stored(database_server, SEASON, HAPPENED) as database:
        rows = await rows_of(database, "--variable", "air_temperature", "--end", str(T0 + 100))
        desired = await rows_of(database, "--category", "desired", "--cols", "value")
        marked = await rows_of(database, "--category", "desired", "--cols", "value", "--recipe-marks")
    assert rows == [
        "time,environment,category,variable,value,unit,is_manual",
        "2023-11-14T22:13:50.000Z,chamber,measured,air_temperature,20.5,degC,false",
        "2023-11-14T22:14:05.000Z,chamber,measured,air_temperature,21,degC,true",
    ]
    assert (desired, marked) == (["value", "800"], ["value", "800", "basil"])  # the release is empty


@pytest.mark.parametrize("view", ["by_variable", "by_timestamp"])
async def test_commands_qualities_and_events_are_exported(database_server, view):
    async with stored(database_server, SEASON, HAPPENED) as database:
        for category, values in (
            ("commanded", ["1", ""]),
            ("quality", ["stale"]),
            ("event", ["growd started"]),
        ):
            done = await database.export("-", "--view", view, "--category", category, "--cols", "value")
            assert done.stdout.splitlines()[1:] == values, category
        whole = await database.export("-", "--view", view, "--category", "all", "--cols", "value")
        assert len(whole.stdout.splitlines()) == 1 + len(SEASON) + len(HAPPENED)


async def test_an_unknown_name_is_refused(database_server, tmp_path):
    async with stored(database_server, SEASON) as database:
        for arguments, sentence in (
            (
                ("--variable", "air_temprature"),
                "there is no variable air_temprature; did you mean air_temperature?",
            ),
            (("--environment", "nowhere"), "there is no environment nowhere; there are: chamber"),
            (("--cols", "time,valu"), "there is no column valu; did you mean value?"),
        ):
            done = await database.export(tmp_path / "a", *arguments)
            assert (done.exit_code, done.stderr) == (1, f"growd: {sentence}\n")
    assert [*tmp_path.iterdir()] == []


async def test_a_wide_table_has_a_column_for_each_variable_and_a_row_for_each_step(
    database_server, small_pages
):
    async with stored(database_server, SEASON, HAPPENED) as database:
        wide = await rows_of(database, "--wide", "--every", "60")
        later = await rows_of(
            database, "--wide", "--every", "30", "--start", str(T0 + 60), "--end", str(T0 + 119)
        )
        whole = await rows_of(database, "--wide", "--category", "all", "--end", str(T0 + 180))
        failed = await rows_of(database, "--wide", "--start", str(T0 + 940))
        silent = await rows_of(database, "--wide", "--start", str(T0 + 1060))
        same = await rows_of(database, "--wide", "--category", "all", "--start", str(T0 + 1060))
    head, *rows = (line.split(",") for line in wide)
    assert head == ["time", "air_humidity", "air_temperature"]
    assert [row[1:] for row in rows[:3]] == [["", "20.5"], ["", "21"], ["40", "21"]]
    found = {row[0][11:19]: row[1:] for row in rows}
    assert found["22:25:00"] == ["40", "21"]  # 655 s old: a little more than the 600 s until it is stored
    assert (found["22:26:00"], found["22:27:00"]) == (["40", "22"], ["", "22"])
    assert "23:00:00" not in found  # nothing was measured for an hour
    assert [row[0][11:19] for row in rows][-1] == "22:30:00"  # the sensor fell silent at 22:30:40
    assert failed == [",".join(head), "2023-11-14T22:30:00.000Z,,22"]
    assert silent == [",".join(head)]
    assert {row.split(",")[2] for row in same[1:]} == {""}
    assert later == [
        "time,air_humidity,air_temperature",
        "2023-11-14T22:15:00.000Z,,21",
        "2023-11-14T22:15:30.000Z,40,21",
    ]
    assert whole == [
        "time,air_humidity,air_temperature,commanded/air_flush_on,desired/light_illuminance,quality/air_temperature",
        "2023-11-14T22:14:00.000Z,,20.5,,800,",
        "2023-11-14T22:15:00.000Z,,21,,800,",
        "2023-11-14T22:16:00.000Z,40,21,1,800,",
        "2023-11-14T22:17:00.000Z,40,21,,,",
    ]


async def test_a_wide_table_has_columns_for_each_environment(database_server):
    both = [*SEASON, made("air_temperature", 30, 0, environment="other")]
    async with stored(database_server, both) as database:
        head, first, *_ = await rows_of(database, "--wide", "--variable", "air_temperature")
    assert head == "time,chamber/air_temperature,other/air_temperature"
    assert first == "2023-11-14T22:14:00.000Z,20.5,30"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["csv", "parquet"])
async def test_an_interrupted_wide_table_loses_and_doubles_no_row(
    database_server, tmp_path, small_pages, monkeypatch, kind
):
    monkeypatch.setattr(wide, "BATCH_ROWS", 2)
    file, wanted = tmp_path / "a", ("--wide", "--every", "3", "--format", kind)
    async with stored(database_server, points()) as database:
        whole = await rows_of(database, *wanted[:3])
        await cut_and_resumed(database_server, database, file, *wanted, requests=8)
    if kind == "csv":
        assert file.read_text().split() == whole
    else:
        assert pq.read_table(file).num_rows == len(whole) - 1
