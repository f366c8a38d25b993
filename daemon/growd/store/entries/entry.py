"""An entry of a journal, and its documents."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from growd.store.points import DataPoint  # noqa: TC001  msgspec reads the types

_PHOTO_NAME: Final = re.compile(r"photo-[1-9]\.(?:jpg|png|webp)\Z")


class Photo(msgspec.Struct, frozen=True):
    """A photo of an entry: its name, its media type, and its size in bytes."""

    name: str
    type: str
    size: int


class JournalEntry(msgspec.Struct, frozen=True):
    """A text with its photos and the measurements that were made for it.

    `note` has the id, the time, the author and the text. `written` is the UNIX time at which the entry came,
    `corrects` the id of an entry whose text this one replaces, "" for none.
    """

    note: DataPoint
    written: float
    measurements: tuple[DataPoint, ...] = ()
    photos: tuple[Photo, ...] = ()
    corrects: str = ""

    @property
    def id(self) -> str:
        return self.note.id

    def document(self) -> dict[str, Any]:
        """The document of `environmental_event`, without its photos."""
        measured = {point.variable: point.value for point in self.measurements}
        return {
            **self.note.document(),
            "written": self.written,
            **({"measurements": measured} if measured else {}),
            **({"corrects": self.corrects} if self.corrects else {}),
        }

    def photo(self, name: str) -> Photo | None:
        """The photo of this name."""
        return next((photo for photo in self.photos if photo.name == name), None)


def is_photo_name(name: str) -> bool:
    """Whether an attachment of this name is a photo."""
    return _PHOTO_NAME.match(name) is not None
