"""`growd recipe list`, `put`, `start` and the other commands that change something, with a real daemon."""

import json
from datetime import datetime, timedelta

import aiohttp
import pytest
import pytest_asyncio

from support.program import home_on, started
from support.terminal import typed

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

GERMINATION = {"duration": 3, "time_units": "days", "name": "germination"}
RECIPE = {
    "_id": "two/days",
    "format": "phased",
    "phases": [
        GERMINATION | {"course": {"air_carbon_dioxide": [{"at": 0, "value": 500}]}},
        GERMINATION | {"name": "growth", "course": {"air_carbon_dioxide": [{"at": 0, "value": 900}]}},
    ],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def growd(tmp_path_factory, database_server):
    """What runs `growd recipe` and checks its status, its options, its environment, and its databases."""
    data = tmp_path_factory.mktemp("growd")
    async with home_on(database_server, shared=True) as home, started(data, *home.arguments) as program:
        await program.until_there(f"{home.recipes}/demo_day", home.headers)
        where = ("--url", program.address, "--set", f"couchdb.prefix={home.prefix}")
        user, password = database_server.auth or ("", "")
        login = {"GROWD_USER": user, "GROWD_PASSWORD": password}

        async def ask(*arguments, status=0):
            printed = await typed("recipe", *arguments, *where, **login)
            assert printed.status == status, printed
            return printed.out + printed.err

        yield ask, where, login, home


async def test_a_recipe_is_stored_listed_run_and_stopped(tmp_path, growd):
    ask, where, login, _ = growd
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(RECIPE))
    assert "stored two/days, revision 1-" in await ask("put", str(file))
    file.write_text(json.dumps(RECIPE | {"name": "better"}))
    assert "stored two/days, revision 2-" in await ask("put", str(file))
    file.write_text(json.dumps(RECIPE | {"phases": []}))
    refused = await ask("put", str(file), status=1)
    assert "/phases: expected an array of 1 to 1000 phases, got an array of 0" in refused
    assert "was not stored: it has 1 error" in refused
    file.write_text(json.dumps(RECIPE | {"_id": "two/days", "_rev": "1-0"}))
    refused = await ask("put", str(file), status=1)
    assert "changed since its _rev; remove _rev from the file to replace it" in refused

    assert "the recipe two/days has started" in await ask(
        "start", "two/days", "--offset", "60", "--study", "replicate=2"
    )
    assert "is running; stop it first" in await ask("start", "demo_day", status=1)
    listed = json.loads(await ask("list", "--json"))
    (mine,) = [each for each in listed if each["recipe"] == "two/days"]
    assert mine == {
        "recipe": "two/days",
        "format": "phased",
        "duration": 6 * 86_400.0,
        "state": "running",
        "conflicts": [],
    }
    assert "has skipped to the phase growth" in await ask("skip", "2")
    assert "has been paused" in await ask("pause")
    assert "has been resumed" in await ask("resume")
    assert "has been stopped" in await ask("stop")
    assert "no recipe is running" in await ask("stop", status=1)
    for verb in ("start", "show"):
        refused = await ask(verb, "demo_dy", status=1)
        assert refused.endswith("there is no recipe demo_dy; did you mean demo_day?\n")
    assert [line.split() for line in (await ask("list")).splitlines() if "two" in line] == [
        ["two/days", "phased", "6", "d"]
    ]
    words = {"COMP_WORDS": " ".join(["growd", "recipe", "start", *where, "two"]), "COMP_CWORD": "7"}
    completed = await typed(_GROWD_COMPLETE="bash_complete", **words, **login)
    assert completed.out == "plain,two/days\n"


async def test_a_recipe_is_started_later_changed_and_shown(tmp_path, growd):
    ask, *_ = growd
    recipe = RECIPE | {"_id": "later"}
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(recipe))
    await ask("put", str(file))
    for verb in ("show", "change"):
        assert "no recipe is running" in await ask(verb, status=1)

    tomorrow = (datetime.now().astimezone() + timedelta(hours=23, minutes=30)).strftime("%Y-%m-%d %H:%M")
    ordered = await ask("start", "later", "--at", tomorrow, "--offset", "3600")
    assert f"the recipe later starts at {tomorrow}, in 23 h" in ordered
    listed = json.loads(await ask("list", "--json"))
    assert [each["state"] for each in listed if each["recipe"] == "later"] == ["waiting"]
    shown = (await ask("show")).splitlines()
    assert shown[1] == "waits for its start, at 1 h"
    assert shown[-1].split() == [*tomorrow.split(), "air_carbon_dioxide", "ppm", "-", "500"]
    assert f"waits until {tomorrow}; stop it first" in await ask("start", "demo_day", status=1)
    assert f"does not start at {tomorrow}: it has been stopped" in await ask("stop")
    assert "is in the past" in await ask("start", "later", "--at", "2026-01-01", status=1)
    assert "is not a time" in await ask("start", "later", "--at", "soon", status=2)
    assert "offset" in await ask("start", "later", "--offset", "-5", status=1)

    await ask("start", "later", "--offset", "259200")
    changed = GERMINATION | {"course": {"air_carbon_dioxide": [{"at": 0, "value": 800}]}}
    file.write_text(json.dumps(recipe | {"phases": [RECIPE["phases"][0], changed | {"name": "growth"}]}))
    await ask("put", str(file))
    assert "the recipe later has changed to revision 2 at 3 d" in await ask("change")
    assert "runs revision 2 already" in await ask("change", "later", status=1)
    refused = await ask("change", "demo_dy", status=1)
    assert refused.endswith("there is no recipe demo_dy; did you mean demo_day?\n")
    shown = await ask("show")
    assert "\nrunning, at 3 d" in shown
    assert "  800\n" in shown
    assert shown.endswith("\nNo set point changes in the next 24 h.\n")
    await ask("stop")


async def replicate_both(database, headers, recipe_id):
    """Store two versions of a recipe, as a replication does if two places edited it."""
    versions = [
        {
            "_id": recipe_id, "_rev": f"2-{letter * 4}", "format": "simple",
            "_revisions": {"start": 2, "ids": [letter * 4, "aa"]},
            "operations": [[0, "air_carbon_dioxide", value], [36_000, "air_carbon_dioxide", 420]],
        }
        for letter, value in (("b", 900), ("c", 500))
    ]  # fmt: skip
    body = {"new_edits": False, "docs": versions}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{database}/_bulk_docs", json=body) as answer,
    ):
        assert answer.status == 201, await answer.text()


async def test_a_recipe_in_conflict_is_reported_until_one_version_is_kept(tmp_path, database_server, growd):
    ask, where, login, home = growd
    await replicate_both(f"{database_server.url}/{home.recipes}", home.headers, "both")

    async def reports():
        """Which outputs name the conflict."""
        listed = json.loads(await ask("list", "--json"))
        status = await typed("status", *where, **login)
        return {
            "list": any(each["conflicts"] for each in listed),
            "check": "growd recipe resolve both" in await ask("check", "both"),
            "status": "growd recipe resolve both" in status.out,
        }

    assert "growd recipe resolve both" in await ask("start", "both")
    assert await reports() == {"list": True, "check": True, "status": True}
    shown = await ask("resolve", "both")
    assert [line.split()[0] for line in shown.splitlines() if line[0] == "2"] == ["2-cccc:", "2-bbbb:"]
    assert "900" in shown
    assert "is not one of 2-cccc, 2-bbbb" in await ask("resolve", "both", "2-", status=1)
    await ask("stop")

    await ask("resolve", "both", "2-b")
    await ask("start", "both")
    assert await reports() == {"list": False, "check": False, "status": False}
    plan = json.loads(await ask("show", "both", "--json"))
    assert plan["set_points"][0]["points"][0]["value"] == 900

    await replicate_both(f"{database_server.url}/{home.recipes}", home.headers, "again")
    file = tmp_path / "again.json"
    file.write_text(json.dumps(RECIPE | {"_id": "again"}))
    await ask("put", str(file))
    assert "resolve" not in await ask("check", "again")
    assert "there is no recipe nowhere" in await ask("resolve", "nowhere", status=1)
