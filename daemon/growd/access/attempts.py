"""Failed logins, slowed down: so many in a row, then a wait that grows.

They are counted for each user at each address, and for each address over all users. Never for a user alone:
a stranger elsewhere could keep the user out. A login that succeeds does not make them undone: CouchDB goes on
counting too, and who has an account must not gain guesses at others.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from growd.server.addresses import whole_network
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FREE: Final = 4
"""Failures of one user at one address without a wait. One below the threshold at which CouchDB 3.5 locks a
user out for its address ([chttpd_auth_lockout]), so that what comes through growd does not get there."""
FREE_OF_ADDRESS: Final = 20
"""Failures of an address, whoever it says it is."""
WAIT_S: Final = 300.0
"""The first wait, as long as CouchDB remembers failures; each further failure doubles it."""
LONGEST_S: Final = 3_600.0
FORGOTTEN_S: Final = 900.0
"""After so long without a failure or a wait, all is forgotten."""
MOST: Final = 4_096
"""Of users at addresses, and of addresses, that are remembered; those that failed longest ago go."""
_LONGEST_NAME: Final = 128  # as far as names are told apart


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = -math.inf
    until: float = -math.inf


class _Ledger:
    """Failures by key, of which `free` have no wait."""

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
        """One that was counted was no failure."""
        failures = self._failures.get(key)
        if failures is None:
            return
        failures.count -= 1
        failures.until = -math.inf  # it began, so no wait was left
        if not failures.count:
            del self._failures[key]


class Attempt:
    """One login that is tried. It counts as failed until it is known to be otherwise."""

    def __init__(self) -> None:
        self.has_failed = True

    def is_no_failure(self) -> None:
        """The password was right, or nobody said whether it was."""
        self.has_failed = False


class Attempts:
    """Counts attempts to log in. The seconds are the network's: no clock of the simulator applies."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._users = _Ledger(FREE)
        self._addresses = _Ledger(FREE_OF_ADDRESS)

    def __len__(self) -> int:
        """How much is remembered."""
        return len(self._users) + len(self._addresses)

    @contextmanager
    def attempt(self, address: str, user: str) -> Iterator[Attempt]:
        """One attempt, which says itself how it went. `ApiError` 429 while it would come too early.

        It counts from its begin: as many as come at once are no more than come one after the other.
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
    """The refusal of a login that comes too early by `wait_s` seconds."""
    seconds = math.ceil(wait_s)
    sentence = f"too many logins failed from this address; try again in {seconds} s"
    return ApiError(
        HTTPStatus.TOO_MANY_REQUESTS, "too_many_failures", sentence, {"Retry-After": str(seconds)}
    )
