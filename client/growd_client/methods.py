"""The methods that `Growd` and `AsyncGrowd` share, each declared once, and the calls that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial, wraps
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from growd_client.answers import (
    EntryList,
    EnvironmentInfo,
    NodeInfo,
    PastRange,
    PhotoInfo,
    Posted,
    Quality,
    RunList,
    RunRecord,
    SavedEntry,
    ServiceInfo,
    SessionInfo,
    TopicInfo,
    TopicMessage,
)
from growd_client.errors import UsageError
from growd_client.form import PhotoForm
from growd_client.request import ClientCall, encoded, target

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable


P = ParamSpec("P")
T = TypeVar("T")
UPLOAD_S: Final = 600.0
"""For the photos of an entry."""
WAIT_S: Final = 60.0
"""For the next message, if growd's own limit holds: `[http] topic_data_s`."""
HISTORY_S: Final = 60.0
"""growd reads the past for so long."""

Time = float | datetime
Photo = bytes | str | Path
Arguments = Mapping[str, Any] | Sequence[Any] | None


class Waiting:
    """A client whose methods wait for the answer."""


class Awaited:
    """A client whose methods are coroutines."""


class ClientMethod(Generic[P, T]):
    """A method that makes a call: a `Growd` sends it and returns the answer, an `AsyncGrowd` a coroutine.

    Of the class it is the function that makes the call.
    """

    def __init__(self, make: Callable[Concatenate[Any, P], ClientCall[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__
        # what a client returns, for help()
        result = make.__annotations__["return"]
        make.__annotations__["return"] = result.removeprefix("ClientCall[").removesuffix("]")

        @wraps(make)
        def method(client: Any, *arguments: P.args, **options: P.kwargs) -> Any:
            return client._send(make(client, *arguments, **options))  # noqa: SLF001

        self._method = method

    @overload
    def __get__(self, client: None, of: type) -> Callable[Concatenate[Any, P], ClientCall[T]]: ...
    @overload
    def __get__(self, client: Waiting, of: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaited, of: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, of: type) -> Callable[..., Any]:
        return self._make if client is None else MethodType(self._method, client)


class ClientMethods:
    """What clients of growd can ask."""

    # topics

    @ClientMethod
    def topics(self) -> ClientCall[list[str]]:
        """The names of all topics."""
        return names("topic")

    @ClientMethod
    def topic(self, name: str) -> ClientCall[TopicInfo]:
        """The type, the publishers and the subscribers of a topic."""
        return get("topic", name, TopicInfo)

    @ClientMethod
    def read(self, topic: str) -> ClientCall[TopicMessage]:
        """The newest message of a topic, at once. `NotFoundError` if it has none yet."""
        return ClientCall("GET", target("topic_data", named(topic), "last=true"), partial(message_of, topic))

    @ClientMethod
    def wait(self, topic: str, timeout_s: float | None = None) -> ClientCall[TopicMessage]:
        """Wait for the next message of a topic, for 10 s or `timeout_s`. `follow` waits longer.

        `NotFoundError` with the code "no_message" after that. growd refuses a `timeout_s` above its
        `[http] topic_data_s`, which is also the default.
        """
        query = "" if timeout_s is None else urlencode({"timeout": timeout_s})
        wait_s = WAIT_S if timeout_s is None else timeout_s
        place = target("topic_data", named(topic), query)
        return ClientCall("GET", place, partial(message_of, topic), wait_s=wait_s)

    @ClientMethod
    def publish(
        self, topic: str, *arguments: Any, by: str = "", time: Time | None = None
    ) -> ClientCall[Posted]:
        """Publish a message, made of the arguments of its type.

        `by` is the author, for the record. `time` is that of a note or a measurement by hand in the past.
        """
        query = {"by": by, "time": seconds_of("time", time)}
        return post("topic", topic, list(arguments), Posted, query)

    @ClientMethod
    def set_point(self, environment: str, variable: str, value: float, *, by: str = "") -> ClientCall[Posted]:
        """Set a set point, in the unit of the variable. It holds until it is changed or released.

        It is on disk when this returns. `hint` of the answer says why it has no effect, if so.
        """
        if value is None or isinstance(value, bool):
            raise UsageError(f"value: expected a number, got {value}")  # None releases
        return _set_point(environment, variable, value, by)

    @ClientMethod
    def release(self, environment: str, variable: str, *, by: str = "") -> ClientCall[Posted]:
        """Release a set point: the outputs of the variable go to their safe states."""
        return _set_point(environment, variable, None, by)

    # parameters

    @ClientMethod
    def parameters(self, *, declared: bool = False) -> ClientCall[list[str]]:
        """The names of all parameters, or of those that a node has declared."""
        return names("param", {"declared": declared or None})

    @ClientMethod
    def parameter(self, name: str) -> ClientCall[Any]:
        """The value of a parameter, or an object with all parameters of a branch."""
        return ClientCall("GET", target("param", named(name)), value_of)

    @ClientMethod
    def set_parameter(self, name: str, value: Any, *, new: bool = False) -> ClientCall[Any]:
        """Set a parameter; `new` allows a new one that looks misspelt. It is on disk when this returns.

        A new parameter is refused without it below an environment or a node, or if its name is similar to
        that of a declared one.
        """
        place = target("param", named(name), query_of({"new": new or None}))
        return ClientCall("POST", place, value_of, encoded({"value": value}))

    @ClientMethod
    def delete_parameter(self, name: str) -> ClientCall[Any]:
        """Delete a parameter; one of a node returns to its default."""
        return ClientCall("DELETE", target("param", named(name)), value_of)

    # services

    @ClientMethod
    def services(self) -> ClientCall[list[str]]:
        """The names of all services."""
        return names("service")

    @ClientMethod
    def service(self, name: str) -> ClientCall[ServiceInfo]:
        """The request type, the node and the arguments of a service."""
        return get("service", name, ServiceInfo)

    @ClientMethod
    def call(
        self, service: str, arguments: Arguments = None, *, timeout_s: float | None = None
    ) -> ClientCall[dict[str, Any]]:
        """Call a service with arguments by name or in order; the fields of its reply.

        `timeout_s` is how long it may take beyond the time limit of the client. `RefusedError` with the code
        "refused" if it does not succeed.
        """
        decode = partial(msgspec.json.decode, type=dict[str, Any])
        place = target("service", named(service))
        return ClientCall("POST", place, decode, encoded(arguments), wait_s=timeout_s or 0.0)

    # recipes

    @ClientMethod
    def start_recipe(
        self,
        environment: str,
        recipe_id: str,
        *,
        at: Time | None = None,
        offset_s: float = 0.0,
        by: str = "",
        study: Mapping[str, str] | None = None,
    ) -> ClientCall[str]:
        """Start a recipe, now or `at` a time, from its second `offset_s` on. Returns a sentence."""
        given = {
            "recipe_id": recipe_id,
            "at": seconds_of("at", at),
            "offset": offset_s or None,
            "by": by or None,
            "study": study or None,
        }
        return _order(
            environment, "start_recipe", {name: each for name, each in given.items() if each is not None}
        )

    @ClientMethod
    def stop_recipe(self, environment: str, *, by: str = "") -> ClientCall[str]:
        """Stop the running recipe, or the one that waits for its time. Returns a sentence."""
        return _order(environment, "stop_recipe", {"by": by})

    @ClientMethod
    def pause_recipe(self, environment: str, *, by: str = "") -> ClientCall[str]:
        """Pause the recipe and hold its set points. Returns a sentence."""
        return _order(environment, "pause_recipe", {"by": by})

    @ClientMethod
    def resume_recipe(self, environment: str, *, by: str = "") -> ClientCall[str]:
        """Resume a paused recipe. Returns a sentence."""
        return _order(environment, "resume_recipe", {"by": by})

    # the past

    @ClientMethod
    def history(
        self,
        environment: str,
        *variables: str,
        start: Time | None = None,
        end: Time | None = None,
        points: int = 300,
        series: bool = True,
        events: bool = True,
    ) -> ClientCall[PastRange]:
        """The stored points of a range of time as at most `points` buckets, and its events.

        Without variables: all that have points. Without `start` and `end`: the last 24 hours.
        """
        query = {
            "variable": list(variables),
            "start": seconds_of("start", start),
            "end": seconds_of("end", end),
            "points": points,
            "series": None if series else "false",
            "events": None if events else "false",
        }
        return get("history", environment, PastRange, query, wait_s=HISTORY_S)

    @ClientMethod
    def runs(self, environment: str, *, limit: int = 50, before: Time | None = None) -> ClientCall[RunList]:
        """The runs of recipes, the newest first, perhaps only those that started `before` a time."""
        query = {"limit": limit, "before": seconds_of("before", before)}
        return get("runs", environment, RunList, query, wait_s=HISTORY_S)

    @ClientMethod
    def run(self, run_id: str) -> ClientCall[RunRecord]:
        """A run by its id or the short form of it: document, notes, measurements by hand, events."""
        return get("run", run_id, RunRecord, wait_s=HISTORY_S)

    @ClientMethod
    def figures(self, run_id: str) -> ClientCall[dict[str, Any]]:
        """The figures of a run: climate, deviations, light, use of outputs (docs/runs.md has the members)."""
        return get("figures", run_id, dict[str, Any], wait_s=HISTORY_S)

    @ClientMethod
    def report(self, run_id: str, *, lang: str = "en") -> ClientCall[bytes]:
        """The report of a run as HTML, in English or German ("de")."""
        place = target("report", named(run_id), f"lang={quote(lang)}")
        return ClientCall("GET", place, bytes, wait_s=HISTORY_S)

    @ClientMethod
    def compare(self, *run_ids: str, lang: str = "en") -> ClientCall[bytes]:
        """A comparison of two or more runs as HTML."""
        if len(run_ids) < 2:  # noqa: PLR2004
            raise UsageError("expected two runs or more to compare")
        place = target("compare", "", query_of({"run": list(run_ids), "lang": lang}))
        return ClientCall("GET", place, bytes, wait_s=HISTORY_S)

    # the journal

    @ClientMethod
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
    ) -> ClientCall[SavedEntry]:
        """Save a text, measurements by hand (by variable) and photos, all or nothing.

        They are on disk when this returns. A photo is a file or its content: JPEG, PNG or WebP. `corrects` is
        the id of an entry whose text this one replaces.
        """
        given = {
            "text": text,
            "measurements": dict(measurements or {}),
            "time": seconds_of("time", time),
            "by": by,
            "corrects": corrects,
        }
        entry = {name: value for name, value in given.items() if value}
        call = post("journal", environment, entry, SavedEntry)
        files = [Path(photo) if isinstance(photo, str) else photo for photo in photos]
        return (
            replace(call, body=None, form=PhotoForm(encoded(entry), files), wait_s=UPLOAD_S)
            if files
            else call
        )

    @ClientMethod
    def journal(
        self,
        environment: str,
        *,
        start: Time | None = None,
        end: Time | None = None,
        search: str = "",
        limit: int = 100,
    ) -> ClientCall[EntryList]:
        """The entries of the journal, the newest first."""
        times = {"start": seconds_of("start", start), "end": seconds_of("end", end)}
        query = {**times, "search": search, "limit": limit}
        return get("journal", environment, EntryList, query, wait_s=HISTORY_S)

    @ClientMethod
    def photo(self, photo: PhotoInfo) -> ClientCall[bytes]:
        """The content of a photo of an entry."""
        return ClientCall("GET", urlsplit(photo.address).path, bytes, wait_s=HISTORY_S)

    # nodes

    @ClientMethod
    def nodes(self) -> ClientCall[list[str]]:
        """The names of all nodes."""
        return names("node")

    @ClientMethod
    def node(self, name: str) -> ClientCall[NodeInfo]:
        """The topics, services and parameters of a node."""
        return get("node", name, NodeInfo)

    @ClientMethod
    def environments(self) -> ClientCall[list[EnvironmentInfo]]:
        """The environments, with their variables and devices."""
        return ClientCall("GET", target("node", "chambers"), environments_of)

    @ClientMethod
    def session(self) -> ClientCall[SessionInfo]:
        """Who the client is, and what it may do."""
        return get("session", None, SessionInfo)


def _set_point(environment: str, variable: str, value: float | None, by: str) -> ClientCall[Posted]:
    call = post("topic", f"{environment}/desired/{variable}", [value], Posted, {"by": by})
    unknown = f"{environment} has no set point of {variable}; environments() has the names of both"
    return replace(call, unknown=unknown)


def _order(environment: str, service: str, arguments: dict[str, Any]) -> ClientCall[str]:
    """A service of the recipe runner; the answer is its message."""
    place = target("service", named(f"{environment}/{service}"))
    return ClientCall("POST", place, message_of_reply, encoded(arguments))


class _Names(msgspec.Struct):
    results: list[str]


class _Value(msgspec.Struct):
    result: Any


class _Data(msgspec.Struct):
    result: Any
    time: float
    quality: Quality
    node: str


class _Reply(msgspec.Struct):
    message: str


class _Chambers(msgspec.Struct):
    environments: list[EnvironmentInfo]


def get(
    resource: str,
    name: str | None,
    kind: type[T],
    query: Mapping[str, Any] | None = None,
    wait_s: float = 0.0,
) -> ClientCall[T]:
    place = target(resource, "" if name is None else named(name), query_of(query or {}))
    return ClientCall("GET", place, partial(msgspec.json.decode, type=kind), wait_s=wait_s)


def post(
    resource: str, name: str, body: Any, kind: type[T], query: Mapping[str, Any] | None = None
) -> ClientCall[T]:
    place = target(resource, named(name), query_of(query or {}))
    return ClientCall("POST", place, partial(msgspec.json.decode, type=kind), encoded(body))


def names(resource: str, query: Mapping[str, Any] | None = None) -> ClientCall[list[str]]:
    return ClientCall("GET", target(resource, "", query_of(query or {})), results_of)


def query_of(given: Mapping[str, Any]) -> str:
    """Without values that are None or empty; a list becomes one parameter for each element."""
    kept = {name: value for name, value in given.items() if value not in (None, "", [])}
    return urlencode({name: "true" if value is True else value for name, value in kept.items()}, doseq=True)


def named(name: str) -> str:
    """Without a name, the request would mean the list of all."""
    if not name.strip("/"):
        raise UsageError(f"expected a name, got {name!r}")
    return name


def seconds_of(argument: str, time: Time | None) -> float | None:
    """UNIX seconds. A `datetime` needs a time zone."""
    if not isinstance(time, datetime):
        return time
    if time.tzinfo is None:
        raise UsageError(f"{argument}: a datetime needs a time zone, got {time}")
    return time.timestamp()


def results_of(body: bytes) -> list[str]:
    return msgspec.json.decode(body, type=_Names).results


def value_of(body: bytes) -> Any:
    return msgspec.json.decode(body, type=_Value).result


def message_of_reply(body: bytes) -> str:
    return msgspec.json.decode(body, type=_Reply).message


def environments_of(body: bytes) -> list[EnvironmentInfo]:
    return msgspec.json.decode(body, type=_Chambers).environments


def message_of(name: str, body: bytes) -> TopicMessage:
    data = msgspec.json.decode(body, type=_Data)
    return TopicMessage(name.strip("/"), data.result, data.time, data.quality, data.node)
