"""`growd note`: entries of the journal from the command line."""

import pytest

from support.daemon import describe_zone, serving
from support.journal import journal_rig
from support.photos import jpeg, png
from support.terminal import typed

pytestmark = pytest.mark.long


@pytest.fixture
async def daemon(database_server, tmp_path):
    async with journal_rig(database_server, tmp_path) as rig:
        await rig.prepare()
        async with serving(rig=rig) as daemon:
            describe_zone(daemon.bus, "UTC")
            yield daemon


async def note(daemon, *arguments):
    return await typed("note", *arguments, "--url", daemon.origin)


async def test_an_entry_with_photos_and_values_is_saved_and_listed(daemon, tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg())
    (tmp_path / "b").write_bytes(png())
    photos = ("--photo", str(tmp_path / "a.jpg"), "--photo", str(tmp_path / "b"))
    values = ("--measure", "plant_height=12.5", "--measure", "harvest_fresh_mass=3")
    printed = await note(daemon, "add", "tray 1", *photos, *values, "--by", "anna", "--at", "1700000000")
    assert printed.status == 0, printed.err
    found = (await note(daemon, "list", "--search", "TRAY", "--json")).json["entries"]
    (entry,) = found
    assert printed.err == f"growd: saved the entry {entry['id']}\n"
    assert (entry["text"], entry["by"], entry["time"]) == ("tray 1", "anna", 1_700_000_000)
    assert entry["measurements"] == {"plant_height": 12.5, "harvest_fresh_mass": 3}
    assert [photo["name"] for photo in entry["photos"]] == ["photo-1.jpg", "photo-2.png"]
    lines = (await note(daemon, "list")).out.splitlines()
    assert lines[0].endswith(f"anna  {entry['id']}  (not in the database yet)")
    assert lines[1:4] == ["  tray 1", "  plant_height = 12.5 cm", "  harvest_fresh_mass = 3 g"]
    assert f"{daemon.origin}{entry['photos'][0]['address']}" in lines[4]


async def test_a_correction_shows_both_texts(daemon):
    saved = (await note(daemon, "add", "tray 1", "--json")).json
    printed = await note(daemon, "add", "tray 2", "--correct", saved["id"], "--by", "bob")
    assert printed.status == 0, printed.err
    lines = (await note(daemon, "list")).out.splitlines()
    assert lines[1] == "  tray 2"
    assert "before" in lines[2]
    assert "tray 1" in lines[2]


async def test_refusals_name_the_cause(daemon, tmp_path):
    (tmp_path / "page.jpg").write_bytes(b"<html>")
    (tmp_path / "large.jpg").write_bytes(jpeg(body=17 * 1024 * 1024))
    for arguments, status, words in (
        ((), 1, "the entry is empty: give a text, a measurement or a photo"),
        (("x", "--measure", "height=3"), 1, 'such as plant_height, not "height"'),
        (("x", "--measure", "plant_height=-3"), 1, "plant_height must be a number from 0 to 1000 cm, not -3"),
        (("x", "--measure", "plant_height"), 2, "use VARIABLE=VALUE with a number"),
        (("x", "--measure", "plant_height=high"), 2, "use VARIABLE=VALUE with a number"),
        (("x", "--photo", "missing.jpg"), 2, "'missing.jpg' does not exist"),
        (("x", "--photo", str(tmp_path / "page.jpg")), 1, "can't be taken: it is not a JPEG, PNG or WebP"),
        (("x", "--photo", str(tmp_path / "large.jpg")), 1, "photo 1 is larger than 16777216 bytes"),
        (("x", "--at", "soon"), 2, "soon is not a time"),
        (("x", "--at", "2100-01-01"), 1, "time must be 0 or UNIX seconds from the year 2000 until now"),
        (("x", "--environment", "kitchen"), 1, 'there is no environment named "kitchen"'),
    ):
        printed = await note(daemon, "add", *arguments)
        assert (printed.status, words in printed.err) == (status, True), printed.err
    assert (await note(daemon, "list")).out == "no entries\n"
