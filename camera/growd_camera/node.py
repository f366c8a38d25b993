"""The node of a camera: takes photos when they are due and when a client asks, and publishes the leaves."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import BusError, NotKeptError, UnknownNameError
from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.bus.services import SUCCESS, refused
from growd.control.controllers import OVERRIDE_S
from growd.control.health import Health, State
from growd.control.topics import commanded, measured
from growd.recipes.position import time_of_day
from growd.runtime.sentence import Sentence
from growd.runtime.worker import WorkerError
from growd.status.notices import CAMERA
from growd.variables import CANOPY_COVER, CANOPY_GREENNESS
from growd_camera.album import AlbumError, Taken, words_of
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
_OF_CAMERA: Final = (ShotError, WorkerError, OSError)
_ERRORS: Final = (AlbumError, *_OF_CAMERA)


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
        self._outcome: CameraPhoto | BaseException | None = None  # of the last photo
        self._health = Health(self.node, environment, camera.name, bus.clock)
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

    async def run(self) -> None:
        """Take photos when they are due, until cancelled.

        The first is taken at once, to see whether the camera works; if it is not due, in the light as it is.
        """
        clock, interval_s, is_first = self._bus.clock, self._camera.interval_s, True
        while True:
            is_due = self._camera.is_due_at(time_of_day(clock.time(), self._zone))
            if is_due or is_first:
                with contextlib.suppress(*_ERRORS):
                    await self.take(in_own_light=is_due)
            is_first = False
            await clock.sleep(interval_s - clock.time() % interval_s)

    async def take(self, *, in_own_light: bool = True) -> CameraPhoto:
        """Take a photo and keep it. Raises `ShotError`, `AlbumError`, OSError and `WorkerError`."""
        async with self._lock:
            self._outcome = None
            try:
                self._outcome = photo = await self._taken(in_own_light=in_own_light)
            except AlbumError as error:
                self._outcome = error
                raise
            except _OF_CAMERA as error:
                self._outcome = error
                self._health.failed(Sentence(_words(error), CAMERA))
                raise
            self._health.succeeded()
        for publisher, value in zip(self._leaves, (photo.canopy_cover, photo.canopy_greenness), strict=False):
            if value is not None:
                publisher.publish(value, time=photo.time)
        if self._on_taken is not None:
            await self._on_taken(photo)
        return photo

    async def _taken(self, *, in_own_light: bool) -> CameraPhoto:
        run, clock, camera = self._worker.run, self._bus.clock, self._camera
        place = await run(self._album.begin, clock.time())
        try:
            async with self._lit() if in_own_light else contextlib.nullcontext():
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
        if not self._levels or self._is_commanded() or self._health.state is State.FAILED:
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
            and self._bus.clock.time() - last.time < OVERRIDE_S
        )

    def _recipe_run(self) -> str:
        """The id of the run of the environment, "" without one."""
        try:
            return str(self._bus.find_node(f"{self._environment}/recipe_runner").detail("run"))
        except (UnknownNameError, KeyError):
            return ""  # growd is starting

    async def _take_for_client(self) -> dict[str, Any]:
        try:
            photo = await self._now()
        except _ERRORS as error:
            words = f"{self._camera.name} took no photo: {_words(error)}"
            if isinstance(error, (AlbumError, OSError)):  # the disk, not the camera
                raise NotKeptError(words) from error
            return refused(words)
        return {
            "success": True,
            "message": f"{self._camera.name} took a photo",
            "photo": msgspec.to_builtins(photo),
        }

    async def _now(self) -> CameraPhoto:
        """A new photo, or the one that is being taken. Raises what `take` raises."""
        if not self._lock.locked():
            return await self.take()
        async with self._lock:
            outcome = self._outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return await self.take() if outcome is None else outcome

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


def _words(error: BaseException) -> str:
    return words_of(error) if isinstance(error, OSError) else str(error)
