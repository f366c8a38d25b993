"""The calls of the API about the photos of cameras."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from aiohttp import hdrs, web

from growd.api.history import LATEST, time_of
from growd.api.journal import get_photo
from growd.api.operation import Call, Operation
from growd.bus.errors import InvalidValueError, UnknownNameError
from growd.bus.fields import Field, Kind
from growd.bus.names import normalise
from growd.server.client_request import add_own_headers
from growd.server.errors import ApiError
from growd.server.json_answer import json_answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from growd.api.api import Api
    from growd.runtime.worker import Worker
    from growd_camera.album import Album, CameraPhoto

LAST: Final = "latest"
"""In place of an id."""
_PIECE: Final = 64 << 10
_CAMERA: Final = Field("camera", Kind.STRING, default="", max_length=64, doc="only those of this camera")
_RUN: Final = Field(
    "run", Kind.STRING, default="", max_length=200, doc="only those of this run; its id, or the short form"
)
_START: Final = Field("start", Kind.JSON, default=None, doc="UNIX seconds or ISO 8601; default: the first")
_END: Final = Field(
    "end", Kind.JSON, default=None, doc="UNIX seconds or ISO 8601, excluded; default: the last"
)
_LIMIT: Final = Field("limit", Kind.INT64, 1, 1_000, default=100, doc="the most photos")
_SMALL: Final = Field(
    "small", Kind.BOOL, default=False, doc="the preview of a camera's photo, 320 pixels wide"
)
_ENVIRONMENT: Final = Field(
    "environment", Kind.STRING, default="", max_length=64, doc="of `latest`; default: the first one"
)  # fmt: skip


class PhotoCalls:
    """Lists and sends the photos of an album. `cameras` are those of each environment."""

    def __init__(self, album: Album, worker: Worker, cameras: Mapping[str, Sequence[str]]) -> None:
        self.loaded = asyncio.Event()
        self._album = album
        self._worker = worker
        self._cameras = cameras
        self.operations = (
            Operation(
                "GET", "photos", "environment", "List the photos of cameras, newest first", self.list_photos,
                query=(_START, _END, _CAMERA, _RUN, _LIMIT), answer="photos", refusals=(404,),
            ),
            Operation(
                "GET", "photo", "photo",
                "Read a photo of a journal or of a camera; `latest` is the last one of a camera",
                self.get_photo, query=(_ENVIRONMENT, _CAMERA, _SMALL), answer="photo", refusals=(404, 503),
            ),
        )  # fmt: skip

    async def load(self) -> None:
        """Find the photos that are there."""
        await self._worker.run(self._album.load)
        self.loaded.set()

    async def list_photos(self, api: Api, call: Call) -> web.StreamResponse:
        """List photos, newest first."""
        await self.loaded.wait()
        environment, query = self._known(normalise(call.name), call.query), call.query
        start = 0.0 if query["start"] is None else time_of("start", query["start"])
        end = LATEST if query["end"] is None else time_of("end", query["end"])
        if start > end:
            raise InvalidValueError("start", "a time before the end", query["start"])
        found: list[CameraPhoto] = []
        more = False
        of = {"camera": query["camera"], "run": query["run"]}
        for photo in self._album.newest_first(environment, **of, start=start, end=end):
            if len(found) == query["limit"]:
                more = True
                break
            found.append(photo)
        photos = [{**msgspec.to_builtins(photo), "address": _address(api, photo)} for photo in found]
        cameras = self._cameras[environment]
        return json_answer({"environment": environment, "cameras": cameras, "photos": photos, "more": more})

    async def get_photo(self, api: Api, call: Call) -> web.StreamResponse:
        """Answer with a photo; one of a journal has the id of its entry before a slash."""
        name = normalise(call.name)
        if "/" in name:
            return await get_photo(api, call)
        await self.loaded.wait()
        photo = self._latest(call.query) if name == LAST else self._album.find(name)
        if photo is None:
            raise UnknownNameError("photo", name)
        return await self._send(call.request, photo, is_small=call.query["small"], lasts=name != LAST)

    def _latest(self, query: dict[str, Any]) -> CameraPhoto | None:
        environment = self._known(query["environment"] or next(iter(self._cameras)), query)
        photo = next(self._album.newest_first(environment, query["camera"]), None)
        if photo is None and not self._cameras[environment]:
            raise _no_camera(environment)
        return photo

    def _known(self, environment: str, query: dict[str, Any]) -> str:
        """The environment, which has the camera of the query, or photos of it."""
        if environment not in self._cameras:
            raise UnknownNameError("environment", environment)
        camera = query["camera"]
        if camera in {"", *self._cameras[environment]}:
            return environment
        if next(self._album.newest_first(environment, camera), None) is None:
            has_cameras = self._cameras[environment]
            raise UnknownNameError("camera", camera) if has_cameras else _no_camera(environment)
        return environment

    async def _send(
        self, request: web.BaseRequest, photo: CameraPhoto, *, is_small: bool, lasts: bool
    ) -> web.StreamResponse:
        """The JPEG, or 304 if the client has it."""
        response = web.StreamResponse()
        tag = f"{photo.sha256}{'-small' if is_small else ''}"
        response.etag = tag
        response.last_modified = photo.time
        response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'; sandbox"
        response.headers[hdrs.CACHE_CONTROL] = (
            "private, max-age=86400, immutable" if lasts else "private, no-cache"
        )
        add_own_headers(request, response.headers)
        if any(each.value in {tag, "*"} for each in request.if_none_match or ()):
            response.set_status(304)
            await response.prepare(request)
            await response.write_eof()
            return response
        try:
            file = await self._worker.run(partial(self._album.open, small=is_small), photo)
        except OSError:  # it was thinned just now
            raise UnknownNameError("photo", photo.id) from None
        with file:
            response.content_type = "image/jpeg"
            response.content_length = photo.small_bytes if is_small else photo.bytes
            await response.prepare(request)
            if request.method != hdrs.METH_HEAD:
                while piece := await self._worker.run(file.read, _PIECE):
                    await response.write(piece)
            await response.write_eof()
        return response


def _no_camera(environment: str) -> ApiError:
    return ApiError(404, "no_camera", f"no camera is configured for {environment}; add a [[camera]]")


def _address(api: Api, photo: CameraPhoto) -> str:
    return f"{api.prefix}/photo/{quote(photo.id, safe=':')}"
