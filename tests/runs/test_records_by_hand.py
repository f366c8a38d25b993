"""What people recorded during a run, read while points are deleted."""

import pytest

from growd.store.bootstrap import Databases
from growd_analysis.runs.archive import MOST_NOTES, RunArchive


class DeletingCouch:
    """A view of notes; the last row of each page is deleted after the page was read."""

    def __init__(self, count, *, is_deleting):
        self.rows = [self._row(number) for number in range(count)]
        self.is_deleting = is_deleting

    async def view(self, *_, startkey, limit, startkey_docid="", skip=0, **__):
        start = (startkey[3], startkey_docid)
        page = [row for row in self.rows if (row["key"][3], row["id"]) >= start][skip : skip + limit]
        if page and self.is_deleting:
            self.rows.remove(page[-1])
        return page

    @staticmethod
    def _row(number):
        name, time = f"{number:05}", 1_000 + number // 3
        document = {"_id": name, "timestamp": time, "value": "x"}
        return {"id": name, "key": ["env", "event", "note", time], "value": document}


@pytest.mark.parametrize("is_deleting", [False, True])
@pytest.mark.parametrize("count", [1, 500, 501, MOST_NOTES + 10])
async def test_each_note_is_read_once(count, *, is_deleting):
    couch = DeletingCouch(count, is_deleting=is_deleting)
    notes = await RunArchive(couch, Databases(), "svc", lambda _: ()).notes("env", 0, 10_000)
    assert [each["id"] for each in notes] == [f"{number:05}" for number in range(min(count, MOST_NOTES))]
