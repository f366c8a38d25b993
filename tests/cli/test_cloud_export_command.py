"""`growd cloud export` as a command: its output, messages and exit statuses."""

import asyncio
from datetime import UTC, datetime
from random import Random

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer
from click.testing import CliRunner

from growd.store.errors import CouchUnavailableError
from growd_cli.cloud_export import follow
from growd_cli.main import main
from growd_cloud.export import ExportRound
from support.clock import ManualClock
from support.cloud_export import cloud_of, ids_of, once, points
from support.full_disk import full_disk

RECENT = datetime.now(UTC).timestamp() - 86_400


@pytest.fixture
async def cloud(database_server):
    async with cloud_of(database_server) as cloud:
        yield cloud


def login(folder, user, password):
    file = folder / "login"
    file.write_text(f"{user}\n{password}\n")
    file.chmod(0o600)
    return str(file)


async def run(cloud, folder, *options):
    given = ["--couchdb", cloud.server.url, "--prefix", cloud.prefix, "-o", str(folder), *options]
    given += ["--credentials", login(folder.parent, *(cloud.server.auth or ("", "")))]
    month = f"{datetime.fromtimestamp(RECENT, UTC):%Y-%m}"
    return await call(*given, "--since-month", month)


async def call(*arguments):
    return await asyncio.to_thread(CliRunner().invoke, main, ["cloud", "export", *arguments])


async def call_in(folder, *arguments):
    given = ("--couchdb", "http://localhost:5", "--credentials", login(folder, "a", "b"))
    given += ("-o", str(folder / "out"))
    return await call(*given, *arguments)


async def test_the_command_writes_the_points_and_says_how_many(tmp_path, cloud):
    stored = points(4, RECENT)
    await cloud.store(stored)
    await cloud.store(points(1, RECENT), "events")
    result = await run(cloud, tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.stderr == "growd: new: 12 points\n"
    files = [*(tmp_path / "out").rglob("*.parquet")]
    assert result.stdout.startswith(f"{tmp_path}/out: {len(files)} files, ")
    assert ids_of(tmp_path / "out") == once(stored)
    result = await run(cloud, tmp_path / "out", "--recheck", "--events")
    assert result.stderr == "growd: new: 0 points, 3 events\n"


async def test_a_database_that_does_not_answer_ends_with_3(tmp_path, own_port):
    result = await call_in(tmp_path, "--couchdb", f"http://127.0.0.1:{own_port}")
    assert result.exit_code == 3
    assert f"http://127.0.0.1:{own_port}: no answer from the database" in result.stderr
    assert "the same command continues here" in result.stderr


@pytest.mark.parametrize("status", [401, 403])
async def test_a_login_that_is_refused_is_named(tmp_path, status, said):
    async def refuse(_):
        return web.json_response({"error": "no", "reason": "You are not allowed."}, status=status)

    async with RawTestServer(refuse) as server:
        result = await call_in(tmp_path, "--couchdb", f"http://{server.host}:{server.port}")
    assert result.exit_code == 1
    said(result.stderr)


async def test_a_server_without_databases_of_the_cloud_is_named(tmp_path, cloud):
    result = await run(cloud, tmp_path / "out")
    assert result.exit_code == 1
    assert f"{cloud.server.url} has no databases of a cloud with the prefix {cloud.prefix}" in result.stderr
    await cloud.make("points_other")  # prepared, and empty
    result = await run(cloud, tmp_path / "out")
    assert (result.exit_code, result.stderr) == (0, "growd: new: 0 points\n")


@pytest.mark.long
async def test_a_full_disk_is_named_and_the_same_command_resumes(tmp_path, cloud):
    random = Random(3)
    stored = [one | {"value": random.random()} for one in points(5_000, RECENT, chambers=1, every_s=1.0)]
    await cloud.store(stored)
    with full_disk(50_000):
        result = await run(cloud, tmp_path / "out")
    assert result.exit_code == 1
    assert "File too large; the same command resumes" in result.stderr
    assert "Traceback" not in result.output
    result = await run(cloud, tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert ids_of(tmp_path / "out") == once(stored)


async def test_wrong_options_are_refused(tmp_path):
    for name, value, message in (
        ("--since-month", "2026-13", "'2026-13' is not a month: use a form such as 2026-11"),
        ("--every", "0.5", "0.5 is not in the range x>=1"),
        ("--couchdb", "http://admin:secret@localhost", "must be http://host:port, without a login"),
        ("--prefix", "A b", "must be small letters, digits and _"),
    ):
        result = await call_in(tmp_path, name, value)
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
        assert "secret" not in result.stderr


class _Export:
    """Rounds that fail or not, as the test says."""

    def __init__(self):
        self.rounds = 0
        self.is_lost = False

    async def round(self):
        self.rounds += 1
        if self.is_lost:
            raise CouchUnavailableError("no answer")
        return ExportRound({"points": self.rounds})


async def test_follow_reads_at_each_interval_and_survives_a_lost_database(capsys):
    clock, export = ManualClock(), _Export()
    task = asyncio.create_task(follow(export, 3_600.0, clock), name="follow")
    await clock.advance(3_601)
    assert export.rounds == 1
    export.is_lost = True
    await clock.advance(3_600 + 180)
    assert export.rounds == 5
    export.is_lost = False
    await clock.advance(61)
    assert capsys.readouterr().err.splitlines() == [
        "growd: new: 1 point",
        "growd: no answer; trying again each minute",
        "growd: the database answers again",
        "growd: new: 6 points",
    ]
    task.cancel()
    await asyncio.wait([task])
