"""Fields of messages and services, from the OpenAPI document, and values given on the command line."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from growd_cli.output import text_of
from growd_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from growd_client.connection import DaemonClient

# JSON Schema types, and their names in the daemon and ROS.
_KINDS: Final = {"number": "float64", "integer": "int64", "boolean": "bool", "string": "string"}
_LIMITS_OF_INT64: Final = (-(2**63), 2**63 - 1)


class FieldInfo(msgspec.Struct, frozen=True):
    """A field of a message, or an argument of a service; `minimum` and `maximum` are in `unit`."""

    name: str
    kind: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    required: bool = True
    default: Any = None
    doc: str = ""

    def row(self) -> tuple[str, str, str, str, str]:
        """Name, type, range with unit, default, and description."""
        default = "" if self.required else text_of(self.default)
        return self.name, self.kind, f"{self._bounds()} {self.unit}".strip(), default, self.doc

    def _bounds(self) -> str:
        if self.minimum is not None and self.maximum is not None:
            return f"{text_of(self.minimum)} to {text_of(self.maximum)}"
        if self.minimum is not None:
            return f"from {text_of(self.minimum)}"
        return "" if self.maximum is None else f"to {text_of(self.maximum)}"


HEADINGS: Final = ("name", "type", "range", "default", "about")


def message_fields(client: DaemonClient, topic: str) -> list[FieldInfo]:
    """The fields of a topic's type, in order; none if the OpenAPI document lacks them."""
    schema = _path(client, "topic", topic).get("get", {}).get("x-message", {})
    return [_field(one.get("title", ""), one, required=True) for one in schema.get("prefixItems", ())]


def service_fields(client: DaemonClient, service: str) -> list[FieldInfo]:
    """The arguments of a service, in order; none if the OpenAPI document lacks them."""
    content = _path(client, "service", service).get("post", {}).get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    by_name: dict[str, Any] = next(iter(schema.get("anyOf", ())), {})
    required = by_name.get("required", ())
    properties = by_name.get("properties", {})
    return [_field(name, schema, required=name in required) for name, schema in properties.items()]


def _path(client: DaemonClient, resource: str, name: str) -> dict[str, Any]:
    """The path of one name in the daemon's OpenAPI document."""
    paths: dict[str, Any] = client.get("openapi.json", kind=dict[str, Any]).get("paths", {})
    found: dict[str, Any] = paths.get(f"/{resource}/{quote(name.removeprefix('/'))}", {})
    return found


def _field(name: str, schema: dict[str, Any], *, required: bool) -> FieldInfo:
    plain = schema["anyOf"][0] if "anyOf" in schema else schema
    kinds = plain.get("type", "")
    unit = schema.get("x-unit", "")
    low, high = plain.get("minimum"), plain.get("maximum")
    if (low, high) == _LIMITS_OF_INT64:
        low = high = None
    return FieldInfo(
        name,
        _KINDS.get(kinds if isinstance(kinds, str) else kinds[0], "json"),
        unit,
        low,
        high,
        required,
        schema.get("default"),
        schema.get("description", "").removesuffix(f"({unit})").strip(),
    )


def value_of(word: str, field: FieldInfo | None = None) -> Any:
    """A value from a word of the command line: JSON, else text.

    For a field of type string only a JSON string is JSON, so that 1 and true are text.
    """
    if field is not None and field.kind == "string" and not word.startswith('"'):
        return word
    try:
        return json.loads(word, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return word


def _no_constant(word: str) -> Any:
    """NaN and Infinity are not JSON; pass them as text, for the daemon's error message."""
    raise ValueError(word)


def message_arguments(words: Sequence[str], fields: Sequence[FieldInfo]) -> list[Any]:
    """The fields of a message: one per word, or all as one JSON array or object."""
    if len(words) == 1 and len(fields) > 1:
        whole = value_of(words[0])
        if isinstance(whole, list):
            return whole
        if isinstance(whole, dict) and whole.keys() == {field.name for field in fields}:
            return [whole[field.name] for field in fields]
    return _in_order(words, fields)


def _no_argument(name: str, known: Iterable[str]) -> str:
    names = list(known)
    like = difflib.get_close_matches(name, names, 1)
    meant = f"did you mean {like[0]}? The" if like else "the"
    return f"there is no argument {name}; {meant} arguments are {', '.join(names)}"


def service_arguments(words: Sequence[str], fields: Sequence[FieldInfo]) -> list[Any] | dict[str, Any]:
    """The arguments of a service: by name if each word is NAME=VALUE with a known name, else in order.

    A single JSON object has them by name too, unless the first argument takes any JSON value. Raises
    `UsageError` for a misspelt name, and for a mixture of both forms.
    """
    known = {field.name: field for field in fields}
    split = [word.partition("=") for word in words]
    if words and all(equals and name in known for name, equals, _ in split):
        return {name: value_of(text, known[name]) for name, _, text in split}
    unknown = [name for name, equals, _ in split if equals and name not in known]
    if any(name in known for name, _, _ in split) and unknown and all(equals for _, equals, _ in split):
        raise UsageError(_no_argument(unknown[0], known))
    if named := [name for name, equals, _ in split if equals and name in known]:
        raise UsageError(
            f"{named[0]}=... is given by name, and other arguments are not: "
            "give all as NAME=VALUE, or all values in order"
        )
    for name in unknown:
        if difflib.get_close_matches(name, known, 1):
            raise UsageError(_no_argument(name, known))
    if len(words) == 1 and fields and fields[0].kind != "json":
        whole = value_of(words[0])
        if isinstance(whole, dict):
            return whole
    return _in_order(words, fields)


def _in_order(words: Sequence[str], fields: Sequence[FieldInfo]) -> list[Any]:
    """The daemon refuses a wrong number of arguments."""
    padded = [*fields, *[None] * len(words)]
    return [value_of(word, field) for word, field in zip(words, padded, strict=False)]
