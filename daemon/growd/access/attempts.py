"""Slows password guessing: after some failures the next login has to wait, longer each time.

Failures are counted for each user at each address, and for each address. Not for a user alone: a stranger
elsewhere could lock the user out. A successful login does not clear them, as in CouchDB: an account would
give free guesses at others.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from growd.server.client_limits import whole_network
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FREE: Final = 4
"""Failures of one user at one address without a wait: one below CouchDB 3.5's own threshold
([chttpd_auth_lockout]), so that requests through growd do not reach it."""
FREE_OF_ADDRESS: Final = 20
"""Failures of one address, for any user."""
WAIT_S: Final = 300.0
"""The first wait, as long as CouchDB remembers failures; each further failure doubles it."""
LONGEST_S: Final = 3_600.0
FORGOTTEN_S: Final = 900.0
"""Time without a failure or a wait after which the count is cleared."""
MOST: Final = 4_096
"""Users at addresses, and addresses, that are remembered. The oldest are dropped."""
_LONGEST_NAME: Final = 128  # characters of a name that count


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = -math.inf
    until: float = -math.inf


class _Ledger:
    """Failures by key; the first `free` have no wait."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures)

    def wait_s(self, key: tuple[str, str], now: float) -> float:
        """How long the next attempt has to wait."""
        failures = self._failures.get(key)
        if failures is None:
            return 0.0
        if now >= max(failures.until, failures.last) + FORGOTTEN_S:
            del self._failures[key]
            return 0.0
        return max(failures.until - now, 0.0)

    def count(self, key: tuple[str, str], now: float) -> None:
        failures = self._failures.setdefault(key, _Failures())
        self._failures.move_to_end(key)
        failures.count += 1
        failures.last = now
        excess = failures.count - self._free
        if excess >= 0:
            failures.until = now + min(WAIT_S * 2 ** min(excess, 10), LONGEST_S)
        if len(self._failures) > MOST:
            self._failures.popitem(last=False)

    def take_back(self, key: tuple[str, str]) -> None:
        """Undo one count."""
        failures = self._failures.get(key)
        if failures is None:
            return
        failures.count -= 1
        failures.until = -math.inf  # the attempt was allowed, so no wait was left
        if not failures.count:
            del self._failures[key]


class Attempt:
    """One login. `has_failed` is false if the password was right, or the database did not answer."""

    has_failed = True


class Attempts:
    """Counts failed logins, in real time."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, free_of_address: int = FREE_OF_ADDRESS
    ) -> None:
        self._monotonic = monotonic
        self._users = _Ledger(FREE)
        self._addresses = _Ledger(free_of_address)

    def __len__(self) -> int:
        """How much is remembered."""
        return len(self._users) + len(self._addresses)

    @contextmanager
    def attempt(self, address: str, user: str) -> Iterator[Attempt]:
        """One attempt, which has failed until the caller says otherwise. `ApiError` 429 during a wait.

        It counts from its beginning, so that parallel guesses gain nothing.
        """
        network = whole_network(address)
        pair, everybody = (network, user[:_LONGEST_NAME]), (network, "")
        now = self._monotonic()
        wait = max(self._users.wait_s(pair, now), self._addresses.wait_s(everybody, now))
        if wait > 0:
            raise too_many_failures(wait)
        self._users.count(pair, now)
        self._addresses.count(everybody, now)
        attempt = Attempt()
        try:
            yield attempt
        finally:
            if not attempt.has_failed:
                self._addresses.take_back(everybody)
                self._users.take_back(pair)


def too_many_failures(wait_s: float) -> ApiError:
    """The refusal of a login that has to wait for `wait_s` seconds."""
    seconds = math.ceil(wait_s)
    sentence = f"too many failed logins from this address; try again in {seconds} s"
    return ApiError(
        HTTPStatus.TOO_MANY_REQUESTS, "too_many_failures", sentence, {"Retry-After": str(seconds)}
    )
