"""Replication between real databases.

The other server is a second embedded server, the CouchDB of GROWD_TEST_COUCHDB_CLOUD, or with only
GROWD_TEST_COUCHDB the same CouchDB.
"""

import asyncio
import logging
import os
import secrets
import shutil
import signal
import ssl
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from growd.bus import Bus
from growd.config import Replication
from growd.runtime.clock import RealClock
from growd.runtime.pauses import Pauses
from growd.store.couch import Couch
from growd.store.database import Database
from growd.store.points import PointMaker
from growd.store.replication_documents import ReplicationServer, configured_jobs
from growd_cloud.access import CloudAccess
from growd_cloud.replication_health import ReplicationLag
from growd_cloud.replicator import ReplicationPace, Replicator, _JobWatch
from support.database import DatabaseServer, embedded_server, named_server
from support.line import Line
from support.processes import child_with
from support.running import in_tasks

FILES = Path(__file__).parents[2] / "couchdb"
CLOUD_ADDRESS = "GROWD_TEST_COUCHDB_CLOUD"
NEW_KEY = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
AUTHORITY = "-subj /CN=growers -keyout ca.key -out ca.pem -addext keyUsage=critical,keyCertSign"
CERTIFICATE = (
    "-subj /CN=localhost -CA ca.pem -CAkey ca.key -keyout key.pem -out cert.pem "
    "-addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE "
    "-addext authorityKeyIdentifier=keyid"
)
QUICK = ReplicationPace(look_s=0.1, probe_s=0.3, restarts=Pauses(0.2, 1.0))

PATIENCE_S = 150.0  # CouchDB restarts a failed replication after up to a minute and a half
pytestmark = pytest.mark.timeout(PATIENCE_S + 30)


@pytest.fixture(scope="session")
def far_server(tmp_path_factory, database_server):
    if address := os.environ.get(CLOUD_ADDRESS):
        yield named_server(address)
    elif not database_server.is_embedded:
        yield database_server
    else:
        with embedded_server(tmp_path_factory.mktemp("far")) as embedded:
            yield DatabaseServer(embedded.url, None, is_embedded=True)


class Site:
    """A device with its database server, and another server. Each test has its own databases."""

    def __init__(self, database, far, far_server):
        self.database = database
        self.here = database.couch
        self.far = far
        self.far_server = far_server
        self.device = PointMaker.new_device()
        self.prefix = f"cloud_{secrets.token_hex(6)}_"
        self.points = f"{self.prefix}environmental_data_point"
        self.recipes = f"{self.prefix}recipes"

    def replication(self, *, url="", database=None, **options):
        """Points only by default, into the databases of this test."""
        parts = {"access": CloudAccess(self.far_server.auth), "pace": QUICK}
        parts |= {name: options.pop(name) for name in list(options) if name in parts}
        options = {"prefix": self.prefix, "recipes": "off", "events": "off"} | options
        wanted = Replication(url=url or self.far_server.url, **options)
        return Replicator(Bus(RealClock()), database or self.database, wanted, self.device, **parts)

    async def add(self, *values, environment="environment_1"):
        """Store points with these values. Returns their ids."""
        maker = PointMaker(self.device)
        made = [maker.make(environment, "air_humidity", value, 1.7e9, is_desired=False) for value in values]
        await self.here.bulk_docs(self.database.names.points, [point.document() for point in made])
        return [point.id for point in made]

    async def arrived(self):
        """The revisions of all documents in the other database of points, by id."""
        return {row["id"]: row["value"]["rev"] for row in await self.far.all_docs(self.points)}

    async def documents(self):
        """This device's documents in `_replicator`, by the last part of their ids."""
        prefix = f"growd-{self.device}-"
        rows = await self.here.all_docs(
            "_replicator", startkey=prefix, endkey=prefix + "~", include_docs=True
        )
        return {row["id"].removeprefix(prefix): row["doc"] for row in rows}

    async def change(self, **members):
        """Change the document of the points, as somebody else might do."""
        document = (await self.documents())["points"]
        assert await self.here.put("_replicator", document | members) is not None

    async def without_replication(self):
        """What growd does where none is configured any more."""
        await Replicator(Bus(RealClock()), self.database, Replication(), self.device).run()

    async def clean(self):
        await self.without_replication()
        for couch, name in (
            (self.here, self.database.names.points),
            (self.here, self.database.names.recipes),
            (self.here, self.database.names.events),
            (self.far, self.points),
            (self.far, self.recipes),
        ):
            if await couch.exists(name):
                await couch.delete(name)


@pytest.fixture
async def site(database_server, far_server, tmp_path):
    async with (
        opened(database_server.url, database_server, tmp_path) as database,
        aiohttp.ClientSession() as session,
    ):
        site = Site(database, Couch(session, far_server.url, credentials=far_server.auth), far_server)
        for couch, name in (
            (site.here, database.names.points),
            (site.here, database.names.recipes),
            (site.here, database.names.events),
            (site.far, site.points),
            (site.far, site.recipes),
        ):
            await couch.create(name)
        try:
            yield site
        finally:
            await site.clean()


@asynccontextmanager
async def opened(url, server, folder, prefix=""):
    prefix = prefix or f"test_{secrets.token_hex(6)}_"
    async with Database(
        files=FILES, data=folder, design_name="svc", url=url, credentials=server.auth, prefix=prefix
    ) as database:
        yield database


async def until(holds):
    """Poll, because the other server reports no arrivals."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110  it is in another process
            await asyncio.sleep(0.05)


async def until_state(replication, state, **members):
    """Wait for a state, also in the parameters, which are updated a moment later."""
    parameters = replication.node._bus.parameters

    async def holds():
        (status,) = replication.statuses()
        wanted = {"state": state, **members}
        return all(
            getattr(status, name) == value == parameters.get(f"replication/{status.name}/{name}")
            for name, value in wanted.items()
        )

    await until(holds)


def lines_of(caplog):
    return [record.message for record in caplog.records if record.name.endswith("replication_health")]


async def test_only_points_of_the_configured_environments_are_copied_and_counted(site):
    names = site.database.names
    await site.here.put(names.points, {"_id": "_design/svc", "views": {}})
    made = [*await site.add(1, 2, environment="a"), *await site.add(3, environment="b")]
    await site.add(4, 5, environment="c")
    replication = site.replication(environments=("a", "b"))
    async with in_tasks(replication):
        await until_state(replication, "running", lag=0)
        assert (await site.arrived()).keys() == {*made}
        document = await site.here.get(names.points, made[0])
        await site.here.put(names.points, document | {"_deleted": True})
        made += await site.add(6, environment="a")
        await until_state(replication, "running", lag=0)
        await until(lambda: has(site.far, site.points, *made))
    assert (await site.arrived()).keys() == {*made}


async def test_an_outage_is_reported_with_its_lag_and_all_points_arrive_once_after_it(site, caplog):
    caplog.set_level(logging.INFO)
    async with Line(site.far_server.url) as line:
        replication = site.replication(url=line.url)
        parameters = replication.node._bus.parameters
        async with in_tasks(replication):
            made = await site.add(1, 2, 3)
            await until_state(replication, "running", lag=0)
            await line.down()
            made += await site.add(*range(5))
            await until_state(replication, "failing", lag=5)
            (told,) = replication.node.information()["replications"]
            told_live = parameters.get("replication/points")
            await line.up()
            await until_state(replication, "running", lag=0)
            assert parameters.get("replication/points/state") == "running"
    assert await site.arrived() == {
        point: rev for point, rev in (await site.arrived()).items() if rev.startswith("1-")
    }
    assert (await site.arrived()).keys() == {*made}
    assert told["target"] == f"{line.url}/{site.points}"
    assert (told["state"], told["lag"], told["failures"]) == ("failing", 5, 1)
    assert "Connection refused" in told["last_error"]
    assert told.items() >= told_live.items()
    assert told["since"] > 0
    first, failure, end = lines_of(caplog)
    assert first == f"replication of points to {line.url}/{site.points} is running"
    assert failure.startswith(f"replication of points to {line.url}/{site.points} failed: ")
    assert end.startswith(f"replication of points to {line.url}/{site.points} is running again after ")


async def test_a_changed_configuration_takes_effect_at_the_next_start(site):
    async def documents_with(holds, **options):
        async with in_tasks(site.replication(**options)):
            await until(lambda: are_there(site, holds))
        return await site.documents()

    def target(documents):
        return documents["points"]["target"]

    all_of_them = {"points", "events", "recipes_down", "recipes_up"}
    first = await documents_with(lambda present: present.keys() == all_of_them, recipes="both", events="up")
    here, far = (first["events"][end]["url"].rpartition("/")[2] for end in ("source", "target"))
    assert (here, far) == (site.database.names.events, f"{site.prefix}environmental_event")
    again = await documents_with(lambda present: present.keys() == {"points"})
    assert again["points"]["_rev"] == first["points"]["_rev"]
    chosen = {"$in": ["a"]}
    await documents_with(
        lambda present: present["points"]["selector"]["environment"] == chosen, environments=("a",)
    )
    url = f"{site.far_server.url}/far"
    await documents_with(
        lambda present: target(present)["url"] == f"{url}/p_environmental_data_point", url=url, prefix="p_"
    )
    login = {"basic": {"username": "grower", "password": "secret"}}
    await documents_with(
        lambda present: target(present).get("auth") == login,
        url="http://127.0.0.1:1",  # nothing answers, so nothing refuses the login
        access=CloudAccess(("grower", "secret")),
    )
    await site.without_replication()
    assert await site.documents() == {}


async def are_there(site, holds):
    return holds(await site.documents())


async def test_documents_of_others_are_not_changed(site):
    ids = [f"somebody-{site.device}", f"growd-{site.device}-mine", f"growd-{site.device}-points"]
    others = [
        {"_id": name, "source": "http://127.0.0.1:9/a", "target": f"http://127.0.0.1:9/{place}"}
        for place, name in enumerate(ids)
    ]
    others[-1]["growd"] = {"device": "another"}
    for document in others:
        await site.here.put("_replicator", document)
    try:
        replication = site.replication()
        async with in_tasks(replication):
            await until_state(replication, "failing")
        (status,) = replication.statuses()
        assert "growd did not write the document" in status.last_error
        await site.without_replication()
        for document in others:
            present = await site.here.get("_replicator", document["_id"])
            assert present["_rev"].startswith("1-")
    finally:
        for document in others:
            present = await site.here.get("_replicator", document["_id"])
            await site.here.put("_replicator", present | {"_deleted": True})


async def test_a_deleted_or_changed_document_is_written_again(site):
    replication = site.replication()
    async with in_tasks(replication):
        for change in ({"_deleted": True}, {"selector": {"environment": "other"}}):
            await until_state(replication, "running")
            await site.change(**change)
            made = await site.add(1, 2)
            await until(lambda made=made: has(site.far, site.points, *made))


async def test_a_replication_that_couchdb_gave_up_is_started_again(site, database_server):
    if database_server.is_embedded:
        pytest.skip("the embedded database runs the same replication twice")
    made = await site.add(1)
    (job,) = configured_jobs(
        Replication(url="http://far", recipes="off", events="off"), site.database.names, site.device
    )
    here = ReplicationServer(site.database.address, site.database.credentials)
    same = job.document(here, ReplicationServer(site.far_server.url, site.far_server.auth))
    del same["growd"]
    same |= {"_id": f"somebody-{site.device}"}
    same["target"]["url"] = same["target"]["url"].replace(job.remote, site.points)
    revision = await site.here.put("_replicator", same)
    try:
        await until(lambda: has(site.far, site.points, *made))
        replication = site.replication()
        async with in_tasks(replication):
            await until_state(replication, "failing")
            (status,) = replication.statuses()
            assert "already started" in status.last_error
            await site.here.put("_replicator", {"_id": same["_id"], "_rev": revision, "_deleted": True})
            await until_state(replication, "running")
            (status,) = replication.statuses()
            assert status.restarts > 0
    finally:
        if present := await site.here.get("_replicator", same["_id"]):
            await site.here.put("_replicator", present | {"_deleted": True})


async def test_recipes_are_copied_down_to_the_named_devices_and_groups_only(site):
    names = site.database.names
    audiences = {
        "all": {},
        "mine": {"growd_for": ["0123456789ab", site.device]},
        "of_my_group": {"growd_for": ["group:school"]},
        "of_others": {"growd_for": ["0123456789ab", "group:school_2"]},
    }
    for name, audience in audiences.items():
        await site.far.put(site.recipes, {"_id": name, "format": "simple", **audience})
    await site.far.put(site.recipes, {"_id": "_design/far", "views": {}})
    await site.here.put(names.recipes, {"_id": "own", "format": "simple"})
    replication = site.replication(points="off", recipes="down", group="school")
    async with in_tasks(replication):
        await until_state(replication, "running", lag=0)
        found = [row["id"] for row in await site.here.all_docs(names.recipes)]
        assert found == ["all", "mine", "of_my_group", "own"]
        mine = await site.far.get(site.recipes, "mine")
        await site.far.put(site.recipes, mine | {"_deleted": True})
        await until(lambda: lacks(site.here, names.recipes, "mine"))
    mover = site.replication(points="off", recipes="down", group="school_2")
    async with in_tasks(mover):
        await until(lambda: has(site.here, names.recipes, "of_others"))
    assert await site.far.get(site.recipes, "own") is None


async def has(couch, database, *ids):
    return {*ids} <= {row["id"] for row in await couch.all_docs(database)}


async def lacks(couch, database, document_id):
    return not await has(couch, database, document_id)


async def test_recipes_are_copied_in_both_directions(site):
    names = site.database.names
    await site.far.put(site.recipes, {"_id": "lettuce", "format": "simple"})
    await site.here.put(names.recipes, {"_id": "mine", "format": "simple"})
    replication = site.replication(points="off", recipes="both")
    async with in_tasks(replication):
        for couch, name in ((site.here, names.recipes), (site.far, site.recipes)):
            await until(lambda couch=couch, name=name: has(couch, name, "lettuce", "mine"))


async def test_a_missing_remote_database_is_named(site):
    replication = site.replication(prefix=f"x_{site.prefix}")
    async with in_tasks(replication):
        await until_state(replication, "failing")
        (status,) = replication.statuses()
        assert f"the remote server has no database x_{site.points}" in status.last_error
        await site.far.create(f"x_{site.points}")
        try:
            await until_state(replication, "running")
        finally:
            await site.far.delete(f"x_{site.points}")


async def test_a_wrong_password_is_reported_without_the_password(site):
    if site.far_server.auth is None:
        pytest.skip("the embedded database asks for no credentials")
    user = f"nobody-{site.device}"
    replication = site.replication(access=CloudAccess((user, "pass-phrase")))
    async with in_tasks(replication):
        await until_state(replication, "failing")
        information = replication.node.information()
    assert "401 unauthorized" in information["replications"][0]["last_error"]
    assert await site.documents() == {}
    assert "401 unauthorized" in replication.node._bus.parameters.get("replication/points/last_error")
    assert "pass-phrase" not in str(information)


async def test_the_local_database_may_go_down_and_come_up(
    site, database_server, tmp_path, caplog, monkeypatch
):
    caplog.set_level(logging.INFO)
    lost = asyncio.Event()
    usual = _JobWatch.local_failed
    monkeypatch.setattr(
        _JobWatch, "local_failed", lambda *given, **named: (usual(*given, **named), lost.set())
    )
    async with Line(database_server.url) as line:
        prefix = site.database.names.points.removesuffix("environmental_data_point")
        async with opened(line.url, database_server, tmp_path, prefix) as database:
            replication = site.replication(database=database)
            await line.down()
            async with in_tasks(replication):
                await lost.wait()
                assert lines_of(caplog) == []  # it may be starting
                await line.up()
                await until_state(replication, "running")
                await line.down()
                await until_state(replication, "failing")
                (status,) = replication.statuses()
                assert status.last_error.startswith("local database: ")
                await line.up()
                await until_state(replication, "running")


@pytest.mark.long
async def test_an_embedded_database_continues_after_a_restart_on_another_port(site, tmp_path):
    node = shutil.which("node") or "node"
    async with Database(files=FILES, data=tmp_path / "embedded", design_name="svc", node=node) as database:
        replication = site.replication(
            database=database, pace=ReplicationPace(look_s=1_000, starting_s=0.1, probe_s=0.1)
        )
        database.when_up(replication.look_now)
        async with in_tasks(database):
            await database.embedded.ready()
            await database.couch.create(database.names.points)
            async with in_tasks(replication):
                await until_state(replication, "running", lag=0)
                document = await database.couch.get("_replicator", f"growd-{site.device}-points")
                ports = {database.address}
                os.kill(child_with(str(tmp_path / "embedded")), signal.SIGKILL)
                await until(lambda: has_moved(database, ports))
                maker = PointMaker(site.device)
                point = maker.make("environment_1", "air_humidity", 1, 1.7e9, is_desired=False)
                await database.couch.bulk_docs(database.names.points, [point.document()])
                await until(lambda: has(site.far, site.points, point.id))
                assert await database.couch.get("_replicator", document["_id"]) == document
    (status,) = replication.statuses()
    assert (status.failures, status.restarts) == (0, 0)


async def has_moved(database, before):
    return database.address not in {None, *before}


@pytest.fixture
def authority(tmp_path):
    """A private authority, `ca.pem`, and its certificate of localhost, `cert.pem`."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificates, and is not installed")
    for request in (AUTHORITY, CERTIFICATE):
        words = [openssl, *f"{NEW_KEY} {request}".split()]
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.mark.usefixtures("own_settings")
async def test_only_a_configured_authority_is_trusted(site, authority):
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    file = str(authority / "ca.pem")
    settings = ("ssl_trusted_certificates_file", "verify_ssl_certificates")
    before = [await site.here.setting("replicator", key) for key in settings]
    try:
        async with Line(site.far_server.url, server_side) as line:
            strangers = site.replication(
                url=line.url,
                access=CloudAccess(
                    site.far_server.auth,
                    ssl.create_default_context(),
                    ssl.get_default_verify_paths().cafile or "",
                ),
            )
            async with in_tasks(strangers):
                await until_state(strangers, "failing")
                (status,) = strangers.statuses()
                assert "certificate is invalid" in status.last_error
                assert await site.here.setting("replicator", "verify_ssl_certificates") == "true"
            made = await site.add(1, 2)
            assert await site.arrived() == {}
            access = CloudAccess(site.far_server.auth, ssl.create_default_context(cafile=file), file)
            friends = site.replication(url=line.url, ca_file=file, access=access)
            async with in_tasks(friends):
                await until_state(friends, "running", lag=0)
                assert (await site.arrived()).keys() == {*made}
                assert await site.here.setting("replicator", "ssl_trusted_certificates_file") == file
    finally:
        for key, value in zip(settings, before, strict=True):
            await site.here.change_setting(
                "replicator", key, value or ("false" if key.startswith("verify") else "")
            )


async def test_a_small_lag_is_exact_and_a_large_one_an_upper_bound(site, monkeypatch):
    """Changes that the selector leaves out are no lag."""
    options = {"recipes": "off", "events": "off", "environments": ("a",)}
    (job,) = configured_jobs(Replication(url="http://far", **options), site.database.names, site.device)
    lag = ReplicationLag(job)
    await site.add(1, 2, environment="b")
    assert await lag.measure(site.here, site.here, {}) == 0
    await site.add(3, environment="a")
    assert await lag.measure(site.here, site.here, {"info": {"through_seq": 0}}) == 1
    lag = ReplicationLag(job)
    await site.add(4, environment="a")
    await site.add(5, environment="b")
    assert await lag.measure(site.here, site.here, {}) == 2
    await site.add(6, environment="a")
    assert await lag.measure(site.here, site.here, {}) == 3
    monkeypatch.setattr("growd_cloud.replication_health.COUNTED", 5)
    assert await lag.measure(site.here, site.here, {}) == 6
