"""Runs are listed, and found by their ids and the short form of them."""

import jsonschema_rs
import pytest

from growd.bus.errors import InvalidValueError, UnknownNameError
from growd.store.run_documents import short_id
from support.history import ENVIRONMENT
from support.runs import run_document

T = 1_790_000_000.0
RUNS = (
    run_document("aaaaaa1111", T + 1, recipe={"format": "simple"}, ended=T + 70),
    run_document("aaaaaa2222", T + 2, environment="shelf_2"),
    run_document("bbbbbb3333", T + 3, recipe={"format": "simple"}),
)


@pytest.fixture
async def with_runs(stored):
    await stored.store_documents(list(RUNS), stored.names.runs)


async def test_the_newest_runs_of_an_environment_come_first_without_their_recipes(archive, with_runs):
    runs, more = await archive.newest(ENVIRONMENT, 10)
    assert [(each["short_id"], each["ended"]) for each in runs] == [("bbbbbb", None), ("aaaaaa", T + 70)]
    assert not more
    assert all("recipe" not in each and each["recipe_id"] == "lettuce" for each in runs)
    (first,), more = await archive.newest(ENVIRONMENT, 1)
    assert more
    (second,), more = await archive.newest(ENVIRONMENT, 1, first["started"])
    assert (second["id"], more) == (RUNS[0]["_id"], False)
    assert await archive.newest(ENVIRONMENT, 1, second["started"]) == ([], False)


async def test_a_run_is_found_by_its_id_and_by_the_first_digits_of_its_random_part(archive, with_runs, said):
    for text in (RUNS[2]["_id"], "bbbbbb3333", short_id(RUNS[2]["_id"]), "BBBB"):
        assert (await archive.find(text))["started"] == T + 3
    for text in ("cccccc", "bbb", "_design/svc", "_all_docs", "0123456789ab:1-bbbb"):
        with pytest.raises(UnknownNameError, match="there is no run named"):
            await archive.find(text)
    with said.raises(InvalidValueError):  # several
        await archive.find("aaaa")


async def test_the_call_lists_runs_as_the_document_says(daemon, with_runs):
    answer = await daemon.ask("GET", f"/runs/{ENVIRONMENT}?limit=1")
    assert answer.status == 200
    assert [each["id"] for each in answer.json["runs"]] == [RUNS[2]["_id"]]
    assert answer.json["more"] is True
    document = (await daemon.ask("GET", "/openapi.json")).json
    jsonschema_rs.validate(document["components"]["schemas"]["AnswerRuns"], answer.json)
    older = await daemon.ask("GET", f"/runs/{ENVIRONMENT}?before={answer.json['runs'][0]['started']}")
    assert [each["id"] for each in older.json["runs"]] == [RUNS[0]["_id"]]
    unknown = await daemon.ask("GET", "/runs/nowhere")
    assert (unknown.status, unknown.json["error"]) == (404, "not_found")
