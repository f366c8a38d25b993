"""The design document of `recipe_run`: which documents it takes."""

import pytest

from support.couch_client import install_design
from support.rows import each

OLD = {"environment": "environment_1", "recipe_id": "lettuce", "started": 5.0, "ended": None}
NEW = OLD | {
    "growd": "1.0",
    "configuration": {"light": {}},
    "calibrations": {},
    "self_test": {},
    "figures": {"days": []},
}


@pytest.fixture
async def runs(couch, database):
    await install_design(couch, database, "recipe_run")
    return database


@pytest.mark.parametrize("document", [OLD, NEW])
async def test_the_records_of_an_old_and_of_this_growd_are_stored(couch, runs, document):
    assert (await couch("PUT", f"{runs}/r", document)).status == 201


@each(
    ("wrong", "reason"),
    [
        ({"started": "5"}, 'started must be a number of UNIX seconds, not "5"'),
        ({"growd": 1}, "growd must be a version, not 1"),
        ({"configuration": None}, "configuration must be an object, not null"),
        ({"calibrations": []}, "calibrations must be an object, not []"),
        ({"self_test": "ok"}, 'self_test must be an object, not "ok"'),
        ({"figures": 1}, "figures must be an object, not 1"),
    ],
)
async def test_another_document_is_refused_with_its_field(couch, runs, wrong, reason):
    answer = await couch("PUT", f"{runs}/r", NEW | wrong)
    assert (answer.status, answer.json["reason"]) == (403, reason)
