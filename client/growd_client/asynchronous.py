"""The asyncio client."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import aiohttp
from yarl import URL

from growd_client import calls
from growd_client.connecting import given_address, given_login, given_trust
from growd_client.connection import PIECE_BYTES, TIMEOUT_S
from growd_client.errors import GrowdError, UsageError
from growd_client.following import EVENT_STREAM, EventLines, Following, Lines
from growd_client.pauses import Pauses
from growd_client.points import PointPages, refuses_a_name
from growd_client.server import ANSWER_BYTES, Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from growd_client.answers import (
        EntryList,
        EnvironmentInfo,
        NodeInfo,
        PastRange,
        PhotoInfo,
        Posted,
        RunList,
        RunRecord,
        SavedEntry,
        ServiceInfo,
        SessionInfo,
        StoredPoint,
        TopicInfo,
        TopicMessage,
    )
    from growd_client.calls import Arguments, ClientCall, Photo, Time
    from growd_client.following import StreamEvent
    from growd_client.form import PhotoForm

T = TypeVar("T")
_FAILURES: Final = (aiohttp.ClientError, TimeoutError, OSError)
_BREAKS: Final = (*_FAILURES, RuntimeError)  # aiohttp's for a connection that ended before it is read


class AsyncGrowd:
    """A client of one growd for asyncio. Close it with `await close()`, or use it in `async with`.

    Its methods are those of `Growd`, as coroutines, and raise the same errors. They may run at the same time.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        ca: str | Path | None = None,
        timeout_s: float = TIMEOUT_S,
        pauses: Pauses | None = None,
    ) -> None:
        """As those of `Growd`. Reads the file `ca`."""
        address = given_address(url)
        self._server = Server(address, given_login(address, user, password), timeout_s)
        self._tls = given_trust(address, ca)
        self._pauses = pauses or Pauses()
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, also those of streams, which then raise `UsageError`, as later calls do."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    async def follow(
        self,
        *topics: str,
        throttle_s: float = 0.0,
        latest: bool = True,
        heartbeat_s: float = 10.0,
        on_event: Callable[[StreamEvent], None] | None = None,
    ) -> AsyncIterator[TopicMessage]:
        """The messages of topics, as `Growd.follow`."""
        stream = Following(topics, throttle_s, heartbeat_s, self._pauses, on_event, latest=latest)
        limit_s = self._server.timeout_s
        limit = aiohttp.ClientTimeout(sock_connect=limit_s, sock_read=heartbeat_s + limit_s)
        while True:
            try:
                async with self._begin("GET", stream.target, limit, EVENT_STREAM, stream.headers) as answer:
                    if answer.status != HTTPStatus.OK:
                        raise self._server.refusal(answer.status, await self._body(answer), answer.headers)
                    stream.opened()
                    event, lines = EventLines(), Lines()
                    async for data in answer.content.iter_any():
                        for line in lines.cut(data):
                            if (message := stream.message(event, line)) is not None:
                                yield message
                pause_s = stream.ended()
            except GrowdError as error:
                pause_s = stream.failed(error)
            except aiohttp.ClientPayloadError:
                pause_s = stream.ended()
            except _BREAKS as error:
                pause_s = stream.failed(self._explained(error, limit_s))
            await asyncio.sleep(pause_s)

    # topics

    async def topics(self) -> list[str]:
        """The names of all topics."""
        return await self._send(calls.topics())

    async def topic(self, name: str) -> TopicInfo:
        """The type, the publishers and the subscribers of a topic."""
        return await self._send(calls.topic(name))

    async def read(self, topic: str) -> TopicMessage:
        """The newest message of a topic, at once. `NotFoundError` if it has none yet."""
        return await self._send(calls.read(topic))

    async def wait(self, topic: str, timeout_s: float | None = None) -> TopicMessage:
        """Wait for the next message of a topic, for 10 s or `timeout_s`. `follow` waits longer.

        `NotFoundError` with the code "no_message" after that. growd refuses a `timeout_s` above its
        `[http] topic_data_s`, which is also the default.
        """
        return await self._send(calls.wait(topic, timeout_s))

    async def publish(self, topic: str, *arguments: Any, by: str = "", time: Time | None = None) -> Posted:
        """Publish a message, made of the arguments of its type.

        `by` is the author, for the record. `time` is that of a note or a measurement by hand in the past.
        """
        return await self._send(calls.publish(topic, arguments, by, time))

    async def set_point(self, environment: str, variable: str, value: float, *, by: str = "") -> Posted:
        """Set a set point, in the unit of the variable. It holds until it is changed or released.

        It is on disk when this returns. `hint` of the answer says why it has no effect, if so.
        """
        return await self._send(calls.set_point(environment, variable, value, by))

    async def release(self, environment: str, variable: str, *, by: str = "") -> Posted:
        """Release a set point: the outputs of the variable go to their safe states."""
        return await self._send(calls.release(environment, variable, by))

    # parameters

    async def parameters(self, *, declared: bool = False) -> list[str]:
        """The names of all parameters, or of those that a node has declared."""
        return await self._send(calls.parameters(declared=declared))

    async def parameter(self, name: str) -> Any:
        """The value of a parameter, or an object with all parameters of a branch."""
        return await self._send(calls.parameter(name))

    async def set_parameter(self, name: str, value: Any, *, new: bool = False) -> Any:
        """Set a parameter; `new` allows a new one that looks misspelt. It is on disk when this returns.

        A new parameter is refused without it below an environment or a node, or if its name is similar to
        that of a declared one.
        """
        return await self._send(calls.set_parameter(name, value, new=new))

    async def delete_parameter(self, name: str) -> Any:
        """Delete a parameter; one of a node returns to its default."""
        return await self._send(calls.delete_parameter(name))

    # services

    async def services(self) -> list[str]:
        """The names of all services."""
        return await self._send(calls.services())

    async def service(self, name: str) -> ServiceInfo:
        """The request type, the node and the arguments of a service."""
        return await self._send(calls.service(name))

    async def call(
        self, service: str, arguments: Arguments = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Call a service with arguments by name or in order; the fields of its reply.

        `timeout_s` is how long it may take beyond the time limit of the client. `RefusedError` with the code
        "refused" if it does not succeed.
        """
        return await self._send(calls.call(service, arguments, timeout_s))

    # recipes

    async def start_recipe(
        self, environment: str, recipe_id: str, *, at: Time | None = None, offset_s: float = 0.0, by: str = ""
    ) -> str:
        """Start a recipe, now or `at` a time, from its second `offset_s` on. Returns a sentence."""
        return await self._send(calls.start_recipe(environment, recipe_id, at, offset_s, by))

    async def stop_recipe(self, environment: str, *, by: str = "") -> str:
        """Stop the running recipe, or the one that waits for its time. Returns a sentence."""
        return await self._send(calls.recipe(environment, "stop_recipe", {"by": by}))

    async def pause_recipe(self, environment: str, *, by: str = "") -> str:
        """Pause the recipe and hold its set points. Returns a sentence."""
        return await self._send(calls.recipe(environment, "pause_recipe", {"by": by}))

    async def resume_recipe(self, environment: str, *, by: str = "") -> str:
        """Resume a paused recipe. Returns a sentence."""
        return await self._send(calls.recipe(environment, "resume_recipe", {"by": by}))

    # the past

    async def history(
        self,
        environment: str,
        *variables: str,
        start: Time | None = None,
        end: Time | None = None,
        points: int = 300,
        series: bool = True,
        events: bool = True,
    ) -> PastRange:
        """The stored points of a range of time as at most `points` buckets, and its events.

        Without variables: all that have points. Without `start` and `end`: the last 24 hours.
        """
        return await self._send(
            calls.history(environment, variables, start, end, points, series=series, events=events)
        )

    async def points(
        self,
        environment: str,
        variable: str,
        *,
        category: str = "measured",
        start: Time | None = None,
        end: Time | None = None,
        prefix: str = "",
    ) -> AsyncIterator[StoredPoint]:
        """The stored points of a variable, as `Growd.points`."""
        pages = PointPages((environment, category, variable), start, end, prefix)
        while not pages.done:
            for point in await self._send(pages.call()):
                yield point
        if pages.has_none:
            try:
                await self._send(pages.names())
            except GrowdError as error:
                if refuses_a_name(error):
                    raise

    async def runs(self, environment: str, *, limit: int = 50, before: Time | None = None) -> RunList:
        """The runs of recipes, the newest first, perhaps only those that started `before` a time."""
        return await self._send(calls.runs(environment, limit, before))

    async def run(self, run_id: str) -> RunRecord:
        """A run by its id or the short form of it: document, notes, measurements by hand, events."""
        return await self._send(calls.run(run_id))

    async def figures(self, run_id: str) -> dict[str, Any]:
        """The figures of a run: climate, deviations, light, use of outputs (docs/runs.md has the members)."""
        return await self._send(calls.figures(run_id))

    async def report(self, run_id: str, *, lang: str = "en") -> bytes:
        """The report of a run as HTML, in English or German ("de")."""
        return await self._send(calls.report(run_id, lang))

    async def compare(self, *run_ids: str, lang: str = "en") -> bytes:
        """A comparison of two or more runs as HTML."""
        return await self._send(calls.compare(run_ids, lang))

    # the journal

    async def write_entry(
        self,
        environment: str,
        text: str = "",
        *,
        measurements: Mapping[str, float] | None = None,
        photos: Iterable[Photo] = (),
        time: Time | None = None,
        by: str = "",
        corrects: str = "",
    ) -> SavedEntry:
        """Save a text, measurements by hand (by variable) and photos, all or nothing.

        They are on disk when this returns. A photo is a file or its content: JPEG, PNG or WebP. `corrects` is
        the id of an entry whose text this one replaces.
        """
        given = environment, text, measurements, photos
        prepare = partial(calls.write_entry, *given, time=time, by=by, corrects=corrects)
        return await self._send(await asyncio.to_thread(prepare))  # it reads the sizes of files

    async def journal(
        self,
        environment: str,
        *,
        start: Time | None = None,
        end: Time | None = None,
        search: str = "",
        limit: int = 100,
    ) -> EntryList:
        """The entries of the journal, the newest first."""
        return await self._send(calls.journal(environment, start, end, search, limit))

    async def photo(self, photo: PhotoInfo) -> bytes:
        """The content of a photo of an entry."""
        return await self._send(calls.photo(photo))

    # nodes

    async def nodes(self) -> list[str]:
        """The names of all nodes."""
        return await self._send(calls.nodes())

    async def node(self, name: str) -> NodeInfo:
        """The topics, services and parameters of a node."""
        return await self._send(calls.node(name))

    async def environments(self) -> list[EnvironmentInfo]:
        """The environments, with their variables and devices."""
        return await self._send(calls.environments())

    async def session(self) -> SessionInfo:
        """Who the client is, and what it may do."""
        return await self._send(calls.session())

    # requests

    async def _send(self, call: ClientCall[T]) -> T:
        server = self._server
        limit_s = server.timeout_s + call.wait_s
        limit = aiohttp.ClientTimeout(total=limit_s)
        try:
            async with self._begin(call.method, server.place(call), limit, sent=call) as answer:
                status, headers, body = answer.status, answer.headers, await self._body(answer)
        except _FAILURES as error:
            raise self._explained(error, limit_s) from None
        return server.answer(call, status, body, headers)

    def _begin(
        self,
        method: str,
        path: str,
        limit: aiohttp.ClientTimeout,
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
        *,
        sent: ClientCall[Any] | None = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        server = self._server
        own = {"Accept": accept, "User-Agent": "growd", **(headers or {}), **(sent.headers() if sent else {})}
        if server.login is not None:
            own["Authorization"] = server.login.header
        if self._is_closed:
            raise UsageError("the client is closed")
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls or True, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        body: bytes | AsyncIterator[bytes] | None = sent.body if sent else None
        if sent is not None and sent.form is not None:
            body = _pieces(sent.form)
        url = URL(server.address.origin + server.target(path), encoded=True)
        return self._session.request(
            method, url, data=body, headers=own, timeout=limit, allow_redirects=False
        )

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        """The whole answer, within a limit of size: another program may stream for ever."""
        body = bytearray()
        async for piece in answer.content.iter_chunked(PIECE_BYTES):
            body += piece
            if len(body) > ANSWER_BYTES:
                raise self._server.too_long()
        return bytes(body)

    def _explained(self, error: Exception, limit_s: float) -> GrowdError:
        """The reason as a sentence, without the login."""
        server = self._server
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            cause = error.certificate_error
            why = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
            return server.untrusted(why)
        if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
            return server.handshake_failed()
        if isinstance(error, TimeoutError):
            return server.late(limit_s)
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            return server.unresolved(error.strerror)
        if isinstance(error, aiohttp.ClientResponseError | aiohttp.ClientPayloadError):
            return server.other_program("not HTTP")
        return server.silent()


async def _pieces(form: PhotoForm) -> AsyncIterator[bytes]:
    """The form, with its files read in threads."""
    pieces = iter(form)
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece
