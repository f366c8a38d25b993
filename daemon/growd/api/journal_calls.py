"""The calls of the API about journals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from growd.api.journal import (
    ENTRY,
    JOURNAL_QUERY,
    EntryForm,
    entry_fields,
    journal_query,
    send_photo,
)
from growd.api.operation import Call, Operation
from growd.bus.errors import UnknownNameError
from growd.bus.names import normalise
from growd.server.client_request import client_of
from growd.server.errors import ApiError
from growd.server.json_answer import json_answer
from growd.store.errors import CouchError

if TYPE_CHECKING:
    from aiohttp import web

    from growd.api.operations import Api
    from growd.store.entries.journal import GrowersJournal

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
    try:
        async with api.journal.photo(entry_id, name) as photo:
            return await send_photo(call.request, photo)
    except CouchError as error:
        if call.request.writer.output_size:
            raise  # the answer has begun
        raise _unavailable(error) from None


def _journal(api: Api, environment: str) -> GrowersJournal:
    if api.journal is None:
        raise UnknownNameError("environment", environment)
    api.journal.check_environment(environment)
    return api.journal


async def _draft(api: Api, journal: GrowersJournal, call: Call, body: dict[str, Any]) -> Any:
    try:
        who = api.who(call.request, body["by"])
        return await journal.draft(normalise(call.name), entry_fields(body), who)
    except CouchError as error:
        raise _unavailable(error) from None


def _saved(api: Api, journal: GrowersJournal, entry: Any) -> web.StreamResponse:
    return json_answer(_SAVED | _addressed(api, journal.reader.described(entry)))


def _addressed(api: Api, entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with the addresses of its photos."""
    folder = f"{api.prefix}/photo/{quote(entry['id'], safe=':')}"
    photos = [{**photo, "address": f"{folder}/{photo['name']}"} for photo in entry["photos"]]
    return {**entry, "photos": photos}


def _unavailable(error: CouchError) -> ApiError:
    return ApiError(503, "database_unavailable", str(error), {"Retry-After": "5"})


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
