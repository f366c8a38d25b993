"""The form in which `operations.py` declares each operation of the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs

import msgspec
from aiohttp import web

from growd.bus.errors import InvalidArgumentsError, InvalidValueError, shown
from growd.bus.fields import Kind
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.bus.fields import Field

MOST_FIELDS: Final = 500
"""Of a query: a stream may have 200 topics. Parsing more would hold up everything else."""
_FLAGS: Final = {"": True, "true": True, "false": False}  # "?chamber" is "?chamber=true"
_JSON_TYPES: Final[dict[type[Any], str]] = {list: "array", dict: "object"}


class Limits(msgspec.Struct, frozen=True):
    """Limits of the API."""

    body_bytes: int = 131_072
    streams: int = 1_000
    stream_queue: int = 64
    heartbeat_s: float = 15.0
    topic_data_s: float = 10.0  # the longest `timeout` of topic_data, and its default
    body_stall_s: float = 30.0  # how long a client may take for the next byte of a body
    body_whole_s: float = 60.0  # and for all of it
    form_s: float = 600.0  # for a form with photos


class Call(NamedTuple):
    """One request, read and checked."""

    request: web.BaseRequest
    name: str
    query: dict[str, Any]
    body: Any


class Body(msgspec.Struct, frozen=True):
    """The body of an operation: JSON types, and the members of an object if they are fixed.

    Without `required` it may be missing: then it has no members. `with_photos`: it may be a form too, which
    the handler reads.
    """

    types: tuple[type[Any], ...]
    members: tuple[Field, ...] = ()
    required: bool = True
    doc: str = ""
    with_photos: bool = False

    def check(self, value: Any) -> Any:
        if value is None and not self.required:
            return self._checked_members({}) if self.members else None
        if not isinstance(value, self.types):
            wanted = " or ".join(f"an {kind}" for kind in self.json_types())
            said = "it is empty or null" if value is None else f"it is {shown(value)}"
            raise ApiError(400, "invalid_body", f"the body must be {wanted}, but {said}")
        return self._checked_members(value) if self.members else value

    def json_types(self) -> list[str]:
        """The types allowed, as JSON Schema names them."""
        return [_JSON_TYPES[kind] for kind in self.types]

    def _checked_members(self, value: Any) -> dict[str, Any]:
        known = [field.name for field in self.members]
        for name in value:
            if name not in known:
                raise InvalidArgumentsError(
                    f"the body has an unknown field {shown(name)}; known: {', '.join(known)}"
                )
        for field in self.members:
            if field.required and field.name not in value:
                raise InvalidArgumentsError(f"the body lacks the field {shown(field.name)}")
        return {
            field.name: field.check(value[field.name]) if field.name in value else field.default
            for field in self.members
        }


class Repeated(msgspec.Struct, frozen=True):
    """A query parameter that is given once for each of its `least` to `most` values.

    With `is_name` they are names on the bus, which the handler checks.
    """

    field: Field
    most: int
    least: int = 0
    is_name: bool = False

    @property
    def name(self) -> str:
        return self.field.name

    def check(self, values: Sequence[Any]) -> list[Any]:
        if len(values) > self.most:
            raise InvalidValueError(self.name, f"at most {self.most} values", len(values))
        if not values and self.least:
            raise InvalidArgumentsError(f"the query lacks the parameter {shown(self.name)}")
        if len(values) < self.least:
            raise InvalidValueError(self.name, f"at least {self.least} values", len(values))
        return [self.field.check(value) for value in values]


Handler = Callable[[Any, Call], Awaitable[web.StreamResponse]]  # a method of the API, not yet bound


class Operation(msgspec.Struct, frozen=True):
    """One row of the specification."""

    method: str
    resource: str  # the first path segment
    kind: str  # what the rest of the path names: "param", "topic" ...; empty if there is none
    summary: str
    handler: Handler
    body: Body | None = None
    query: tuple[Field | Repeated, ...] = ()
    answer: str = "object"
    """The schema of the 200 answer: `Answer<Name>` of the document."""
    refusals: tuple[int, ...] = ()
    is_open: bool = False
    """Whether it answers everybody, also without a login."""
    is_administrative: bool = False
    schemas: Callable[[], Mapping[str, Any]] = dict
    """Returns those that it adds to the document, by their names."""

    def read_query(self, query: str) -> dict[str, Any]:
        """The query's values by name, checked. Unknown ones are ignored: proxies and browsers add some."""
        given = _fields(query) if query and self.query else {}
        return {each.name: _query_value(each, given.get(each.name, [])) for each in self.query}


def _fields(query: str) -> dict[str, list[str]]:
    try:
        return parse_qs(query, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        sentence = f"the query has more than {MOST_FIELDS} fields"
        raise ApiError(400, "too_many_fields", sentence) from None


def _query_value(parameter: Field | Repeated, given: list[str]) -> Any:
    """The value of a parameter that was given so often; of a `Field` given twice the last."""
    if isinstance(parameter, Repeated):
        return parameter.check([_decoded(parameter.field, text) for text in given])
    return parameter.check(_decoded(parameter, given[-1])) if given else parameter.default


def _decoded(field: Field, text: str) -> Any:
    if field.kind is Kind.STRING:
        return text
    if field.kind is Kind.BOOL:  # Python writes True, R writes TRUE
        if (flag := _FLAGS.get(text.lower())) is None:
            raise InvalidValueError(field.name, "true or false", text)
        return flag
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
