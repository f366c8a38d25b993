"""A run is described with its notes, photos, measurements by hand and events."""

import base64

import jsonschema_rs
import pytest

from growd_analysis.runs.archive import AFTER_DAYS
from support.history import ENVIRONMENT
from support.rollups import measured
from support.runs import run_document

T = 1_790_000_000.0
DAY = 86_400.0
RUN = run_document(
    "aaaaaa1111", T, recipe={"format": "simple", "operations": []}, ended=T + DAY, end_reason="finished"
)
NEXT = run_document("bbbbbb1111", T + 4 * DAY)
PHOTO = {"content_type": "image/png", "data": base64.b64encode(b"picture").decode()}


def note(text, timestamp, **options):
    return measured("note", text, timestamp, category="event", is_manual=True, by="ada", **options)


@pytest.fixture
async def with_run(stored):
    await stored.store_documents([RUN, NEXT], stored.names.runs)
    await stored.store(
        note("before", T - 1),
        note("first leaf", T + 10),
        note("harvest", T + 3 * DAY),
        note("of the next run", T + 4 * DAY + 1),
        measured("harvest_fresh_mass", 120, T + 3 * DAY, is_manual=True, by="ada"),
        measured("air_temperature", 21, T + 20),
        measured("water_temperature", 20, T + 20),  # of another program
        measured("fault", "scd30: no answer", T + 30, category="event"),
        measured("recipe_end", "lettuce", T + DAY, is_desired=True),
        measured("fault", "scd30: no answer", T + DAY + 5, category="event"),
    )


async def test_a_run_has_its_record_its_events_and_what_people_recorded_until_the_next_run(
    stored, daemon, with_run
):
    noted = stored.maker.make(ENVIRONMENT, "note", "with a photo", T + 50, category="event").document()
    attached = {"_attachments": {"photo-1.png": PHOTO}, "measurements": {"plant_height": 12}}
    await stored.couch.put(stored.names.events, noted | attached)
    answer = await daemon.ask("GET", "/run/aaaaaa")
    assert answer.status == 200
    document = (await daemon.ask("GET", "/openapi.json")).json
    jsonschema_rs.validate(document["components"]["schemas"]["AnswerRun"], answer.json)
    described = answer.json
    assert {name: described["run"][name] for name in RUN} == RUN
    assert described["short_id"] == "aaaaaa"
    assert [(event["kind"], event["time"]) for event in described["events"]] == [
        ("fault", T + 30),
        ("recipe", T + DAY),
    ]
    assert described["events_truncated"] is False
    assert described["until"] == T + 4 * DAY
    first, photo, harvest = described["notes"]
    assert [each["text"] for each in (first, photo, harvest)] == ["first leaf", "with a photo", "harvest"]
    assert (photo["id"], photo["photos"]) == (noted["_id"], ["photo-1.png"])
    assert photo["measurements"] == {"plant_height": 12}
    (mass,) = [each for each in described["measurements"] if each["variable"] == "harvest_fresh_mass"]
    of_mass = {"value": 120, "unit": "g", "by": "ada", "time": T + 3 * DAY}
    assert {name: mass[name] for name in of_mass} == of_mass
    for name in ("cccccc", "0123"):  # none, and two
        unknown = await daemon.ask("GET", f"/run/{name}")
        assert (unknown.status, unknown.json["error"]) == (404, "not_found")


async def test_without_a_next_run_they_belong_to_it_for_two_weeks(stored, archive, with_run):
    await stored.couch.put(stored.names.runs, {**await archive.find("bbbbbb"), "_deleted": True})
    assert await archive.belongs_until(RUN, T + 100 * DAY) == T + DAY + AFTER_DAYS * DAY
    assert await archive.belongs_until(RUN, T + 2 * DAY) == T + 2 * DAY
    assert await archive.belongs_until(NEXT, T + 9 * DAY) == T + 9 * DAY


async def test_more_notes_than_a_page_are_read(stored, archive, with_run):
    await stored.store(*[note(str(number), T + 100) for number in range(700)])
    described = await archive.describe(RUN, T + 9 * DAY)
    assert len({each["id"] for each in described["notes"]}) == 702


async def test_a_run_of_an_environment_that_is_not_configured_any_more_is_described(stored, daemon):
    await stored.store_documents([RUN | {"environment": "gone"}], stored.names.runs)
    answer = await daemon.ask("GET", f"/run/{RUN['_id']}")
    assert (answer.status, answer.json["events"]) == (200, [])
