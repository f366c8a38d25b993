"""The part of a running daemon that takes photos of the plants."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from growd.config import chambers_of
from growd.control.topics import LIGHT_CHANNELS
from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor
from growd.runtime.worker import Worker
from growd_camera.album import Album
from growd_camera.calls import PhotoCalls
from growd_camera.node import CameraNode
from growd_camera.shots import Shooting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.config import Chamber
    from growd.config.camera import Camera
    from growd.parts import Surroundings
    from growd_camera.album import CameraPhoto

_LOOK_S: Final = 0.2
_PUBLISH_S: Final = 30.0  # real seconds


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Offer the calls about photos, and take photos for the body if there is a camera."""
    config = around.present()
    zone = await asyncio.to_thread(config.environment.zone)
    chambers = chambers_of(config)
    album = Album(around.data, around.device, config.photos, zone)
    worker = Worker("photos")
    calls = PhotoCalls(album, worker, [each.environment for each in chambers])
    shooting = Shooting(lambda environment, width: _drawn(around, environment, width))
    nodes = [
        CameraNode(
            around.bus,
            chamber.environment,
            camera,
            album=album,
            worker=worker,
            shooting=shooting,
            zone=zone,
            publishes=number == 0,
            levels=_levels(chamber, camera),
            taken=partial(_send_home, around, album, worker) if config.mqtt.publish else None,
        )
        for chamber in chambers
        for number, camera in enumerate(chamber.options.camera)
    ]
    around.api.offer(calls.operations)
    try:
        async with Supervisor(RealClock(), around.bus.liveness) as supervisor:
            supervisor.start("photos", calls.load)
            for each in nodes:
                supervisor.start(each.node.name, partial(_taking, around, calls, each))
            yield
    finally:
        await worker.close()


async def _taking(around: Surroundings, calls: PhotoCalls, node: CameraNode) -> None:
    """Take photos from when the others are found and the chambers run."""
    await calls.loaded.wait()
    while around.devices() is None:  # noqa: ASYNC110  a few times, while growd starts
        await asyncio.sleep(_LOOK_S)
    await node.run()


async def _send_home(around: Surroundings, album: Album, worker: Worker, photo: CameraPhoto) -> None:
    """Publish a photo at the broker of home automation, retained; without a connection the next one comes."""
    if around.mqtt is None:
        return
    topic = f"{around.present().mqtt.topic}/{around.device}/{photo.environment}/photo/{photo.camera}"
    with contextlib.suppress(OSError, TimeoutError):
        content = await worker.run(album.file_of(photo).read_bytes)
        async with asyncio.timeout(_PUBLISH_S):
            await around.mqtt.publish(topic, content, retain=True)


def _levels(chamber: Chamber, camera: Camera) -> list[float]:
    """The levels of the lamp's channels while a photo is taken, none if the light stays as it is."""
    if camera.light is None:
        return []
    has_white = "white" in chamber.lamp_channels
    return [camera.light if name == "white" or not has_white else 0.0 for name in LIGHT_CHANNELS]


def _drawn(around: Surroundings, environment: str, width: int) -> bytes | None:
    devices = around.devices()
    if devices is None:
        return None
    names = [each.environment for each in chambers_of(around.present())]
    return devices.hardware.picture(names.index(environment), width)
