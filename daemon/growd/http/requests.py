"""Reading a request of the API: its name and its JSON body, with a refusal for each way it can be bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from growd.http.errors import ApiError

if TYPE_CHECKING:
    from aiohttp import web

MAX_DEPTH: Final = 64
JSON_TYPE: Final = "application/json"
_decode: Final = msgspec.json.Decoder().decode


def split_target(target: str) -> tuple[str, str]:
    """Path and query of a request target as it came; absolute form too (RFC 9112, section 3.2.2)."""
    if not target.startswith("/"):
        scheme, separator, rest = target.partition("://")
        if separator and scheme.isalpha():
            target = "/" + rest.partition("/")[2]
    path, _, query = target.partition("?")
    return path, query


def decode_name(raw: str) -> str:
    """A name from the path, percent-decoded; `%2F` is a slash like any other."""
    if "%" not in raw and raw.isascii():
        return raw
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError:
        raise ApiError(400, "invalid_name", f"the name {raw[:80]!r} is not UTF-8 when decoded") from None


async def read_json(request: web.BaseRequest, limit: int) -> Any:
    """The request's JSON body, or None if it has none.

    Statuses: 415 if it is not declared JSON, 413 if it is larger than `limit` bytes, 400 if it is not well
    formed UTF-8 JSON (RFC 8259, so no NaN) or nests deeper than 64 levels.
    """
    if not request.body_exists:
        return None
    body = await _read(request, limit)
    if not body:
        return None
    _check_type(request)
    try:
        value = _decode(body)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError as error:
        raise ApiError(400, "invalid_utf8", f"the body is not UTF-8: {error.reason}") from None
    except ValueError as error:  # msgspec's errors are ValueErrors too
        raise ApiError(400, "malformed_json", f"the body is not well-formed JSON: {_reason(error)}") from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _too_deep()
    return value


def _check_type(request: web.BaseRequest) -> None:
    declared = request.headers.get("Content-Type", "")
    media, *parameters = (part.strip().lower() for part in declared.split(";"))
    if media != JSON_TYPE:
        said = f"not {declared!r}" if declared else "and has no Content-Type"
        raise ApiError(415, "unsupported_media_type", f"the body must be declared {JSON_TYPE}, {said}")
    for parameter in parameters:
        if parameter.startswith("charset=") and parameter[8:].strip('"') not in {"utf-8", "utf8"}:
            raise ApiError(415, "unsupported_media_type", f"JSON is UTF-8, not {parameter[8:]}")
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding != "identity":
        raise ApiError(415, "unsupported_encoding", f"the body can't have the content encoding {coding!r}")


async def _read(request: web.BaseRequest, limit: int) -> bytes:
    declared = request.content_length
    if declared is not None and declared > limit:
        raise _too_large(limit)
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _depth(value: Any) -> int:
    """How deep arrays and objects nest, up to one more than is allowed."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        level = [
            member
            for container in level
            if isinstance(container, (list, dict))
            for member in (container.values() if isinstance(container, dict) else container)
        ]
        depth += 1
    return depth


def _too_large(limit: int) -> ApiError:
    return ApiError(413, "too_large", f"the body is larger than {limit} bytes", connection="close")


def _too_deep() -> ApiError:
    return ApiError(400, "too_deep", f"the JSON nests deeper than {MAX_DEPTH} levels")


def _reason(error: ValueError) -> str:
    return str(error).removeprefix("JSON is malformed: ")
