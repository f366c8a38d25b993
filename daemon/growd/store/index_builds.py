"""The progress of indexes that a database builds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.errors import CouchRefusedError

if TYPE_CHECKING:
    from growd.store.couch import Couch, Document

_SHARD: Final = re.compile(r"shards/[0-9a-f]+-[0-9a-f]+/(.+)\.[0-9]+")


class IndexBuild(msgspec.Struct, frozen=True):
    """The index of one design document: `left` changes are still to be read.

    `percent` and `seconds_left` are None if they are unknown.
    """

    database: str
    design: str
    left: int
    percent: int | None = None
    seconds_left: int | None = None

    def __str__(self) -> str:
        words = f"the index {self.design} of {self.database} is being built"
        return words if self.percent is None else f"{words}: {self.percent} %"


async def index_builds(couch: Couch) -> list[IndexBuild]:
    """All indexes that are being built. Raises `CouchError`; `_active_tasks` is for administrators."""
    found: dict[tuple[str, str], list[Document]] = {}
    for task in await couch.active_tasks():
        if task.get("type") == "indexer":
            name = str(task.get("database"))
            shard = _SHARD.fullmatch(name)
            design = str(task.get("design_document")).removeprefix("_design/")
            found.setdefault((shard[1] if shard else name, design), []).append(task)
    return [_build(*names, tasks) for names, tasks in found.items()]


async def index_build(couch: Couch, database: str, design: str) -> IndexBuild | None:
    """The progress of the index of this design document; None if it is complete. Raises `CouchError`.

    Without access to `_active_tasks`, `_info` of the design document gives the number of changes left.
    """
    try:
        builds = await index_builds(couch)
    except CouchRefusedError:
        info = (await couch.index_info(database, design)).get("view_index", {})
        if not info.get("updater_running"):
            return None
        return IndexBuild(database, design, int(info.get("updates_pending", {}).get("total", 0)))
    return next((each for each in builds if (each.database, each.design) == (database, design)), None)


def _build(database: str, design: str, tasks: list[Document]) -> IndexBuild:
    """The progress over all shards."""

    def total(member: str) -> int:
        return sum(int(task.get(member) or 0) for task in tasks)

    done, changes = total("changes_done"), total("total_changes")
    left = max(0, changes - done)
    began = min((_number(task.get("started_on")) for task in tasks), default=0.0)
    lasted = max((_number(task.get("updated_on")) for task in tasks), default=0.0) - began
    seconds = round(left * lasted / done) if done and lasted > 0 else None
    return IndexBuild(database, design, left, 100 * done // changes if changes else None, seconds)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
