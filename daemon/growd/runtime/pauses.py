"""Pauses: between attempts, and of work in the background."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator


class Pauses(msgspec.Struct, frozen=True):
    """Pauses between attempts: `first_s` seconds, twice as long after each failure, up to `longest_s`.

    Each is shortened at random, at most to the share `least` of it, so that many devices do not try at the
    same moment. A `first_s` above `longest_s` is not shortened to it.
    """

    first_s: float = 0.5
    longest_s: float = 30.0
    least: float = 0.5

    def after(self, failures: int) -> float:
        """The pause after this number of failures in a row, from 1."""
        whole = min(self.first_s * 2.0 ** min(failures - 1, 30), max(self.first_s, self.longest_s))
        return whole * random.uniform(self.least, 1.0)  # noqa: S311  no secret


LONGEST_REST_S: Final = 5.0


class Pace:
    """Rests for `share` times as long as the work since the last rest took, at most `LONGEST_REST_S`.

    All times are real seconds. `waits_for` names what the task waits for at present, "" while it works; that
    time is no work. `on_rest` is called at each rest: a step of the work has succeeded.
    """

    def __init__(
        self,
        share: float = 1.0,
        on_rest: Callable[[], None] = lambda: None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.waits_for = ""
        self._share = share
        self._on_rest = on_rest
        self._monotonic = monotonic
        self._sleep = sleep
        self._worked = 0.0
        self._since = monotonic()

    def begin(self) -> None:
        """The work begins."""
        self._worked, self._since = 0.0, self._monotonic()

    async def rest(self) -> None:
        """Rest after a step."""
        self._on_rest()
        worked = self._worked + self._monotonic() - self._since
        await self._sleep(min(self._share * worked, LONGEST_REST_S))
        self.begin()

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """The task waits for something that does its own work."""
        self._worked += self._monotonic() - self._since
        self.waits_for = what
        try:
            yield
        finally:
            self.waits_for = ""
            self._since = self._monotonic()
