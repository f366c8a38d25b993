"""Sentences that a client can make in another language."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from typing import Self


_WORDS: Final = re.compile(r"(?<!^)(?=[A-Z])")


class Sentence(str):
    """A text in English, with the `code` and the `fields` of which a client makes it in its language."""

    __slots__ = ("code", "fields")

    code: str
    fields: dict[str, Any]

    def __new__(cls, text: str, code: str, **fields: Any) -> Self:
        """A sentence. `fields` are JSON values, or sentences."""
        made = super().__new__(cls, text)
        made.code, made.fields = code, fields
        return made


def _as_text(value: object) -> str:
    """Msgspec knows no classes derived from str."""
    if isinstance(value, Sentence):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


encode: Final = msgspec.json.Encoder(enc_hook=_as_text).encode
"""A value as JSON, its sentences as texts."""


def plain(value: Any) -> Any:
    """A value of dicts, lists and texts, as `encode` writes it."""
    return msgspec.to_builtins(value, enc_hook=_as_text)


def document(text: str) -> dict[str, Any]:
    """A text as JSON: `code`, `fields` and `text`. A text without a code has an empty one."""
    if not isinstance(text, Sentence):
        return {"code": "", "fields": {}, "text": text}
    fields = {
        name: document(value) if isinstance(value, Sentence) else value for name, value in text.fields.items()
    }
    return {"code": text.code, "fields": fields, "text": str(text)}


def code_of(text: str) -> dict[str, Any]:
    """The `code` and the `fields` of a text, empty ones if it has none."""
    found = document(text)
    return {"code": found["code"], "fields": found["fields"]}


def reworded(text: str, like: str, **more: Any) -> Sentence:
    """A text with the code and the fields of another one, and `more` fields."""
    found = code_of(like)
    return Sentence(text, found["code"], **found["fields"], **more)


def told(error: BaseException) -> str:
    """What an error says, as the sentence with which it was raised."""
    first = error.args[0] if error.args else ""
    return first if isinstance(first, Sentence) else str(error) or type(error).__name__


def of_error(error: BaseException) -> Sentence:
    """What an error says. The code is the name of its class: "device_missing" of DeviceMissingError."""
    name = type(error).__name__
    return Sentence(str(error) or name, _WORDS.sub("_", name.removesuffix("Error")).lower())


def problem(
    text: str, *, name: str = "", is_failure: bool = False, is_note: bool = False, remedy: str = ""
) -> dict[str, Any]:
    """A problem for the detail `problems` of a node, see `growd.status.model.Problem`."""
    found = {"text": str(text), **code_of(text), "is_failure": is_failure}
    more = (("name", name), ("remedy", remedy), ("is_note", is_note))
    return found | {key: each for key, each in more if each}
