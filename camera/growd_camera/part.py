"""The part of a running daemon that takes photos of the plants."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.config import chambers_of
from growd.config.mqtt import MQTT_ROOT
from growd.control.topics import LIGHT_CHANNELS
from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor
from growd.runtime.worker import Worker
from growd.store.errors import CouchRefusedError
from growd_camera.album import Album
from growd_camera.calls import PhotoCalls
from growd_camera.node import CameraNode
from growd_camera.records import PhotoRecords
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
    cameras = {each.environment: [camera.name for camera in each.options.camera] for each in chambers}
    calls = PhotoCalls(album, worker, cameras)
    replication = config.replication
    has_pictures = bool(replication.url) and replication.photos == "up"
    records = PhotoRecords(around.database, album, worker, RealClock(), has_pictures=has_pictures)
    around.database.when_up(records.work.wake)
    around.bus.node("photos").describe("problems", partial(_problems, album, records))
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
            taken=partial(_taken, around, album, worker, records),
        )
        for chamber in chambers
        for number, camera in enumerate(chamber.options.camera)
    ]
    around.api.offer(calls.operations)
    try:
        async with Supervisor(RealClock(), around.bus.liveness) as supervisor:
            supervisor.start("photos", calls.load)
            if nodes:
                supervisor.start("documents of photos", partial(_recording, calls, records))
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


async def _recording(calls: PhotoCalls, records: PhotoRecords) -> None:
    """Mirror the album into the database once it is loaded."""
    await calls.loaded.wait()
    await records.work.run()


async def _taken(
    around: Surroundings, album: Album, worker: Worker, records: PhotoRecords, photo: CameraPhoto
) -> None:
    """Let the database have its document, and publish it at the broker of home automation, retained.

    Without a connection there the next photo comes.
    """
    records.work.wake()
    if around.mqtt is None or not around.present().mqtt.publish:
        return
    topic = f"{MQTT_ROOT}/{around.device}/{photo.environment}/photo/{photo.camera}"
    with contextlib.suppress(OSError, TimeoutError):
        content = await worker.run(album.file_of(photo).read_bytes)
        async with asyncio.timeout(_PUBLISH_S):
            await around.mqtt.publish(topic, content, retain=True)


def _problems(album: Album, records: PhotoRecords) -> list[dict[str, Any]]:
    """What keeps photos of all cameras from being kept, and documents of photos that the database refuses."""
    found = []
    if album.problem is not None:
        found.append(("no photo is kept", album.problem, "photos_not_kept", True))
    if isinstance(records.fault.reason, CouchRefusedError):
        found.append(("the database refuses photos", str(records.fault), "photos_refused", False))
    return [
        {
            "text": f"{lead}: {reason}",
            "is_failure": is_failure,
            "code": code,
            "fields": {"reason": reason},
            "name": code,
        }
        for lead, reason, code, is_failure in found
    ]


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
