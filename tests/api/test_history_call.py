"""`GET history/<environment>`: its query, its refusals, and clients that go away."""

import asyncio
import time

import jsonschema_rs
import pytest
from yarl import URL

from growd.store.reading.source import PointSource
from support.daemon import open_connections, serving
from support.history import stored_past
from support.ports import held_port
from support.raw_http import raw_client
from support.rollups import measured
from support.stand_in import StandIn
from support.waiting import until

T = 1_790_000_000.0
CALL = "/history/environment_1"


@pytest.fixture
async def stored(database_server):
    async with stored_past(database_server) as stored:
        await stored.store(
            measured("air_temperature", 20.5, T - 3_000),
            *[measured("air_temperature", 21, T + n) for n in (0, 10, 20)],
            measured("light_illuminance", 8_000, T, is_desired=True),
            measured("fault", "scd30: no answer", T + 5, category="event"),
        )
        yield stored


@pytest.fixture
async def daemon(stored):
    async with serving(history=stored.history) as daemon:
        yield daemon


async def test_an_answer_is_as_the_document_says(daemon):
    answer = await daemon.ask("GET", f"{CALL}?start={T}&end={T + 60}")
    assert answer.status == 200
    document = (await daemon.ask("GET", "/openapi.json")).json
    jsonschema_rs.validate(document["components"]["schemas"]["AnswerHistory"], answer.json)
    assert answer.json["environment"] == "environment_1"
    temperature, light = answer.json["series"]
    assert (temperature["variable"], temperature["unit"]) == ("air_temperature", "degC")
    assert temperature["measured"]["time"] == [T, T + 10, T + 20]
    assert temperature["measured"]["before"] == {"time": T - 3_000, "value": 20.5}
    assert light["desired"]["last"] == [8_000]
    assert [event["source"] for event in answer.json["events"]] == ["scd30"]


async def test_variables_come_in_their_order_and_events_alone_read_no_points(daemon, stored):
    answer = await daemon.ask("GET", f"{CALL}?series=false&start={T}&end={T + 60}")
    assert (answer.json["series"], len(answer.json["events"])) == ([], 1)
    assert stored.history.buckets.read_rows == 0
    query = "variable=light_illuminance&variable=air_temperature&variable=light_illuminance&events=false"
    answer = await daemon.ask("GET", f"{CALL}?{query}&start={T}&end={T + 60}")
    assert [one["variable"] for one in answer.json["series"]] == ["light_illuminance", "air_temperature"]
    assert answer.json["events"] == []


async def test_times_in_all_forms(daemon):
    for text in (
        "2026-09-21T14:13:20Z",
        "2026-09-21T14:13:20",
        "2026-09-21T16:13:20%2B02:00",
        "2026-09-21T16:13:20+02:00",  # a browser's URLSearchParams encodes the sign, curl does not
        "2026-09-21 14:13:20",
        "1790000000",
        "1790000000.0",
    ):
        answer = await daemon.ask("GET", f"{CALL}?start={text.replace(' ', '%20')}&end={T + 60}&points=60")
        assert (answer.json["start"], answer.json["end"], answer.json["bucket_s"]) == (T, T + 60, 1), text


async def test_the_default_is_the_last_day(daemon):
    before = time.time()
    answer = (await daemon.ask("GET", CALL)).json
    assert answer["bucket_s"] == 300
    assert before <= answer["end"] < time.time() + 300
    assert answer["end"] - answer["start"] in {86_400, 86_700}
    begun = (await daemon.ask("GET", f"{CALL}?end={T}")).json
    assert T - 86_400 - 300 < begun["start"] <= T - 86_400
    assert T <= begun["end"] < T + 300


REFUSALS = (
    *("start=yesterday", "end=nan", "end=true", "start=1_000", "start=-1", "start=1e300"),
    *("start=200&end=100", "start=0&end=1790000000"),
    *("points=1", "points=many", "events=some", "variable=", "variable=temperature"),
)


async def test_an_invalid_query_is_refused_with_field_and_value(daemon, said):
    for query in REFUSALS:
        answer = await daemon.ask("GET", f"{CALL}?{query}")
        assert answer.status == 400
        said(answer.json["reason"])


async def test_unknown_environments_and_an_absent_database(daemon, stored):
    answer = await daemon.ask("GET", "/history/nowhere")
    assert (answer.status, answer.json["reason"]) == (404, 'there is no environment named "nowhere"')
    assert (await daemon.ask("GET", "/history")).status == 404
    async with serving() as other:
        assert (await other.ask("GET", CALL)).status == 404
    with held_port() as port:
        stored.history.source = lambda: PointSource(URL(f"http://127.0.0.1:{port}"), "a", "b", "svc")
        answer = await daemon.ask("GET", CALL)
    assert (answer.status, answer.json["error"]) == (503, "database_unavailable")
    assert "Connection refused" in answer.json["reason"]


async def test_a_client_that_goes_away_ends_its_work(daemon, stored):
    async def serve(reader, writer):
        await reader.read()

    async with StandIn(serve) as hanging:
        stored.history.source = lambda: PointSource(URL(hanging.url), "a", "b", "svc")
        asking = asyncio.create_task(daemon.ask("GET", CALL))
        await until(lambda: hanging.connections and stored.history._requests.total() == 1)
        asking.cancel()
        await until(lambda: stored.history._requests.total() == 0)


async def test_an_answer_that_is_not_read_counts_as_under_way(daemon, stored):
    """Its memory is in use until the client has it."""

    async def much(*_):
        return {"series": "x" * 30_000_000}  # more than the buffers of the connection hold

    stored.history._answers.answer = much
    async with raw_client(daemon.port) as slow:
        await slow.send(f"GET {daemon.api.prefix}{CALL} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await slow.head()
        assert stored.history._requests.total() == 1
        (connection,) = open_connections(daemon.server)
        assert connection._transport.get_write_buffer_size() < 1_000_000  # no copy of the answer
        slow.reset()
        await until(lambda: stored.history._requests.total() == 0)
    async with raw_client(daemon.port) as quick:
        await quick.send(f"GET {daemon.api.prefix}{CALL} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head = await quick.head()
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        assert len(await quick.exactly(length)) > 30_000_000
        await until(lambda: stored.history._requests.total() == 0)
        await quick.send(b"GET /_svc/api/0.0.1/session HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await quick.head()).startswith(b"HTTP/1.1 200 OK\r\n")
