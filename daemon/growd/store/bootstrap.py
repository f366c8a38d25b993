"""Sets up the database: databases, design documents from files, sample recipes. Safe to repeat.

`_security` is not touched. Apache CouchDB 3 lets only server admins read and write new databases
(docs.couchdb.org/en/3.5.x/config/couchdb.html, `default_security`); its owner admits others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.errors import CouchRefusedError, DesignFileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from growd.store.couch import Couch, Document

_log = logging.getLogger(__name__)

_APACHE: Final = "The Apache Software Foundation"
_BUILT_IN_LAST_SINCE: Final = (3, 5)
# A node without a finished setup lacks them, and keeps logging that
# (docs.couchdb.org/en/3.5.x/setup/single-node.html). Only admins have access to them.
_SYSTEM_DATABASES: Final = ("_users", "_replicator")


class Databases(msgspec.Struct, frozen=True):
    """The names of the databases."""

    points: str = "environmental_data_point"
    recipes: str = "recipes"
    environment: str = "environment"
    runs: str = "recipe_run"
    events: str = "environmental_event"
    rollups: str = "environmental_rollup"
    photos: str = "environmental_photo"

    @classmethod
    def prefixed(cls, prefix: str) -> Databases:
        """The usual names with a prefix."""
        return cls(*(prefix + name for name in cls().names_by_folder().values()))

    def names_by_folder(self) -> dict[str, str]:
        """The name of each database by the folder of its design documents."""
        return {
            "environmental_data_point": self.points,
            "recipes": self.recipes,
            "environment": self.environment,
            "recipe_run": self.runs,
            "environmental_event": self.events,
            "environmental_rollup": self.rollups,
            "environmental_photo": self.photos,
        }


async def bootstrap(
    couch: Couch,
    files: Path,
    design_name: str = "svc",
    databases: Databases | None = None,
    on_made: Callable[[str], None] = lambda _: None,
) -> None:
    """Set up the server; `files` is the folder `couchdb/`.

    `on_made` gets the name of each new database. Samples are written only into a new database, so a recipe
    that a user deleted stays deleted. Raises `CouchError`, or `DesignFileError` if a file can't be used.
    """
    databases = databases or Databases()
    server = await couch.server()
    if _is_apache(server):
        await _make_system_databases(couch)
    has_last = supports_last(server)
    for folder, database in databases.names_by_folder().items():
        is_new = not await couch.exists(database) and await couch.create(database)
        if is_new:
            _log.info("created the database %s", database)
            on_made(database)
        design = await asyncio.to_thread(read_design, files / "design" / folder, design_name, has_last)
        if design:
            await _write_design(couch, database, design)
        if is_new and database == databases.recipes:
            await _write_samples(couch, database, files / "recipes")


def supports_last(server: Document) -> bool:
    """Whether the server has the reduce `_last`: Apache CouchDB 3.5 and later (release notes of 3.5.0).

    Checks vendor and version, since PouchDB Server has versions of its own.
    """
    numbers = re.match(r"(\d+)\.(\d+)", str(server.get("version", "")))
    if not numbers or not _is_apache(server):
        return False
    return (int(numbers[1]), int(numbers[2])) >= _BUILT_IN_LAST_SINCE


def read_design(folder: Path, design_name: str, has_last: bool) -> Document | None:  # noqa: FBT001
    """The design document in `folder`, None if there is no such folder. Blocking.

    `views/<name>/map.js`, beside it `reduce.js` and `reduce.builtin` (taken where the server has `_last`);
    `lists/<name>.js`, `filters/<name>.js`, `validate_doc_update.js`, `options.json`.
    """
    if not folder.is_dir():
        return None
    design: Document = {"_id": f"_design/{design_name}", "language": "javascript"}
    views = {view.name: _read_view(view, has_last) for view in _sorted(folder / "views", "*/")}
    members: dict[str, Any] = {
        "views": views,
        "lists": {file.stem: _read(file) for file in _sorted(folder / "lists", "*.js")},
        "filters": {file.stem: _read(file) for file in _sorted(folder / "filters", "*.js")},
        "validate_doc_update": _read_if_there(folder / "validate_doc_update.js"),
        "options": _read_json(folder / "options.json") if (folder / "options.json").exists() else None,
    }
    return design | {name: member for name, member in members.items() if member}


def _is_apache(server: Document) -> bool:
    vendor = server.get("vendor")
    return isinstance(vendor, dict) and vendor.get("name") == _APACHE


async def _make_system_databases(couch: Couch) -> None:
    for database in _SYSTEM_DATABASES:
        try:
            if not await couch.exists(database) and await couch.create(database):
                _log.info("created the system database %s", database)
        except CouchRefusedError as error:
            # the account of growd may see only its own databases
            _log.debug("could not check the system database %s: %s", database, error)


async def _write_design(couch: Couch, database: str, design: Document) -> None:
    present = await couch.get(database, design["_id"])
    revision = present.pop("_rev", None) if present else None
    if present == design:
        return
    document = design | {"_rev": revision} if revision else design
    if await couch.put(database, document) is None:
        # another client wrote it just now; the next start compares again
        _log.warning("%s in %s was changed by another client meanwhile", design["_id"], database)
    else:
        _log.info("wrote %s into %s", design["_id"], database)


async def _write_samples(couch: Couch, database: str, folder: Path) -> None:
    recipes = await asyncio.to_thread(lambda: [_read_json(file) for file in _sorted(folder, "*.json")])
    if not recipes:
        return
    outcomes = await couch.bulk_docs(database, recipes)
    for recipe_id, outcome in outcomes.items():
        if "error" in outcome:
            _log.warning("the sample recipe %s was refused: %s", recipe_id, outcome.get("reason"))
        else:
            _log.info("wrote the sample recipe %s", recipe_id)


def _read_view(folder: Path, has_last: bool) -> dict[str, str]:  # noqa: FBT001
    view = {"map": _read(folder / "map.js")}
    reduce = _read_if_there(folder / "reduce.builtin") if has_last else None
    reduce = reduce or _read_if_there(folder / "reduce.js")
    return view | {"reduce": reduce} if reduce else view


def _sorted(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern)) if folder.is_dir() else []


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DesignFileError(f"{file} can't be read: {error}") from error


def _read_if_there(file: Path) -> str | None:
    return _read(file) if file.exists() else None


def _read_json(file: Path) -> Any:
    try:
        return json.loads(_read(file))
    except ValueError as error:
        if isinstance(error, DesignFileError):
            raise
        raise DesignFileError(f"{file} is not JSON: {error}") from error
