"""Runs are listed, and found by their ids and the short form of them."""

import jsonschema_rs
import pytest

from growd.bus.errors import InvalidValueError, UnknownNameError
from growd.store.run_documents import short_id
from support.history import ENVIRONMENT

T = 1_790_000_000.0
RECIPE = {"format": "simple", "operations": [[0, "air_carbon_dioxide", 500]]}


def run(number, digits, **members):
    return {
        "_id": f"0123456789ab:{1_790_000_000_000 + number:013d}-{digits}",
        "environment": ENVIRONMENT,
        "recipe_id": "lettuce",
        "recipe_rev": "2-x",
        "recipe": RECIPE,
        "started": T + number,
        "started_by": "ada",
        "offset": 0.0,
        "revisions": [],
        "ended": None,
        "ended_by": None,
        "end_reason": None,
        "elapsed": None,
    } | members


RUNS = (
    run(1, "aaaaaa1111", ended=T + 70, end_reason="stopped", ended_by="bob", elapsed=69.0),
    run(2, "aaaaaa2222", environment="shelf_2"),
    run(3, "bbbbbb3333"),
)


@pytest.fixture
async def with_runs(stored):
    await stored.store_documents(stored.names.runs, list(RUNS))


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
