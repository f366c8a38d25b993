"""Reads what a report shows of a run: courses for plots, events, notes and photos."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from growd.bus.errors import UnknownNameError
from growd.store.history.query import HistoryQuery
from growd_analysis.figures.account import LIGHTS
from growd_analysis.reports.plots import WIDTH, Course, Steps
from growd_camera.album import FOLDER, photos_of_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from growd.store.couch import Document
    from growd.store.history.history import History
    from growd_analysis.figures.figures import RunFigures
    from growd_camera.album import CameraPhoto

PHOTO_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/webp"})
SMALL_PHOTO: Final = 1_500_000
LARGEST_PHOTO: Final = 8_000_000
LARGEST_PHOTOS: Final = 12_000_000
"""Bytes of one photo, and of all of a report, that are part of its file. The others are named only.

Small ones come first, so a large one does not take the room of many.
"""

_LIGHT_POINTS: Final = 4_000
_NOTHING: Final = Steps([], [])


class ReadPhoto(NamedTuple):
    """A photo of a note; its address is `data:`, or "" if it is too large for the report."""

    name: str
    size: int
    address: str


PhotoReader = Callable[[str, str, int], Awaitable[ReadPhoto | None]]
"""Reads a photo of a note of up to so many bytes, by the id of the note and its name."""


class CameraShot(NamedTuple):
    """A photo of a camera; its address as `data:`."""

    photo: CameraPhoto
    address: str


class Note(NamedTuple):
    """An entry of the journal."""

    time: float
    by: str
    text: str
    measurements: dict[str, Any]
    photos: list[ReadPhoto]


class RunCourse(NamedTuple):
    """A measured variable and its set point over the time of a run, in UNIX seconds."""

    measured: Course
    set_point: Steps


class RunReading:
    """A run with its figures; reads its courses on demand. Raises `StoreError` and `BusError`."""

    def __init__(self, run: Document, figures: RunFigures, history: History) -> None:
        self.run = run
        self.figures = figures
        self.environment = str(run["environment"])
        self._history = history

    async def course(self, variable: str) -> RunCourse:
        """A variable in as many buckets as a plot is wide."""
        answer = await self._ask((variable,), WIDTH)
        if answer is None:
            return RunCourse(Course(_NOTHING, _NOTHING, _NOTHING), _NOTHING)
        (series,) = answer["series"]
        return RunCourse(
            _course(series, answer["bucket_s"], self.figures), _set_point(series["desired"], self.figures)
        )

    async def dark_spans(self) -> list[tuple[float, float]]:
        """When darkness was planned; empty without planned light."""
        answer = await self._ask(LIGHTS, _LIGHT_POINTS) if self.figures.light_s else None
        if answer is None:
            return []
        plans = [_set_point(series["desired"], self.figures) for series in answer["series"]]
        return _dark(next((plan for plan in plans if any(plan.values)), _NOTHING))

    async def _ask(self, variables: Sequence[str], points: int) -> dict[str, Any] | None:
        """The history of the run; None of an environment that is not configured any more."""
        figures = self.figures
        end = max(figures.end, figures.start + 1)
        query = HistoryQuery(
            self.environment, tuple(variables), figures.start, end, points, with_events=False
        )
        try:
            async with self._history.answering(query) as answer:
                found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
        except UnknownNameError:
            return None
        return found


async def notes_of(described: dict[str, Any], photo: PhotoReader) -> list[Note]:
    """The journal of a described run, with photos of up to `LARGEST_PHOTOS` bytes together."""
    corrections = {note["corrects"]: note["text"] for note in described["notes"] if note.get("corrects")}
    notes = [note for note in described["notes"] if not note.get("corrects")]
    shown = await _photos([(note["id"], name) for note in notes for name in note["photos"]], photo)
    found = []
    for note in notes:
        photos = [shown[key] for name in note["photos"] if (key := (note["id"], name)) in shown]
        text = str(corrections.get(note["id"], note["text"]))
        found.append(Note(note["time"], str(note["by"]), text, note.get("measurements") or {}, photos))
    return found


def camera_shots(data: Path, reading: RunReading) -> list[CameraShot]:
    """The first, middle and last photo of each camera in a run, of those in light if there are any.

    A large one is shown by its preview. `data` is the data folder. Blocks.
    """
    figures = reading.figures
    photos = photos_of_run(data, reading.environment, reading.run["_id"], figures.start, figures.end)
    found = []
    for camera in dict.fromkeys(photo.camera for photo in photos):
        own = [photo for photo in photos if photo.camera == camera]
        lit = [photo for photo in own if photo.canopy_cover is not None] or own
        for photo in dict.fromkeys((lit[0], lit[len(lit) // 2], lit[-1])):
            file = data / FOLDER / photo.file(small=photo.bytes > SMALL_PHOTO)
            with suppress(OSError):  # it was thinned just now
                found.append(CameraShot(photo, data_address("image/jpeg", file.read_bytes())))
    return found


async def _photos(keys: Sequence[tuple[str, str]], photo: PhotoReader) -> dict[tuple[str, str], ReadPhoto]:
    """The photos by note and name, the small ones first."""
    found: dict[tuple[str, str], ReadPhoto] = {}
    left = LARGEST_PHOTOS
    for most in (SMALL_PHOTO, LARGEST_PHOTO):
        for key in keys:
            if key in found and (found[key].address or found[key].size > min(left, most)):
                continue
            read = await photo(*key, min(left, most))
            if read is not None:
                found[key] = read
                left -= read.size if read.address else 0
    return found


def data_address(media: str, content: bytes) -> str:
    """The content of a photo as an address."""
    return f"data:{media};base64,{base64.b64encode(content).decode()}"


def _course(series: dict[str, Any], width: int, figures: RunFigures) -> Course:
    """The buckets as steps, with gaps where no value held."""
    measured, holds_s = series["measured"], series["holds_s"]
    breaks = [*series["breaks"], *(gap.begin for gap in figures.gaps)]
    times: list[float] = []
    rows: list[tuple[float | None, float | None, float | None]] = []
    columns = [measured[name] for name in ("time", "mean", "min", "max")]
    present = [row for row in zip(*columns, strict=True) if row[1] is not None]
    before = measured["before"]
    if before and before["value"] is not None and before["time"] + holds_s > figures.start:
        present.insert(0, (before["time"], *[before["value"]] * 3))
    for n, (begin, *values) in enumerate(present):
        following = present[n + 1][0] if n + 1 < len(present) else figures.end
        times.append(max(begin, figures.start))
        rows.append((values[0], values[1], values[2]))
        ends = [
            begin + width + holds_s,
            *(max(at, begin + width) for at in breaks if begin <= at < following),
        ]
        if min(ends) < following:
            times.append(min(ends))
            rows.append((None, None, None))
    if present:
        times.append(min(figures.end, present[-1][0] + width + holds_s))
        rows.append((None, None, None))
    mean, low, high = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return Course(Steps(times, mean), Steps(times, low), Steps(times, high))


def _set_point(desired: dict[str, Any], figures: RunFigures) -> Steps:
    """The set point as steps, from the one before the start on."""
    before = desired["before"]
    times = [figures.start, *(max(time, figures.start) for time in desired["time"]), figures.end]
    values = [None if before is None else before["value"], *desired["last"], None]
    return Steps(times, values)


def _dark(plan: Steps) -> list[tuple[float, float]]:
    """The spans in which a set point of light is 0 or released."""
    spans: list[tuple[float, float]] = []
    for begin, end, value in zip(plan.times, plan.times[1:], plan.values, strict=False):
        if not value and end > begin:
            if spans and spans[-1][1] == begin:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((begin, end))
    return spans
