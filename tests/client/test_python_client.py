"""`growd_client`: both clients against a real server."""

import asyncio
import inspect
import math
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import pytest_asyncio

import growd_client
from growd.api.operation import Limits
from growd.bus.messages import Quality
from growd_client import (
    AsyncGrowd,
    Growd,
    GrowdError,
    NotAllowedError,
    NotFoundError,
    NotReachedError,
    Pauses,
    RefusedError,
    UnavailableError,
    UsageError,
)
from support.daemon import CALIBRATE, CO2, LIGHT, POSITION, START, serving
from support.stand_in import StandIn
from support.tls_door import CA_FILE, tls_door_to
from support.waiting import until

UNKNOWN = "environment_1/measured/air_oxygen"


class InThread:
    """The blocking client with the methods of the other: each call runs in a thread."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        async def call(*arguments, **options):
            return await asyncio.to_thread(getattr(self.client, name), *arguments, **options)

        return call


@asynccontextmanager
async def connected(kind, *arguments, **options):
    """A client of this kind, with coroutines."""
    if kind == "asyncio":
        async with AsyncGrowd(*arguments, **options) as client:
            yield client
    else:
        with Growd(*arguments, **options) as blocking:
            yield InThread(blocking)


@pytest_asyncio.fixture
async def client(daemon, kind):
    async with connected(kind, daemon.origin) as client:
        yield client


def methods(of):
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(of, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def test_both_clients_have_the_same_methods():
    blocking, coroutines = methods(Growd), methods(AsyncGrowd)
    assert blocking.keys() == coroutines.keys()
    for name, signature in blocking.items():
        assert signature.parameters == coroutines[name].parameters
        result = coroutines[name].return_annotation
        assert signature.return_annotation == result.removeprefix("Async" if "Iterator" in result else "")


def test_every_public_name_exists_and_has_a_docstring(said):
    for name in growd_client.__all__:
        found = getattr(growd_client, name)
        assert found.__doc__
    for name in methods(Growd):
        assert getattr(Growd, name).__doc__
        assert getattr(AsyncGrowd, name).__doc__
    with said.raises(AttributeError):
        _ = growd_client.Nothing


def test_the_blocking_client_needs_neither_aiohttp_nor_the_daemon():
    program = "import sys; from growd_client import Growd; Growd(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"aiohttp", "asyncio", "gpiod", "smbus2", "serial"}
    assert {
        name for name in loaded if name.startswith("growd") and not name.startswith("growd_client")
    } == set()


async def test_the_newest_message_of_a_topic(daemon, client):
    with pytest.raises(NotFoundError, match="has no message yet") as refused:
        await client.read(CO2)
    assert refused.value.code == "no_message"
    daemon.sensor[CO2].publish(400.5)
    message = await client.read("/" + CO2)
    assert (message.topic, message.value, message.quality, message.node) == (CO2, 400.5, "ok", "scd30")
    assert message.moment == datetime.fromtimestamp(message.time, UTC)
    daemon.sensor[CO2].publish(None, Quality.FAULT)
    message = await client.read(CO2)
    assert (message.value, message.quality) == (None, growd_client.Quality.FAULT)


async def test_waiting_for_the_next_message(daemon, client):
    with pytest.raises(NotFoundError, match="no message arrived") as refused:
        await client.wait(CO2, 0.0)
    assert refused.value.code == "no_message"
    daemon.sensor[CO2].publish(400.0)
    waiting = asyncio.create_task(client.wait(CO2, 10.0), name="waiting")
    await until(lambda: len(daemon.api.streams))
    daemon.sensor[CO2].publish(401.0)
    assert (await waiting).value == 401.0


async def test_a_set_point_is_set_and_released(daemon, client, said):
    posted = await client.set_point("environment_1", "light_illuminance", 8_000, by="anna")
    assert (posted.message, posted.hint) == ("Posted message to topic", "")
    assert daemon.bus.topics.get(LIGHT).last.value == 8_000
    with said.raises(NotFoundError):
        await client.set_point("environment_1", "light", 8_000)
    with pytest.raises(RefusedError, match="must be a number from 0 to 200000 lux") as refused:
        await client.set_point("environment_1", "light_illuminance", -1)
    assert (refused.value.status, refused.value.code) == (400, "invalid_value")
    assert daemon.bus.topics.get(LIGHT).last.value == 8_000


async def test_a_number_that_json_has_not_is_not_sent(daemon, client):
    await client.set_point("environment_1", "light_illuminance", 8_000)
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(UsageError, match="NaN and infinity can't be sent"):
            await client.set_point("environment_1", "light_illuminance", value)
        with pytest.raises(UsageError, match="NaN"):
            await client.set_parameter("chamber/x", {"a": [value]}, new=True)
        with pytest.raises(UsageError, match="NaN"):
            await client.write_entry("environment_1", measurements={"plant_height": value}, photos=[b"1"])
    for value in (None, True):
        with pytest.raises(UsageError, match=f"value: expected a number, got {value}"):
            await client.set_point("environment_1", "light_illuminance", value)
    assert daemon.bus.topics.get(LIGHT).last.value == 8_000


class Scalar:
    """As a scalar of NumPy."""

    def item(self):
        return 7_000.0


async def test_numbers_of_numpy_and_messages_of_many_fields_are_published(daemon, client, said):
    await client.set_point("environment_1", "light_illuminance", Scalar())
    assert daemon.bus.topics.get(LIGHT).last.value == 7_000
    with said.raises(UsageError):
        await client.publish(LIGHT, object())
    await client.publish(POSITION, 1.0, 2.0, 3.0)
    assert daemon.bus.topics.get(POSITION).last.value == {"x": 1.0, "y": 2.0, "z": 3.0}
    with pytest.raises(RefusedError) as refused:
        await client.publish(CO2, 400)
    assert (type(refused.value), refused.value.code) == (RefusedError, "not_open")


async def test_topics_services_and_nodes_are_described(client):
    assert CO2 in await client.topics()
    topic = await client.topic(CO2)
    assert (topic.type, topic.publishers, topic.subscribers) == ("std_msgs/Float64", ["scd30"], [])
    assert START in await client.services()
    service = await client.service(START)
    assert (service.node, service.arguments) == ("recipe_runner", ["recipe_id"])
    assert "scd30" in await client.nodes()
    assert CO2 in (await client.node("scd30")).publishes
    session = await client.session()
    assert (session.access, session.user, session.role) == ("local", "", "admin")


async def test_parameters_are_read_set_and_deleted(client):
    name = "sensors/scd30/interval"
    assert name in await client.parameters()
    assert await client.set_parameter(name, 10) == 10.0
    assert await client.parameter("sensors/scd30") == {"interval": 10.0}
    await client.delete_parameter(name)
    assert await client.parameter(name) == 5.0
    with pytest.raises(RefusedError) as refused:
        await client.set_parameter("environment_1/current_recipe", "mine")
    assert (type(refused.value), refused.value.code) == (RefusedError, "read_only")
    assert await client.set_parameter("notes/mine", {"a": 1}, new=True) == {"a": 1}
    assert "notes/mine/a" not in await client.parameters(declared=True)


async def test_services_are_called(daemon, client):
    reply = await client.call(CALIBRATE, {"reference": 420.0})
    assert (reply["success"], reply["offset"]) == (True, 20.0)
    assert (await client.call(CALIBRATE, [421.0]))["offset"] == 21.0
    with pytest.raises(RefusedError, match="there is no recipe named unknown") as refused:
        await client.start_recipe("environment_1", "unknown")
    assert refused.value.code == "refused"
    assert await client.start_recipe("environment_1", "demo_day") == "started demo_day"
    assert (await client.call("environment_1/stop_recipe"))["message"] == "stopped"
    assert daemon.runner.calls[-2] == (START, {"recipe_id": "demo_day"})


async def test_calls_that_can_not_be_made_are_usage_errors(client, said):
    for name in ("", "/"):
        with pytest.raises(UsageError, match="expected a name"):
            await client.topic(name)
    with pytest.raises(NotFoundError, match=f'there is no topic named "{UNKNOWN}"') as refused:
        await client.topic(UNKNOWN)
    assert (refused.value.status, refused.value.code) == (404, "not_found")
    naive = datetime(2026, 11, 23, 12, 0)  # noqa: DTZ001
    with said.raises(UsageError):
        await client.history("environment_1", start=naive)
    with said.raises(UsageError):
        await client.compare("a")


@pytest.mark.parametrize("client_type", [Growd, AsyncGrowd])
def test_invalid_options_are_usage_errors(client_type, monkeypatch, said):
    for url, options in (
        ("ftp://bob:secret@chamber", {}),
        ("https://chamber", {"ca": "missing.pem"}),
        ("http://bob@chamber", {}),
        ("http://chamber", {"user": "bob:secret", "password": "x"}),
    ):
        with said.raises(UsageError):
            client_type(url, **options)
    monkeypatch.setenv("GROWD_URL", "ftp://other")
    with said.raises(UsageError):
        client_type()


async def made(kind, *arguments, **options):
    """The error of a call of either client."""
    async with connected(kind, *arguments, **options) as client:
        with pytest.raises(GrowdError) as failed:
            await client.topics()
    return failed.value


async def test_failures_of_the_connection_are_sentences(kind, daemon, own_port):
    error = await made(kind, f"http://127.0.0.1:{own_port}")
    assert isinstance(error, NotReachedError)
    assert str(error) == (
        f"no daemon answers at http://127.0.0.1:{own_port}/_svc: is growd running? "
        "(url or GROWD_URL names another address)"
    )
    async with tls_door_to(daemon.port) as port:
        error = await made(kind, f"https://localhost:{port}")
        assert isinstance(error, NotReachedError)
        assert f"the certificate of https://localhost:{port}/_svc is not trusted: " in str(error)
    error = await made(kind, f"https://localhost:{daemon.port}")
    assert str(error) == f"the TLS handshake with https://localhost:{daemon.port}/_svc failed; is it http?"


async def answered(kind, answer, **options):
    """The error of a call if a server answers so, and the request."""
    came = []

    async def serve(reader, writer):
        came.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        if answer:
            writer.close()

    async with StandIn(serve) as server:
        return await made(kind, server.url, **options), b"".join(came).decode()


def refusal(status, code, *more):
    body = f'{{"ERROR": "a sentence", "error": "{code}", "reason": "a sentence"}}'
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *more, "", body]).encode()


async def test_answers_of_other_programs_are_not_those_of_growd(kind):
    of_couchdb = '{"error": "unauthorized", "reason": "You are not a server admin."}'
    for answer, words in [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "(not HTTP)"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ""),
        (b"HTTP/1.1 302 Found\r\nLocation: http://else/\r\nContent-Length: 0\r\n\r\n", "HTTP status 302"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "(not HTTP)"),
        (couchdb("401 Unauthorized", of_couchdb), "HTTP status 401, as CouchDB answers"),
    ]:
        error, _ = await answered(kind, answer)
        assert isinstance(error, NotReachedError)
        assert str(error).startswith("a program other than growd answers at "), answer
        assert words in str(error)
    error, _ = await answered(kind, b"", timeout_s=0.1)
    assert isinstance(error, NotReachedError)
    assert "did not answer" in str(error)
    assert "within 0.1 s" in str(error)


async def test_refusals_have_their_own_errors(kind):
    error, request = await answered(
        kind, refusal("401 Unauthorized", "unauthorized"), user="bob", password="s@cret"
    )
    assert isinstance(error, NotAllowedError)
    assert "does not allow this as bob: a sentence" in str(error)
    assert "Authorization: Basic Ym9iOnNAY3JldA==" in request
    error, request = await answered(kind, refusal("401 Unauthorized", "unauthorized"))
    assert "without a login: a sentence (user and password)" in str(error)
    assert "Authorization" not in request
    error, _ = await answered(kind, refusal("503 Busy", "busy", "Retry-After: 5"))
    assert isinstance(error, UnavailableError)
    assert (error.status, error.code, error.retry_after_s) == (503, "busy", 5.0)


async def points_of(kind, view, other=b""):
    """The points, or the error, where a server answers so to requests for a view, and to others."""

    async def serve(reader, writer):
        writer.write(view if b"/_view/" in await reader.readuntil(b"\r\n\r\n") else other)
        writer.close()

    async with StandIn(serve) as server:
        try:
            if kind == "blocking":
                with Growd(server.url, user="ada", password="p") as client:
                    return await asyncio.to_thread(list, client.points("shelf", "air_temperature"))
            async with AsyncGrowd(server.url, user="ada", password="p") as client:
                return [each async for each in client.points("shelf", "air_temperature")]
        except GrowdError as error:
            return error


def couchdb(status, body):
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return f"{head}{body}".encode()


async def test_a_database_that_may_not_be_read_is_named_and_needs_no_growd(kind):
    body = '{"error": "forbidden", "reason": "You are not allowed to access this db."}'
    for status in ("401 Unauthorized", "403 Forbidden"):
        error = await points_of(kind, couchdb(status, body))
        assert isinstance(error, NotAllowedError)
        sentence = "the database environmental_data_point: You are not allowed to access this db. ("
        assert str(error).startswith(sentence)
    missing = couchdb("404 Object Not Found", '{"error": "not_found", "reason": "missing"}')
    assert await points_of(kind, couchdb("200 OK", '{"rows": []}'), missing) == []


async def test_a_certificate_of_ones_own_is_trusted_and_the_address_of_the_api_is_that_of_growd(kind, daemon):
    async with tls_door_to(daemon.port) as port:
        url = f"https://localhost:{port}/_svc/api/0.0.1/"
        async with connected(kind, url, ca=CA_FILE) as client:
            assert CO2 in await client.topics()


async def test_waiting_may_take_longer_than_an_answer(kind):
    async with (
        serving(Limits(topic_data_s=0.4)) as daemon,
        connected(kind, daemon.origin, timeout_s=0.2) as client,
    ):
        with pytest.raises(NotFoundError, match="no message arrived"):
            await client.wait(CO2)


async def test_a_closed_asyncio_client_ends_its_streams(daemon, said):
    client = AsyncGrowd(daemon.origin, pauses=Pauses(0.01, 0.01))
    daemon.sensor[CO2].publish(400.0)
    stream = client.follow(CO2)
    await anext(stream)
    waiting = asyncio.create_task(anext(stream), name="next")
    await until(lambda: len(daemon.api.streams))
    await client.close()
    with said.raises(UsageError):
        await waiting
    with said.raises(UsageError):
        await client.topics()


async def test_calls_of_the_asyncio_client_run_at_the_same_time(daemon):
    async with AsyncGrowd(daemon.origin) as client:
        waiting = [asyncio.create_task(client.wait(CO2, 10.0), name="waiting") for _ in range(3)]
        await until(lambda: len(daemon.api.streams) == 3)
        daemon.sensor[CO2].publish(402.0)
        assert [message.value for message in await asyncio.gather(*waiting)] == [402.0] * 3
