"""The folder of photos: each is a JPEG with a preview and a document beside it.

`photos/<environment>/<camera>/<day>/` of the data folder has the files of a day. The document is written
first and the JPEG is renamed last, so a photo is there as a whole or not at all. The document of a deleted
photo stays, with another ending, until the database has deleted its copy, too. Calls block, but those of
`Album` that say otherwise.
"""

from __future__ import annotations

import bisect
import contextlib
import logging
import os
import shutil
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import msgspec

from growd.runtime.files import sync_folder, write_atomically
from growd.store.run_documents import stands_for
from growd_camera.shots import ShotFiles

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence
    from datetime import tzinfo

    from growd.config.camera import PhotoOptions
    from growd_camera.shot import Prepared


FOLDER: Final = "photos"
"""In the data folder."""
FREE_BYTES: Final = 200_000_000
"""Of the disk, that photos leave free; of a small disk a twentieth."""
HOURLY_DAYS: Final = 60.0
"""Of older photos one a day stays, if they belong to no run."""

_THINNED_S: Final = 3_600.0  # between two looks at the age of photos
_PART: Final = ".part"
_GONE: Final = ".gone"  # the document of a deleted photo
_log = logging.getLogger(__name__)


class AlbumError(Exception):
    """No photo can be kept; the text says why."""


class Taken(NamedTuple):
    """Where and when a photo was taken (UNIX seconds), and in which run, "" for none."""

    environment: str
    camera: str
    time: float
    recipe_run: str


class CameraPhoto(msgspec.Struct, frozen=True, gc=False):
    """The document of a photo. `time` is UNIX seconds.

    The id is that of a point: device, time in ms, and ten digits, here of the SHA-256.
    """

    id: str
    environment: str
    camera: str
    time: float
    width: int
    height: int
    bytes: int
    small_bytes: int
    sha256: str
    recipe_run: str = ""
    canopy_cover: float | None = None
    canopy_greenness: float | None = None

    @property
    def room(self) -> int:
        """Bytes that it takes on the disk."""
        return self.bytes + self.small_bytes

    @property
    def folder(self) -> Path:
        """Its folder in that of all photos."""
        return Path(self.environment, self.camera, _day(self.time))

    def file(self, *, small: bool = False) -> Path:
        """Its JPEG in the folder of all photos, or its preview.

        The name is the time of day (UTC) with milliseconds, and the digits of the id.
        """
        _, _, rest = self.id.partition(":")
        ms, _, digits = rest.partition("-")
        moment = datetime.fromtimestamp(int(ms) // 1000, UTC)
        stem = f"{moment:%H%M%S}{ms[-3:]}-{digits}"
        return self.folder / f"{stem}{'-small' if small else ''}.jpg"


_decode: Final = msgspec.json.Decoder(CameraPhoto).decode


class Album:
    """The photos of a data folder. Only one thread at a time may call what blocks."""

    def __init__(self, data: Path, device: str, options: PhotoOptions, zone: tzinfo | None) -> None:
        self.path = data / FOLDER
        self.options = options
        self.device = device
        self._zone = zone
        self._photos: list[CameraPhoto] = []  # by id, which is by time
        self._by_id: dict[str, CameraPhoto] = {}
        self.size = 0
        """Bytes that all photos take."""
        self.gone: dict[str, Path] = {}
        """The documents of deleted photos, by id, until `forget`."""
        self.problem: str | None = None
        """Why no photo of any camera can be kept."""
        self._thinned = 0.0

    def load(self) -> None:
        """Find the photos that are there, and delete what was not finished."""
        found: dict[str, CameraPhoto] = {}
        for file in self._files():
            if file.name.endswith(_PART):
                file.unlink()
            elif file.suffix == _GONE and (photo := _read(file)):
                self.gone[photo.id] = file
            elif file.suffix == ".json" and (photo := _read(file)) and self.file_of(photo).exists():
                found[photo.id] = photo
        self._photos = sorted(found.values(), key=lambda photo: photo.id)
        self._by_id = found
        self.size = sum(photo.room for photo in self._photos)

    def find(self, photo_id: str) -> CameraPhoto | None:
        """A photo by its id. Does not block."""
        return self._by_id.get(photo_id)

    def all(self) -> list[CameraPhoto]:
        """All photos, oldest first. Does not block."""
        return [*self._photos]

    def newest_first(
        self, environment: str, camera: str = "", *, run: str = "", start: float = 0.0, end: float = 1e12
    ) -> Iterator[CameraPhoto]:
        """The photos of an environment, perhaps of one camera or run, before `end`. Does not block."""
        for photo in reversed(self._photos[: bisect.bisect_left(self._photos, end, key=lambda at: at.time)]):
            if photo.time < start:
                return
            is_of_run = not run or stands_for(run, photo.recipe_run)
            if photo.environment == environment and camera in {"", photo.camera} and is_of_run:
                yield photo

    def file_of(self, photo: CameraPhoto, *, small: bool = False) -> Path:
        """The JPEG of a photo, or its preview. Does not block."""
        return self.path / photo.file(small=small)

    def open(self, photo: CameraPhoto, *, small: bool = False) -> BinaryIO:
        """The JPEG of a photo, or its preview, to read. Raises OSError if it was thinned just now."""
        return self.file_of(photo, small=small).open("rb")

    def begin(self, now: float) -> ShotFiles:
        """The files of a new photo; thins the others. Raises `AlbumError`."""
        problem: str | None = None
        try:
            self._make_room(now)
        except OSError as error:
            problem = words_of(error)
        except AlbumError as error:
            problem = str(error)
        before, self.problem = self.problem, problem
        if problem is not None:
            if problem != before:
                _log.warning("no photo is kept: %s", problem)
            raise AlbumError(problem)
        if before is not None:
            _log.info("photos are kept again")
        name = f"{os.getpid()}-{os.urandom(4).hex()}"
        return ShotFiles(*(self.path / f"{name}-{part}{_PART}" for part in ("source", "target", "small")))

    def keep(self, place: ShotFiles, picture: Prepared, taken: Taken) -> CameraPhoto:
        """Keep a picture; it is on the disk when this returns. Raises OSError."""
        leaves = picture.leaves
        photo = CameraPhoto(
            f"{self.device}:{int(taken.time * 1000):013d}-{picture.sha256[:10]}",
            taken.environment,
            taken.camera,
            taken.time,
            picture.width,
            picture.height,
            picture.size,
            picture.small_size,
            picture.sha256,
            taken.recipe_run,
            leaves.cover_percent,
            leaves.greenness,
        )  # fmt: skip
        target = self.file_of(photo)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target.with_suffix(".json"), msgspec.json.encode(photo))
        place.small.replace(self.file_of(photo, small=True))
        place.target.replace(target)
        sync_folder(target.parent)
        if photo.id not in self._by_id:
            bisect.insort(self._photos, photo, key=lambda each: each.id)
            self.size += photo.room
        self._by_id[photo.id] = photo
        return photo

    def discard(self, place: ShotFiles) -> None:
        """Delete what is left of a photo that was being taken."""
        for file in place:
            file.unlink(missing_ok=True)

    def thin(self, now: float) -> None:
        """Delete what age and budget ask for. Raises OSError."""
        room = self.options.budget_mb * 1e6
        self._thinned = now
        gone = surplus(self._photos, self.options, now=now, zone=self._zone, room=room)
        if not gone:
            return
        for photo in gone:
            file = self.file_of(photo)
            file.unlink(missing_ok=True)
            self.file_of(photo, small=True).unlink(missing_ok=True)
            self.gone[photo.id] = file.with_suffix(_GONE)
            with contextlib.suppress(FileNotFoundError):  # somebody has deleted it
                file.with_suffix(".json").replace(file.with_suffix(_GONE))
            del self._by_id[photo.id]
            self.size -= photo.room
        self._photos = [photo for photo in self._photos if photo.id in self._by_id]

    def forget(self, ids: Iterable[str]) -> None:
        """The database has no copies of these deleted photos any more. Raises OSError."""
        for each in ids:
            self.gone[each].unlink(missing_ok=True)
            del self.gone[each]

    def _make_room(self, now: float) -> None:
        """Thin photos when it is due. Raises `AlbumError` if there is no room then, and OSError."""
        self.path.mkdir(exist_ok=True)
        room = self.options.budget_mb * 1e6
        if self.size > room or not 0 <= now - self._thinned < _THINNED_S:
            self.thin(now)
        if self.size > room:
            raise AlbumError("the photos of runs take all of [photos] budget_mb: make it larger")
        usage = shutil.disk_usage(self.path)
        if usage.free < min(FREE_BYTES, usage.total / 20):
            raise AlbumError(f"only {usage.free / 1e6:.0f} MB of the disk are free: make room")

    def _files(self) -> Iterator[Path]:
        for folder, folders, names in os.walk(self.path):
            folders.sort()
            yield from (Path(folder, name) for name in names)


def photos_of_run(data: Path, environment: str, run: str, start: float, end: float) -> list[CameraPhoto]:
    """The photos of a run that lasted from `start` to `end`, oldest first, read from a data folder.

    For those who have no `Album`. One of them may be deleted meanwhile.
    """
    days = (
        day
        for day in (data / FOLDER).glob("*/*/*")
        if day.parts[-3] == environment and _day(start) <= day.name <= _day(end)
    )
    found = (_read(file) for day in days for file in day.glob("*.json"))
    return sorted(
        (photo for photo in found if photo is not None and photo.recipe_run == run),
        key=lambda photo: photo.id,
    )


def words_of(error: OSError) -> str:
    """What happened, and to which file."""
    words = error.strerror or str(error) or type(error).__name__
    return words if error.filename is None else f"{error.filename}: {words}"


def _read(file: Path) -> CameraPhoto | None:
    """The document of a photo; None if it is damaged or gone."""
    try:
        return _decode(file.read_bytes())
    except FileNotFoundError:  # thinned just now
        return None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        _log.warning("%s can't be read: %s", file, error)
        return None


def _day(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d")


DAY_S: Final = 86_400.0
_NOON: Final = 12.0
_HOUR: Final = "%Y%m%d%H"
_DAY: Final = "%Y%m%d"


def surplus(
    photos: Sequence[CameraPhoto], options: PhotoOptions, *, now: float, zone: tzinfo | None, room: float
) -> list[CameraPhoto]:
    """The photos to delete, oldest first, so that the others take at most `room` bytes.

    By age one an hour stays, then one a day, but all that belong to a run. If they take more room, what is
    older than a day is thinned in the same two steps, of no run first. Then photos of no run go, and of the
    last day of a run one an hour stays, too. Of a run the first and the last stay, and one of each day: so
    the rest may take more than the room.
    """
    ordered = sorted(photos, key=lambda photo: photo.time)
    rest = _Rest(ordered, zone)
    rest.thin(_HOUR, now - options.keep_days * DAY_S)
    rest.thin(_DAY, now - max(HOURLY_DAYS, options.keep_days) * DAY_S)
    for of_runs in (False, True):
        for unit in (_HOUR, _DAY):
            rest.thin(unit, now - DAY_S, until=room, of_runs=of_runs)
    for photo in ordered:
        if rest.size > room and not photo.recipe_run and photo in rest:
            rest.remove(photo)
    rest.thin(_HOUR, now, until=room, of_runs=True)
    return [photo for photo in ordered if photo not in rest]


class _Rest:
    """The photos that stay."""

    def __init__(self, photos: Iterable[CameraPhoto], zone: tzinfo | None) -> None:
        self._photos = {photo.id: photo for photo in photos}
        self._zone = zone
        self.size = sum(photo.room for photo in self._photos.values())
        self._ends: set[str] = set()
        runs: dict[Hashable, list[str]] = {}
        for photo in self._photos.values():
            if photo.recipe_run:
                runs.setdefault((photo.environment, photo.camera, photo.recipe_run), []).append(photo.id)
        for ids in runs.values():
            self._ends |= {ids[0], ids[-1]}

    def __contains__(self, photo: CameraPhoto) -> bool:
        return photo.id in self._photos

    def remove(self, photo: CameraPhoto) -> None:
        """Take a photo out."""
        del self._photos[photo.id]
        self.size -= photo.room

    def thin(self, unit: str, before: float, *, until: float = -inf, of_runs: bool = False) -> None:
        """Keep one photo of each unit of time before a time, oldest first, until all take so many bytes.

        Of those that belong to no run, or of those `of_runs`.
        """
        groups: dict[Hashable, list[CameraPhoto]] = {}
        for photo in self._photos.values():
            if photo.time < before and bool(photo.recipe_run) == of_runs:
                moment = datetime.fromtimestamp(photo.time, self._zone)
                key = (photo.environment, photo.camera, photo.recipe_run, moment.strftime(unit))
                groups.setdefault(key, []).append(photo)
        for group in groups.values():
            best = min(group, key=self._rank)
            for photo in group:
                if self.size <= until:
                    return
                if photo is not best and photo.id not in self._ends:
                    self.remove(photo)

    def _rank(self, photo: CameraPhoto) -> tuple[bool, float]:
        """A photo with light is better, then one near noon, so that a film has one time of day."""
        moment = datetime.fromtimestamp(photo.time, self._zone)
        return photo.canopy_cover is None, abs(moment.hour + moment.minute / 60 - _NOON)
