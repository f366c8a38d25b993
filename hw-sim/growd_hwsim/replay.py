"""A chamber driven by a recording: a CSV file of measured values, or a run that growd exported.

The file of a run is a ZIP (`.zip`) with `replay.csv`. A CSV is an export of growd
(`timestamp,variable,value`), with UNIX seconds or ISO 8601 times; the first column may also be
`timestamp_utc`. Variables that no simulated sensor measures are ignored. Variables that are not recorded come
from the model. A reading holds until the next one, without interpolation, which would invent values.
"""

from __future__ import annotations

import csv
import math
import zlib
from array import array
from bisect import bisect_right
from contextlib import contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import IO, TYPE_CHECKING
from zipfile import BadZipFile, ZipFile

from growd_hwsim.chamber import Air, SimulatedChamber
from growd_hwsim.errors import NothingRecordedError, ReplayFileError

if TYPE_CHECKING:
    import _csv
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from growd_hwsim.parameters import ChamberParameters

VARIABLES = ("air_carbon_dioxide", "air_temperature", "air_humidity", "light_illuminance", "light_ppfd")
IN_A_RUN = "replay.csv"
"""The recording in the file of a run."""

GAP_S = 900.0
"""How long a reading holds: three intervals of five minutes."""

_HEADERS = (["timestamp", "variable", "value"], ["timestamp_utc", "variable", "value"])


class Recording:
    """Values by variable and time, in seconds since the first reading. 16 bytes per reading."""

    def __init__(self, series: dict[str, tuple[array[float], array[float]]]) -> None:
        first = min(times[0] for times, _ in series.values())
        self._series = {
            name: (array("d", [time - first for time in times]), values)
            for name, (times, values) in series.items()
        }

    def __contains__(self, variable: str) -> bool:
        return variable in self._series

    def at(self, variable: str, time: float) -> tuple[float, float]:
        """The last value of a recorded variable and its age in seconds, which is inf before the first."""
        times, values = self._series[variable]
        index = bisect_right(times, time) - 1
        return (values[index], time - times[index]) if index >= 0 else (math.nan, math.inf)


class ReplayedChamber(SimulatedChamber):
    """A chamber whose sensors measure recorded values. The recording starts with the chamber.

    A reading holds for `GAP_S` seconds; then there is `NothingRecordedError`.
    """

    is_recorded = True

    def __init__(
        self,
        recording: Recording,
        monotonic: Callable[[], float],
        parameters: ChamberParameters | None = None,
        *,
        seed: int = 0,
        time_of_day_s: float = 8 * 3600.0,
    ) -> None:
        super().__init__(monotonic, parameters, seed=seed, time_of_day_s=time_of_day_s)
        self._recording = recording

    def air(self) -> Air:
        """The recorded air, or that of the model for variables that are not recorded."""
        time = self._time()
        model = super().air()
        return Air(
            self._recorded("air_carbon_dioxide", time, model.carbon_dioxide_ppm),
            self._recorded("air_temperature", time, model.temperature_degc),
            self._recorded("air_humidity", time, model.humidity_percent),
        )

    def illuminance_lux(self) -> float:
        """The recorded illuminance, or the recorded PPFD times the lux per umol of the white lamp."""
        if "light_illuminance" not in self._recording and "light_ppfd" in self._recording:
            return self.ppfd_umol_m2_s() * self.parameters.lamps["white"].lux_per_umol
        return self._recorded("light_illuminance", self._time(), super().illuminance_lux())

    def photons_by_source(self) -> dict[str, float]:
        """The recorded PPFD, as of white lamps."""
        return {"white": self.ppfd_umol_m2_s()}

    def ppfd_umol_m2_s(self) -> float:
        """The recorded PPFD."""
        return self._recorded("light_ppfd", self._time(), super().ppfd_umol_m2_s())

    def _recorded(self, variable: str, time: float, otherwise: float) -> float:
        if variable not in self._recording:
            return otherwise
        value, age_s = self._recording.at(variable, time)
        if age_s > GAP_S:
            raise NothingRecordedError
        return value

    def _time(self) -> float:
        """Seconds since the first reading of the recording."""
        return self._monotonic() - self._start


def load_recording(path: Path) -> Recording:
    """Read a recording. Blocking. Raises `ReplayFileError` with file, line and reason."""
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ReplayFileError(str(path), "is not a regular file")
    try:
        with _opened(path) as file:
            series = _series(str(path), csv.reader(file, strict=True))
    except OSError as error:
        raise ReplayFileError(str(path), f"can't be read: {error.strerror}") from None
    except (BadZipFile, zlib.error, EOFError):
        raise ReplayFileError(str(path), "is a damaged ZIP file") from None
    except UnicodeDecodeError:
        raise ReplayFileError(str(path), "is not in UTF-8; save it as UTF-8") from None
    if not series:
        raise ReplayFileError(str(path), f"has no reading of {', '.join(VARIABLES)}")
    return Recording(series)


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """The text of a recording."""
    if path.suffix.lower() != ".zip":
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
        return
    with ZipFile(path) as run:
        names = [name for name in run.namelist() if name.rpartition("/")[2] == IN_A_RUN]
        if not names:
            raise ReplayFileError(str(path), f"is a ZIP file without {IN_A_RUN}")
        with run.open(names[0]) as member:
            yield TextIOWrapper(member, encoding="utf-8-sig", newline="")


def _series(path: str, rows: _csv.Reader) -> dict[str, tuple[array[float], array[float]]]:
    try:
        return _collected(rows)
    except (_RowError, csv.Error) as error:
        raise ReplayFileError(path, str(error), line=max(rows.line_num, 1)) from None


def _collected(rows: _csv.Reader) -> dict[str, tuple[array[float], array[float]]]:
    """The readings of each variable that a sensor can measure, in their order."""
    if next(rows, None) not in _HEADERS:
        raise _RowError("must be timestamp,variable,value")
    series: dict[str, tuple[array[float], array[float]]] = {}
    for row in rows:
        if reading := _reading(row):
            variable, time, value = reading
            times, values = series.setdefault(variable, (array("d"), array("d")))
            if times and time < times[-1]:
                raise _RowError(f"timestamp {row[0]} is before that of the last {variable}")
            times.append(time)
            values.append(value)
    return series


class _RowError(ValueError):
    """An error in a row, without its place."""


def _reading(row: list[str]) -> tuple[str, float, float] | None:
    """Variable, UNIX time and value; None for a row without a value for a sensor."""
    if not row:
        return None
    if len(row) != len(_HEADERS[0]):
        raise _RowError(f"has {len(row)} fields, must have timestamp, variable and value")
    timestamp, variable, text = row
    if variable not in VARIABLES or not text:  # growd exports a point without a value as an empty field
        return None
    return variable, _unix_time(timestamp), _number("value", text)


def _unix_time(text: str) -> float:
    """Seconds since 1970 from a number or an ISO 8601 time, which is UTC without a zone."""
    if "-" not in text[1:]:
        return _number("timestamp", text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise _RowError(f"timestamp {text!r} is not a time") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _number(field: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _RowError(f"{field} {text!r} is not a number")
    return number
