"""A recording instead of a model: a CSV of measured values drives the chamber.

The file is growd's own CSV export (`timestamp,variable,value`, UNIX seconds) or one with ISO 8601 times; a
first column called `timestamp_utc` is taken too. Of its variables those that a simulated sensor can meet are
used, and the others passed over. What was not recorded comes from the model.

Between two readings the last one holds. A line from one to the next would invent values that nobody
measured: a lamp that goes on slowly, and half a reading on the way to a zero and back.
"""

from __future__ import annotations

import csv
import math
from array import array
from bisect import bisect_right
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from growd_hwsim.chamber import Air, SimulatedChamber
from growd_hwsim.errors import NothingRecordedError, ReplayFileError

if TYPE_CHECKING:
    import _csv
    from collections.abc import Callable
    from pathlib import Path

    from growd_hwsim.chamber import ChamberParameters

VARIABLES = ("air_carbon_dioxide", "air_temperature", "air_humidity", "light_illuminance", "light_ppfd")
GAP_S = 900.0
"""How long a reading holds unless told otherwise: three of those that come each five minutes."""

_HEADERS = (["timestamp", "variable", "value"], ["timestamp_utc", "variable", "value"])


class Recording:
    """Values by variable and time, 16 bytes a reading; times in seconds since the first of all readings."""

    def __init__(self, series: dict[str, tuple[array[float], array[float]]]) -> None:
        first = min(times[0] for times, _ in series.values())
        self._series = {
            name: (array("d", [time - first for time in times]), values)
            for name, (times, values) in series.items()
        }
        self.length_s = max(times[-1] for times, _ in self._series.values())
        """From the first reading to the last, in seconds."""

    def __contains__(self, variable: str) -> bool:
        return variable in self._series

    def at(self, variable: str, time: float) -> tuple[float, float]:
        """The last value of a variable of the recording, and its age in seconds; the age of none is inf."""
        times, values = self._series[variable]
        index = bisect_right(times, time) - 1
        return (values[index], time - times[index]) if index >= 0 else (math.nan, math.inf)


class ReplayedChamber(SimulatedChamber):
    """A chamber whose sensors meet what was recorded; the recording starts when the chamber does.

    A reading holds for `gap_s` seconds, then `NothingRecordedError` says that there is none. After the last
    one has held for as long, the recording begins again where `loop` is set, and else has ended.
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
        gap_s: float = GAP_S,
        loop: bool = False,
    ) -> None:
        super().__init__(monotonic, parameters, seed=seed, time_of_day_s=time_of_day_s)
        self._recording = recording
        self._gap_s = gap_s
        self._loop = loop

    def air(self) -> Air:
        """The air as recorded, and as the model has it where that was not recorded."""
        time = self._time()
        model = super().air()
        return Air(
            self._recorded("air_carbon_dioxide", time, model.carbon_dioxide_ppm),
            self._recorded("air_temperature", time, model.temperature_degc),
            self._recorded("air_humidity", time, model.humidity_percent),
        )

    def illuminance_lux(self) -> float:
        """The light as recorded; from recorded PPFD by the white lamp's spectrum."""
        if "light_illuminance" not in self._recording and "light_ppfd" in self._recording:
            return self.ppfd_umol_m2_s() * self.parameters.lamps["white"].lux_per_umol
        return self._recorded("light_illuminance", self._time(), super().illuminance_lux())

    def ppfd_umol_m2_s(self) -> float:
        """The photons as recorded."""
        return self._recorded("light_ppfd", self._time(), super().ppfd_umol_m2_s())

    def _recorded(self, variable: str, time: float, otherwise: float) -> float:
        if variable not in self._recording:
            return otherwise
        value, age_s = self._recording.at(variable, time)
        if age_s > self._gap_s:
            raise NothingRecordedError
        return value

    def _time(self) -> float:
        """The place in the recording, in seconds from its first reading."""
        elapsed = self._monotonic() - self._start
        return elapsed % (self._recording.length_s + self._gap_s) if self._loop else elapsed


def load_recording(path: Path) -> Recording:
    """Read a recording. Blocking. Raises `ReplayFileError` with file, line and reason."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            series = _series(str(path), csv.reader(file, strict=True))
    except OSError as error:
        raise ReplayFileError(str(path), f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ReplayFileError(str(path), "is not UTF-8 text") from None
    if not series:
        raise ReplayFileError(str(path), f"has no reading of {', '.join(VARIABLES)}")
    return Recording(series)


def _series(path: str, rows: _csv.Reader) -> dict[str, tuple[array[float], array[float]]]:
    try:
        return _collected(rows)
    except (_RowError, csv.Error) as error:
        raise ReplayFileError(path, str(error), line=max(rows.line_num, 1)) from None


def _collected(rows: _csv.Reader) -> dict[str, tuple[array[float], array[float]]]:
    """The readings of each variable that a sensor can meet, in their order."""
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
    """What is wrong with a row, without its place."""


def _reading(row: list[str]) -> tuple[str, float, float] | None:
    """Variable, UNIX time and value; None where the row has nothing for a sensor."""
    if not row:
        return None
    if len(row) != len(_HEADERS[0]):
        raise _RowError(f"has {len(row)} fields, must have timestamp, variable and value")
    timestamp, variable, text = row
    if variable not in VARIABLES or not text:  # growd exports a point without a value as an empty field
        return None
    return variable, _unix_time(timestamp), _number("value", text)


def _unix_time(text: str) -> float:
    """Seconds since 1970 from a number or from an ISO 8601 time; one without a zone is in UTC."""
    if "-" not in text[1:]:
        return _number("timestamp", text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise _RowError(f"timestamp {text!r} is no time") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _number(field: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _RowError(f"{field} {text!r} is no number")
    return number
