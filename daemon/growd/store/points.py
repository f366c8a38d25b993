"""Data points: what they are made of, what they are called, and which of them are worth storing."""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.errors import InvalidPointError

if TYPE_CHECKING:
    from growd.variables import Variable

DEVICE_ID_BYTES: Final = 6
_RANDOM_BYTES: Final = 5

Value = float | int | bool | str | None


class DataPoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One value of one variable at one time; `timestamp` is wall time in UNIX seconds.

    `id` is the document's `_id`, fixed when the point is made, so that sending the point again can never
    store it twice. `category` is "" for measured and desired points, which `is_desired` tells apart.
    Commands, qualities and events have a category of their own and go into a database of their own.

    As JSON it is an array of its fields in this order: it is kept so until the database has it.
    """

    id: str
    environment: str
    variable: str
    is_desired: bool
    is_manual: bool
    value: Value
    timestamp: float
    category: str = ""

    def document(self) -> dict[str, Any]:
        """The point as its database stores it: `is_desired`, or `category` in that of events."""
        kind = {"category": self.category} if self.category else {"is_desired": self.is_desired}
        return {
            "_id": self.id,
            "environment": self.environment,
            "variable": self.variable,
            **kind,
            "is_manual": self.is_manual,
            "value": self.value,
            "timestamp": self.timestamp,
        }


class PointMaker:
    """Makes the points of one device.

    An `_id` is `<device, 12 hex digits>:<time in ms, 13 digits>-<random, 10 hex digits>`:

    - The device, drawn at random once for each data folder, because many devices that all call their
      environment `environment_1` replicate into one database. Before a colon, as CouchDB wants it in a
      database that is partitioned (docs.couchdb.org/en/3.5.x/partitioned-dbs/): by device, that is.
    - Time next, so that new documents land side by side at the end of the database's B-tree: random ids
      make CouchDB rewrite a path of nodes for each document.
    - A random rest and not a counter: a counter that begins again after a restart, with a wall clock that
      stepped back or a copied data folder, would make an id a second time. The database would answer
      "conflict", which stands for "stored already", and the point would be lost.

    Times before 1970 sort as 0.
    """

    def __init__(self, device: str) -> None:
        self.device = device

    @staticmethod
    def new_device() -> str:
        """A new random device id: 12 hex digits."""
        return secrets.token_hex(DEVICE_ID_BYTES)

    def make(
        self,
        environment: str,
        variable: str,
        value: Value,
        timestamp: float,
        *,
        is_desired: bool = False,
        is_manual: bool = False,
        category: str = "",
    ) -> DataPoint:
        """A point with its final id. `InvalidPointError` for what JSON or the views have no place for.

        NaN and infinity are refused and not turned into null: a sensor that has nothing to say says so by
        its quality, and no point is made then.
        """
        _check_name("environment", environment)
        _check_name("variable", variable)
        _check_value(value)
        if not isinstance(timestamp, (int, float)) or not math.isfinite(timestamp):
            raise InvalidPointError("timestamp", "must be a finite number of UNIX seconds", timestamp)
        return DataPoint(
            self.new_id(timestamp),
            environment,
            variable,
            is_desired,
            is_manual,
            value,
            float(timestamp),
            category,
        )

    def new_id(self, timestamp: float) -> str:
        """An id for what happened at a UNIX time."""
        milliseconds = max(0, round(timestamp * 1000))
        return f"{self.device}:{milliseconds:013d}-{secrets.token_hex(_RANDOM_BYTES)}"


class StorageRule:
    """Decides which measured values of one variable are stored.

    At most one each `minimum_interval`, at least one each `maximum_interval` (monotonic seconds, as long as
    values come at all), and between the two only a value that differs from the last stored one by more than
    the variable's dead band. 0 is a value like any other.
    """

    def __init__(
        self, variable: Variable, *, minimum_interval: float = 5.0, maximum_interval: float = 600.0
    ) -> None:
        if not 0 <= minimum_interval <= maximum_interval:
            raise ValueError(
                f"{variable.name}: the minimum interval ({minimum_interval} s) must be 0 or more and not "
                f"above the maximum interval ({maximum_interval} s)"
            )
        self.variable = variable
        self._minimum = minimum_interval
        self._maximum = maximum_interval
        self._stored_at: float | None = None
        self._stored: Value = None

    def admits(self, value: Value, now: float) -> bool:
        """Whether to store `value`, measured at `now` (monotonic seconds); True counts as stored.

        None, NaN and infinity are never stored. Whoever calls passes only values of quality `ok`.
        """
        if not _is_measurement(value) or not self._is_due(value, now):
            return False
        self._stored, self._stored_at = value, now
        return True

    def forget(self) -> None:
        """Let the next value be stored whatever it is: something lay between it and the last one."""
        self._stored_at = None

    def _is_due(self, value: Value, now: float) -> bool:
        if self._stored_at is None:
            return True
        elapsed = now - self._stored_at
        if elapsed < self._minimum:
            return False
        return elapsed >= self._maximum or self._moved(value)

    def _moved(self, value: Value) -> bool:
        if isinstance(value, str) or isinstance(self._stored, str):
            return value != self._stored
        last, new = float(self._stored or 0), float(value or 0)
        band = max(self.variable.absolute_band, self.variable.relative_band * abs(last))
        return abs(new - last) > band


class ChangeRule:
    """Decides which desired values of one variable are stored: those that differ from the last one."""

    def __init__(self) -> None:
        self._stored: list[Value] = []

    def admits(self, value: Value) -> bool:
        """Whether to store `value`; True counts as stored."""
        if self._stored == [value] or (isinstance(value, float) and not math.isfinite(value)):
            return False
        self._stored = [value]
        return True


def _is_measurement(value: Value) -> bool:
    return value is not None and (isinstance(value, str) or math.isfinite(value))


def _check_name(field: str, name: str) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidPointError(field, "must be a text that is not empty", name)


def _check_value(value: Value) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidPointError("value", "must be finite (JSON has no NaN and no infinity)", value)
    if not isinstance(value, (float, int, str, type(None))):
        raise InvalidPointError("value", "must be a number, a text, true, false or null", value)
