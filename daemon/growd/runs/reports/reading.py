"""Reads what a report shows of a run: its figures, courses for plots, events, notes and photos."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from growd.runs.account import LIGHTS
from growd.runs.figures import RunFigures
from growd.runs.reports.plots import WIDTH, Course, Steps
from growd.store.history.history import HistoryQuery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from growd.store.couch import Document
    from growd.store.history.history import History

LARGEST_PHOTO: Final = 1_500_000
LARGEST_PHOTOS: Final = 12_000_000
"""Bytes of one photo, and of all of a report, that are part of its file. The others are named only."""

_LIGHT_POINTS: Final = 4_000


class Records(Protocol):
    """What people recorded during a run."""

    async def notes(self, environment: str, start: float, end: float) -> list[dict[str, Any]]:
        """Notes with `id`, `time`, `by`, `text`, `corrects` and the names of their `photos`."""

    async def measurements(
        self, environment: str, start: float, end: float, sensed: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Measurements by hand with `time`, `variable`, `value`, `unit` and `by`."""

    async def photo(self, note_id: str, name: str, most: int) -> tuple[str, int, bytes | None] | None:
        """The media type, size and content of a photo; no content above `most` bytes."""


class Photo(NamedTuple):
    """A photo: its address as `data:`, "" if it is too large for the report."""

    name: str
    size: int
    address: str


class Note(NamedTuple):
    """An entry of the journal."""

    time: float
    by: str
    text: str
    photos: list[Photo]


class RunCourse(NamedTuple):
    """A measured variable and its set point over the time of a run, in UNIX seconds."""

    measured: Course
    set_point: Steps


class RunReading:
    """A run with its figures; reads the rest on demand. Raises `StoreError` and `BusError`."""

    def __init__(self, run: Document, figures: RunFigures, history: History, records: Records) -> None:
        self.run = run
        self.figures = figures
        self.environment = str(run["environment"])
        self._history = history
        self._records = records

    async def course(self, variable: str) -> RunCourse:
        """A variable in as many buckets as a plot is wide."""
        answer = await self._ask((variable,), WIDTH)
        (series,) = answer["series"]
        return RunCourse(
            _course(series, answer["bucket_s"], self.figures), _set_point(series["desired"], self.figures)
        )

    async def dark_spans(self) -> list[tuple[float, float]]:
        """When darkness was planned; empty without planned light."""
        if not self.figures.light_s:
            return []
        answer = await self._ask(LIGHTS, _LIGHT_POINTS)
        plans = [_set_point(series["desired"], self.figures) for series in answer["series"]]
        return _dark(next((plan for plan in plans if any(plan.values)), Steps([], [])))

    async def events(self) -> list[dict[str, Any]]:
        """The newest thousand events."""
        events: list[dict[str, Any]] = (await self._ask((), 2, with_series=False))["events"]
        return [one for one in events if self.figures.start <= one["time"] <= self.figures.end]

    async def notes(self, until: float) -> list[Note]:
        """The journal from the start to a UNIX time, with photos up to `LARGEST_PHOTOS` bytes."""
        stored = await self._records.notes(self.environment, self.figures.start, until)
        corrections = {note["corrects"]: note for note in stored if note.get("corrects")}
        found, left = [], LARGEST_PHOTOS
        for note in stored:
            if note.get("corrects"):
                continue
            text = corrections.get(note["id"], note)["text"]
            photos = []
            for name in note["photos"]:
                photo = await self._photo(note["id"], name, min(left, LARGEST_PHOTO))
                if photo is not None:
                    photos.append(photo)
                    left -= photo.size if photo.address else 0
            found.append(Note(note["time"], str(note["by"]), str(text), photos))
        return found

    async def measurements(self, until: float) -> list[dict[str, Any]]:
        """Measurements by hand from the start to a UNIX time."""
        sensed = [one.variable for one in self.figures.variables]
        return await self._records.measurements(self.environment, self.figures.start, until, sensed)

    async def _photo(self, note_id: str, name: str, most: int) -> Photo | None:
        found = await self._records.photo(note_id, name, most)
        if found is None:
            return None
        media, size, content = found
        address = "" if content is None else f"data:{media};base64,{base64.b64encode(content).decode()}"
        return Photo(name, size, address)

    async def _ask(
        self, variables: Sequence[str], points: int, *, with_series: bool = True
    ) -> dict[str, Any]:
        figures = self.figures
        end = max(figures.end, figures.start + 1)
        query = HistoryQuery(
            self.environment,
            tuple(variables),
            figures.start,
            end,
            points,
            with_series,
            with_events=not with_series,
        )
        async with self._history.answering(query) as answer:
            found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
        return found


async def figures_of(run: Document, make: Callable[[Document], Awaitable[RunFigures]]) -> RunFigures:
    """The figures that an ended run keeps; of others, and of an older form, new ones."""
    if run.get("ended") is not None and run.get("figures"):
        try:
            return msgspec.convert(run["figures"], RunFigures)
        except msgspec.ValidationError:
            pass
    return await make(run)


def _course(series: dict[str, Any], width: int, figures: RunFigures) -> Course:
    """The buckets as steps, with gaps where no value held."""
    measured, holds_s = series["measured"], series["holds_s"]
    breaks = [*series["breaks"], *(gap.begin for gap in figures.gaps)]
    times: list[float] = []
    rows: list[tuple[float | None, float | None, float | None]] = []
    columns = [measured[name] for name in ("time", "mean", "min", "max")]
    present = [row for row in zip(*columns, strict=True) if row[1] is not None]
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
