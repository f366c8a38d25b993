"""The call of the API that describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from growd.api.operation import Call, Operation
from growd.bus.fields import Field, Kind
from growd.runtime.event_loop import load
from growd.server.json_answer import JsonAnswer

if TYPE_CHECKING:
    from aiohttp import web

    from growd.api.operations import Api


class ApiDocument:
    """Makes the OpenAPI document when it is asked for, and again after a change of what it describes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._made: dict[bool, bytes] = {}  # with this chamber's names, or without
        self._described = (-1, -1, -1)
        chamber = Field("chamber", Kind.BOOL, default=False, doc="with the names of this chamber")
        self.operations = (
            Operation("GET", "openapi.json", "", "This document", self.read, query=(chamber,)),
        )

    def document(self, *, chamber: bool = False) -> dict[str, Any]:
        """The document; with `chamber` also the paths of this chamber's services and topics."""
        from growd_web.openapi import document, secured  # noqa: PLC0415  only who asks for it needs it

        api = self._api
        described = document(api.operations, api.prefix, api.bus if chamber else None)
        return described if api.access is None else secured(described)

    async def read(self, api: Api, call: Call) -> web.StreamResponse:
        """The document as JSON."""
        await load("growd_web.openapi")
        now = (api.bus.topics.changes, api.bus.services.changes, len(api.operations))
        if self._described != now:
            self._made, self._described = {}, now
        chamber = call.query["chamber"]
        if chamber not in self._made:
            self._made[chamber] = msgspec.json.encode(self.document(chamber=chamber))
        return JsonAnswer(self._made[chamber])
