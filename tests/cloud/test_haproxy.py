"""HAProxy as couchdb/cloud/haproxy.cfg sets it up, in front of two receivers and CouchDB."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml

from growd.store.points import PointMaker
from growd_cli.cloud_server import receive
from growd_cloud.months import Month
from growd_cloud.serving import receiving
from support.cloud import running_cloud
from support.couch_client import Client, client_of
from support.ports import held_port
from support.tls_door import TLS, client_context
from support.waiting import until_found

CLOUD = Path(__file__).parents[2] / "couchdb" / "cloud"
HAPROXY = shutil.which("haproxy") or ("/usr/sbin/haproxy" if Path("/usr/sbin/haproxy").exists() else None)
needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="haproxy is missing: apt install haproxy")


@dataclass
class Doors:
    """A running HAProxy: the addresses of its doors, and the names of its environment."""

    devices: str
    readers: str
    couchdb: str


@contextmanager
def haproxy(folder, receivers, couchdb):
    """HAProxy in front of two receivers and one CouchDB; the other two nodes are down."""
    certificate = folder / "certificate.pem"
    certificate.write_text((TLS / "server.pem").read_text() + (TLS / "server.key").read_text())
    with held_port() as devices, held_port() as readers, held_port() as admin, held_port() as down:
        environment = {
            "CERTIFICATE": str(certificate),
            "PRIVATE": "127.0.0.1",
            "DEVICES": f"127.0.0.1:{devices}",
            "READERS_PORT": str(readers),
            "COUCHDB_PORT": str(admin),
            "RECEIVER1": receivers[0],
            "RECEIVER2": receivers[1],
            "COUCHDB1": couchdb,
            "COUCHDB2": f"127.0.0.1:{down}",
            "COUCHDB3": f"127.0.0.1:{down}",
        }
        words = [str(HAPROXY), "-f", str(CLOUD / "haproxy.cfg")]
        checked = subprocess.run(
            [*words, "-c"], env=os.environ | environment, capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr
        with (folder / "haproxy.log").open("w") as log:
            process = subprocess.Popen([*words, "-db"], env=os.environ | environment, stdout=log, stderr=log)
            try:
                yield Doors(
                    f"https://127.0.0.1:{devices}", f"http://127.0.0.1:{readers}", f"http://127.0.0.1:{admin}"
                )
            finally:
                process.kill()
                process.wait()


@asynccontextmanager
async def device_client(url, login):
    headers = {"Authorization": aiohttp.encode_basic_auth(*login)}
    connector = aiohttp.TCPConnector(ssl=client_context())
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        yield Client(session, url)


async def until_up(client, path):
    async def is_up():
        return (await client("GET", path)).status == 200

    await until_found(is_up, aiohttp.ClientError)


@needs_haproxy
@pytest.mark.replication
async def test_devices_and_readers_come_in_by_their_doors(tmp_path):
    async with AsyncExitStack() as stack:
        cloud = await stack.enter_async_context(running_cloud())
        second = await stack.enter_async_context(AsyncExitStack())
        host, port = await second.enter_async_context(receiving(cloud.server, "127.0.0.1", 0))
        first = urlsplit(cloud.url).netloc
        couchdb = urlsplit(cloud.server.url).netloc
        doors = stack.enter_context(haproxy(tmp_path, [first, f"{host}:{port}"], couchdb))
        login = device, _ = await cloud.device()
        client = await stack.enter_async_context(device_client(doors.devices, login))
        await until_up(client, "/_up")
        point = PointMaker(device).make("environment_1", "air_temperature", 21.5, 1_767_400_000.0).document()
        batch = {"docs": [point | {"_rev": "1-" + "a" * 32}], "new_edits": False}
        posted = await client("POST", "/environmental_data_point/_bulk_docs", batch)
        assert (posted.status, posted.json) == (201, [])
        for spelling in ("/metrics", "/metrics/", "//metrics", "/%6detrics"):
            assert (await client("GET", spelling)).status == 404
        await second.aclose()  # one receiver goes away
        for _ in range(10):
            assert (await client("GET", "/environmental_data_point")).status == 200
        reader = f"reader-{cloud.names.prefix}"
        await cloud.account(reader, "password", "reader")
        database = "/" + cloud.names.of_month("points", Month(2026, 1))
        reading = await stack.enter_async_context(client_of(doors.readers, (reader, "password")))
        await until_up(reading, f"{database}/_all_docs")
        assert (await reading("POST", f"{database}/_find", {"selector": {}})).status == 200
        assert (await reading("PUT", f"{database}/{device}:x", {})).status == 403
        assert (await reading("POST", f"{database}/_bulk_docs", {"docs": []})).status == 403
        assert (await reading("POST", database, {})).status == 403
        other = {"X-HTTP-Method-Override": "DELETE"}  # CouchDB would take it as the method
        assert (await reading("POST", "/_session", {}, headers=other)).status != 200
        admin = await stack.enter_async_context(client_of(doors.couchdb, cloud.server.credentials))
        await until_up(admin, f"{database}/_security")


def test_the_compose_file_names_what_there_is():
    compose = yaml.safe_load((CLOUD / "compose.yaml").read_text())
    services = compose["services"]
    assert {"couchdb1", "couchdb2", "couchdb3", "receiver1", "receiver2", "haproxy"} <= set(services)
    for service in services.values():
        for needed in service.get("depends_on", {}):
            assert needed in services
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            given = {"certificate.pem"}  # by the operator
            name = source.removeprefix("./")
            assert source in compose["volumes"] or name in given or (CLOUD / name).is_file()
    environment = services["haproxy"]["environment"]
    named = set(re.findall(r"\$\{(\w+)\}", (CLOUD / "haproxy.cfg").read_text()))
    assert named == set(environment)
    for name in ("RECEIVER1", "RECEIVER2", "COUCHDB1", "COUCHDB2", "COUCHDB3"):
        assert environment[name].partition(":")[0] in services
    (network,) = compose["networks"]["default"]["ipam"]["config"]
    asked = set()
    for name in ("receiver1", "receiver2"):
        options = dict(pairwise(services[name]["command"]))
        asked.add(urlsplit(options["--couchdb"]).hostname)
        assert options["--trusted-proxy"] == network["subnet"]
    assert asked == {"couchdb1", "couchdb2"}  # a node of its own, not the proxy
    build = services["receiver1"]["build"]
    assert (CLOUD / build["context"] / build["dockerfile"]).is_file()


def test_the_container_of_the_receiver_has_all_that_a_wheel_is_made_of():
    root = CLOUD.parents[1]
    lines = (CLOUD / "Dockerfile").read_text().splitlines()
    copied = {name for line in lines if line[:4] == "COPY" for name in line.split()[1:-1]}
    assert all((root / name).exists() for name in copied)
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {name.partition("/")[0] for name in wheel["only-include"]} <= copied


def test_the_commands_of_the_containers_have_these_options():
    options = {name for each in receive.params for name in each.opts}
    command = yaml.safe_load((CLOUD / "compose.yaml").read_text())["services"]["receiver1"]["command"]
    assert {word for word in command if word.startswith("--")} <= options
