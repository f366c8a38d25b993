"""The node of a camera: takes photos when they are due and when a client asks, and publishes the leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import BusError, UnknownNameError
from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.bus.services import SUCCESS
from growd.control.topics import commanded, measured
from growd.recipes.position import time_of_day
from growd.runtime.task_fault import TaskFault
from growd.runtime.worker import WorkerError
from growd.variables import CANOPY_COVER, CANOPY_GREENNESS
from growd_camera.album import NoRoomError, Taken
from growd_camera.shots import ShotError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config.camera import Camera
    from growd.runtime.worker import Worker
    from growd_camera.album import Album, CameraPhoto
    from growd_camera.shots import Shooting

SETTLE_S: Final = 3.0
"""From the command of the light until the photo."""
_REPEAT_S: Final = 3.0  # a lamp forgets a command after `stale_after_s`, 10 s by default
_OVERRIDE_S: Final = 600.0  # a command by hand that is older has ended (`override_s`)
_ERRORS: Final = (ShotError, NoRoomError, WorkerError, OSError)
_log = logging.getLogger(__name__)


class CameraNode:
    """A camera of an environment. The first one there `publishes` what it sees of the leaves.

    One photo at a time. `levels` are those of the lamp's channels meanwhile, if it has a light. `zone` is
    that of times of day. `taken` is awaited with each photo and raises nothing. The service
    `<environment>/camera/<name>/take` takes a photo now.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        camera: Camera,
        *,
        album: Album,
        worker: Worker,
        shooting: Shooting,
        zone: tzinfo | None,
        publishes: bool,
        levels: Sequence[float] = (),
        taken: Callable[[CameraPhoto], Awaitable[None]] | None = None,
    ) -> None:
        self.node = bus.node(f"{environment}/camera/{camera.name}")
        self._bus = bus
        self._environment = environment
        self._camera = camera
        self._album = album
        self._worker = worker
        self._shooting = shooting
        self._zone = zone
        self._levels = levels
        self._on_taken = taken
        self._lock = asyncio.Lock()
        self._fault = TaskFault(
            _log, f"{self.node.name} takes no photos", f"{self.node.name} takes photos again"
        )
        self._light = commanded(environment, "light_channels")
        names = (CANOPY_COVER, CANOPY_GREENNESS) if publishes else ()
        self._leaves = [self.node.publisher(measured(environment, name)) for name in names]
        self.node.serve(
            f"{self.node.name}/take",
            "growd/TakePhoto",
            self._take_for_client,
            reply=(*SUCCESS, Field("photo", Kind.JSON, default=None, doc="its document")),
            doc="Take a photo now.",
        )
        self.node.describe("camera", self._described)
        self.node.describe("problems", self._problems)

    async def run(self) -> None:
        """Take photos when they are due, until cancelled. The first is due at once."""
        clock, interval_s = self._bus.clock, self._camera.interval_s
        while True:
            if self._camera.is_due_at(time_of_day(clock.time(), self._zone)):
                with contextlib.suppress(*_ERRORS):
                    await self.take()
            await clock.sleep(interval_s - clock.time() % interval_s)

    async def take(self) -> CameraPhoto:
        """Take a photo and keep it. Raises `ShotError`, `NoRoomError`, OSError and `WorkerError`."""
        async with self._lock:
            try:
                photo = await self._taken()
            except _ERRORS as error:
                self._fault.failed(_words(error))
                raise
            self._fault.succeeded()
        for publisher, value in zip(self._leaves, (photo.canopy_cover, photo.canopy_greenness), strict=False):
            if value is not None:
                publisher.publish(value, time=photo.time)
        if self._on_taken is not None:
            await self._on_taken(photo)
        return photo

    async def _taken(self) -> CameraPhoto:
        run, clock, camera = self._worker.run, self._bus.clock, self._camera
        place = await run(self._album.begin, clock.time())
        try:
            async with self._lit():
                moment, recipe_run = clock.time(), self._recipe_run()
                picture = await self._shooting.take(camera, self._environment, place)
            taken = Taken(self._environment, camera.name, moment, recipe_run)
            return await run(self._album.keep, place, picture, taken)
        finally:
            with contextlib.suppress(OSError, WorkerError):
                await run(self._album.discard, place)

    @contextlib.asynccontextmanager
    async def _lit(self) -> AsyncIterator[None]:
        """The light that the camera asks for, as a command by hand, which ends with the body.

        `Shooting` bounds the time. A command of somebody else stays in force. A camera that fails gets no
        light until it gives a photo again.
        """
        if not self._levels or self._is_commanded() or self._fault.reason is not None:
            yield
            return
        commanding = asyncio.create_task(self._command_light(), name=f"{self.node.name}: light")
        try:
            await self._bus.clock.sleep(SETTLE_S)
            yield
        finally:
            commanding.cancel()
            await asyncio.gather(commanding, return_exceptions=True)
            with contextlib.suppress(BusError):
                self.node.publish_arguments(self._light, [None])

    async def _command_light(self) -> None:
        while True:
            with contextlib.suppress(BusError):  # there is no lamp yet, or the outputs are held
                self.node.publish_arguments(self._light, self._levels)
            await self._bus.clock.sleep(_REPEAT_S)

    def _is_commanded(self) -> bool:
        """Whether somebody else commands the lamp by hand."""
        last = self._bus.topics.get(self._light).last
        return (
            last is not None
            and last.quality is Quality.OK
            and last.node != self.node.name
            and self._bus.clock.time() - last.time < _OVERRIDE_S
        )

    def _recipe_run(self) -> str:
        """The id of the run of the environment, "" without one."""
        try:
            return str(self._bus.find_node(f"{self._environment}/recipe_runner").detail("run"))
        except (UnknownNameError, KeyError):
            return ""  # growd is starting

    async def _take_for_client(self) -> dict[str, Any]:
        if self._lock.locked():
            return {"success": False, "message": f"{self._camera.name} is taking a photo"}
        try:
            photo = await self.take()
        except _ERRORS as error:
            return {"success": False, "message": f"{self._camera.name} took no photo: {_words(error)}"}
        return {
            "success": True,
            "message": f"took the photo {photo.id}",
            "photo": msgspec.to_builtins(photo),
        }

    def _described(self) -> dict[str, Any]:
        camera = self._camera
        last = next(self._album.newest_first(self._environment, camera.name), None)
        return {
            "environment": self._environment,
            "name": camera.name,
            "kind": camera.kind,
            "interval_s": camera.interval_s,
            "last": None if last is None else msgspec.to_builtins(last),
        }

    def _problems(self) -> list[dict[str, Any]]:
        if self._fault.reason is None:
            return []
        fields = {"camera": self._camera.name, "reason": str(self._fault)}
        text = f"the camera {self._camera.name} takes no photos: {self._fault}"
        return [
            {
                "text": text,
                "is_failure": True,
                "code": "camera_failed",
                "fields": fields,
                "name": self.node.name,
            }
        ]


def _words(error: BaseException) -> str:
    if isinstance(error, OSError):
        words = error.strerror or str(error) or type(error).__name__
        return words if error.filename is None else f"can't keep it in {error.filename}: {words}"
    return str(error)
