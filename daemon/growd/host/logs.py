"""Log records: one that repeats is logged once a minute, with its number of repetitions."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FIELDS: Final = ("device", "environment", "topic")
"""Attributes of a record (`extra=`) that become fields of the journal, in capitals."""

QUIET_S: Final = 60.0
MOST_REMEMBERED: Final = 256


@contextmanager
def timed_by(now: Callable[[], float]) -> Iterator[None]:
    """Lines have this UNIX time, such as that of a simulated chamber. Entries of the journal keep theirs."""
    before = logging.Formatter.converter
    logging.Formatter.converter = staticmethod(lambda _: time.localtime(now()))
    try:
        yield
    finally:
        logging.Formatter.converter = staticmethod(before)


class OncePerMinute(logging.Handler):
    """Passes records on to `target`; of equal records from one place only one in each minute.

    The repetitions are counted. The count is logged with the next record after that minute, or at the end. At
    most `MOST_REMEMBERED` different records are remembered. Debug records are not held back.
    Nor are those with `extra={"is_event": True}`: acts of persons, of which each counts.
    """

    def __init__(self, target: logging.Handler, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._target = target
        self._monotonic = monotonic
        self._seen: OrderedDict[tuple[str, int, str], _Seen] = OrderedDict()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.INFO or getattr(record, "is_event", False):
            self._target.handle(record)
            return
        now = self._monotonic()
        self._log_repetitions(seen for _, seen in self._expired(now))
        try:
            key = (record.pathname, record.lineno, record.getMessage())
        except Exception:  # noqa: BLE001  an error in the arguments of a record must not end the program
            self.handleError(record)
            return
        if key in self._seen:
            self._seen[key].again += 1
            return
        self._seen[key] = _Seen(record, now)
        self._target.handle(record)

    def close(self) -> None:
        self._log_repetitions(self._seen.values())
        self._seen.clear()
        self._target.close()
        super().close()

    def _expired(self, now: float) -> Iterator[tuple[tuple[str, int, str], _Seen]]:
        """Remove and return the records whose minute is over, and the oldest of too many."""
        while self._seen:
            oldest = next(iter(self._seen.values()))
            if now - oldest.since < QUIET_S and len(self._seen) < MOST_REMEMBERED:
                return
            yield self._seen.popitem(last=False)

    def _log_repetitions(self, over: Iterable[_Seen]) -> None:
        for seen in over:
            if seen.again:
                self._target.handle(seen.summary(self._monotonic()))


class _Seen:
    """A record that was passed on, and the number of its repetitions."""

    __slots__ = ("again", "record", "since")

    def __init__(self, record: logging.LogRecord, since: float) -> None:
        self.record = record
        self.since = since
        self.again = 0

    def summary(self, now: float) -> logging.LogRecord:
        record = copy(self.record)
        times = "once more" if self.again == 1 else f"{self.again} more times"
        span = "minute" if now - self.since < 2 * QUIET_S else f"{now - self.since:.0f} s"
        record.msg, record.args = f"{times} in the last {span}: {self.record.getMessage()}", ()
        record.exc_info = record.exc_text = record.stack_info = None
        record.created = time.time()
        return record
