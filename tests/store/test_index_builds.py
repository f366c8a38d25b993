"""The progress of an index, from the answers of a CouchDB."""

import pytest
from aiohttp import web
from faulty_server import status

from growd.store.couch import Couch
from growd.store.index_builds import IndexBuild, index_build, index_builds


def task(database, done, of, **members):
    return {
        "type": "indexer",
        "node": "nonode@nohost",
        "pid": "<0.1.0>",
        "database": database,
        "design_document": "_design/svc",
        "changes_done": done,
        "total_changes": of,
        "progress": 100 * done // of,
        "started_on": 1000,
        "updated_on": 1010,
    } | members


TASKS = [
    {"type": "replication", "doc_id": "x", "database": None},
    task("shards/00000000-7fffffff/points.1700000000", 100, 1_000),
    task("shards/80000000-ffffffff/points.1700000000", 300, 1_000, started_on=1002),
    task("shards/00000000-ffffffff/some/other.1700000000", 0, 10, updated_on=1000),
]


def answers(answer):
    async def step(_server, _request, _body):
        return web.json_response(answer)

    return step


@pytest.fixture
def couch(session, server):
    return Couch(session, server.url)


async def test_the_tasks_of_all_shards_are_one_build(server, couch):
    server.script.append(answers(TASKS))
    points, other = await index_builds(couch)
    # 400 of 2000 in 10 s
    assert points == IndexBuild("points", "svc", 1_600, 20, 40)
    assert other == IndexBuild("some/other", "svc", 10, 0, None)
    assert str(points) == "the index svc of points is being built: 20 %"


@pytest.mark.parametrize(("tasks", "left"), [(TASKS, 1_600), ([], None)])
async def test_the_build_of_one_design_document(server, couch, tasks, left):
    server.script.append(answers(tasks))
    build = await index_build(couch, "points", "svc")
    assert (build and build.left) == left


@pytest.mark.parametrize("running", [True, False])
async def test_an_account_without_access_to_tasks_gets_the_changes_left(server, couch, running):
    info = {"updater_running": running, "updates_pending": {"minimum": 7, "preferred": 7, "total": 7}}
    server.script += [status(401), answers({"name": "svc", "view_index": info})]
    build = await index_build(couch, "points", "svc")
    assert build == (IndexBuild("points", "svc", 7) if running else None)
    assert server.paths[-1] == "/points/_design/svc/_info"
