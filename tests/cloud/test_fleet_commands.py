"""`growd fleet`, against a real receiver with a CouchDB, and whole devices."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sqlite3
import time
import tomllib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from click.testing import CliRunner

from growd.config import load
from growd.store.points import PointMaker
from growd_cli.main import main
from support.couch_client import client_of
from support.http_server import serving_http
from support.program import started
from support.tls_door import CA_FILE, server_context
from support.waiting import until_found

if TYPE_CHECKING:
    from support.cloud import Cloud

SHORT_DAY = {
    "format": "simple",
    "operations": [[0, "light_illuminance", 8000], [28800, "light_illuminance", 0]],
}


OWN = "# my chamber\n[http]\nport = 0\n"


@dataclass
class Fleet:
    """The cloud of a test, a folder for devices, and the commands of an administrator."""

    cloud: Cloud
    folder: Path

    async def growd(self, *words):
        """Run `growd fleet`; commands of an administrator get the cloud's options."""
        options = ()
        if words[0] != "enroll":
            options = (
                *("--couchdb", self.cloud.server.url),
                *("--credentials", str(self.folder / "admin")),
                *("--prefix", self.cloud.names.prefix),
            )
        return await asyncio.to_thread(CliRunner().invoke, main, ["fleet", words[0], *options, *words[1:]])

    async def ok(self, *words):
        """The same; it must end well. Its standard output."""
        result = await self.growd(*words)
        assert result.exit_code == 0, result.output
        return result.stdout

    async def refuses(self, *words, says, status=1):
        """The same; it must end with this status, and a sentence that has these words."""
        result = await self.growd(*words)
        assert (result.exit_code, says in result.stderr) == (status, True), result.output

    async def code(self, *words):
        return (await self.ok("invite", *words)).strip()

    def device(self, text=OWN):
        """A device that has run once; its account ends with the test."""
        device = Device.made(self.folder, text)
        self.cloud.devices.append(device.id)
        return device

    async def enroll(self, device, code, *words):
        return await self.growd("enroll", self.cloud.url, code, *device.options, *words)

    async def rows(self):
        return json.loads(await self.ok("list", "--json"))["devices"]


@dataclass
class Device:
    """A device that has run once: its configuration and its data folder."""

    id: str
    place: Path

    @classmethod
    def made(cls, folder, text=OWN):
        identity = PointMaker.new_device()
        place = folder / identity
        place.mkdir()
        (place / "growd.toml").write_text(text)
        with closing(sqlite3.connect(place / "growd.sqlite3")) as store, store:
            store.execute("CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT)")
            store.execute("INSERT INTO state VALUES ('device', ?)", (json.dumps(identity),))
        return cls(identity, place)

    @property
    def config(self):
        return self.place / "growd.toml"

    @property
    def options(self):
        return "--config", str(self.config), "--data", str(self.place)

    async def replication(self):
        return (await asyncio.to_thread(load, self.config)).replication

    def login(self):
        options = tomllib.loads(self.config.read_text())["replication"]
        user, password = Path(options["credentials_file"]).read_text().splitlines()
        return user, password


@pytest.fixture
def fleet(cloud, tmp_path):
    (tmp_path / "admin").write_text("\n".join(cloud.server.credentials))
    (tmp_path / "admin").chmod(0o600)
    return Fleet(cloud, tmp_path)


async def test_one_command_gives_a_device_its_login_and_its_replication(fleet):
    device = fleet.device()
    result = await fleet.enroll(device, await fleet.code(), "--name", "Chamber 1", "--group", "school")
    assert result.exit_code == 0, result.output
    assert f"enrolled {device.id}" in result.stdout
    assert device.config.read_text().startswith(OWN)
    options = await device.replication()
    assert (options.url, options.group) == (fleet.cloud.url, "school")
    found = await asyncio.to_thread(os.stat, options.credentials_file)
    assert found.st_mode & 0o777 == 0o600
    client = await fleet.cloud.client(device.login())
    report = {"name": "host", "version": "1", "time": time.time()}
    answer = await client("PUT", "/_device", report)
    assert (answer.status, answer.json["ok"]) == (201, True)
    assert answer.json["received"] >= report["time"]
    (row,) = await fleet.rows()
    assert (row["device"], row["name"], row["group"]) == (device.id, "Chamber 1", "school")
    assert row["state"] == "ok"
    printed = await fleet.ok("list")
    assert printed.splitlines()[1].split()[:5] == [device.id, "Chamber", "1", "school", "ok"]
    assert printed.splitlines()[-1] == "1 device: 1 ok"


async def test_a_device_without_reports_for_15_minutes_is_silent_and_states_can_be_chosen(fleet):
    device, other = fleet.device(), fleet.device()
    code = await fleet.code("--uses", "2")
    for each in (device, other):
        await fleet.enroll(each, code)
    client = await fleet.cloud.client(device.login())
    await client("PUT", "/_device", {"name": "host", "version": "1", "time": time.time()})
    documents = fleet.cloud.names.devices
    found = await fleet.cloud.couch.get(documents, f"device:{device.id}")
    assert found is not None
    assert [row["state"] for row in await fleet.rows() if row["device"] == device.id] == ["ok"]
    await fleet.cloud.couch.put(documents, found | {"received": found["received"] - 901})
    assert (await fleet.ok("list", "--state", "silent")).splitlines()[-1] == "1 device: 1 silent"
    printed = await fleet.ok("list", "--state", "silent", "--state", "new")
    assert printed.splitlines()[-1] == "2 devices: 1 silent, 1 new"
    assert await fleet.ok("list", "--state", "failure") == "0 devices\n"


async def test_a_code_is_for_one_device_unless_it_says_more(fleet):
    first, second, third = fleet.device(), fleet.device(), fleet.device()
    code, database = await fleet.code(), fleet.cloud.names.devices
    (invitation,) = await fleet.cloud.stored(database)
    assert "the code is unknown" in (await fleet.enroll(first, "AAAAA-BBBBB-CCCCC-DDDDD")).stderr
    await fleet.cloud.couch.put(database, invitation | {"expires": 1.0})
    refused = await fleet.enroll(first, code)
    assert (refused.exit_code, "the code has expired" in refused.stderr) == (1, True)
    assert first.config.read_text() == OWN
    assert [path.name for path in first.place.iterdir() if "cloud" in path.name] == []
    code = await fleet.code()
    assert (await fleet.enroll(first, code)).exit_code == 0
    refused = await fleet.enroll(second, code)
    assert refused.exit_code == 1
    assert "the code has been used; ask for a new one" in refused.stderr
    assert "replication" not in second.config.read_text()
    code = await fleet.code("--uses", "2")
    assert [(await fleet.enroll(each, code)).exit_code for each in (second, third)] == [0, 0]


async def test_a_device_that_replicates_is_enrolled_again_only_on_request(fleet):
    elsewhere = '[replication]\nurl = "http://old.example"\nprefix = "old_"\nca_file = ""\n'
    device = fleet.device(elsewhere)
    code = await fleet.code()
    refused = await fleet.enroll(device, code)
    assert refused.exit_code == 1
    assert "this device replicates to http://old.example already; --again" in refused.stderr
    assert device.config.read_text() == elsewhere
    assert (await fleet.enroll(device, code, "--again")).exit_code == 0
    options = await device.replication()
    assert (options.url, options.prefix) == (fleet.cloud.url, "")
    assert device.login()[0] == device.id
    refused = await fleet.enroll(device, await fleet.code(), "--again")  # somebody may have copied its id
    assert f"the device {device.id} has an account; revoke it first" in refused.stderr


async def test_recipes_are_checked_and_published_to_all_or_some(fleet):
    one, other = fleet.device(), fleet.device()
    code = await fleet.code("--uses", "2")
    await fleet.enroll(one, code, "--name", "Chamber 1")
    await fleet.enroll(other, code, "--name", "Chamber 2", "--group", "school")
    sound, wrong = fleet.folder / "short_day.json", fleet.folder / "wrong.json"
    sound.write_text(json.dumps(SHORT_DAY))
    wrong.write_text(json.dumps({"format": "simple", "operations": [[0, "light", 1]]}))
    recipes = fleet.cloud.names.recipes

    await fleet.refuses("publish", str(sound), str(wrong), says="nothing is published: ")
    assert await fleet.cloud.stored(recipes) == []

    assert await fleet.ok("publish", str(sound)) == "published short_day, revision 1000, for all: 2 devices\n"
    (stored,) = await fleet.cloud.stored(recipes)
    assert stored["operations"] == SHORT_DAY["operations"]
    assert "growd_for" not in stored

    words = shlex.split(await fleet.ok("publish", str(sound), "--to", "Chamber 1", "--group", "school"))
    assert words[-2:] == ["2", "devices"]
    assert (await fleet.cloud.stored(recipes))[0]["growd_for"] == [one.id, "group:school"]
    await fleet.refuses(
        "publish", str(sound), "--to", "Chamber 3", says="there is no device Chamber 3; did you mean"
    )

    await fleet.refuses(
        "publish", str(sound), "--group", "schol", says="in the group schol; did you mean school?"
    )
    await fleet.refuses(
        "publish", str(sound), "--group", "farm", says="in the group farm; groups with devices: school"
    )
    listed = await fleet.ok("recipes")
    assert listed == f"short_day, revision 1001, for {one.id}, group:school: 2 devices\n"
    await fleet.ok("revoke", "Chamber 1")
    await fleet.refuses("publish", str(sound), "--to", "Chamber 1", says="(Chamber 1) is revoked")
    assert await fleet.ok("withdraw", "short_day") == "withdrew short_day\n"
    assert await fleet.ok("recipes") == "no recipe is published\n"
    assert "there is no recipe short_day" in (await fleet.growd("withdraw", "short_day")).stderr


async def test_a_revoked_device_has_no_login_and_may_be_enrolled_again(fleet):
    device = fleet.device()
    await fleet.enroll(device, await fleet.code(), "--name", "Chamber 1")
    before = device.login()
    assert await fleet.ok("revoke", "Chamber 1") == f"{device.id} (Chamber 1) revoked\n"
    client = await fleet.cloud.client(before)
    assert (await client("PUT", "/_device", {"name": "", "version": "", "time": 0})).status == 401
    (row,) = await fleet.rows()
    assert row["state"] == "revoked"
    assert await fleet.ok("revoke", device.id) == f"{device.id} (Chamber 1) had no login\n"
    assert (await fleet.enroll(device, await fleet.code(), "--again")).exit_code == 0
    assert device.login() != before
    assert [row["state"] for row in await fleet.rows()] == ["new"]


async def test_a_device_gets_another_name_and_group(fleet):
    device = fleet.device()
    await fleet.enroll(device, await fleet.code(), "--name", "Chamer 1", "--group", "school")
    words = await fleet.ok("rename", "Chamer 1", "--name", "Chamber 1", "--group", "farm")
    assert words == f"{device.id} is Chamber 1, group farm\n"
    assert [(row["name"], row["group"]) for row in await fleet.rows()] == [("Chamber 1", "farm")]
    client = await fleet.cloud.client(device.login())
    recipe = {"_id": "trial", "format": "simple", "operations": [], "growd_for": ["group:farm"]}
    await fleet.cloud.couch.put(fleet.cloud.names.recipes, recipe)
    for_school = {"$or": [{"growd_for": {"$exists": False}}, {"growd_for": {"$in": ["group:school"]}}]}
    for selector in (for_school, {"_id": {"$regex": "("}}):  # CouchDB would refuse the second
        found = await client("POST", "/recipes/_changes", {"selector": selector}, filter="_selector")
        assert [row["id"] for row in found.json["results"]] == ["trial"]
    assert (await fleet.growd("rename", "Chamber 1", "--group", "my farm")).exit_code == 2
    assert (await fleet.growd("rename", "Chamber 1")).exit_code == 2


async def test_a_reader_gets_a_login_that_lists(fleet):
    name = f"teacher_{PointMaker.new_device()}"
    password = (await fleet.ok("reader", name)).strip()
    fleet.cloud.devices.append(name)
    client = await fleet.cloud.client((name, password))
    assert (await client("GET", "/_fleet")).json == {"devices": []}
    again = await fleet.growd("reader", name)
    assert (again.exit_code, "already" in again.stderr) == (1, True)
    before = await fleet.cloud.couch.get("_users", f"org.couchdb.user:{name}")
    assert (await fleet.ok("reader", name, "--again")).strip() != password
    after = await fleet.cloud.couch.get("_users", f"org.couchdb.user:{name}")  # its cache of logins lags
    assert (after["roles"], after["derived_key"] == before["derived_key"]) == (["reader"], False)
    assert await fleet.ok("reader", name, "--remove") == f"{name} has no login any more\n"
    assert not await fleet.cloud.accounts.has_account(name)


async def test_no_account_but_that_of_a_reader_is_changed(fleet):
    administrator = fleet.cloud.server.credentials[0]
    device, password = await fleet.cloud.device()
    for name, word in ((administrator, "is an administrator"), (device, "with the role reader alone")):
        for option in ("--again", "--remove"):
            await fleet.refuses("reader", name, option, says=word)
    async with client_of(fleet.cloud.server.url, (device, password)) as couch:
        assert (await couch("GET", "/_session")).json["userCtx"]["roles"] == ["device"]
    refused = await fleet.growd("reader", administrator)
    assert (refused.exit_code, "is an administrator" in refused.stderr, refused.stdout) == (1, True, "")
    name = f"teacher_{PointMaker.new_device()}"
    await fleet.refuses("reader", name, "--prefix", "typo_", says="`growd cloud receive` makes the databases")
    assert not await fleet.cloud.accounts.has_account(name)
    # an account without a report can be revoked
    assert await fleet.ok("revoke", device) == f"{device} ({device}) revoked\n"


async def test_a_wrong_password_and_addresses_of_the_other_server_are_named(fleet):
    name = f"teacher_{PointMaker.new_device()}"
    await fleet.cloud.account(name, "pass", "reader")
    login = fleet.folder / "reader"
    login.write_text(f"{name}\nwrong\n")
    login.chmod(0o600)
    words = ("--couchdb", fleet.cloud.url, "--credentials", str(login))
    wrong = await fleet.growd("list", *words)
    assert (wrong.exit_code, "the name or the password is wrong" in wrong.stderr) == (4, True)
    login.write_text(f"{name}\npass\n")
    command = ["cloud", "export", "-o", str(fleet.folder / "out"), *words]
    result = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert result.exit_code == 1
    assert f"{fleet.cloud.url} is the address of a receiver" in result.stderr
    status, error = await asyncio.to_thread(refused, fleet.device(), fleet.cloud.server.url)
    assert (status, "name the address of its receiver" in error) == (1, True)


async def test_a_reader_lists_the_fleet_at_a_receiver_and_changes_nothing(fleet):
    device = fleet.device()
    await fleet.enroll(device, await fleet.code(), "--name", "Chamber 1")
    reader = f"reader_{device.id}"
    await fleet.cloud.account(reader, "pass", "reader")
    (fleet.folder / "admin").write_text(f"{reader}\npass\n")
    at_couchdb = await fleet.growd("list")
    assert at_couchdb.exit_code == 4
    assert "login is needed" in at_couchdb.stderr
    words = ("--couchdb", fleet.cloud.url, "--credentials", str(fleet.folder / "admin"))
    listed = await asyncio.to_thread(CliRunner().invoke, main, ["fleet", "list", *words])
    assert listed.exit_code == 0, listed.output
    assert "Chamber 1" in listed.stdout
    assert (await fleet.growd("invite")).exit_code == 4
    assert (await fleet.growd("revoke", device.id)).exit_code == 4


async def test_a_cloud_without_databases_and_one_that_is_away_are_named(fleet):
    words = ["fleet", "list", "--credentials", str(fleet.folder / "admin")]
    empty = [*words, "--couchdb", fleet.cloud.server.url, "--prefix", "nowhere_"]
    result = await asyncio.to_thread(CliRunner().invoke, main, empty)
    assert (result.exit_code, "`growd cloud receive` makes the databases" in result.stderr) == (1, True)
    result = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--couchdb", "http://127.0.0.1:1"])
    assert (result.exit_code, "Connection refused" in result.stderr) == (3, True)


@pytest.mark.replication
@pytest.mark.timeout(180)
async def test_a_whole_device_reports_itself_and_gets_and_loses_its_recipe(fleet):
    data, config = fleet.folder / "data", fleet.folder / "growd.toml"
    config.write_text("[store]\nmax_age_s = 0.5\n\n[simulator]\nenabled = true\n")
    async with started(data, "--config", str(config)) as program:
        await program.end(signal.SIGTERM)  # the first start draws the id of the device
    (fleet.folder / "mine.json").write_text(json.dumps(SHORT_DAY))
    options = ("--config", str(config), "--data", str(data), "--name", "Chamber 1")
    await fleet.ok("enroll", fleet.cloud.url, await fleet.code(), *options)
    (row,) = await fleet.rows()
    fleet.cloud.devices.append(row["device"])
    assert (row["state"], row["name"]) == ("new", "Chamber 1")
    await fleet.ok("publish", str(fleet.folder / "mine.json"), "--to", "Chamber 1")
    async with started(data, "--config", str(config)) as program:
        await until_status(f"{program.address}/recipes/mine", 200)

        async def reported():
            (row,) = await fleet.rows()
            return row if row["environments"] else None

        row = await until_found(reported)
        assert row["state"] in {"ok", "warning"}
        assert row["api"] == program.address
        assert "environment_1" in row["environments"]
        await fleet.ok("withdraw", "mine")
        await until_status(f"{program.address}/recipes/mine", 404)
        await program.end(signal.SIGTERM)


async def until_status(url, status):
    """Another process copies it, without notifications."""
    async with aiohttp.ClientSession() as session:

        async def has_status():
            async with session.get(url) as answer:
                return answer.status == status

        await until_found(has_status)


def refused(device, url, *words):
    """The exit status and the error of an enrolment that fails, and changes nothing on the device."""
    before = device.config.read_text()
    options = ["fleet", "enroll", url, "AAAAA-BBBBB-CCCCC-DDDDD", *device.options, *words]
    result = CliRunner().invoke(main, options, catch_exceptions=False)
    assert device.config.read_text() == before
    assert not device.config.with_name("growd.cloud").exists()
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["http://127.0.0.1:1"], 3, "the cloud http://127.0.0.1:1 can't be reached: Connection refused"),
        (["cloud.example"], 2, "http"),
        (["ftp://cloud.example"], 2, "http"),
        (["http://me:secret@cloud.example"], 2, "http"),
        (["http://127.0.0.1:1", "--ca", CA_FILE], 2, "is for an https URL"),
        (["http://127.0.0.1:1", "--group", "my school"], 2, "--group"),
    ],
)
def test_an_enrolment_that_can_not_be_tried_is_refused(tmp_path, words, status, sentence):
    found, error = refused(Device.made(tmp_path), *map(str, words))
    assert (found, "secret" in error) == (status, False)
    assert sentence in error


def test_a_device_that_never_ran_or_has_a_section_by_hand_or_no_configuration_is_refused(tmp_path):
    device = Device.made(tmp_path, 'replication = {group = "x"}\n')
    status, error = refused(device, "http://127.0.0.1:1")
    assert (status, "set there by hand" in error) == (1, True)
    (device.place / "growd.sqlite3").unlink()
    status, error = refused(device, "http://127.0.0.1:1")
    assert (status, "start growd once" in error) == (1, True)
    words = ["fleet", "enroll", "http://127.0.0.1:1", "CODE", "--config", str(tmp_path / "none.toml")]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, "there is no configuration" in result.stderr) == (1, True)


async def test_a_server_that_is_not_trusted_has_no_tls_or_is_no_cloud_is_refused_with_the_remedy(
    tmp_path, said
):
    async def nothing(_):
        return web.Response(status=404)

    device = await asyncio.to_thread(Device.made, tmp_path)
    async with serving_http(nothing, tls=server_context()) as url, serving_http(nothing) as plain:
        for *words, status in (
            (url, 3),
            (url, "--ca", CA_FILE, 1),
            (plain.replace("http:", "https:"), 3),
        ):
            found, error = await asyncio.to_thread(refused, device, *words)
            assert found == status
            said(error)


async def test_a_login_that_is_not_of_this_device_or_from_elsewhere_is_not_written(tmp_path, said):
    device = await asyncio.to_thread(Device.made, tmp_path)
    asked = []
    for status, headers, text in (
        (302, {"Location": "/login"}, ""),
        (201, None, '{"user": "0123456789ab", "password": "secret-words"}'),
        (201, None, f'{{"user": "{device.id}", "password": "secret\\nwords"}}'),
    ):

        async def answered(request, status=status, headers=headers, text=text):
            asked.append(request.path)
            return web.Response(status=status, headers=headers, text=text)

        async with serving_http(answered) as url:
            _, error = await asyncio.to_thread(refused, device, url)
        said(error.replace(device.id, "DEVICE"))
    assert asked == ["/_enroll"] * 3
