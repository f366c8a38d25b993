"""The blocking client."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Any, Self

from growd_client import calls
from growd_client.connecting import given_address, given_login, given_trust
from growd_client.connection import TIMEOUT_S, DaemonClient
from growd_client.errors import GrowdError
from growd_client.following import EVENT_STREAM, EventLines, Following
from growd_client.pauses import Pauses
from growd_client.points import PointPages, refuses_a_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
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
    from growd_client.calls import Arguments, Photo, Time
    from growd_client.following import StreamEvent


class Growd:
    """A blocking client of one growd. Close it, or use it in `with`.

    Every method raises `GrowdError`: `UsageError` for invalid arguments, `NotReachedError` without an answer
    of growd within `timeout_s` seconds, `RefusedError` with growd's sentence if it refuses. A client is for
    one thread at a time; streams of `follow` have connections of their own.
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
        """`url` is GROWD_URL by default, else growd on this machine.

        `user` and `password` are those of the URL by default, else GROWD_USER and GROWD_PASSWORD. `ca` is a
        file of certificates to trust. `pauses` are those before a stream connects again.
        """
        address = given_address(url)
        login = given_login(address, user, password)
        self._connection = DaemonClient(address, login, given_trust(address, ca), timeout_s)
        self._pauses = pauses or Pauses()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next call opens it again."""
        self._connection.close()

    def follow(
        self,
        *topics: str,
        throttle_s: float = 0.0,
        latest: bool = True,
        heartbeat_s: float = 10.0,
        on_event: Callable[[StreamEvent], None] | None = None,
    ) -> Iterator[TopicMessage]:
        """The messages of topics, with `latest` beginning with the newest of each. Endless.

        With `throttle_s` the newest message of each topic, at most one in this time. The stream connects
        again if the connection breaks, or if neither a message nor a heartbeat comes. `on_event` then gets
        `Disconnected` and `Reconnected`, and `Dropped` if this client is too slow; without it they are
        logged. Raises `GrowdError` if the first connection fails, or a later one is refused for good.
        """
        stream = Following(topics, throttle_s, heartbeat_s, self._pauses, on_event, latest=latest)
        yield from messages_of(self._connection, stream)

    # topics

    def topics(self) -> list[str]:
        """The names of all topics."""
        return self._connection.send(calls.topics())

    def topic(self, name: str) -> TopicInfo:
        """The type, the publishers and the subscribers of a topic."""
        return self._connection.send(calls.topic(name))

    def read(self, topic: str) -> TopicMessage:
        """The newest message of a topic, at once. `NotFoundError` if it has none yet."""
        return self._connection.send(calls.read(topic))

    def wait(self, topic: str, timeout_s: float | None = None) -> TopicMessage:
        """Wait for the next message of a topic, for 10 s or `timeout_s`. `follow` waits longer.

        `NotFoundError` with the code "no_message" after that. growd refuses a `timeout_s` above its
        `[http] topic_data_s`, which is also the default.
        """
        return self._connection.send(calls.wait(topic, timeout_s))

    def publish(self, topic: str, *arguments: Any, by: str = "", time: Time | None = None) -> Posted:
        """Publish a message, made of the arguments of its type.

        `by` is the author, for the record. `time` is that of a note or a measurement by hand in the past.
        """
        return self._connection.send(calls.publish(topic, arguments, by, time))

    def set_point(self, environment: str, variable: str, value: float, *, by: str = "") -> Posted:
        """Set a set point, in the unit of the variable. It holds until it is changed or released.

        It is on disk when this returns. `hint` of the answer says why it has no effect, if so.
        """
        return self._connection.send(calls.set_point(environment, variable, value, by))

    def release(self, environment: str, variable: str, *, by: str = "") -> Posted:
        """Release a set point: the outputs of the variable go to their safe states."""
        return self._connection.send(calls.release(environment, variable, by))

    # parameters

    def parameters(self, *, declared: bool = False) -> list[str]:
        """The names of all parameters, or of those that a node has declared."""
        return self._connection.send(calls.parameters(declared=declared))

    def parameter(self, name: str) -> Any:
        """The value of a parameter, or an object with all parameters of a branch."""
        return self._connection.send(calls.parameter(name))

    def set_parameter(self, name: str, value: Any, *, new: bool = False) -> Any:
        """Set a parameter; `new` allows a new one that looks misspelt. It is on disk when this returns.

        A new parameter is refused without it below an environment or a node, or if its name is similar to
        that of a declared one.
        """
        return self._connection.send(calls.set_parameter(name, value, new=new))

    def delete_parameter(self, name: str) -> Any:
        """Delete a parameter; one of a node returns to its default."""
        return self._connection.send(calls.delete_parameter(name))

    # services

    def services(self) -> list[str]:
        """The names of all services."""
        return self._connection.send(calls.services())

    def service(self, name: str) -> ServiceInfo:
        """The request type, the node and the arguments of a service."""
        return self._connection.send(calls.service(name))

    def call(
        self, service: str, arguments: Arguments = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Call a service with arguments by name or in order; the fields of its reply.

        `timeout_s` is how long it may take beyond the time limit of the client. `RefusedError` with the code
        "refused" if it does not succeed.
        """
        return self._connection.send(calls.call(service, arguments, timeout_s))

    # recipes

    def start_recipe(
        self, environment: str, recipe_id: str, *, at: Time | None = None, offset_s: float = 0.0, by: str = ""
    ) -> str:
        """Start a recipe, now or `at` a time, from its second `offset_s` on. Returns a sentence."""
        return self._connection.send(calls.start_recipe(environment, recipe_id, at, offset_s, by))

    def stop_recipe(self, environment: str, *, by: str = "") -> str:
        """Stop the running recipe, or the one that waits for its time. Returns a sentence."""
        return self._connection.send(calls.recipe(environment, "stop_recipe", {"by": by}))

    def pause_recipe(self, environment: str, *, by: str = "") -> str:
        """Pause the recipe and hold its set points. Returns a sentence."""
        return self._connection.send(calls.recipe(environment, "pause_recipe", {"by": by}))

    def resume_recipe(self, environment: str, *, by: str = "") -> str:
        """Resume a paused recipe. Returns a sentence."""
        return self._connection.send(calls.recipe(environment, "resume_recipe", {"by": by}))

    # the past

    def history(
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
        return self._connection.send(
            calls.history(environment, variables, start, end, points, series=series, events=events)
        )

    def points(
        self,
        environment: str,
        variable: str,
        *,
        category: str = "measured",
        start: Time | None = None,
        end: Time | None = None,
        prefix: str = "",
    ) -> Iterator[StoredPoint]:
        """The stored points of a variable in a range of time, the oldest first, read page by page.

        `category` is "measured", "desired", "commanded", "quality" or "event"; for events `variable` is the
        kind. `prefix` is growd's `[couchdb] prefix`. A login needs the right to read the database. Raises
        `RefusedError` if growd does not know the name of a series without any point.
        """
        pages = PointPages((environment, category, variable), start, end, prefix)
        while not pages.done:
            yield from self._connection.send(pages.call())
        if pages.has_none:
            try:
                self._connection.send(pages.names())
            except GrowdError as error:
                if refuses_a_name(error):
                    raise

    def runs(self, environment: str, *, limit: int = 50, before: Time | None = None) -> RunList:
        """The runs of recipes, the newest first, perhaps only those that started `before` a time."""
        return self._connection.send(calls.runs(environment, limit, before))

    def run(self, run_id: str) -> RunRecord:
        """A run by its id or the short form of it: document, notes, measurements by hand, events."""
        return self._connection.send(calls.run(run_id))

    def figures(self, run_id: str) -> dict[str, Any]:
        """The figures of a run: climate, deviations, light, use of outputs (docs/runs.md has the members)."""
        return self._connection.send(calls.figures(run_id))

    def report(self, run_id: str, *, lang: str = "en") -> bytes:
        """The report of a run as HTML, in English or German ("de")."""
        return self._connection.send(calls.report(run_id, lang))

    def compare(self, *run_ids: str, lang: str = "en") -> bytes:
        """A comparison of two or more runs as HTML."""
        return self._connection.send(calls.compare(run_ids, lang))

    # the journal

    def write_entry(
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
        return self._connection.send(calls.write_entry(*given, time=time, by=by, corrects=corrects))

    def journal(
        self,
        environment: str,
        *,
        start: Time | None = None,
        end: Time | None = None,
        search: str = "",
        limit: int = 100,
    ) -> EntryList:
        """The entries of the journal, the newest first."""
        return self._connection.send(calls.journal(environment, start, end, search, limit))

    def photo(self, photo: PhotoInfo) -> bytes:
        """The content of a photo of an entry."""
        return self._connection.send(calls.photo(photo))

    # nodes

    def nodes(self) -> list[str]:
        """The names of all nodes."""
        return self._connection.send(calls.nodes())

    def node(self, name: str) -> NodeInfo:
        """The topics, services and parameters of a node."""
        return self._connection.send(calls.node(name))

    def environments(self) -> list[EnvironmentInfo]:
        """The environments, with their variables and devices."""
        return self._connection.send(calls.environments())

    def session(self) -> SessionInfo:
        """Who the client is, and what it may do."""
        return self._connection.send(calls.session())


def messages_of(connection: DaemonClient, stream: Following) -> Iterator[TopicMessage]:
    """The messages of a stream, as `Growd.follow`."""
    silence_s = stream.heartbeat_s + connection.server.timeout_s
    while True:
        try:
            with connection.lines(stream.target, EVENT_STREAM, stream.headers, silence_s) as lines:
                stream.opened()
                event = EventLines()
                for line in lines:
                    if (message := stream.message(event, line)) is not None:
                        yield message
            pause_s = stream.ended()
        except GrowdError as error:
            pause_s = stream.failed(error)
        sleep(pause_s)
