"""The calls of the API, without the network: what is sent, and how the answer is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

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
    TopicInfo,
    TopicMessage,
)
from growd_client.connection import target
from growd_client.encoding import encoded
from growd_client.errors import UsageError
from growd_client.form import PhotoForm
from growd_client.quality import Quality  # noqa: TC001  msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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


@dataclass(frozen=True, slots=True)
class ClientCall(Generic[T]):
    """One request. `wait_s` is how long growd may take in addition to the client's time limit.

    With `of_database` the target is one of the database behind growd, relative to its root. `unknown` is what
    to say of an unknown name.
    """

    method: str
    target: str
    decode: Callable[[bytes], T]
    body: bytes | None = None
    form: PhotoForm | None = None
    wait_s: float = 0.0
    of_database: bool = False
    unknown: str = ""

    def headers(self) -> dict[str, str]:
        """Those that belong to the body."""
        if self.form is not None:
            return {"Content-Type": self.form.media, "Content-Length": str(self.form.size)}
        return {"Content-Type": "application/json"} if self.body is not None else {}


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


# topics


def topics() -> ClientCall[list[str]]:
    return _names("topic")


def topic(name: str) -> ClientCall[TopicInfo]:
    return _get("topic", name, TopicInfo)


def read(name: str) -> ClientCall[TopicMessage]:
    return ClientCall("GET", target("topic_data", _named(name), "last=true"), partial(_message, name))


def wait(name: str, timeout_s: float | None) -> ClientCall[TopicMessage]:
    query = "" if timeout_s is None else urlencode({"timeout": timeout_s})
    place = target("topic_data", _named(name), query)
    return ClientCall(
        "GET", place, partial(_message, name), wait_s=WAIT_S if timeout_s is None else timeout_s
    )


def publish(name: str, arguments: Sequence[Any], by: str, time: Time | None) -> ClientCall[Posted]:
    query = {"by": by, "time": seconds_of("time", time)}
    return _post("topic", name, list(arguments), Posted, query)


def set_point(environment: str, variable: str, value: float, by: str) -> ClientCall[Posted]:
    if value is None or isinstance(value, bool):
        raise UsageError(f"value: expected a number, got {value}")  # None releases
    return _publish_desired(environment, variable, value, by)


def release(environment: str, variable: str, by: str) -> ClientCall[Posted]:
    return _publish_desired(environment, variable, None, by)


def _publish_desired(environment: str, variable: str, value: float | None, by: str) -> ClientCall[Posted]:
    call = publish(f"{environment}/desired/{variable}", [value], by, None)
    unknown = f"{environment} has no set point of {variable}; environments() has the names of both"
    return replace(call, unknown=unknown)


# parameters


def parameters(*, declared: bool) -> ClientCall[list[str]]:
    return _names("param", {"declared": declared or None})


def parameter(name: str) -> ClientCall[Any]:
    return ClientCall("GET", target("param", _named(name)), _value)


def set_parameter(name: str, value: Any, *, new: bool) -> ClientCall[Any]:
    query = _query({"new": new or None})
    return ClientCall("POST", target("param", _named(name), query), _value, encoded({"value": value}))


def delete_parameter(name: str) -> ClientCall[Any]:
    return ClientCall("DELETE", target("param", _named(name)), _value)


# services


def services() -> ClientCall[list[str]]:
    return _names("service")


def service(name: str) -> ClientCall[ServiceInfo]:
    return _get("service", name, ServiceInfo)


def call(name: str, arguments: Arguments, timeout_s: float | None) -> ClientCall[dict[str, Any]]:
    decode = partial(msgspec.json.decode, type=dict[str, Any])
    return ClientCall(
        "POST",
        target("service", _named(name)),
        decode,
        encoded(arguments),
        wait_s=timeout_s or 0.0,
    )


def start_recipe(
    environment: str, recipe_id: str, at: Time | None, offset_s: float, by: str
) -> ClientCall[str]:
    given = {"recipe_id": recipe_id, "at": seconds_of("at", at), "offset": offset_s or None, "by": by or None}
    return recipe(environment, "start_recipe", {key: each for key, each in given.items() if each is not None})


def recipe(environment: str, order: str, arguments: dict[str, Any]) -> ClientCall[str]:
    """A service of the recipe runner; the answer is its message."""
    place = target("service", _named(f"{environment}/{order}"))
    return ClientCall("POST", place, _reply, encoded(arguments))


# nodes


def nodes() -> ClientCall[list[str]]:
    return _names("node")


def node(name: str) -> ClientCall[NodeInfo]:
    return _get("node", name, NodeInfo)


def environments() -> ClientCall[list[EnvironmentInfo]]:
    return ClientCall("GET", target("node", "chambers"), _environments)


def session() -> ClientCall[SessionInfo]:
    return _get("session", None, SessionInfo)


# the past


def history(
    environment: str,
    variables: Sequence[str],
    start: Time | None,
    end: Time | None,
    points: int,
    *,
    series: bool,
    events: bool,
) -> ClientCall[PastRange]:
    query = {
        "variable": list(variables),
        "start": seconds_of("start", start),
        "end": seconds_of("end", end),
        "points": points,
        "series": None if series else "false",
        "events": None if events else "false",
    }
    return _get("history", environment, PastRange, query, wait_s=HISTORY_S)


def runs(environment: str, limit: int, before: Time | None) -> ClientCall[RunList]:
    query = {"limit": limit, "before": seconds_of("before", before)}
    return _get("runs", environment, RunList, query, wait_s=HISTORY_S)


def run(run_id: str) -> ClientCall[RunRecord]:
    return _get("run", run_id, RunRecord, wait_s=HISTORY_S)


def figures(run_id: str) -> ClientCall[dict[str, Any]]:
    return _get("figures", run_id, dict[str, Any], wait_s=HISTORY_S)


def report(run_id: str, lang: str) -> ClientCall[bytes]:
    return ClientCall("GET", target("report", _named(run_id), f"lang={quote(lang)}"), bytes, wait_s=HISTORY_S)


def compare(run_ids: Sequence[str], lang: str) -> ClientCall[bytes]:
    if len(run_ids) < 2:  # noqa: PLR2004
        raise UsageError("expected two runs or more to compare")
    query = _query({"run": list(run_ids), "lang": lang})
    return ClientCall("GET", target("compare", "", query), bytes, wait_s=HISTORY_S)


# the journal


def write_entry(
    environment: str,
    text: str,
    measurements: Mapping[str, float] | None,
    photos: Iterable[Photo],
    *,
    time: Time | None,
    by: str,
    corrects: str,
) -> ClientCall[SavedEntry]:
    given = {
        "text": text,
        "measurements": dict(measurements or {}),
        "time": seconds_of("time", time),
        "by": by,
        "corrects": corrects,
    }
    entry = {name: value for name, value in given.items() if value}
    files = [Path(photo) if isinstance(photo, str) else photo for photo in photos]
    if not files:
        return _post("journal", environment, entry, SavedEntry)
    form = PhotoForm(entry, files)
    decode = partial(msgspec.json.decode, type=SavedEntry)
    return ClientCall("POST", target("journal", _named(environment)), decode, form=form, wait_s=UPLOAD_S)


def journal(
    environment: str, start: Time | None, end: Time | None, search: str, limit: int
) -> ClientCall[EntryList]:
    query = {
        "start": seconds_of("start", start),
        "end": seconds_of("end", end),
        "search": search,
        "limit": limit,
    }
    return _get("journal", environment, EntryList, query, wait_s=HISTORY_S)


def photo(photo: PhotoInfo) -> ClientCall[bytes]:
    address = urlsplit(photo.address)
    return ClientCall("GET", address.path, bytes, wait_s=HISTORY_S)


# helpers


def _get(
    resource: str,
    name: str | None,
    kind: type[T],
    query: Mapping[str, Any] | None = None,
    wait_s: float = 0.0,
) -> ClientCall[T]:
    place = target(resource, "" if name is None else _named(name), _query(query or {}))
    return ClientCall("GET", place, partial(msgspec.json.decode, type=kind), wait_s=wait_s)


def _post(
    resource: str, name: str, body: Any, kind: type[T], query: Mapping[str, Any] | None = None
) -> ClientCall[T]:
    place = target(resource, _named(name), _query(query or {}))
    return ClientCall("POST", place, partial(msgspec.json.decode, type=kind), encoded(body))


def _names(resource: str, query: Mapping[str, Any] | None = None) -> ClientCall[list[str]]:
    return ClientCall("GET", target(resource, "", _query(query or {})), _results)


def _query(given: Mapping[str, Any]) -> str:
    """Without values that are None or empty; a list becomes one parameter for each element."""
    kept = {name: value for name, value in given.items() if value not in (None, "", [])}
    return urlencode({name: "true" if value is True else value for name, value in kept.items()}, doseq=True)


def _named(name: str) -> str:
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


def _results(body: bytes) -> list[str]:
    return msgspec.json.decode(body, type=_Names).results


def _value(body: bytes) -> Any:
    return msgspec.json.decode(body, type=_Value).result


def _reply(body: bytes) -> str:
    return msgspec.json.decode(body, type=_Reply).message


def _environments(body: bytes) -> list[EnvironmentInfo]:
    return msgspec.json.decode(body, type=_Chambers).environments


def _message(name: str, body: bytes) -> TopicMessage:
    data = msgspec.json.decode(body, type=_Data)
    return TopicMessage(name.strip("/"), data.result, data.time, data.quality, data.node)
