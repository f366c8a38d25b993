"""The whole growd with a faulty line to the database, and killed: acknowledged recipes are stored once."""

import asyncio
import signal
from collections import Counter
from urllib.parse import quote

import aiohttp
import pytest

from support import fault_proxy
from support.fault_proxy import FaultProxy
from support.program import PATIENCE_S, started

ENV = "environment_1"
RECIPES = [f"recipe_{number}" for number in range(24)]
OPERATIONS = [[0, "light_illuminance", 3_000], [100_000_000, "light_illuminance", 0]]

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def prefix(client, names):
    """That of databases of this test, with the recipes."""
    documents = [{"_id": name, "format": "simple", "operations": OPERATIONS} for name in RECIPES]
    await client("PUT", f"/{names.recipes}")
    assert (await client("POST", f"/{names.recipes}/_bulk_docs", {"docs": documents})).status == 201
    return names.recipes.removesuffix("recipes")


class Grower:
    """Starts and stops recipes, and records those that were acknowledged."""

    def __init__(self, session, proxy):
        self.acknowledged = []
        self._session = session
        self._batch = asyncio.Event()
        proxy.watch = self._watch

    async def grow(self, recipes):
        """Start and stop each, and check now and then that points are sent meanwhile."""
        for place, recipe in enumerate(recipes):
            assert not await self.start(recipe) or await self.stop(recipe)
            if place % 2:
                self._batch.clear()
                await asyncio.wait_for(self._batch.wait(), PATIENCE_S)

    async def start(self, recipe):
        return await self._ask("start_recipe", ("recipe_start", recipe), {"recipe_id": recipe})

    async def stop(self, recipe):
        return await self._ask("stop_recipe", ("recipe_end", recipe), {})

    async def _ask(self, service, point, arguments):
        url = f"{self.program.api}/service/{ENV}/{service}"
        async with self._session.post(url, json=arguments) as response:
            answer = await response.json()
        if response.status == 200:
            self.acknowledged.append(point)
        else:
            assert answer["error"] in {"refused", "database_unavailable", "not_kept"}, answer
        return response.status == 200

    def _watch(self, _fault, exchange):
        if exchange.path.endswith("/_bulk_docs"):
            self._batch.set()


@pytest.mark.kill
async def test_recipes_that_were_answered_for_are_in_the_database_once(
    tmp_path, database_server, client, prefix
):
    faults = [*fault_proxy.CUTS, *fault_proxy.ANSWERS, *fault_proxy.UNWELL]
    async with (
        FaultProxy(database_server.url, faults, seed=17, share=0.3) as proxy,
        aiohttp.ClientSession() as session,
    ):
        grower = Grower(session, proxy)
        arguments = settings(proxy, database_server, prefix)
        last = RECIPES[len(RECIPES) // 2]
        proxy.calm()
        async with started(tmp_path, *arguments) as grower.program:
            proxy.storm()
            await grower.grow(RECIPES[: RECIPES.index(last)])
            async with asyncio.timeout(PATIENCE_S):
                while not await grower.start(last):
                    pass
            await grower.program.end(signal.SIGKILL)

        proxy.calm()
        async with started(tmp_path, *arguments) as grower.program:
            proxy.storm()
            assert await grower.stop(last)
            await grower.grow(RECIPES[RECIPES.index(last) + 1 :])
            proxy.calm()
            status, words = await grower.program.end(signal.SIGTERM)
            assert status == 0, words
    assert proxy.seen.total() - proxy.seen["served"] >= 10
    answer = await client("GET", f"/{prefix}environmental_data_point/_all_docs", include_docs=True)
    documents = [row["doc"] for row in answer.json["rows"] if not row["id"].startswith("_design/")]
    stored = Counter((document["variable"], document["value"]) for document in documents)
    assert len(grower.acknowledged) >= len(RECIPES)
    assert {point: stored[point] for point in grower.acknowledged} == dict.fromkeys(grower.acknowledged, 1)
    starts = sum(
        number for (variable, _), number in stored.items() if variable in {"recipe_start", "recipe_end"}
    )
    assert starts == len(grower.acknowledged), "a recipe was stored that was not acknowledged"


def settings(proxy, server, prefix):
    """Options with which growd sends each point at once, through the proxy."""
    user, password = server.auth or ("", "")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    url = proxy.url.replace("://", f"://{login}", 1)
    where = ("--set", f"couchdb.url={url}", "--set", f"couchdb.prefix={prefix}")
    return ("--speed", "20", "--set", "store.max_age_s=0.05", *where)
