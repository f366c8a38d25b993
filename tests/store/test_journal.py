"""The journal of the recipe runner and the parameters: saved completely or not at all."""

from contextlib import asynccontextmanager

import pytest

from growd.bus.errors import NotKeptError
from growd.store import local as store_local
from growd.store.errors import LocalStoreError
from growd.store.journal import ROW_S, RunJournal
from growd.store.local import LocalStore
from growd.store.memories import ParameterKeeper
from growd.store.outbox import Outbox
from growd.store.points import PointMaker
from growd.store.run_documents import DOCUMENT_KEY
from support.clock import ManualClock
from support.outbox import opened_at, set_query_only

RUN = {"recipe_id": "lettuce", "recipe": {"operations": []}, "start": 5.0, "elapsed": 0.0, "seen": 5.0}

BEGUN = {
    "_id": "first",
    "environment": "environment_1",
    "recipe_id": "lettuce",
    "started": 5.0,
    "ended": None,
}
STOPPED = {"ended": 70.0, "end_reason": "stopped"}


def journal_of(local, outbox, environment="environment_1"):
    return RunJournal(local, outbox, PointMaker(local.device), environment)


@asynccontextmanager
async def opened(path):
    async with opened_at(path, ManualClock()) as outbox:
        yield outbox._local, outbox, journal_of(outbox._local, outbox)


async def test_a_run_and_its_point_survive_a_restart(path):
    run = RUN | {"recipe": {"operations": [], "note": "\ud800 é"}}  # CouchDB accepts half a surrogate pair
    async with opened(path) as (_, _, journal):
        assert await journal.load() is None
        await journal.commit(run, "recipe_start", "lettuce", 5.0, BEGUN)
        await journal.progress(run | {"elapsed": 60.0, "seen": 65.0})

    async with opened(path) as (local, outbox, _):
        assert await journal_of(local, outbox).load() == run | {"elapsed": 60.0, "seen": 65.0}
        assert await journal_of(local, outbox, "environment_2").load() is None
        (waiting,) = await outbox.next_batch(10)
        expected = {"variable": "recipe_start", "value": "lettuce", "timestamp": 5.0, "is_desired": True}
        assert waiting.document.items() >= expected.items()


async def test_a_new_run_does_not_take_over_the_progress_of_the_old_one(path):
    basil = RUN | {"recipe_id": "basil"}
    async with opened(path) as (_, outbox, journal):
        await journal.commit(RUN, "recipe_start", "lettuce", 5.0, BEGUN)
        await journal.progress(RUN | {"elapsed": 60.0, "seen": 65.0})
        await journal.commit(None, "recipe_end", "lettuce", 70.0, BEGUN | STOPPED)
        assert await journal.load() is None
        await journal.commit(basil, "recipe_start", "basil", 80.0, BEGUN | {"_id": "second"})
        assert await journal.load() == basil
        points = [waiting.document for waiting in await outbox.next_batch(10)]
        assert [point["value"] for point in points] == ["lettuce", "lettuce", "basil"]
        assert [point.get("details") for point in points] == [None, {"reason": "stopped"}, None]


async def test_a_write_with_a_point_fails_with_it(path):
    async with opened(path) as (local, outbox, _):
        point = PointMaker(local.device).make("environment_1", "recipe_start", "x", 1.0, is_desired=True)

        def half(file):
            file.execute("INSERT INTO state VALUES ('half', '1')")
            file.execute("INSERT INTO no_such_table VALUES (1)")

        with pytest.raises(LocalStoreError, match="no_such_table"):
            await outbox.add_with(point, half)
        assert await local.state("half") is None
        assert (outbox.undelivered, await outbox.next_batch(10)) == (0, [])


async def test_parameters_are_saved_and_deleted_in_one_commit(path, said):
    async with opened(path) as (local, _, _):
        keeper = ParameterKeeper(local)
        await keeper.save({"a/b": 1, "a/c": [None, {"d": "é"}], "x": 0.5}, [])
        await keeper.save({"a": "a leaf now"}, ["a/b", "a/c"])
        await set_query_only(local, "ON")
        with said.raises(NotKeptError):
            await keeper.save({"b": 2}, ["a"])
    async with opened(path) as (local, _, _):
        assert await local.parameters() == {"a": "a leaf now", "x": 0.5}


@pytest.mark.parametrize(("limit", "value"), [("MAX_BYTES", 60), ("MAX_PARAMETERS", 3)])
async def test_parameters_beyond_the_limits_stay_in_the_file(path, monkeypatch, limit, value):
    saved = {"large": "x" * 30, "gain": 0.5, "note": "warm", "ünicode": "é" * 20}
    async with opened(path) as (local, _, _):
        await ParameterKeeper(local).save(saved, [])
    monkeypatch.setattr(store_local, limit, value)
    async with opened(path) as (local, _, _):
        loaded = await local.parameters()
        assert {"gain": 0.5, "note": "warm"}.items() <= loaded.items() < saved.items()
        assert len(local.notices) == 1
    monkeypatch.undo()
    async with opened(path) as (local, _, _):
        assert (await local.parameters(), local.notices) == (saved, [])


GOING = RUN | {"lasted": 0.0, "monotonic": 0.0, "paused": None}


def moved(seconds):
    return GOING | {"elapsed": seconds, "seen": 5.0 + seconds, "lasted": seconds, "monotonic": seconds}


async def test_the_place_of_a_run_is_written_with_the_points_and_survives_a_kill(path):
    local = await LocalStore.open(path)
    outbox = await Outbox.open(local, ManualClock())
    journal = journal_of(local, outbox)
    await journal.commit(GOING, "recipe_start", "lettuce", 5.0, BEGUN)
    await journal.progress(moved(60))
    row = await local.state("environment_1/recipe_progress")
    await journal.progress(moved(120))
    outbox.add(PointMaker(local.device).make("e", "air_humidity", 1, 1.0))
    await outbox.flush()
    await journal.progress(moved(180))
    await journal.progress(moved(240))  # no point came since the last note
    await outbox.flush()
    assert await local.state("environment_1/recipe_progress") == row
    await local.close()  # the outbox is not closed, as after a kill

    local = await LocalStore.open(path)
    again = await Outbox.open(local, ManualClock())
    journal = journal_of(local, again)
    assert await journal.load() == moved(240)
    await journal.progress(moved(300) | {"paused": 305.0})  # replaces the note
    assert await journal_of(local, again).load() == moved(300) | {"paused": 305.0}
    await again.close()
    await outbox.close()
    await local.close()


async def test_other_changes_and_each_hour_are_written_at_once(path):
    async with opened(path) as (local, _, journal):
        await journal.commit(GOING, "recipe_start", "lettuce", 5.0, BEGUN)
        for place in (moved(60), moved(61) | {"paused": 66.0}, moved(61 + ROW_S) | {"paused": 66.0}):
            await journal.progress(place)
            row = await local.state("environment_1/recipe_progress")
            assert row.items() >= {name: place[name] for name in place if name != "recipe"}.items()


async def test_a_place_too_long_for_the_log_is_written_at_once(path):
    async with opened(path) as (local, outbox, _):
        assert outbox.note("another", ["x" * 450])
        journal = journal_of(local, outbox)
        await journal.commit(GOING, "recipe_start", "lettuce", 5.0, BEGUN)
        for seconds in (60, 120):
            await journal.progress(moved(seconds))
            assert (await local.state("environment_1/recipe_progress"))["elapsed"] == seconds


RAN = [
    {"time": 5.0, "elapsed": 0.0, "recipe_id": "lettuce", "revision": "1-a", "by": "", "recipe": {"a": 1}},
    {"time": 9.0, "elapsed": 4.0, "recipe_id": "lettuce", "revision": "2-b", "by": "", "recipe": {"b": 2}},
]
CHANGED = GOING | {
    "run_id": "first",
    "recipe": {"b": 2},
    "elapsed": 4.0,
    "ordered": None,
    "ran": RAN,
    "about": {"growd": "1.0"},
}


async def test_a_run_with_another_recipe_survives_a_restart(path):
    async with opened(path) as (local, _, journal):
        await journal.commit(GOING | {"run_id": "first"}, "recipe_start", "lettuce", 5.0, BEGUN)
        await journal.progress(moved(60) | {"run_id": "first"})
        await journal.revise(CHANGED, BEGUN | {"revisions": [1]})
        assert await local.state(DOCUMENT_KEY + "first") == BEGUN | {"revisions": [1]}
    async with opened(path) as (_, outbox, journal):
        assert await journal.load() == CHANGED
        assert outbox.undelivered == 1  # the start: a change has no point
        await journal.progress(CHANGED | {"elapsed": 60.0})
        assert (await journal.load())["ran"] == RAN
        await journal.commit(None, "recipe_end", "lettuce", 70.0, BEGUN)
        assert await journal.load() is None


async def test_an_order_survives_a_restart_and_goes_with_the_start(path):
    order = {"recipe_id": "lettuce", "at": 9e9}
    async with opened(path) as (_, _, journal):
        assert await journal.load_order() is None
        await journal.save_order(order)
    async with opened(path) as (_, _, journal):
        assert await journal.load_order() == order
        await journal.save_order(None)
        assert await journal.load_order() is None
        await journal.save_order(order)
        await journal.commit(GOING | {"run_id": "a", "ordered": 5.0}, "recipe_start", "lettuce", 5.0, BEGUN)
        assert await journal.load_order() is None
        assert (await journal.load())["ordered"] == 5.0
