"""Which photos go when they grow old, and when their room is used up."""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from datetime import tzinfo

    from growd.config.camera import PhotoOptions
    from growd_camera.album import CameraPhoto

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
    rest.thin(_DAY, now - options.hourly_days * DAY_S)
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
