"""Pauses between attempts."""

from __future__ import annotations

import random

import msgspec


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
