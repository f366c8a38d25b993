"""Points of a run that are deleted while it is read: no answer, rather than one that lacks them."""

import aiohttp
import pytest

from growd.store.reading.source import SourceReader
from growd_analysis.figures.run_figures import PointsRetiredError, RunPoints, retired_until, run_figures
from support.rollups import measured
from support.run_points import CO2, HOLDS_S, MIDNIGHT, UTC
from support.runs import export_run, run_document

DAY = 86_400
RUN = run_document("aaaaaa1111", MIDNIGHT, recipe={}, ended=MIDNIGHT + DAY)


class BeforeRetirement(SourceReader):
    """Reads the states of the rollups as they were before the retirement, the first time."""

    states = 0

    async def rollup_state(self, database):
        self.states += 1
        return None if self.states <= 2 else await super().rollup_state(database)


@pytest.fixture
async def retired(stored):
    """A run whose points have just been retired."""
    await stored.store_documents([RUN], stored.names.runs)
    await stored.store(*[measured(CO2, 400 + n, MIDNIGHT + 60 * n) for n in range(60)])
    stored.now = MIDNIGHT + 2 * DAY
    await stored.retire(int(MIDNIGHT) + DAY)
    return stored


async def test_figures_are_not_made_of_what_is_left(retired):
    async with aiohttp.ClientSession() as session:
        reader = BeforeRetirement(session, retired.source)
        for expected in (0.0, MIDNIGHT + DAY):
            points = RunPoints(reader, lambda _: HOLDS_S, await retired_until(reader))
            assert points.raw_from == expected
            if not expected:
                with pytest.raises(PointsRetiredError, match="try again"):
                    await run_figures(RUN, points, now=MIDNIGHT + 2 * DAY, zone=UTC)
        figures = await run_figures(RUN, points, now=MIDNIGHT + 2 * DAY, zone=UTC)
    assert figures.variable(CO2).whole.max == 459


async def test_an_export_does_not_lack_them(retired, archive, tmp_path):
    with pytest.raises(PointsRetiredError, match="try again"):
        await export_run(
            archive, retired.source, "aaaaaa", tmp_path / "run.zip", reader_type=BeforeRetirement
        )
    run = await export_run(archive, retired.source, "aaaaaa", tmp_path / "again.zip")
    assert sum(int(row["count"]) for row in run.rows("rollups.csv") if row["variable"] == CO2) == 60
