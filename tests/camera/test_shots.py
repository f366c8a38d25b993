"""Photos by real processes: a JPEG server, and programs in place of rpicam-still."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import encode_basic_auth, web
from PIL import Image

from growd.config.camera import Camera
from growd_camera.shot import Shot, ShotOrder
from growd_camera.shots import Shooting, ShotError, ShotFiles, programs_of
from growd_hwsim.camera import picture
from support.http_server import serving_http
from support.waiting import wait_until

JPEG = picture(0.4, {"white": 200.0}, 640)
"""Made here: the event loop of a test may not wait for it."""
LOGIN = encode_basic_auth("me", "s:t")


@pytest.fixture
def place(tmp_path):
    return ShotFiles(*(tmp_path / f"{name}.part" for name in ShotFiles._fields))


def shooting(limit_s=30.0):
    return Shooting(lambda *_: JPEG, limit_s=limit_s)


@asynccontextmanager
async def served(handler):
    async with serving_http(handler) as url:
        yield url.removeprefix("http://")


def in_network(address):
    return Camera(name="top", kind="http", url=address, width=320)


async def test_a_network_camera_is_asked_with_its_login(place):
    async def snapshot(request):
        if request.headers.get("Authorization") != LOGIN:
            return web.Response(status=401)
        return web.Response(
            body=JPEG if request.query_string == "channel=1" else b"", content_type="image/jpeg"
        )

    async with served(snapshot) as host:
        made = await shooting().take(in_network(f"http://me:s%3At@{host}/snap?channel=1"), "e", place)
        assert made.width == 320
        assert made.leaves.cover_percent == pytest.approx(40, abs=3)
        with pytest.raises(ShotError, match="401"):
            await shooting().take(in_network(f"http://{host}/snap"), "e", place)


async def test_a_redirect_to_another_address_is_not_followed(place):
    asked = []

    async def redirect(request):
        asked.append(request.path)
        raise web.HTTPFound("/other")

    async with served(redirect) as host:
        with pytest.raises(ShotError, match="302"):
            await shooting().take(in_network(f"http://{host}/snap"), "e", place)
    assert asked == ["/snap"]


@pytest.mark.parametrize("body", [b"", JPEG[:5_000]], ids=["empty", "half"])
async def test_what_is_no_picture_is_a_failure_of_the_camera(place, body):
    async def snapshot(_):
        return web.Response(body=body, content_type="image/jpeg")

    async with served(snapshot) as host:
        with pytest.raises(ShotError):
            await shooting().take(in_network(f"http://{host}/"), "e", place)


async def test_an_answer_without_end_is_bounded(place):
    async def snapshot(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(1 << 20))

    async with served(snapshot) as host:
        with pytest.raises(ShotError):
            await shooting().take(in_network(f"http://{host}/"), "e", place)
    assert place.source.stat().st_size <= 64 << 20


@pytest.fixture
def rpicam(tmp_path, monkeypatch):
    """Makes a program rpicam-still; "$OUT" is the file that it is to write."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    (tmp_path / "whole.jpg").write_bytes(JPEG)

    def made(script):
        program = folder / "rpicam-still"
        program.write_text(f"#!/bin/sh\nfor OUT; do :; done\ncd {tmp_path}\necho $$ > pid\n{script}\n")
        program.chmod(0o755)
        return Camera(name="top", kind="rpicam", width=320, rotation=180)

    return made


async def test_rpicam_writes_a_photo(rpicam, place):
    made = await shooting().take(rpicam('cp whole.jpg "$OUT"'), "e", place)
    assert (made.width, made.height) == (320, 240)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'ERROR: *** no cameras available ***' >&2; exit 255", "no cameras available"),
        ('head -c 5000 whole.jpg > "$OUT"', "damaged"),
        ("exit 0", "none"),
        ('head -c 100000000 /dev/zero > "$OUT"', "rpicam-still"),
    ],
    ids=["no camera", "half a file", "no file", "fills the disk"],
)
async def test_a_failing_rpicam_is_a_failure_with_a_reason(rpicam, place, script, words):
    with pytest.raises(ShotError, match=words):
        await shooting().take(rpicam(script), "e", place)
    assert not place.source.exists() or place.source.stat().st_size <= 64 << 20


async def test_a_hanging_rpicam_is_killed_with_its_children(rpicam, place, tmp_path):
    with pytest.raises(ShotError):
        await shooting(limit_s=3.0).take(rpicam("sleep 1000 & echo $! > child; wait"), "e", place)
    for name in ("pid", "child"):
        number = int(await asyncio.to_thread((tmp_path / name).read_text))
        await asyncio.to_thread(wait_until, lambda each=number: not _runs(each))


async def test_a_program_that_is_not_installed_is_named(place, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ShotError, match="rpicam-still or libcamera-still"):
        await shooting().take(Camera(name="top", kind="rpicam"), "e", place)
    with pytest.raises(ShotError, match="ffmpeg"):
        await shooting().take(Camera(name="usb", kind="v4l2"), "e", place)


async def test_the_process_has_a_low_priority_and_bounded_files(rpicam, place, tmp_path):
    await shooting().take(rpicam('nice > nice; ulimit -f > size; cp whole.jpg "$OUT"'), "e", place)
    own = os.nice(0)
    assert int(await asyncio.to_thread((tmp_path / "nice").read_text)) == min(19, own + 15)
    assert int(await asyncio.to_thread((tmp_path / "size").read_text)) == (64 << 20) / 512


async def test_a_simulated_camera_draws_no_larger_picture_than_it_needs(place):
    asked = []
    camera = Camera(name="top", kind="simulated", width=8_000)
    await Shooting(lambda _, width: asked.append(width) or JPEG).take(camera, "e", place)
    assert asked == [1_920]


def test_a_photo_ends_with_its_program_although_growd_was_killed(rpicam, place, tmp_path):
    camera = rpicam("sleep 1000 & echo $! > child; wait")
    programs = [[name, *rest] for name, *rest in programs_of(camera, str(place.source))]
    order = ShotOrder(*map(str, place), width=320, rotation=0, programs=programs)
    program = "import growd_camera.program as p; p.LIMIT_S = -4; p.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    process.communicate(msgspec.json.encode(order))
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: not _runs(int((tmp_path / "pid").read_text())))


def test_a_photo_of_12_megapixels_takes_bounded_memory(place):
    Image.effect_noise((4_056, 3_040), 60).convert("RGB").save(place.source, "jpeg", quality=90)
    order = ShotOrder(*map(str, place), width=1_920, rotation=90)
    program = (
        "import growd_camera.program as p; p.main(); p.sys.stderr.write(open('/proc/self/status').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=msgspec.json.encode(order), capture_output=True, check=True
    )
    picture = msgspec.json.decode(done.stdout, type=Shot).picture
    assert (picture.width, picture.height) == (1_439, 1_920)
    (peak,) = (int(line.split()[1]) for line in done.stderr.decode().splitlines() if line.startswith("VmHWM"))
    assert peak < 100_000  # kB


def _runs(number):
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
