"""The cloud side: every command of couchdb/cloud/README.md, run, and what its files promise.

The embedded database has no users and no partitions, so this runs against the CouchDB that
GROWD_TEST_COUCHDB_CLOUD or GROWD_TEST_COUCHDB names.
"""

import asyncio
import configparser
import json
import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest

from growd.bus import Bus
from growd.config import Replication
from growd.runtime.clock import RealClock
from growd.store.bootstrap import Databases
from growd.store.database import Database
from growd.store.points import PointMaker
from growd_cloud.access import CloudAccess
from growd_cloud.replicator import ReplicationPace, Replicator
from support.couch_client import COUCHDB_ADDRESS, client_of
from support.database import named_server
from support.running import in_tasks

CLOUD = Path(__file__).parents[2] / "couchdb" / "cloud"
ADDRESS = os.environ.get("GROWD_TEST_COUCHDB_CLOUD") or os.environ.get(COUCHDB_ADDRESS)
needs_couchdb = pytest.mark.skipif(
    ADDRESS is None,
    reason="the embedded database has no users and no partitions: GROWD_TEST_COUCHDB names one",
)


def shell_blocks():
    """The commands of the README in their order. The first block sets the reader's own names."""
    return re.findall(r"^```sh\n(.*?)^```$", (CLOUD / "README.md").read_text(), re.DOTALL | re.MULTILINE)


class Shell:
    """A shell that runs the README's blocks with the names of this test."""

    def __init__(self, server, folder):
        assert server.auth is not None
        tag = secrets.token_hex(4)
        self.own = {
            "CLOUD": server.url,
            "POINTS": f"cloud_{tag}_environmental_data_point",
            "EVENTS": f"cloud_{tag}_events",
            "RECIPES": f"cloud_{tag}_recipes",
            "DEVICE": PointMaker.new_device(),
            "READER": f"reader_{tag}",
        }
        shutil.copytree(CLOUD, folder, dirs_exist_ok=True)
        user, password = server.auth
        host = server.url.partition("://")[2].partition(":")[0]
        (folder / "admin.netrc").write_text(f"machine {host} login {user} password {password}\n")
        self._folder = folder

    def databases(self):
        return [self.own["POINTS"], self.own["EVENTS"], self.own["RECIPES"]]

    async def run(self, *blocks):
        """Their output. A command that fails fails the test."""
        script = "\n".join(self._with_own_names(block) for block in blocks)
        words = ["sh", "-euc", script]
        done = await asyncio.to_thread(
            subprocess.run, words, cwd=self._folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _with_own_names(self, block):
        for name, value in self.own.items():
            block = re.sub(rf"^{name}=.*$", f"{name}={value}", block, flags=re.MULTILINE)
        return block


@pytest.fixture
async def cloud():
    server = named_server(ADDRESS or "")
    async with client_of(server.url, server.auth) as client:
        yield client


@pytest.fixture
async def shell(cloud, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("the README's commands need curl")
    shell = Shell(named_server(ADDRESS or ""), tmp_path)
    yield shell
    for database in shell.databases():
        await cloud("DELETE", f"/{database}")
    for account in (shell.own["DEVICE"], shell.own["READER"]):
        await delete_account(cloud, account)


async def delete_account(cloud, name):
    path = f"/_users/org.couchdb.user:{name}"
    answer = await cloud("GET", path)
    if answer.status == 200:
        await cloud("DELETE", path, rev=answer.json["_rev"])


def block_with(words):
    (found,) = [block for block in shell_blocks() if words in block]
    return found


def points(device, *values, variable="air_temperature"):
    maker = PointMaker(device)
    made = [
        maker.make("environment_1", variable, value, 1_700_000_000.0 + at, is_desired=False)
        for at, value in enumerate(values)
    ]
    return [point.document() for point in made]


def rows(printed):
    return json.loads(printed)["rows"]


@needs_couchdb
async def test_every_command_of_the_readme_works(shell, cloud):
    blocks = shell_blocks()
    assert len(blocks) == 13
    await shell.run(*blocks)
    answer = await cloud("GET", f"/{shell.own['POINTS']}")
    assert answer.json["props"] == {"partitioned": True}
    assert (await cloud("GET", f"/_users/org.couchdb.user:{shell.own['DEVICE']}")).status == 404
    assert (await cloud("GET", f"/_users/org.couchdb.user:{shell.own['READER']}")).json["roles"] == ["reader"]
    await until_resharded(cloud, shell.own["RECIPES"])


async def until_resharded(cloud, database):
    """Deleting a database while a job splits it would log an error in the server."""
    async with asyncio.timeout(30):
        while True:
            jobs = (await cloud("GET", "/_reshard/jobs")).json["jobs"]
            ours = [job for job in jobs if f"/{database}." in job["source"]]
            if all(job["job_state"] == "completed" for job in ours):
                break
            await asyncio.sleep(0.1)
    for job in ours:
        await cloud("DELETE", f"/_reshard/jobs/{job['id']}")


SET_UP = ("ask()", "partitioned=true", "_security", "design/fleet.json", "users/device.json")


async def set_up(shell):
    """The shared layout with one device enrolled; the device's password."""
    start = [block_with("ask() {")] + [
        next(block for block in shell_blocks() if words in block) for words in SET_UP[1:]
    ]
    printed = await shell.run(*start, 'echo "$PASSWORD"')
    return printed.splitlines()[-1]


@needs_couchdb
async def test_indexes_give_the_newest_of_a_device_and_of_all(shell, cloud):
    await set_up(shell)
    device, other = shell.own["DEVICE"], PointMaker.new_device()
    made = [
        *points(device, 20, 21, 22),
        *points(device, 50, 60, variable="air_humidity"),
        *points(other, 30, 31),
    ]
    answer = await cloud("POST", f"/{shell.own['POINTS']}/_bulk_docs", {"docs": made})
    assert all("ok" in outcome for outcome in answer.json)
    names, enrol = block_with("ask() {"), f"DEVICE={device}\n"
    newest = rows(
        await shell.run(names, enrol, block_with("_partition/$DEVICE/_design/device/_view/by_variable?"))
    )
    assert [(row["key"][-1], row["value"]["value"]) for row in newest] == [
        ("air_humidity", 60),
        ("air_temperature", 22),
    ]
    series = rows(await shell.run(names, enrol, block_with("reduce=false")))
    assert [row["value"]["value"] for row in series] == [20, 21, 22]
    fleet = rows(await shell.run(names, block_with("_design/fleet/_view")))
    assert {(row["key"][0], row["key"][-1]): row["value"]["value"] for row in fleet} == {
        (device, "air_humidity"): 60,
        (device, "air_temperature"): 22,
        (other, "air_temperature"): 31,
    }


@needs_couchdb
async def test_the_account_of_a_device_writes_its_own_points_only(shell, cloud):
    password = await set_up(shell)
    device, database = shell.own["DEVICE"], f"/{shell.own['POINTS']}"
    own, foreign = points(device, 1, 2), points(PointMaker.new_device(), 3)
    async with client_of(cloud.url, (device, password)) as account:
        outcomes = (await account("POST", f"{database}/_bulk_docs", {"docs": own + foreign})).json
        assert ["error" in outcome for outcome in outcomes] == [False, False, True]
        assert outcomes[-1]["reason"] == f"{device} writes points whose ids begin with {device}:"
        changed = own[0] | {"_rev": outcomes[0]["rev"], "value": 99}
        gone = {"_id": own[1]["_id"], "_rev": outcomes[1]["rev"], "_deleted": True}
        for outcome in (await account("POST", f"{database}/_bulk_docs", {"docs": [changed, gone]})).json:
            assert (outcome["error"], outcome["reason"]) == ("forbidden", "a point is not changed")
        assert (await account("PUT", f"{database}/_design/x", {})).status == 403
        assert (await account("PUT", f"/{shell.own['RECIPES']}/lettuce", {"format": "simple"})).status == 403
        assert (await account("GET", f"/{shell.own['RECIPES']}/_all_docs")).status == 200
        assert (
            await account("PUT", f"{database}/_local/checkpoint", {})
        ).status == 201  # as a replicator does
    async with client_of(cloud.url) as stranger:
        assert (await stranger("GET", f"{database}/_all_docs")).status == 401


@pytest.fixture
async def here(database, database_server, tmp_path):
    """The device's own database server, with an empty database for points."""
    here = Database(
        files=CLOUD.parent,
        data=tmp_path,
        design_name="svc",
        url=database_server.url,
        credentials=database_server.auth,
    )
    here.names = Databases(points=database.strip("/"))
    async with here:
        yield here


@needs_couchdb
async def test_an_enrolled_device_replicates_into_its_partition(shell, cloud, here):
    password = await set_up(shell)
    device = shell.own["DEVICE"]
    await here.couch.bulk_docs(here.names.points, points(device, *range(20)))
    wanted = Replication(
        url=cloud.url,
        prefix=shell.own["POINTS"].removesuffix("environmental_data_point"),
        events="off",
        recipes="off",
    )
    options = {"access": CloudAccess((device, password)), "pace": ReplicationPace(look_s=0.1)}
    replication = Replicator(Bus(RealClock()), here, wanted, device, **options)
    try:
        async with in_tasks(replication):
            await until_lag(replication, 0)
    finally:
        await Replicator(Bus(RealClock()), here, Replication(), device).run()
    answer = await cloud("GET", f"/{shell.own['POINTS']}/_partition/{device}")
    assert answer.json["doc_count"] == 20
    (status,) = replication.statuses()
    assert (status.state, status.refused) == ("running", 0)


async def until_lag(replication, lag):
    async with asyncio.timeout(45):
        while True:
            (status,) = replication.statuses()
            if (status.state, status.lag) == ("running", lag):
                return
            await asyncio.sleep(0.05)


@needs_couchdb
async def test_a_reader_cannot_write(shell, cloud):
    await set_up(shell)
    await shell.run(block_with("ask() {"), "PASSWORD=pass", block_with("users/reader.json"))
    database = f"/{shell.own['POINTS']}"
    async with client_of(cloud.url, (shell.own["READER"], "pass")) as reader:
        assert (await reader("GET", f"{database}/_all_docs")).status == 200
        answer = await reader("PUT", f"{database}/{shell.own['READER']}:1", {})
        assert (answer.status, answer.json["reason"]) == (403, "only devices write points")


def test_files_are_valid_and_named_in_the_readme():
    readme = (CLOUD / "README.md").read_text()
    for file in CLOUD.rglob("*.json"):
        assert isinstance(json.loads(file.read_text()), dict)
        assert file.name in readme or file.stem in readme
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(CLOUD / "local.d" / "cloud.ini")
    assert settings["cluster"]["n"] == "1"


@pytest.mark.parametrize("design", ["device", "fleet"])
async def test_the_views_have_measured_and_desired_points_only(couch, database, design):
    document = json.loads((CLOUD / "design" / f"{design}.json").read_text(encoding="utf-8"))
    document.pop("options", None)  # this database is not partitioned
    assert (await couch("PUT", f"{database}/_design/growd", document)).status == 201
    maker = PointMaker("0123456789ab")
    made = [
        maker.make("environment_1", "air_temperature", 20.5, 1.0),
        maker.make("environment_1", "air_temperature", "stale", 2.0, category="quality"),
        maker.make("environment_1", "air_temperature", 0.5, 3.0, category="commanded"),
    ]
    answer = await couch("POST", f"{database}/_bulk_docs", {"docs": [point.document() for point in made]})
    assert answer.status == 201
    answer = await couch("GET", f"{database}/_design/growd/_view/by_variable?reduce=false")
    assert [row["value"]["value"] for row in answer.json["rows"]] == [20.5]
