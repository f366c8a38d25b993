"""`growd camera`: take and list photos of cameras, and make a film of them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click
import msgspec

from growd.bus.errors import counted
from growd.runtime.text import moment
from growd_camera.album import CameraPhoto
from growd_camera.film import Film, FilmError
from growd_cli.options import (
    client_options,
    environment_option,
    output_option,
    refuse,
    refuse_existing,
    replace_option,
)
from growd_cli.output import output_options, print_json, print_result, table, text_of
from growd_cli.terminal import echo_text, progress
from growd_cli.times import FORMS, span_of, zone_of
from growd_client.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from growd_cli.options import DaemonOptions
    from growd_client.connection import DaemonClient

_PAGE = 1_000  # photos in one answer
_TAKE_S = 60.0  # a camera may be asked for 30 s, and wait for another photo
_Span = tuple[float | None, float | None]
_HEADINGS = ("time", "camera", "size", "kB", "cover", "greenness", "id")


class _Photo(CameraPhoto, frozen=True, kw_only=True, gc=False):
    address: str


class _Photos(msgspec.Struct):
    cameras: list[str]
    photos: list[_Photo]
    more: bool


camera_option = click.option(
    "--camera", "name", default="", metavar="NAME", help="Only photos of this camera."
)
run_option = click.option("--run", default="", metavar="ID", help="Only photos of this run of a recipe.")
start_option = click.option("--start", metavar="TIME", help=f"Only photos from this time on: {FORMS}.")
end_option = click.option("--end", metavar="TIME", help="Only photos before this time.")


@click.group()
def camera() -> None:
    """Take and list photos of the cameras, and make a film of them."""


@camera.command()
@click.argument("name")
@environment_option
@output_options
@client_options
def take(*, daemon: DaemonOptions, environment: str | None, name: str, as_json: bool) -> None:
    """Take a photo with the camera NAME now.

    Exit status: 0; 1 if the camera gave none; 3 if no daemon answers.
    """
    where = daemon.environment(environment)
    with daemon.client(_TAKE_S) as client:
        try:
            reply = client.post("service", f"{where}/camera/{name}/take", {}, kind=dict[str, Any])
        except NotFoundError:
            known = ", ".join(_listed(client, where, (None, None), 1).cameras) or "none"
            refuse(f"{where} has no camera named {text_of(name)}; its cameras: {known}")
    if as_json:
        print_json(reply)
    else:
        echo_text(f"growd: {text_of(reply['message'])}", err=True)


@camera.command("list")
@camera_option
@run_option
@start_option
@end_option
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, _PAGE),
    default=20,
    show_default=True,
    metavar="COUNT",
    help="Print the newest COUNT photos.",
)
@environment_option
@output_options
@client_options
def list_command(
    *,
    daemon: DaemonOptions,
    environment: str | None,
    name: str,
    run: str,
    start: str | None,
    end: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List photos, newest first, with the share of leaves.

    Exit status: 0; 3 if no daemon answers.
    """
    where = daemon.environment(environment)
    with daemon.client() as client:
        zone = zone_of(client)
        span = span_of(client, start, end)
        found = _listed(client, where, span, limit, camera=name or None, run=run or None)
    lines = table(_HEADINGS, [_row(photo, zone) for photo in found.photos])
    print_result(found, lines, as_json=as_json)
    if found.more and not as_json:
        echo_text(f"\nolder photos follow; --limit prints more than {limit}", err=True)


@camera.command()
@output_option("Write the film to FILE (MP4).", required=True)
@replace_option
@camera_option
@run_option
@start_option
@end_option
@click.option(
    "--fps",
    type=click.FloatRange(1, 60),
    help="Photos in each second. Default: as many that the film lasts ten seconds, but 4 to 24.",
)
@click.option("--night", is_flag=True, help="Also photos of the dark.")
@environment_option
@client_options
def film(
    *,
    daemon: DaemonOptions,
    environment: str | None,
    path: Path,
    replace: bool,
    name: str,
    start: str | None,
    end: str | None,
    fps: float | None,
    run: str,
    night: bool,
) -> None:
    """Make a film of photos, by ffmpeg. Those that were taken in the dark are left out.

    Without --camera it has the photos of the camera of the newest one.

    Exit status: 0; 1 if there is no photo, if FILE exists, or if the film can't be made; 3 if no daemon
    answers.
    """
    refuse_existing(path, replace=replace)
    where = daemon.environment(environment)
    with daemon.client() as client:
        span = span_of(client, start, end)
        photos = [
            each
            for each in all_photos(client, where, span, camera=name or None, run=run or None)
            if night or each.canopy_cover is not None
        ]
        if not photos:
            refuse("there is no such photo")
        shown = [each for each in reversed(photos) if each.camera == photos[0].camera]
        fps = fps or min(24.0, max(4.0, len(shown) / 10))
        try:
            frames = _filmed(client, shown, path, fps)
        except FilmError as error:
            path.unlink(missing_ok=True)
            refuse(error)
    if not frames:
        refuse("growd has the documents of these photos, but not their files")
    if missing := len(shown) - frames:
        echo_text(f"growd: left out {counted(missing, 'photo')} whose file is gone", err=True)
    echo_text(f"growd: {path} has {counted(frames, 'photo')}, {frames / fps:.1f} s", err=True)


def _filmed(client: DaemonClient, photos: Sequence[CameraPhoto], path: Path, fps: float) -> int:
    """Make a film of the photos that are there; how many that are. Raises `FilmError`."""
    with Film(path, fps) as made, progress("film", len(photos)) as report:
        for number, photo in enumerate(photos, 1):
            with contextlib.suppress(NotFoundError):
                made.add(client.page("photo", photo.id))
            report(number)
    return made.frames


def _listed(client: DaemonClient, environment: str, span: _Span, limit: int, **only: str | None) -> _Photos:
    start, end = span
    given = {"start": start, "end": end, "limit": limit, **only}
    query = urlencode({name: value for name, value in given.items() if value is not None})
    return client.get("photos", environment, query=query, kind=_Photos)


def all_photos(
    client: DaemonClient, environment: str, span: _Span = (None, None), **only: str | None
) -> Iterator[CameraPhoto]:
    """The photos of a span, newest first, read page by page; `only` those of a `camera` or a `run`."""
    start, end = span
    while True:
        page = _listed(client, environment, (start, end), _PAGE, **only)
        yield from page.photos
        if not page.more:
            return
        end = page.photos[-1].time


def _row(photo: _Photo, zone: tzinfo | None) -> tuple[str, ...]:
    cover, greenness = photo.canopy_cover, photo.canopy_greenness
    return (
        moment(photo.time, zone),
        text_of(photo.camera),
        f"{photo.width}x{photo.height}",
        f"{photo.bytes / 1000:.0f}",
        "-" if cover is None else f"{cover:.1f} %",
        "-" if greenness is None else f"{greenness:.3f}",
        text_of(photo.id),
    )
