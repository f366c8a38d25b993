"""`growd camera`: take, list and film, against a daemon."""

import asyncio
import shutil
from datetime import UTC

import pytest

from growd.config.camera import Camera, PhotoOptions
from growd.runtime.worker import Worker
from growd_camera.album import Album, Taken
from growd_camera.calls import PhotoCalls
from growd_camera.node import CameraNode
from growd_camera.program import prepare
from growd_camera.shots import Shooting
from growd_hwsim.camera import picture
from support.daemon import describe_zone, serving
from support.terminal import typed

LIT, DARK = (picture(0.4, {"white": each}, 320) for each in (200.0, 0.0))
RUN = "0123456789ab:1772323200000-0a1b2c3d4e"
START = 1_772_323_200.0


def take(album, at, *, of=LIT, run=""):
    place = album.begin(at)
    place.source.write_bytes(of)
    made = prepare(place.source, place.target, place.small, width=320, rotation=0)
    return album.keep(place, made, Taken("environment_1", "top", at, run))


@pytest.fixture
async def daemon(tmp_path):
    album, worker = Album(tmp_path, "0123456789ab", PhotoOptions(), UTC), Worker("photos")
    async with serving() as daemon:
        describe_zone(daemon.bus, "UTC")
        calls = PhotoCalls(album, worker, {"environment_1": ["top"]})
        daemon.api.offer(calls.operations)
        camera = Camera(name="top", kind="simulated", width=320)
        CameraNode(
            daemon.bus, "environment_1", camera, album=album, worker=worker,
            shooting=Shooting(lambda *_: LIT), zone=UTC, publishes=False,
        )  # fmt: skip
        await calls.load()
        daemon.album = album
        yield daemon
    await worker.close()


async def camera(daemon, *arguments):
    return await typed("camera", *arguments, "--url", daemon.origin)


async def test_photos_are_taken_and_listed_by_camera_and_run(daemon):
    await asyncio.to_thread(take, daemon.album, START, run=RUN)
    assert (await camera(daemon, "take", "top")).status == 0
    photos = (await camera(daemon, "list", "--json")).json["photos"]
    assert [photo["recipe_run"] for photo in photos] == ["", RUN]
    of_run = (await camera(daemon, "list", "--json", "--run", "0a1b2c")).json["photos"]
    assert [photo["recipe_run"] for photo in of_run] == [RUN]
    for arguments in (("take", "nope"), ("list", "--camera", "nope")):
        printed = await camera(daemon, *arguments)
        assert printed.status == 1
        assert "nope" in printed.err


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
async def test_a_film_has_the_lit_photos_of_a_run_that_are_there(daemon, tmp_path):
    def prepared():
        photos = [take(daemon.album, START + 600 * number, run=RUN) for number in range(6)]
        take(daemon.album, START + 6_000, of=DARK, run=RUN)
        take(daemon.album, START + 6_600)
        daemon.album.file_of(photos[3]).unlink()

    await asyncio.to_thread(prepared)
    film = tmp_path / "film.mp4"
    printed = await camera(daemon, "film", "-o", str(film), "--run", "0a1b2c")
    assert printed.status == 0, printed.err
    assert "left out 1 photo" in printed.err
    assert "5 photos" in printed.err
    assert (await asyncio.to_thread(film.read_bytes))[4:8] == b"ftyp"
    again = await camera(daemon, "film", "-o", str(film), "--run", "ffffff", "--replace")
    assert again.status == 1
