"""The calls of the API about journals: entries with photos, written and listed."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from aiohttp import BodyPartReader, hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from growd.api.history import LATEST, time_of
from growd.api.operation import Body, Call, Operation
from growd.api.requests import decoded
from growd.bus.errors import BusError, InvalidValueError, UnknownNameError, shown
from growd.bus.fields import Field, Kind
from growd.bus.names import normalise
from growd.server.client_request import add_own_headers, client_of, send_continue
from growd.server.errors import ApiError
from growd.server.json_answer import json_answer
from growd.store.entries.journal import EntryFields
from growd.store.entries.listing import JournalQuery
from growd.store.errors import PhotoError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import MultipartReader

    from growd.api.api import Api
    from growd.store.entries.journal import EntryUpload, GrowersJournal, OpenPhoto

MOST_PHOTOS: Final = 8
PHOTO_BYTES: Final = 16 * 1024 * 1024
PHOTOS_BYTES: Final = 32 * 1024 * 1024
"""Of all photos of an entry: the embedded database holds them in memory."""
_ENTRY_BYTES: Final = 64 * 1024
_PIECE: Final = 64 * 1024
_BODY_BYTES: Final = PHOTOS_BYTES + 2 * _ENTRY_BYTES

ENTRY: Final = Body(
    (dict,),
    members=(
        Field("text", Kind.STRING, default="", max_length=2_000),
        Field("time", Kind.FLOAT64, 0, unit="s", default=0.0, doc="UNIX time in the past; 0: now"),
        Field(
            "by", Kind.STRING, default="", max_length=100,
            doc="the author, for the record; with a login it is the user",
        ),
        Field("measurements", Kind.JSON, default={}, doc="values that were measured by hand, by variable"),
        Field(
            "corrects", Kind.STRING, default="", max_length=100,
            doc="the id of an entry whose text this one replaces",
        ),
    ),
    required=False,
    with_photos=True,
)  # fmt: skip
JOURNAL_QUERY: Final = (
    Field("start", Kind.JSON, default=None, doc="UNIX seconds or ISO 8601; default: the first entry"),
    Field("end", Kind.JSON, default=None, doc="UNIX seconds or ISO 8601, excluded; default: the last entry"),
    Field(
        "search", Kind.STRING, default="", max_length=200, doc="a part of the text, the author or a variable"
    ),
    Field("limit", Kind.INT64, 1, 1_000, default=100, doc="the most entries"),
)


def entry_fields(body: Mapping[str, Any]) -> EntryFields:
    """The fields of an entry from its checked members. Raises `InvalidValueError`."""
    measurements = body["measurements"]
    if not isinstance(measurements, dict):
        raise InvalidValueError("measurements", "an object with a value for each variable", measurements)
    return EntryFields(body["text"], body["time"], measurements, body["corrects"])


def journal_query(environment: str, values: Mapping[str, Any]) -> JournalQuery:
    """The query of a list. Raises `InvalidValueError`."""
    start = 0.0 if values["start"] is None else time_of("start", values["start"])
    end = LATEST if values["end"] is None else time_of("end", values["end"])
    if start > end:
        raise InvalidValueError("start", "a time before the end", values["start"])
    return JournalQuery(environment, start, end, values["limit"], values["search"].strip())


class EntryForm:
    """Reads a form: a part `entry` with JSON, and a part `photo` for each photo; other parts are refused.

    A client may take `stall_s` seconds for the next bytes, and `whole_s` for all.
    """

    def __init__(self, stall_s: float, whole_s: float) -> None:
        self._stall_s = stall_s
        self._whole_s = whole_s

    async def read(self, request: web.BaseRequest, upload: EntryUpload) -> dict[str, Any]:
        """Write the photos into `upload`; the checked members of the entry. Raises `ApiError`, `BusError`."""
        _check_length(request)
        send_continue(request)
        try:
            async with asyncio.timeout(self._whole_s):
                return await self._read_parts(await request.multipart(), upload)
        except TimeoutError:
            sentence = "the photos did not arrive in time"
            raise ApiError(HTTPStatus.REQUEST_TIMEOUT, "body_timeout", sentence, closes=True) from None
        except BusError:
            raise  # some are ValueErrors
        except (ValueError, RuntimeError, ConnectionError, HttpProcessingError):  # RuntimeError: it closed
            sentence = "the form is incomplete or malformed"
            raise ApiError(400, "incomplete_body", sentence, closes=True) from None

    async def _read_parts(self, form: MultipartReader, upload: EntryUpload) -> dict[str, Any]:
        entry: Any = None
        while (part := await self._in_time(form.next())) is not None:
            name = part.name if isinstance(part, BodyPartReader) else None
            if name == "photo":
                await self._read_photo(part, upload)
            elif name == "entry" and entry is None:
                entry = await self._read_entry(part)
            else:
                found = "two parts entry" if name == "entry" else f"the part {shown(name or '')}"
                sentence = f"the form has {found}; known: one part entry, and photo"
                raise ApiError(400, "invalid_body", sentence, closes=True)
        checked: dict[str, Any] = ENTRY.check({} if entry is None else entry)
        return checked

    async def _read_entry(self, part: BodyPartReader) -> Any:
        text = bytearray()
        while piece := await self._in_time(part.read_chunk(_PIECE)):
            text += piece
            if len(text) > _ENTRY_BYTES:
                raise _too_large(f"the part entry is larger than {_ENTRY_BYTES} bytes")
        entry = decoded(text, "part entry")
        return [] if entry is None else entry  # null is refused as other values that are no object

    async def _read_photo(self, part: BodyPartReader, upload: EntryUpload) -> None:
        number = len(upload.photos) + 1
        if number > MOST_PHOTOS:
            raise _too_large(f"an entry may have at most {MOST_PHOTOS} photos")
        size = 0
        while piece := await self._in_time(part.read_chunk(_PIECE)):
            size += len(piece)
            if size > PHOTO_BYTES:
                raise _too_large(f"photo {number} is larger than {PHOTO_BYTES} bytes")
            await upload.write(piece)
        try:
            await upload.finish_photo()
        except PhotoError as error:
            sentence = f"photo {number} can't be taken: {error}"
            raise ApiError(415, "invalid_photo", sentence, closes=True) from None

    async def _in_time(self, reading: Any) -> Any:
        async with asyncio.timeout(self._stall_s):
            return await reading


async def send_photo(request: web.BaseRequest, photo: OpenPhoto) -> web.StreamResponse:
    """Answer with a photo, as a picture and nothing else."""
    response = web.StreamResponse()
    response.content_type = photo.type
    response.content_length = photo.size
    response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'; sandbox"
    response.headers[hdrs.CACHE_CONTROL] = "private, max-age=86400, immutable"  # it never changes
    add_own_headers(request, response.headers)
    await response.prepare(request)
    if request.method != "HEAD":
        async for piece in photo.pieces:
            await response.write(piece)
    await response.write_eof()
    return response


def _check_length(request: web.BaseRequest) -> None:
    if request.content_length is None:
        sentence = "a form needs a Content-Length"
        raise ApiError(HTTPStatus.LENGTH_REQUIRED, "length_required", sentence, closes=True)
    if request.content_length > _BODY_BYTES:
        raise _too_large(f"the photos of an entry are larger than {PHOTOS_BYTES} bytes together")


def _too_large(sentence: str) -> ApiError:
    return ApiError(413, "too_large", sentence, closes=True)


_SAVED: Final = {"message": "Saved the entry"}


async def save_entry(api: Api, call: Call) -> web.StreamResponse:
    """Save an entry; it is on the disk before the answer."""
    environment = normalise(call.name)
    journal = _journal(api, environment)
    if call.body is not None:
        entry = await _draft(api, journal, call, call.body)
        return _saved(api, journal, await api.to_end(journal.keep(entry), "keep an entry"))
    form = EntryForm(api.limits.body_stall_s, api.limits.form_s)
    async with journal.receiving(client_of(call.request)) as upload:
        entry = await _draft(api, journal, call, await form.read(call.request, upload))
        return _saved(api, journal, await api.to_end(journal.keep(entry, upload), "keep an entry"))


async def list_entries(api: Api, call: Call) -> web.StreamResponse:
    """List entries, newest first."""
    environment = normalise(call.name)
    journal = _journal(api, environment)
    entries, more, missing = await journal.reader.read(journal_query(environment, call.query))
    listed = [_addressed(api, entry) for entry in entries]
    return json_answer({"environment": environment, "entries": listed, "more": more, "missing": missing})


async def get_photo(api: Api, call: Call) -> web.StreamResponse:
    """Answer with a photo."""
    entry_id, _, name = normalise(call.name).partition("/")
    if api.journal is None:
        raise UnknownNameError("photo", call.name)
    async with api.journal.photo(entry_id, name) as photo:
        return await send_photo(call.request, photo)


def _journal(api: Api, environment: str) -> GrowersJournal:
    if api.journal is None:
        raise UnknownNameError("environment", environment)
    api.journal.check_environment(environment)
    return api.journal


async def _draft(api: Api, journal: GrowersJournal, call: Call, body: dict[str, Any]) -> Any:
    who = api.who(call.request, body["by"])
    return await journal.draft(normalise(call.name), entry_fields(body), who)


def _saved(api: Api, journal: GrowersJournal, entry: Any) -> web.StreamResponse:
    return json_answer(_SAVED | _addressed(api, journal.reader.described(entry)))


def _addressed(api: Api, entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with the addresses of its photos."""
    folder = f"{api.prefix}/photo/{quote(entry['id'], safe=':')}"
    photos = [{**photo, "address": f"{folder}/{photo['name']}"} for photo in entry["photos"]]
    return {**entry, "photos": photos}


JOURNAL_OPERATIONS: Final = (
    Operation(
        "GET", "journal", "environment", "List the entries of a journal, newest first", list_entries,
        query=JOURNAL_QUERY, answer="entries", refusals=(404,),
    ),
    Operation(
        "POST", "journal", "environment",
        "Save a text, measurements by hand and photos in a journal; they are on disk before the answer",
        save_entry, body=ENTRY, answer="entry", refusals=(403, 404, 411, 507),
    ),
    Operation(
        "GET", "photo", "photo", "Read a photo of a journal", get_photo, answer="photo", refusals=(404, 503),
    ),
)  # fmt: skip
