"""Fields of messages and services, from the OpenAPI document, and values given on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from growd_cli.output import text_of
from growd_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def fields_of(client: DaemonClient, resource: str, name: str) -> list[FieldInfo]:
    """The fields of a topic's type or the arguments of a service, in order; none if OpenAPI lacks them."""
    paths: dict[str, Any] = client.get("openapi.json", kind=dict[str, Any], query="chamber").get("paths", {})
    found: dict[str, Any] = paths.get(f"/{resource}/{quote(name.removeprefix('/'))}", {})
    if resource == "topic":
        schema = found.get("get", {}).get("x-message", {})
        return [_field(one.get("title", ""), one, required=True) for one in schema.get("prefixItems", ())]
    content = found.get("post", {}).get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    by_name: dict[str, Any] = next(iter(schema.get("anyOf", ())), {})
    required = by_name.get("required", ())
    return [
        _field(name, one, required=name in required) for name, one in by_name.get("properties", {}).items()
    ]


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


def service_arguments(words: Sequence[str], fields: Sequence[FieldInfo]) -> list[Any] | dict[str, Any]:
    """The arguments of a service: by name if a word is NAME=VALUE with a known name, else in order.

    Raises `UsageError` for a mixture of both forms.
    """
    known = {field.name: field for field in fields}
    split = [word.partition("=") for word in words]
    if not any(equals and name in known for name, equals, _ in split):
        return in_order(words, fields)
    for name, equals, _ in split:
        if not equals or name not in known:
            names = ", ".join(known)
            raise UsageError(
                f"{name} is no argument by name; give all as NAME=VALUE (NAME: {names}), or none"
            )
    return {name: value_of(text, known[name]) for name, _, text in split}


def in_order(words: Sequence[str], fields: Sequence[FieldInfo]) -> list[Any]:
    """One value for each field; the daemon refuses a wrong number."""
    padded = [*fields, *[None] * len(words)]
    return [value_of(word, field) for word, field in zip(words, padded, strict=False)]
