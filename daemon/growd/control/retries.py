"""Delays between retries."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DOUBLINGS: Final = 16


@dataclass(frozen=True)
class Retries:
    """Delays that double up to `limit_s` seconds, with a random factor from 0.5 to 1.

    The factor spreads devices that failed together. `dice` returns 0..1.
    """

    limit_s: float
    dice: Callable[[], float] = random.random

    def delay(self, first_s: float, failures: int) -> float:
        """Seconds to wait after `failures` earlier failures; about `first_s` after the first one."""
        grown = first_s * 2.0 ** min(failures, MAX_DOUBLINGS)
        return min(grown, max(first_s, self.limit_s)) * (0.5 + 0.5 * self.dice())
