"""The last warnings and errors of the log, for clients."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.host.logs import FIELDS, OncePerMinute
from growd.runtime.text import excerpt, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.bus import Bus

MOST_RECORDS: Final = 200
MOST_BYTES: Final = 128 * 1024
_MOST_CHARACTERS: Final = 2_000  # of a message, and of a traceback


class RecentLog(logging.Handler):
    """Keeps the last `MOST_RECORDS` warnings and errors, or fewer of `MOST_BYTES` together as JSON.

    `now` is the clock of the records, in UNIX seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(logging.WARNING)
        self._now = now
        self._records: deque[tuple[dict[str, Any], int]] = deque()
        self._bytes = 0

    def records(self) -> list[dict[str, Any]]:
        """The records, oldest first."""
        return [record for record, _ in self._records]

    def emit(self, record: logging.LogRecord) -> None:
        try:
            kept = self._as_json(record)
        except Exception:  # noqa: BLE001  an error in the arguments of a record must not end the program
            self.handleError(record)
            return
        size = len(msgspec.json.encode(kept))
        self._records.append((kept, size))
        self._bytes += size
        while len(self._records) > MOST_RECORDS or self._bytes > MOST_BYTES:
            self._bytes -= self._records.popleft()[1]

    def _as_json(self, record: logging.LogRecord) -> dict[str, Any]:
        traceback = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
        return {
            "time": self._now(),
            "level": "error" if record.levelno >= logging.ERROR else "warning",
            "logger": record.name,
            "message": printable(excerpt(record.getMessage(), _MOST_CHARACTERS)),
            "traceback": printable(excerpt(traceback, _MOST_CHARACTERS)),
            **{name: str(getattr(record, name, "") or "") for name in FIELDS},
        }


@contextlib.contextmanager
def recent_log(bus: Bus) -> Iterator[None]:
    """The node `log` with the last records, for the body."""
    kept = RecentLog(bus.clock.time)
    handler = OncePerMinute(kept)
    handler.setLevel(logging.WARNING)
    bus.node("log").describe("records", kept.records)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
