"""Limits of what accounts may have under way, and of how often they may do something."""

from __future__ import annotations

from collections import Counter, OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_REMEMBERED: Final = 50_000  # accounts


class Places:
    """At most `most` things are under way, and `most_of_one` of each account."""

    def __init__(self, what: str, most: int, most_of_one: int) -> None:
        self.taken = 0
        self._what = what
        self._most = most
        self._most_of_one = most_of_one
        self._of: Counter[str] = Counter()

    @contextmanager
    def place(self, account: str) -> Iterator[None]:
        """Take a place around the body. `ApiError` 503 if there is none: replications try again."""
        if self.taken >= self._most or self._of[account] >= self._most_of_one:
            whose = "of all devices" if self.taken >= self._most else f"of {account}"
            sentence = f"too many {self._what} {whose} are under way; try again"
            raise ApiError(503, "busy", sentence, {"Retry-After": "5"}, closes=True)
        self.taken += 1
        self._of[account] += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._of[account] -= 1
            if not self._of[account]:
                del self._of[account]


class Rate:
    """An account may do something once in `interval_s`, and `most` times in a row after a pause."""

    def __init__(self, what: str, interval_s: float, most: int, monotonic: Callable[[], float]) -> None:
        self._what = what
        self._interval_s = interval_s
        self._ahead_s = interval_s * (most - 1)
        self._monotonic = monotonic
        self._paid: OrderedDict[str, float] = OrderedDict()
        """Until when each account has used its share."""

    def check(self, account: str) -> None:
        """Count one. `ApiError` 429 if there were too many."""
        now = self._monotonic()
        paid = max(self._paid.get(account, now), now)
        if paid > now + self._ahead_s:
            sentence = f"{self._what} come at most each {self._interval_s:g} s; try again"
            raise ApiError(429, "too_often", sentence, {"Retry-After": "5"})
        self._paid[account] = paid + self._interval_s
        self._paid.move_to_end(account)
        if len(self._paid) > _REMEMBERED:
            self._paid.popitem(last=False)
