"""The design document of `recipe_run`: which documents it takes."""

import pytest

from support.couch_client import install_design
from support.rows import each

OLD = {"environment": "environment_1", "recipe_id": "lettuce", "started": 5.0, "ended": None}
NEW = OLD | {
    "growd": "1.0",
    "configuration": {},
    "calibrations": {},
    "self_test": {},
    "figures": {"days": []},
}


@pytest.fixture
async def runs(couch, database):
    await install_design(couch, database, "recipe_run")
    return database


async def test_the_records_of_an_old_and_of_this_growd_are_stored(couch, runs):
    for number, document in enumerate((OLD, NEW)):
        assert (await couch("PUT", f"{runs}/{number}", document)).status == 201


@each(
    ("field", "value"),
    [
        ("environment", ""),
        ("recipe_id", 5),
        ("started", "5"),
        ("ended", "x"),
        ("growd", 1),
        ("configuration", None),
        ("calibrations", []),
        ("self_test", "ok"),
        ("figures", 1),
    ],
)
async def test_another_document_is_refused_with_its_field(couch, runs, said, field, value):
    answer = await couch("PUT", f"{runs}/r", NEW | {field: value})
    assert answer.status == 403
    said(answer.json["reason"])
