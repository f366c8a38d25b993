"""The whole daemon copies its points to another server, from the configuration alone."""

import asyncio
import json
import secrets

import aiohttp
import pytest

from growd.config import ConfigError, load
from growd.store.couch import Couch
from growd.wiring.app import App
from support.program import PATIENCE_S


@pytest.fixture
async def far(database_server):
    """The other server, and the name of a new database there."""
    name = f"cloud_{secrets.token_hex(6)}_environmental_data_point"
    async with aiohttp.ClientSession() as session:
        couch = Couch(session, database_server.url, credentials=database_server.auth)
        await couch.create(name)
        yield couch, name
        await couch.delete(name)


@pytest.mark.replication
async def test_the_points_of_a_chamber_arrive_at_the_other_server(tmp_path, far, database_server):
    couch, name = far
    login = tmp_path / "login"
    login.write_text("\n".join(database_server.auth or ("nobody", "asks")))
    login.chmod(0o600)
    settings = (
        "http.port=0",
        "store.max_age_s=0.5",
        "replication.recipes=off",
        f"replication.url={database_server.url}",
        f"replication.credentials_file={login}",
        f"replication.prefix={name.removesuffix('environmental_data_point')}",
    )
    app = App(load(None, settings), tmp_path / "data")
    ready = asyncio.Queue()
    runs = asyncio.create_task(app.run(ready.put_nowait), name="app")
    api = f"{(await asyncio.wait_for(ready.get(), PATIENCE_S)).address}/_svc/api/0.0.1"
    async with aiohttp.ClientSession() as client, asyncio.timeout(PATIENCE_S):
        rows, state, reports = [], "", {"state": "starting"}
        while len(rows) < 3 or state != "running" or reports["state"] == "starting":
            await asyncio.sleep(0.1)  # another process, without notifications
            rows = await couch.all_docs(name)
            state = (await asked(client, f"{api}/param/replication/points/state"))["result"]
            reports = (await asked(client, f"{api}/node/cloud"))["cloud"]
        node = await asked(client, f"{api}/node/replication")
    app.stop()
    await asyncio.wait_for(runs, PATIENCE_S)
    assert {row["id"].partition(":")[0] for row in rows} == {node["device_id"]}
    assert (reports["state"], reports["fault"]) == ("none", "the server takes no reports")


async def asked(client, url):
    async with client.get(url) as answer:
        return json.loads(await answer.read())


async def test_credentials_readable_for_others_prevent_the_start(tmp_path):
    login = tmp_path / "login"
    login.write_text("grower\npassword\n")
    login.chmod(0o644)
    settings = ("http.port=0", "replication.url=http://far", f"replication.credentials_file={login}")
    app = App(load(None, settings), tmp_path / "data")
    with pytest.raises(ConfigError, match=r"\[replication\] credentials_file: .* is open to others"):
        await app.run(lambda _: None)
