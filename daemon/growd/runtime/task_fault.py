"""The fault of a task in the background."""

from __future__ import annotations

import logging


class TaskFault:
    """Why a task in the background does not work: from a failed step until the first step that succeeds.

    `log` gets `begins` with the reason at the failure number `shown_after` in a row, and `ends` after it.
    """

    def __init__(self, log: logging.Logger, begins: str, ends: str, *, shown_after: int = 1) -> None:
        self.reason: object = None
        """The error or sentence of the last failure; None without a fault."""
        self.failures = 0
        """Failed steps in a row."""
        self._log = log
        self._begins, self._ends = begins, ends
        self._shown_after = shown_after
        self._level = logging.WARNING

    def __str__(self) -> str:
        return "" if self.reason is None else str(self.reason)

    @property
    def is_lasting(self) -> bool:
        """Whether so many steps failed that it was logged."""
        return self.failures >= self._shown_after

    def failed(self, reason: object, level: int = logging.WARNING) -> None:
        """A step failed."""
        self.reason, self._level = reason, level
        self.failures += 1
        if self.failures == self._shown_after:
            self._log.log(level, "%s: %s", self._begins, reason)

    def succeeded(self) -> None:
        """A step succeeded."""
        if self.is_lasting:
            self._log.log(self._level, "%s", self._ends)
        self.reason, self.failures = None, 0
