"""The calls of the API, without the network: what is sent, and how the answer is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec

from growd_client.answers import EnvironmentInfo, Quality, TopicMessage
from growd_client.errors import UsageError
from growd_client.request import ClientCall, encoded, target

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
