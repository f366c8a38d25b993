"""How long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DOUBLINGS: Final = 16


@dataclass(frozen=True)
class Retries:
    """Delays that double up to `limit_s` seconds, each a random share of that, from a half to the whole.

    So devices that failed together do not come back to their bus together. `dice` gives 0..1.
    """

    limit_s: float
    dice: Callable[[], float] = random.random

    def delay(self, first_s: float, failures: int) -> float:
        """Seconds to wait after that many failures before this one; the first of them about `first_s`."""
        grown = first_s * 2.0 ** min(failures, MAX_DOUBLINGS)
        return min(grown, max(first_s, self.limit_s)) * (0.5 + 0.5 * self.dice())
