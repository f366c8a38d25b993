"""Sentences that a client can make in another language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self


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


def document(text: str) -> dict[str, Any]:
    """A text as JSON: `code`, `fields` and `text`. A text without a code has an empty one."""
    if not isinstance(text, Sentence):
        return {"code": "", "fields": {}, "text": text}
    fields = {
        name: document(value) if isinstance(value, Sentence) else value for name, value in text.fields.items()
    }
    return {"code": text.code, "fields": fields, "text": str(text)}
