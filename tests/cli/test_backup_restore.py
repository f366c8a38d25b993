"""`growd backup` and `growd restore`: everything comes back, also after interruptions."""

import asyncio
import random
import signal
from contextlib import asynccontextmanager
from datetime import UTC

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from growd.config.camera import PhotoOptions
from growd.host.data_folder import StartError, own_folder
from growd_camera.album import Album
from growd_machine.backup import making
from support.chambers import COPIED, PHOTO, fill, fill_folder, folder_content, growd, places
from support.full_disk import full_disk
from support.http_server import serving_http
from support.program import GROWD, home_on, started

pytestmark = pytest.mark.long

HOP_BY_HOP = {"Host", "Connection", "Transfer-Encoding", "Content-Length", "Accept-Encoding"}


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(making, "MOST_ROWS", 20)
    monkeypatch.setattr(making, "CHUNK_BYTES", 5_000)


@asynccontextmanager
async def chamber(server, folder):
    await asyncio.to_thread((folder / "data").mkdir, parents=True)
    async with places(server, folder) as place:
        await fill(place)
        await fill_folder(place.data)
        yield place


@asynccontextmanager
async def two_places(server, folder):
    """A file for a backup, a chamber with data, and a place to restore it."""
    async with chamber(server, folder / "old") as old, places(server, folder / "new") as new:
        yield folder / "chamber.growd", old, new


def backup_of(place, file, *arguments):
    return growd("backup", str(file), "--data", str(place.data), *place.settings(), *arguments)


def restore_to(place, file, *arguments):
    return growd("restore", str(file), "--data", str(place.data), *place.settings(), *arguments)


async def assert_same(new, old):
    before, after = await old.content(), await new.content()
    design = before["environmental_data_point"].pop("_design/svc")
    assert design  # growd writes it at its next start
    assert after == before
    folders = [await asyncio.to_thread(folder_content, place.data) for place in (new, old)]
    assert folders[0] == folders[1]
    assert folders[0]["files"] == COPIED


async def test_everything_comes_back_and_nothing_is_overwritten(database_server, tmp_path, small_parts, said):
    async with two_places(database_server, tmp_path) as (file, old, new):
        done = await backup_of(old, file)
        assert done.exit_code == 0, done.output
        assert "300 documents of environmental_data_point" in done.output
        assert "left out the damaged file" in done.output
        assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["chamber.growd"]
        assert file.stat().st_mode & 0o777 == 0o600
        assert (await growd("backup", str(file), "--verify")).exit_code == 0
        again = await backup_of(old, file)
        assert (again.exit_code, "exists already: --replace replaces it" in again.output) == (1, True)

        full = await restore_to(old, file)
        assert (full.exit_code, f"mv {old.data} {old.data}.before" in full.output) == (1, True)
        with await asyncio.to_thread(own_folder, old.data):
            running = await restore_to(old, file)
        assert (running.exit_code, "growd is running in" in running.output) == (1, True)

        away = await restore_to(new, file, "--set", "couchdb.url=http://127.0.0.1:9")
        assert away.exit_code == 3
        with said.raises(StartError):  # growd does not start in a half-restored folder
            await asyncio.to_thread(own_folder, new.data)
        restored = await restore_to(new, file)
        assert restored.exit_code == 0, restored.output
        content = await new.content()
        assert f"compared {sum(map(len, content.values()))} documents" in restored.output
        await assert_same(new, old)
        album = Album(new.data, "0123456789ab", PhotoOptions(), UTC)
        await asyncio.to_thread(album.load)
        assert [photo.camera for photo in album.newest_first("chamber")] == ["top"]


async def test_a_stopped_growd_is_copied_while_growd_url_names_another_one(tmp_path, monkeypatch):
    async with started(tmp_path / "data", "--profile", "sim") as program:
        await program.end(signal.SIGTERM)
    monkeypatch.setenv("GROWD_URL", "http://127.0.0.1:9")
    done = await growd("backup", str(tmp_path / "chamber.growd"), "--data", str(tmp_path / "data"))
    assert done.exit_code == 0, done.output


@asynccontextmanager
async def cut_off(server, place):
    """A way to a database that ends after some requests: its options, and a function that allows more."""
    left = 0

    async def forward(request):
        nonlocal left
        left -= 1
        if left < 0:
            request.transport.abort()
            return web.Response()
        url = URL(server.url + request.raw_path, encoded=True)
        headers = {name: value for name, value in request.headers.items() if name not in HOP_BY_HOP}
        async with session.request(request.method, url, data=await request.read(), headers=headers) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), content_type=answer.content_type
            )

    def allow(number):
        nonlocal left
        left = number

    async with aiohttp.ClientSession() as session, serving_http(forward) as url:
        login = place.url().partition("//")[2].rpartition("@")
        yield ("--set", f"couchdb.url={url.replace('//', f'//{login[0]}{login[1]}')}"), allow


async def test_an_outage_at_any_request_is_continued(database_server, tmp_path, small_parts):
    async with (
        two_places(database_server, tmp_path) as (file, old, new),
        cut_off(database_server, old) as (through, allow),
    ):
        for command, place in ((backup_of, old), (restore_to, new)):
            statuses = []
            while 0 not in statuses:
                allow(12 + 3 * len(statuses))
                done = await command(place, file, *through)
                statuses.append(done.exit_code)
                assert done.exit_code in {0, 3}, done.output
                assert done.exit_code == 0 or "the same command continues here" in done.output
            assert len(statuses) > 4
        await assert_same(new, old)


async def test_a_continued_backup_has_what_came_and_went_meanwhile(database_server, tmp_path, small_parts):
    async with (
        two_places(database_server, tmp_path) as (file, old, new),
        cut_off(database_server, old) as (through, allow),
    ):
        allow(30)
        assert (await backup_of(old, file, *through)).exit_code == 3
        new_point = {"_id": "0 new", "value": 1, "is_desired": False, "timestamp": 1.0}
        new_point |= {"environment": "e", "variable": "v"}
        await old.write("environmental_data_point", [new_point])
        listed = await old.couch("GET", f"/{old.names['environmental_data_point']}/_all_docs", limit=20)
        rows = listed.json["rows"]
        deleted = [{"_id": row["id"], "_rev": row["value"]["rev"], "_deleted": True} for row in rows[5:9]]
        await old.write("environmental_data_point", deleted)
        assert (await backup_of(old, file)).exit_code == 0
        restored = await restore_to(new, file)
        assert restored.exit_code == 0, restored.output
        await assert_same(new, old)


async def test_a_full_disk_is_reported_and_continued(database_server, tmp_path, small_parts):
    async with two_places(database_server, tmp_path) as (file, old, new):
        with full_disk(1_500_000):
            done = await backup_of(old, file)
        assert done.exit_code == 1
        assert "chamber.growd.part can't be written: File too large" in done.output
        again = await backup_of(old, file)
        assert again.exit_code == 0, again.output
        with full_disk(500_000):
            done = await restore_to(new, file)
        assert done.exit_code == 1
        assert "can't be written: File too large" in done.output
        assert (await restore_to(new, file)).exit_code == 0
        await assert_same(new, old)


async def test_a_missing_database_is_named_and_with_couchdb_growd_is_not_asked(database_server, tmp_path):
    async with chamber(database_server, tmp_path / "old") as old:
        gone = old.names["environmental_rollup"]
        await old.couch("DELETE", f"/{gone}")
        done = await backup_of(old, tmp_path / "chamber.growd", "--url", "http://127.0.0.1:9")
    assert done.exit_code == 0, done.output
    assert f"there is no database {gone}" in done.output
    assert "environmental_rollup\n" not in done.output.partition("a complete backup")[2]
    assert "configuration" not in done.output  # it has no file of its own


def configure(place):
    """A configuration with secrets, and the files that it names."""
    place.config.write_text(
        f'[couchdb]\nurl = "{place.url()}"\nprefix = "{place.prefix}"\n'
        '[[notify]]\nname = "hook"\nkind = "apprise"\nurl_file = "token"\nca_file = "ca.pem"\n'
    )
    files = {"ca.pem": "public", "token": "ntfy://s3cret", "phrase": "a good one\n", "wrong": "another one\n"}
    for name, text in files.items():
        (place.folder / name).write_text(text)
    (place.folder / "token").chmod(0o600)


async def test_secrets_come_back_with_the_passphrase_only(database_server, tmp_path):
    file = tmp_path / "chamber.growd"
    async with chamber(database_server, tmp_path / "old") as old:
        await asyncio.to_thread(configure, old)
        own = ("--config", str(old.config), "--data", str(old.data))
        phrase = ("--passphrase-file", str(old.folder / "phrase"))
        done = await growd("backup", str(file), "--secrets", *phrase, *own)
        assert done.exit_code == 0, done.output
        content = file.read_bytes()
        assert b"s3cret" not in content
        new = ("--data", str(tmp_path / "new/data"), "--config", str(tmp_path / "new/growd.toml"))
        wrong = await growd("restore", str(file), *new, "--passphrase-file", str(old.folder / "wrong"))
        assert (wrong.exit_code, "the passphrase is wrong" in wrong.output) == (1, True)
        assert not (tmp_path / "new").exists()
        for name in old.names.values():
            await old.couch("DELETE", f"/{name}")
        done = await growd("restore", str(file), *new, *phrase, "--other-files", "write")
        assert done.exit_code == 0, done.output
    assert (tmp_path / "new/growd.toml").read_bytes() == old.config.read_bytes()
    assert (tmp_path / "new/token").read_text() == "ntfy://s3cret"
    assert (tmp_path / "new/token").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new/ca.pem").read_text() == "public"


async def test_a_backup_without_secrets_says_what_to_complete_and_keeps_a_configuration(
    database_server, tmp_path
):
    async with two_places(database_server, tmp_path) as (file, old, new):
        await asyncio.to_thread(configure, old)
        done = await growd("backup", str(file), "--config", str(old.config), "--data", str(old.data))
        assert done.exit_code == 0, done.output
        await asyncio.to_thread(new.folder.mkdir)
        await asyncio.to_thread(new.config.write_text, "# mine\n")
        restored = await restore_to(new, file, "--config", str(new.config), "--other-files", "leave")
        assert restored.exit_code == 0, restored.output
        assert f"kept {new.config}" in restored.output
        assert f"left out the file {new.folder / 'ca.pem'}" in restored.output
        assert new.config.read_text() == "# mine\n"
    async with places(database_server, tmp_path / "third") as third:
        other = third.folder / "other.toml"
        restored = await restore_to(third, file, "--config", str(other), "--other-files", "write")
        assert restored.exit_code == 0, restored.output
        assert "password@" not in other.read_text()
        assert "url_file: write the file" in restored.output


async def test_a_damaged_file_and_a_database_with_documents_change_nothing(database_server, tmp_path):
    async with two_places(database_server, tmp_path) as (file, old, new):
        assert (await backup_of(old, file)).exit_code == 0
        content = file.read_bytes()
        damaged = bytearray(content)
        damaged[content.index(PHOTO[:2000]) + 5] ^= 1
        file.write_bytes(damaged)
        for done in (await restore_to(new, file), await growd("backup", str(file), "--verify")):
            assert done.exit_code == 1
            assert "is damaged: attachments/" in done.output or "is damaged: state/" in done.output
        assert not new.data.exists()
        file.write_bytes(content)
        await new.make()
        await new.write("recipes", [{"_id": "mine"}])
        refused = await restore_to(new, file)
        assert refused.exit_code == 1
        assert f"there are documents in {new.names['recipes']}:" in refused.output


async def test_what_a_running_growd_acknowledged_is_in_the_backup(database_server, tmp_path):
    """Notes arrive all the time, and go through log, file and database quickly."""
    quick = ("--set", "store.max_age_s=1")
    acknowledged = []

    async def write_notes(program):
        async with aiohttp.ClientSession() as session:
            while True:
                text = f"note {len(acknowledged)}"
                async with session.post(f"{program.api}/topic/environment_1/notes", json=[text]) as answer:
                    assert answer.ok, await answer.text()
                acknowledged.append(text)

    async with (
        home_on(database_server) as home,
        started(tmp_path / "data", *home.arguments, *quick) as program,
    ):
        await program.until_there(home.events, home.headers)
        writing = asyncio.create_task(write_notes(program), name="notes")
        try:
            own = ("--data", str(tmp_path / "data"), *home.arguments)
            own = own if home.prefix else (*own, "--url", program.address)
            for number in range(2):
                while len(acknowledged) < 20 * (number + 1):
                    assert not writing.done() or writing.result()
                    await asyncio.sleep(0.01)
                before = [*acknowledged]
                file = tmp_path / f"{number}.growd"
                done = await growd("backup", str(file), *own)
                assert done.exit_code == 0, done.output
                async with places(database_server, tmp_path / f"new{number}") as new:
                    restored = await restore_to(new, file)
                    assert restored.exit_code == 0, restored.output
                    stored = [
                        each["value"]
                        for leaves in (await new.content())["environmental_event"].values()
                        for each in leaves.values()
                        if "value" in each
                    ]
                    content = await asyncio.to_thread(folder_content, new.data)
                waiting = [point.value for point in content["log"].values()]
                assert content["notices"] == []
                assert {*before} - {*stored, *waiting} - {
                    text for text in before if any(f'"{text}"' in row for row in content["rows"])
                } == set()
        finally:
            writing.cancel()
            await asyncio.wait([writing])


@pytest.mark.kill
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.nightly)])
async def test_kills_at_any_moment_lose_nothing(database_server, tmp_path, kills):
    moments = random.Random(17)
    file = tmp_path / "chamber.growd"
    async with (
        places(database_server, tmp_path / "old") as old,
        places(database_server, tmp_path / "new") as new,
    ):
        await asyncio.to_thread(old.data.mkdir, parents=True)
        await fill(old, points=1_500)
        await fill_folder(old.data)
        for command, place in (("backup", old), ("restore", new)):
            for _ in range(kills):
                words = (command, str(file), "--data", str(place.data), *place.settings())
                await killed(*words, after=moments.uniform(0.4, 1.6))
            done = await (backup_of if command == "backup" else restore_to)(place, file)
            assert done.exit_code == 0 or "exists already" in done.output or "has data" in done.output, (
                done.output
            )
        await assert_same(new, old)


async def killed(*arguments, after):
    process = await asyncio.create_subprocess_exec(
        str(GROWD), *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(after):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    process._transport.close()
