"""Who may see photos, and who may take them, on a growd with logins."""

import asyncio
from datetime import UTC

from growd.config.camera import Camera, PhotoOptions
from growd.runtime.worker import Worker
from growd_camera.album import Album
from growd_camera.calls import PhotoCalls
from growd_camera.node import CameraNode
from growd_camera.shots import Shooting
from growd_hwsim.camera import picture
from support.guarded import guarded_daemon, users_of
from support.session_server import ADMIN, session_server

JPEG = picture(0.4, {"white": 200.0}, 640)
API = "/_svc/api/0.0.1"


async def test_readers_see_photos_and_operators_take_them(tmp_path):
    album = Album(tmp_path, "0123456789ab", PhotoOptions(), UTC)
    worker = Worker("photos")
    async with (
        session_server() as database,
        users_of(database.url, ADMIN) as users,
        guarded_daemon(database.url) as daemon,
    ):
        calls = PhotoCalls(album, worker, {"environment_1": ["top"]})
        daemon.api.offer(calls.operations)
        CameraNode(
            daemon.bus,
            "environment_1",
            Camera(name="top", kind="simulated", width=320),
            album=album,
            worker=worker,
            shooting=Shooting(lambda *_: JPEG),
            zone=UTC,
            publishes=False,
        )
        await calls.load()
        reader, operator = await users.add("growd_reader"), await users.add("growd_operator")
        take = "environment_1/camera/top/take"
        assert [(await daemon.call(take, login)).status for login in (None, reader)] == [401, 403]
        taken = await daemon.call(take, operator)
        assert taken.status == 200, taken.body
        for path in ("photos/environment_1", f"photo/{taken.json['photo']['id']}", "photo/latest"):
            statuses = [
                (await daemon.request("GET", f"{API}/{path}", login)).status
                for login in (None, reader, operator)
            ]
            assert statuses == [401, 200, 200], path
    await asyncio.shield(worker.close())
