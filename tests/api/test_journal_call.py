"""`POST journal/<environment>`, `GET journal/<environment>` and `GET photo/<id>/<name>`."""

import asyncio
import io
import json

import aiohttp
import jsonschema_rs
import pytest

from growd.api.operation import Limits
from support.daemon import serving
from support.journal import delivered, journal_rig
from support.photos import COPIES, SECRET, jpeg, png, webp
from support.raw_http import raw_client
from support.running import in_tasks
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.long

CALL = "/journal/environment_1"
FORM = {"Content-Type": "multipart/form-data; boundary=a"}


@pytest.fixture
async def rig(database_server, tmp_path):
    async with journal_rig(database_server, tmp_path) as rig:
        await rig.prepare()
        yield rig


@pytest.fixture
async def daemon(rig):
    async with serving(rig=rig) as daemon:
        yield daemon


def form(*photos, entry=None, names=()):
    data = aiohttp.FormData()
    if entry is not None:
        data.add_field("entry", json.dumps(entry), content_type="application/json")
    for number, photo in enumerate(photos):
        name = names[number] if names else f"{number}.jpg"
        data.add_field("photo", io.BytesIO(photo), filename=name, content_type="text/html")
    return data


async def schema(daemon, name):
    document = (await daemon.ask("GET", "/openapi.json")).json
    return {**document["components"]["schemas"][name]}


async def test_an_entry_and_the_list_are_as_the_document_says(daemon, rig):
    body = {"text": "tray 1", "measurements": {"plant_height": 12.34}, "by": "anna", "time": 1_700_000_000}
    answer = await daemon.ask("POST", CALL, json=body)
    assert answer.status == 200
    jsonschema_rs.validate(await schema(daemon, "AnswerEntry"), answer.json)
    assert answer.json.items() >= {"text": "tray 1", "by": "anna", "time": 1_700_000_000.0}.items()
    listed = await daemon.ask("GET", CALL)
    jsonschema_rs.validate(await schema(daemon, "AnswerEntries"), listed.json)
    assert listed.json["entries"] == [{k: v for k, v in answer.json.items() if k != "message"}]
    assert rig.folders() == [answer.json["id"]]
    answer = await daemon.ask("POST", CALL, data=form(jpeg(), png(), webp()))
    for path in (rig.data / "journal" / answer.json["id"]).iterdir():
        assert SECRET not in path.read_bytes()  # no metadata of photos reach the disk that stays


async def test_photos_of_a_form_are_saved_with_the_entry_and_served_as_pictures(daemon, rig):
    answer = await daemon.ask("POST", CALL, data=form(jpeg(), webp(), entry={"text": "harvest"}))
    assert answer.status == 200, answer.body
    first, second = answer.json["photos"]
    assert (first["type"], second["type"]) == ("image/jpeg", "image/webp")
    for is_delivered in (False, True):
        if is_delivered:
            async with in_tasks(daemon.api.journal.delivery.work):
                await delivered(daemon.api.journal)
        for photo, plain in ((first, COPIES["jpeg"]), (second, COPIES["webp"])):
            place = photo["address"].removeprefix(daemon.api.prefix)
            found = await daemon.ask("GET", place)
            assert (found.status, found.body) == (200, plain)
            assert found.headers["Content-Type"] == photo["type"]
            assert found.headers["X-Content-Type-Options"] == "nosniff"
            assert found.headers.getall("Content-Security-Policy") == [
                "default-src 'none'; frame-ancestors 'none'; sandbox"
            ]
            head = await daemon.ask("HEAD", place)
            assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(plain)))
    assert not (await daemon.ask("GET", CALL)).json["entries"][0]["waiting"]


async def test_names_of_files_have_no_meaning(daemon, rig):
    for name in ("../../x.jpg", "/etc/passwd", "entry.json", "x" * 5_000, ""):
        answer = await daemon.ask("POST", CALL, data=form(png(), names=(name,)))
        if answer.status == 200:
            assert [photo["name"] for photo in answer.json["photos"]] == ["photo-1.png"]
            saved = {path.name for path in (rig.data / "journal" / answer.json["id"]).iterdir()}
            assert saved == {"entry.json", "photo-1.png"}
        else:
            assert (answer.status, answer.json["error"]) == (400, "incomplete_body")
    assert [path.name for path in rig.data.iterdir()] == ["journal"]


async def test_refused_forms_save_nothing(daemon, rig, monkeypatch, said):
    for name, size in (("PHOTO", 160_000), ("PHOTOS", 320_000), ("_BODY", 320_000 + 2 * 65_536)):
        monkeypatch.setattr(f"growd.api.journal.{name}_BYTES", size)
    unknown = form(jpeg())
    unknown.add_field("html", "<b>")
    for data, status in (
        (form(b""), 415),
        (form(jpeg(), b""), 415),
        (form(b"<html>"), 415),
        (form(jpeg(), jpeg()[:200]), 415),
        (form(*[png()] * 9), 413),
        (form(jpeg(body=170_000)), 413),
        (form(*[jpeg(body=150_000)] * 3), 413),
        (form(jpeg(), entry={"text": 5}), 400),
        (form(jpeg(), entry={"word": "x"}), 400),
        (form(jpeg(), entry=[]), 400),
        (form(entry={}), 400),
        (form(entry={"measurements": {"leaf_count": 6.5}}), 400),
        (form(entry={"measurements": {"plant_height": True}}), 400),
        (form(jpeg(), entry={"text": "x" * 70_000}), 413),
        (form(jpeg(), entry={"measurements": {"air_temperature": 1}}), 400),
        (unknown, 400),
    ):
        answer = await daemon.ask("POST", CALL, data=data)
        assert answer.status == status, answer.body
        said(answer.json["ERROR"])
    await daemon.api.journal.run(int)
    assert rig.folders() == []
    assert (await daemon.ask("GET", CALL)).json["entries"] == []


ENTRY_PART = b'--a\r\nContent-Disposition: form-data; name="entry"\r\n\r\n{"text": "x"}\r\n'


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (ENTRY_PART + b"--a--", 200),
        (b"\r\n" + ENTRY_PART + b"--a--\r\n", 200),
        (ENTRY_PART * 100_000 + b"--a--", 400),
        (ENTRY_PART.replace(b"Content", b"a:b\r\n" * 100_000 + b"Content") + b"--a--", 400),
        (ENTRY_PART + b"--a\r\n" * 100_000, 400),
    ],
    ids=["one", "line before", "parts", "headers", "borders"],
)
async def test_a_form_has_few_parts(daemon, rig, body, status):
    answer = await daemon.ask("POST", CALL, data=io.BytesIO(body), headers=FORM)
    assert answer.status == status, answer.body
    await daemon.api.journal.run(int)
    assert len(rig.folders()) == (status == 200)


async def test_a_form_that_is_no_form_is_refused(daemon, rig):
    async def pieces():
        yield b"--a\r\n"

    for body in (
        b"",
        b"--a",
        b"nothing",
        b"--a\r\n",
        b"--a\r\nContent-Disposition: form-data; name=photo\r\n\r\n\xff\xd8\xff",
        b"--a\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b--\r\n--a--\r\n",
    ):
        answer = await daemon.ask("POST", CALL, data=body, headers=FORM)
        assert answer.status in {400, 415}, body  # 415: the photo, before its end is missed
    answer = await daemon.ask("POST", CALL, data=b"x", headers={"Content-Type": "multipart/form-data"})
    assert answer.status == 400
    answer = await daemon.ask("POST", CALL, data=pieces(), headers=FORM)
    assert (answer.status, answer.json["error"]) == (411, "length_required")
    await daemon.api.journal.run(int)
    assert rig.folders() == []


async def test_a_client_that_stalls_or_leaves_leaves_nothing(rig):
    head = (
        f"POST /_svc/api/0.0.1{CALL} HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n"
        "Content-Type: multipart/form-data; boundary=a\r\n\r\n"
        "--a\r\nContent-Disposition: form-data; name=photo\r\n\r\n"
    ).encode() + jpeg()[:100]
    async with serving(Limits(body_stall_s=0.05), rig=rig) as daemon:
        async with raw_client(daemon.port) as client:
            await client.send(head)
            answer = await client.answer()
        assert answer.status == 408
        async with raw_client(daemon.port) as client:
            await client.send(head)
            client.reset()
        journal = daemon.api.journal
        async with asyncio.timeout(PATIENCE_S):
            while journal._uploads.total():  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(0.01)
        await journal.run(int)
        assert (rig.folders(), journal._received) == ([], 0)


async def test_many_entries_at_once_are_all_saved(daemon, rig):
    posts = [daemon.ask("POST", CALL, json={"text": f"{number}"}) for number in range(30)]
    answers = await asyncio.gather(*posts)
    assert {answer.status for answer in answers} == {200}
    assert rig.folders() == sorted(answer.json["id"] for answer in answers)
    async with in_tasks(daemon.api.journal.delivery.work):
        await delivered(daemon.api.journal)
    listed = (await daemon.ask("GET", f"{CALL}?limit=1000")).json["entries"]
    assert {entry["text"] for entry in listed} == {f"{number}" for number in range(30)}


async def test_pages_of_the_list_have_each_entry_once(daemon, rig):
    times = [1_700_000_000 + number // 3 for number in range(12)]
    for number, time in enumerate(times):
        await daemon.ask("POST", CALL, json={"text": f"{number}", "time": time})
        if number == 6:
            async with in_tasks(daemon.api.journal.delivery.work):
                await delivered(daemon.api.journal)
    found, end, more = [], "", True
    while more:
        answer = (await daemon.ask("GET", f"{CALL}?limit=2{end}")).json
        found += answer["entries"]
        more = answer["more"]
        end = f"&end={found[-1]['time']}"
    assert sorted(int(entry["text"]) for entry in found) == list(range(12))
    assert [entry["time"] for entry in found] == sorted(times, reverse=True)


async def test_without_the_database_the_list_says_what_is_missing(daemon, rig):
    await daemon.ask("POST", CALL, json={"text": "waits"})
    rig.is_away = True
    answer = await daemon.ask("GET", CALL)
    assert [entry["text"] for entry in answer.json["entries"]] == ["waits"]
    assert "no database is running" in answer.json["missing"]
    unknown = "/photo/0123456789ab:1700000000000-0123456789/photo-1.jpg"
    assert (await daemon.ask("GET", unknown)).json["error"] == "database_unavailable"


async def test_other_addresses_and_unknown_environments_are_refused(daemon):
    for place in ("x/photo-1.jpg", "..%2F..%2Fgrowd.sqlite3/photo-1.jpg", "_design%2Fsvc/x"):
        assert (await daemon.ask("GET", f"/photo/{place}")).status == 404
    assert (await daemon.ask("GET", "/journal/kitchen")).status == 404
    assert (await daemon.ask("POST", "/journal/kitchen", json={"text": "x"})).status == 404
    assert (await daemon.ask("POST", "/journal/kitchen", data=form(jpeg()))).status == 404
    answer = await daemon.ask("GET", f"{CALL}?start=2&end=1")
    assert (answer.status, answer.json["error"]) == (400, "invalid_value")
