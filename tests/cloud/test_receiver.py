"""The receiver in front of a real CouchDB, asked as replications ask."""

import asyncio
from functools import partial

import pytest

from growd.runtime.clock import RealClock
from growd.store.errors import CouchConflictError
from growd.store.points import PointMaker
from growd_cloud.accounts import Accounts, EnrolmentRequest
from growd_cloud.months import Month
from support.clock import ManualClock
from support.cloud import couch_front, running_cloud
from support.couch_client import client_of
from support.waiting import PATIENCE_S, until_found

POINTS = "/environmental_data_point"
JANUARY = 1_767_400_000.0  # 2026-01-03
FIRST = "1-" + "a" * 32
OTHER_FIRST = "1-" + "b" * 32


def point(device, timestamp=JANUARY, revision=FIRST, **members):
    made = PointMaker(device).make("environment_1", "air_temperature", 21.5, timestamp).document()
    return made | {"_rev": revision} | members


async def sent(client, *documents, database=POINTS):
    """The refusals."""
    answer = await client("POST", f"{database}/_bulk_docs", {"docs": list(documents), "new_edits": False})
    assert answer.status == 201, answer.body
    return answer.json


async def test_documents_go_into_the_database_of_their_month(cloud):
    device, client = await cloud.member()
    now = RealClock().time()
    january, present = point(device), point(device, now)
    ancient, future = point(device, 1_000.0), point(device, 4_000_000_000.0)
    assert await sent(client, january, present, ancient, future) == []
    names = cloud.names
    assert await cloud.stored(names.of_month("points", Month(2026, 1))) == [january]
    assert present in await cloud.stored(names.of_month("points", Month.at(now)))
    assert {each["_id"] for each in await cloud.stored(names.other("points"))} == {
        ancient["_id"],
        future["_id"],
    }


async def test_wrong_documents_are_refused_and_the_others_stored(cloud):
    device, client = await cloud.member()
    wrong = [
        point(PointMaker.new_device()),
        point(device, _deleted=True),
        point(device, revision="2-" + "a" * 32),
        point(device, value=[1]),
        point(device) | {"timestamp": "now"},
        point(device, category="fault"),
        point(device, _access=["x"]),
        point(device) | {"_id": f"{device}:1"},
        point(device) | {"environment": ""},
        point(device, note="x" * 70_000),
        7,
    ]
    good = point(device)
    refused = await sent(client, *wrong, good)
    assert [row["error"] for row in refused] == ["forbidden"] * len(wrong)
    assert [row["reason"] for row in refused][:4] == [
        f"{device} writes points whose ids begin with {device}:",
        "a point is not deleted",
        "a point is not changed",
        "value: Expected `bool | int | float | str | null`, got `array`",
    ]
    assert await cloud.stored(cloud.names.of_month("points", Month(2026, 1))) == [good]


async def test_a_stored_revision_is_not_missing_and_not_changed_by_another(cloud):
    device, client = await cloud.member()
    stored, new = point(device), point(device)
    await sent(client, stored)
    assert await sent(client, stored) == []
    wanted = {stored["_id"]: [FIRST], new["_id"]: [FIRST]}
    answer = await client("POST", f"{POINTS}/_revs_diff", wanted)
    assert answer.json == {new["_id"]: {"missing": [FIRST]}}
    (refused,) = await sent(client, stored | {"value": 99, "_rev": OTHER_FIRST})
    assert refused["reason"] == "a point is not changed"
    assert await cloud.stored(cloud.names.of_month("points", Month(2026, 1))) == [stored]


async def test_a_member_that_is_given_twice_is_read_in_one_way(cloud):
    device, client = await cloud.member()
    own, foreign = point(device), PointMaker.new_device()
    other_id = own["_id"].replace(device, foreign)
    body = (
        f'{{"new_edits":false,"docs":[{{"_id":"{other_id}","_id":"{own["_id"]}","_rev":"{FIRST}",'
        '"environment":"e","variable":"v","is_desired":false,"value":1,"timestamp":1.0}]}'
    )
    answer = await client("POST", f"{POINTS}/_bulk_docs", body.encode())
    assert answer.json == []
    (stored,) = await cloud.stored(cloud.names.of_month("points", Month(2026, 1)))
    assert stored["_id"] == own["_id"]


async def test_a_device_reads_nothing(cloud):
    client = await cloud.client(await cloud.device())
    for method, path, status in (
        ("GET", f"{POINTS}/_all_docs", 403),
        ("GET", f"{POINTS}/_changes", 403),
        ("POST", f"{POINTS}/_bulk_get", 403),
        ("POST", f"{POINTS}/_find", 403),
        ("PUT", POINTS, 403),
        ("DELETE", POINTS, 403),
        ("GET", "/_fleet", 403),
        ("GET", "/_users/_all_docs", 404),
        ("GET", "/_all_dbs", 404),
        ("GET", "/points_2026_11", 404),
        ("GET", "/_node/_local/_config", 404),
    ):
        answer = await client(method, path, {} if method == "POST" else None)
        assert answer.status == status, f"{method} {path}"


async def test_a_checkpoint_is_read_by_its_device_only(cloud):
    one, other = await cloud.client(await cloud.device()), await cloud.client(await cloud.device())
    checkpoint = f"{POINTS}/_local/abc"
    assert (await one("GET", checkpoint)).status == 404
    written = await one("PUT", checkpoint, {"_id": "_local/abc", "history": [1]})
    assert (written.status, written.json["id"]) == (201, "_local/abc")
    answer = (await one("GET", checkpoint)).json
    assert (answer["_id"], answer["history"]) == ("_local/abc", [1])
    assert (await other("GET", checkpoint)).status == 404
    again = {"_id": "_local/abc", "_rev": answer["_rev"], "history": [2]}
    assert (await one("PUT", checkpoint, again)).json["rev"] == "0-2"


async def test_who_has_no_account_of_a_device_is_refused(cloud):
    stranger = await cloud.client()
    answer = await stranger("GET", POINTS)
    assert (answer.status, answer.headers["WWW-Authenticate"][:5]) == (401, "Basic")
    reader = f"reader-{cloud.names.prefix}"
    await cloud.account(reader, "password", "reader")
    assert (await (await cloud.client((reader, "password")))("GET", POINTS)).status == 403
    assert (await stranger("POST", "/_session", {})).status == 404
    assert (await stranger("GET", "/_up")).json == {"status": "ok"}
    assert (await stranger("GET", "/")).json["couchdb"] == "Welcome"


async def test_a_revoked_account_stops_within_a_minute():
    clock = ManualClock(RealClock().time())
    async with running_cloud(clock) as cloud:
        device = PointMaker.new_device()
        code = await cloud.accounts.invite()
        stranger = await cloud.client()
        answer = await stranger(
            "POST", "/_enroll", {"code": code.lower(), "device": device, "name": "Chamber 3"}
        )
        assert answer.status == 201
        client = await cloud.client((device, answer.json["password"]))
        assert await sent(client, point(device)) == []
        assert await cloud.accounts.revoke(device)
        await clock.advance(61.0)
        assert (await client("GET", POINTS)).status == 401
        document = await cloud.accounts.device(device)
        assert (document.name, document.revoked > 0) == ("Chamber 3", True)


async def test_a_code_enrols_as_many_devices_as_it_says(cloud):
    code, further = await cloud.accounts.invite(), await cloud.accounts.invite()
    one, other = PointMaker.new_device(), PointMaker.new_device()
    cloud.devices += [one, other]
    stranger = await cloud.client()

    async def enrolled(code, device):
        return await stranger("POST", "/_enroll", {"code": code, "device": device})

    first = await enrolled(code, one)
    again = await enrolled(code, one)  # it lost the answer
    assert (first.status, again.status) == (201, 201)
    assert (await (await cloud.client((one, first.json["password"])))("GET", POINTS)).status == 401
    assert (await (await cloud.client((one, again.json["password"])))("GET", POINTS)).status == 200
    used = await enrolled(code, other)
    assert (used.status, used.json["reason"]) == (403, "the code has been used; ask for a new one")
    unknown = await enrolled("ABCDE", other)
    assert unknown.json["reason"] == "the code is unknown; check it, or ask for a new one"
    assert (await enrolled(further, "0123456789ab\n")).status == 400  # the id ends with its line
    device, _ = await cloud.device()
    for _ in range(2):
        taken = await enrolled(further, device)  # nobody takes over a device with another invitation
        assert (taken.status, "has an account; revoke it first" in taken.json["reason"]) == (409, True)


async def test_a_code_is_no_key_to_a_device_that_reports_or_was_revoked(cloud):
    code, device = await cloud.accounts.invite(uses=5), PointMaker.new_device()
    cloud.devices.append(device)
    stranger = await cloud.client()
    enrolment = {"code": code, "device": device}
    password = (await stranger("POST", "/_enroll", enrolment)).json["password"]
    client = await cloud.client((device, password))
    assert (await client("PUT", "/_device", {"name": "", "version": "", "time": 0})).status == 201
    again = await stranger("POST", "/_enroll", enrolment)
    assert (again.status, "has an account; revoke it first" in again.json["reason"]) == (409, True)
    await cloud.accounts.revoke(device)
    revoked = await stranger("POST", "/_enroll", enrolment)
    assert (revoked.status, "was revoked after this code was made" in revoked.json["reason"]) == (403, True)
    new_code = await cloud.accounts.invite()
    assert (await stranger("POST", "/_enroll", {"code": new_code, "device": device})).status == 201
    assert (await stranger("POST", "/_enroll", enrolment)).status == 403  # also before the next report


async def test_enrolments_of_a_device_at_the_same_time_make_one_login(cloud, monkeypatch):
    codes, device = [await cloud.accounts.invite() for _ in range(2)], PointMaker.new_device()
    cloud.devices.append(device)
    password = await cloud.accounts.enroll(EnrolmentRequest(codes[0], device))

    async def none_yet(*_):
        return False

    monkeypatch.setattr(Accounts, "has_account", none_yet)  # as the other one sees it
    with pytest.raises(CouchConflictError):
        await cloud.accounts.enroll(EnrolmentRequest(codes[1], device))
    assert (await (await cloud.client((device, password)))("GET", POINTS)).status == 200


async def test_a_receiver_enrols_a_device_once_at_a_time(cloud, monkeypatch):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(*_):
        begun.set()
        await go_on.wait()
        return "password"

    monkeypatch.setattr(Accounts, "enroll", slow)
    stranger = await cloud.client()
    enrolment = {"code": "ABC", "device": PointMaker.new_device()}
    first = asyncio.create_task(stranger("POST", "/_enroll", enrolment))
    await begun.wait()
    assert (await stranger("POST", "/_enroll", enrolment)).status == 503
    go_on.set()
    assert (await first).status == 201


async def test_wrong_logins_and_codes_do_not_lock_out_the_others_of_a_school(cloud):
    login = await cloud.device()
    code, device = await cloud.accounts.invite(), PointMaker.new_device()
    cloud.devices.append(device)
    stranger = await cloud.client()
    for _ in range(25):
        assert (await stranger("POST", "/_enroll", {"code": "AAAAA", "device": device})).status == 403
        wrong = await cloud.client((PointMaker.new_device(), "revoked"))
        assert (await wrong("GET", POINTS)).status == 401
    assert (await (await cloud.client(login))("GET", POINTS)).status == 200
    assert (await stranger("POST", "/_enroll", {"code": code, "device": device})).status == 201


async def test_wrong_passwords_for_a_device_at_another_receiver_do_not_lock_it_out(cloud):
    login = await cloud.device()
    client, wrong = await cloud.client(login), (login[0], "wrong")
    headers = {"X-Forwarded-For": "127.0.0.1"}  # as the receiver would say it
    async with client_of(cloud.server.url, wrong) as couchdb:
        answers = [await couchdb("GET", "/_session", headers=headers) for _ in range(6)]
    assert (answers[0].status, answers[-1].status) == (401, 403)
    assert (await client("GET", POINTS)).status == 200


async def test_reports_at_the_same_time_do_not_conflict_and_a_time_that_is_none_is_refused(cloud):
    client = await cloud.client(await cloud.device())
    report = {"name": "", "version": "", "time": 0}
    answers = await asyncio.gather(*(client("PUT", "/_device", report) for _ in range(16)))
    assert {answer.status for answer in answers} == {201}
    for since in (9e12, -1e308):
        alert = {"severity": "warning", "text": "the door is open", "since": since}
        answer = await client("PUT", "/_device", report | {"alerts": [alert]})
        assert (answer.status, "since" in answer.json["reason"]) == (400, True)


async def test_a_report_is_in_the_list_of_the_fleet(cloud):
    device, client = await cloud.member()
    value = {"value": 21.5, "set_point": 22.0, "unit": "degC"}
    report = {
        "name": "Chamber 3",
        "version": "1.0",
        "time": 1.0,
        "alerts": [{"severity": "warning", "text": "the door is open", "since": 1.0}],
        "lag": {"points": 7},
        "environments": {"environment_1": {"recipe": "lettuce", "values": {"air_temperature": value}}},
    }
    assert (await client("PUT", "/_device", report)).status == 201
    assert (await client("PUT", "/_device", report | {"lag": {"points": -1}})).status == 400
    assert (await client("PUT", "/_device", report | {"name": "x" * 70_000})).status == 413
    reader = f"reader-{cloud.names.prefix}"
    await cloud.account(reader, "password", "reader")
    (row,) = (await (await cloud.client((reader, "password")))("GET", "/_fleet")).json["devices"]
    assert (row["device"], row["name"], row["state"], row["lag"]) == (
        device,
        "Chamber 3",
        "warning",
        {"points": 7},
    )
    assert row["environments"]["environment_1"]["values"]["air_temperature"]["set_point"] == 22.0
    await cloud.couch.put(cloud.names.devices, {"_id": "device:wrong", "device": 7})  # is left out
    assert len((await (await cloud.client((reader, "password")))("GET", "/_fleet")).json["devices"]) == 1


async def is_up(client):
    """An answer is remembered for a second."""
    return (await client("GET", "/_up")).status == 200


async def test_what_no_node_or_only_one_has_is_not_acknowledged():
    """CouchDB answers 202 while fewer nodes than the quorum are up."""
    async with couch_front() as (front, url), running_cloud(url=url) as cloud:
        device, client = await cloud.member()
        first, second = point(device), point(device)
        assert await sent(client, first) == []
        body = {"docs": [second], "new_edits": False}
        front.status = 202
        answer = await client("POST", f"{POINTS}/_bulk_docs", body)
        assert (answer.status, answer.json["error"]) == (503, "database_unavailable")
        assert (await client("PUT", f"{POINTS}/_local/a", {})).status == 503
        front.is_away, front.status = True, None
        assert (await client("POST", f"{POINTS}/_bulk_docs", body)).status == 503
        assert (await client("GET", "/_up")).status == 503
        front.is_away = False
        await until_found(partial(is_up, client))
        assert await sent(client, second) == []
        stored = await cloud.stored(cloud.names.of_month("points", Month(2026, 1)))
        assert {each["_id"] for each in stored} == {first["_id"], second["_id"]}


async def test_a_receiver_is_not_up_while_couchdb_stores_nothing():
    """As with a full disk: questions are answered, writes are not."""
    async with couch_front() as (front, url), running_cloud(url=url) as cloud:
        device, client = await cloud.member()
        front.status = 500
        assert await is_up(client)
        body = {"docs": [point(device)], "new_edits": False}
        assert (await client("POST", f"{POINTS}/_bulk_docs", body)).status == 503

        async def is_down():
            return (await client("GET", "/_up")).json.get("error")

        assert await until_found(is_down) == "not_stored"
        front.status = 507
        assert (await client("GET", "/_up")).json["error"] == "not_stored"
        front.status = None
        await until_found(partial(is_up, client))
        assert await sent(client, *body["docs"]) == []


async def test_the_database_of_a_month_that_was_deleted_is_made_again(cloud):
    device, client = await cloud.member()
    assert await sent(client, point(device)) == []
    database = cloud.names.of_month("points", Month(2026, 1))
    await cloud.couch.delete(database)
    again = point(device)
    assert await sent(client, again) == []
    assert await cloud.stored(database) == [again]
    assert (await cloud.couch.info(database) or {})["props"] == {"partitioned": True}
    assert (await cloud.couch.security(database))["members"] == {"names": [], "roles": ["reader"]}


async def test_databases_of_the_next_month_are_made_ahead():
    december = 1_796_900_000.0  # 2026-12-10
    clock = ManualClock(december)
    async with running_cloud(clock) as cloud:
        assert cloud.names.of_month("points", Month(2027, 1)) in await cloud.databases()
        ahead = cloud.names.of_month("events", Month(2027, 2))
        assert ahead not in await cloud.databases()
        async with asyncio.timeout(PATIENCE_S):
            while ahead not in await cloud.databases():
                await clock.advance(86_400.0)


async def test_a_body_has_a_limit(cloud):
    client = await cloud.client(await cloud.device())
    answer = await client("PUT", f"{POINTS}/_local/a", {"history": "x" * 300_000})
    assert (answer.status, answer.json["error"]) == (413, "too_large")
    wrong = await client("POST", f"{POINTS}/_bulk_docs", b'{"docs": [')
    assert wrong.status == 400
    assert (await client("POST", f"{POINTS}/_bulk_docs", {"docs": []})).status == 400  # new_edits
    enrolment = {"code": "x" * 5_000, "device": "0" * 12}
    assert (await (await cloud.client())("POST", "/_enroll", enrolment)).status == 413


async def test_the_metrics_count_documents_and_have_one_spelling(cloud):
    device, client = await cloud.member()
    await sent(client, point(device), point(device), point(device, value=[]))
    lines = (await client("GET", "/metrics")).body.decode().splitlines()
    assert "growd_receiver_documents_stored_total 2" in lines
    assert "growd_receiver_documents_refused_total 1" in lines
    assert 'growd_receiver_requests_total{status="201"} 1' in lines
    stranger = await cloud.client()
    for path in ("/metrics/", "//metrics", "/%6detrics", "/metrics/x"):
        assert (await stranger("GET", path)).status == 401, path
