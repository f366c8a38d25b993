"""`growd run list` and `show`, with a daemon and a database."""

import json

import pytest

from support.daemon import describe_zone
from support.rollups import measured
from support.runs import run_document
from support.terminal import typed

T = 1_790_000_000.0  # 2026-09-21 14:13:20 UTC
RUN = run_document(
    "aaaaaa1111",
    T,
    recipe_rev="2-x",
    recipe={"format": "simple", "operations": []},
    started_by="ada",
    ordered=T - 3_600,
    offset=7_200.0,
    revisions=[{"time": T + 60, "elapsed": 7_260, "by": "bob", "recipe_id": "lettuce", "recipe_rev": "3-y"}],
    ended=T + 86_400 + 3_600,
    ended_by="bob",
    end_reason="stopped",
    growd="1.2.3",
)
GOING = run_document("bbbbbb1111", T + 200_000, recipe_id="basil")


@pytest.fixture
async def ask(daemon, stored):
    """Run `growd run` with the daemon."""
    await stored.store_documents([RUN, GOING], stored.names.runs)
    await stored.store(
        measured("note", "first leaf", T + 60, category="event", is_manual=True, by="ada"),
        measured("harvest_fresh_mass", 120.5, T + 100_000, is_manual=True, by="ada"),
        measured("fault", "scd30: no answer", T + 30, category="event"),
    )

    describe_zone(daemon.bus, "Europe/Berlin")

    async def ask(*arguments, status=0):
        printed = await typed("run", *arguments, "--url", daemon.origin)
        assert printed.status == status, printed
        return printed.out + printed.err

    return ask


async def test_the_list_shows_how_each_run_went_in_the_time_of_the_chamber(ask):
    heads, *lines = (await ask("list")).splitlines()
    assert heads.split() == ["run", "recipe", "start", "end", "lasted", "state", "started", "by"]
    assert [line.split("  ")[0] for line in lines] == ["bbbbbb", "aaaaaa"]
    assert lines[0].split() == ["bbbbbb", "basil", "2026-09-23", "23:46:40", "running"]
    assert " ".join(lines[1].split()) == (
        "aaaaaa lettuce (2) 2026-09-21 16:13:20 2026-09-22 17:13:20 1 d 1 h stopped by bob ada"
    )
    limited = await ask("list", "--limit", "1")
    assert "aaaaaa" not in limited
    assert "growd: there are older runs: --limit 2 shows more" in limited
    first, second = json.loads(await ask("list", "--json"))
    assert (first["id"], second["end_reason"]) == (GOING["_id"], "stopped")
    unknown = await ask("list", "--environment", "nowhere", status=1)
    assert unknown.endswith('there is no environment named "nowhere"\n')


async def test_a_run_is_shown_with_what_was_recorded(ask):
    assert (await ask("show", "aaaaaa")).splitlines() == [
        f"run: {RUN['_id']}",
        "environment: environment_1",
        "recipe: lettuce, revision 2",
        "started: 2026-09-21 16:13:20 by ada",
        "ordered: 2026-09-21 15:13:20",
        "began at: 2 h",
        "changed: 2026-09-21 16:14:20 by bob: lettuce, revision 3",
        "ended: 2026-09-22 17:13:20 by bob",
        "lasted: 1 d 1 h",
        "reason: stopped",
        "growd: 1.2.3",
        "figures: not made yet",
        "",
        "notes",
        "2026-09-21 16:14:20  ada  first leaf",
        "",
        "measurements by hand",
        "2026-09-22 20:00  ada  harvest_fresh_mass  120.5 g",
        "",
        "events",
        "2026-09-21 16:13:50  fault  scd30: no answer",
    ]
    assert (await ask("show", "bbbbbb")).splitlines() == [  # of an older growd
        f"run: {GOING['_id']}",
        "environment: environment_1",
        "recipe: basil",
        "started: 2026-09-23 23:46:40",
        "ended: running",
        "figures: so far: growd run report bbbbbb",
    ]
    found = json.loads(await ask("show", RUN["_id"], "--json"))
    assert found["run"]["recipe"] == RUN["recipe"]
    assert [note["text"] for note in found["notes"]] == ["first leaf"]
    assert await ask("show", "cccccc", status=1) == 'growd: there is no run named "cccccc"\n'
