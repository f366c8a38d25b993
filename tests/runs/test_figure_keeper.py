"""The figures of a run reach its document after the end, through outages and restarts."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from growd.store.errors import CouchUnavailableError, StoreError
from growd.store.journal import RunJournal
from growd.store.local import LocalStore
from growd.store.points import PointMaker
from growd.store.run_documents import FIGURES_KEY, SETTLED_S, RunDocuments
from growd.store.work import RETRIES
from growd_analysis.figures.keeper import AGAIN_S, FigureKeeper
from support.clock import ManualClock
from support.outbox import opened
from support.running import running
from support.runs import run_document
from support.waiting import PATIENCE_S

T = 1_790_000_000.0
BEGUN = run_document("0123456789", T)
ENDED = BEGUN | {"ended": T + 60, "end_reason": "stopped"}


class Rig:
    """A journal, the writer of its documents, and the keeper of their figures."""

    def __init__(self, stored, folder):
        self.couch, self.names, self.folder = stored.couch, stored.names, folder
        self.clock = ManualClock(T + 60)
        self.made = []
        self.figures = {"days": [1]}
        self.error = None
        self.is_delivered = True
        self.asked = []
        self.is_away = False

    @asynccontextmanager
    async def on(self):
        local = self.local = await LocalStore.open(self.folder / "growd.sqlite3")
        keeper = FigureKeeper(
            local,
            self.couch,
            self.clock,
            database=self.names.runs,
            make=self.make,
            is_delivered=self.delivered,
        )
        documents = RunDocuments(
            local, self.couch, self.clock, database=self.names.runs, prepare=self.prepare
        )
        documents.written = keeper.work.wake
        async with opened(local, self.clock) as outbox:
            journal = RunJournal(
                local, outbox, PointMaker(local.device), "environment_1", documents.work.wake
            )
            async with running(self.clock, documents.work, keeper.work):
                yield journal
        await local.close()

    async def prepare(self):
        if self.is_away:
            raise CouchUnavailableError("away")

    async def make(self, document):
        self.made.append(document["end_reason"])
        if self.error is not None:
            raise self.error
        return self.figures

    async def delivered(self, time):
        self.asked.append(time)
        return self.is_delivered

    async def stored(self):
        return await self.couch.get(self.names.runs, BEGUN["_id"]) or {}

    async def due(self):
        """When the figures are made next; None if they are not."""
        row = await self.local.state(FIGURES_KEY + BEGUN["_id"])
        return None if row is None else row["due"]

    async def until_due(self, time):
        async with asyncio.timeout(PATIENCE_S):
            while await self.due() != time:  # noqa: ASYNC110  the file has no event
                await asyncio.sleep(0)

    async def end(self, journal):
        await journal.commit(None, "recipe_end", "lettuce", T + 60, ENDED)
        await self.clock.until(lambda: self.clock._sleepers)


@pytest.fixture
def rig(stored, tmp_path):
    return Rig(stored, tmp_path)


async def test_the_figures_are_made_once_the_end_and_all_points_are_in_the_database(rig):
    rig.is_delivered = False
    async with rig.on() as journal:
        await journal.commit({"run": 1}, "recipe_start", "lettuce", T, BEGUN)
        await rig.end(journal)
        assert rig.made == []
        await rig.clock.advance(SETTLED_S)
        await rig.clock.until(lambda: rig.asked)
        assert (rig.made, rig.asked[0]) == ([], T + 60)
        rig.is_delivered = True
        await rig.clock.until(lambda: rig.clock._sleepers)
        await rig.clock.advance(RETRIES.first_s)
        await rig.until_due(T + 60 + AGAIN_S[0])
        document = await rig.stored()
    assert document["figures"] == {"days": [1]}
    assert {name: document[name] for name in ENDED} == ENDED


async def test_figures_that_were_due_are_made_after_a_restart(rig):
    rig.is_away = True
    async with rig.on() as journal:
        await rig.end(journal)
        await rig.clock.advance(SETTLED_S)
    assert rig.made == []
    rig.is_away = False
    async with rig.on():
        await rig.until_due(T + 60 + AGAIN_S[0])
    assert (await rig.stored())["figures"] == {"days": [1]}


@pytest.mark.parametrize("is_retired", [False, True])
async def test_the_figures_are_made_again_for_points_that_came_late_unless_they_are_deleted(rig, is_retired):
    async with rig.on() as journal:
        await rig.end(journal)
        await rig.clock.advance(SETTLED_S)
        await rig.until_due(T + 60 + AGAIN_S[0])
        revision = (await rig.stored())["_rev"]
        await rig.clock.until(lambda: rig.clock._sleepers)
        await rig.clock.advance(AGAIN_S[0])
        await rig.until_due(T + 60 + AGAIN_S[1])
        assert (await rig.stored())["_rev"] == revision  # nothing had changed
        rig.figures = {"days": [1, 2]} | ({"rolled_up_until": T + 30} if is_retired else {})
        await rig.clock.until(lambda: rig.clock._sleepers)
        await rig.clock.advance(AGAIN_S[1] - AGAIN_S[0])
        await rig.until_due(None)
        assert (await rig.stored())["figures"] == {"days": [1] if is_retired else [1, 2]}
    assert len(rig.made) == 3


@pytest.mark.parametrize("error", [StoreError("away"), ValueError("a bug")])
async def test_a_store_error_is_retried_and_any_other_logged_once(rig, error, caplog):
    rig.error = error
    async with rig.on() as journal:
        await rig.end(journal)
        await rig.clock.advance(SETTLED_S)
        await rig.clock.until(lambda: rig.made)
        rig.error = None
        await rig.clock.until(lambda: rig.clock._sleepers)
        await rig.clock.advance(RETRIES.first_s)
        await rig.until_due(T + 60 + AGAIN_S[0])
        found = (await rig.stored()).get("figures")
    if isinstance(error, StoreError):
        assert found == {"days": [1]}
        assert "the figures of a run wait for the database: away" in caplog.text
    else:
        assert found is None
        assert "could not make the figures of the run" in caplog.text


async def test_a_deleted_document_is_not_written_again(rig, caplog):
    async with rig.on() as journal:
        await rig.end(journal)
        await rig.clock.until(lambda: rig.clock._sleepers)
        async with asyncio.timeout(PATIENCE_S):
            while not (document := await rig.stored()):  # noqa: ASYNC110  it arrives without an event
                await asyncio.sleep(0)
        await rig.couch.put(rig.names.runs, document | {"_deleted": True})
        await rig.clock.advance(SETTLED_S)
        await rig.until_due(T + 60 + AGAIN_S[0])
    assert (rig.made, await rig.stored()) == ([], {})
    assert "its document was deleted" in caplog.text
