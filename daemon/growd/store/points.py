"""Data points, and their ids."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.runtime.clock import whole_microseconds
from growd.store.errors import InvalidPointError

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE_ID_BYTES: Final = 6
_RANDOM_BYTES: Final = 5
_ID: Final = re.compile(r"[0-9a-f]{12}:[0-9]{13}-[0-9a-f]{10}")

Value = float | int | bool | str | None


class DataPoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One value of one variable at one time; `timestamp` is wall time in UNIX seconds.

    `id` is the `_id` of the document, fixed when the point is made, so that a point that is sent twice is
    stored once. `category` is "" for measured and desired points, which differ in `is_desired`. Commands,
    qualities and events have a category, and go into another database. `by` is the author of a note or a
    manual measurement. `details` are further fields of an event, or of the end of a recipe (`reason`).

    On the disk it is a JSON array of its fields in this order.
    """

    id: str
    environment: str
    variable: str
    is_desired: bool
    is_manual: bool
    value: Value
    timestamp: float
    category: str = ""
    by: str = ""
    details: dict[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        """The document for the database: with `is_desired`, or with `category` if the point has one."""
        kind = {"category": self.category} if self.category else {"is_desired": self.is_desired}
        return {
            "_id": self.id,
            "environment": self.environment,
            "variable": self.variable,
            **kind,
            "is_manual": self.is_manual,
            "value": self.value,
            "timestamp": self.timestamp,
            **({"by": self.by} if self.by else {}),
            **({"details": self.details} if self.details else {}),
        }


def is_id(text: str) -> bool:
    """Whether growd has made this `_id`, here or on another device; see `PointMaker`."""
    return _ID.fullmatch(text) is not None


class PointMaker:
    """Makes the points of one device.

    An `_id` is `<device, 12 hex digits>:<time in ms, 13 digits>-<random, 10 hex digits>`:

    - The device is random, drawn once for each data folder: many devices with an `environment_1` replicate
      into one database. The colon lets that database be partitioned by device
      (docs.couchdb.org/en/3.5.x/partitioned-dbs/).
    - The time is next, so that new documents are neighbours at the end of the database's B-tree.
    - The rest is random, or for a point with `is_repeated` follows from its content. A counter could make an
      id twice, after a step of the wall clock or with a copied data folder; the database would answer
      "conflict", which growd takes for "stored already".

    Times before 1970 sort as 0. `random` returns so many random bytes as hex digits.
    """

    def __init__(self, device: str, random: Callable[[int], str] = secrets.token_hex) -> None:
        self.device = device
        self._random = random

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
        by: str = "",
        details: dict[str, Any] | None = None,
        is_repeated: bool = False,
    ) -> DataPoint:
        """A point with its final id. `InvalidPointError` for values that JSON or the views can't hold.

        One that `is_repeated` has the same id each time it is made, so the database stores it once.
        NaN and infinity are refused, not turned into null: a failing sensor has a quality, and no point.
        """
        _check_name("environment", environment)
        _check_name("variable", variable)
        _check_value(value)
        if not isinstance(timestamp, (int, float)) or not math.isfinite(timestamp):
            raise InvalidPointError("timestamp", "must be a finite number of UNIX seconds", timestamp)
        return DataPoint(
            self.new_id(timestamp, f"{environment}/{variable}={value}" if is_repeated else None),
            environment,
            variable,
            is_desired,
            is_manual,
            value,
            whole_microseconds(float(timestamp)),
            category,
            by,
            details,
        )

    def new_id(self, timestamp: float, content: str | None = None) -> str:
        """An id for an event at a UNIX time; with `content` always the same one."""
        milliseconds = max(0, round(timestamp * 1000))
        if content is None:
            rest = self._random(_RANDOM_BYTES)
        else:
            rest = hashlib.blake2s(content.encode(), digest_size=_RANDOM_BYTES).hexdigest()
        return f"{self.device}:{milliseconds:013d}-{rest}"


def _check_name(field: str, name: str) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidPointError(field, "must be a text that is not empty", name)


def _check_value(value: Value) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidPointError("value", "must be finite (JSON has no NaN and no infinity)", value)
    if not isinstance(value, (float, int, str, type(None))):
        raise InvalidPointError("value", "must be a number, a text, true, false or null", value)
