"""Fixtures of the tests of faults."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.output_roles import Lease


@pytest.fixture(autouse=True)
def same_dice() -> Iterator[None]:
    """The same jitter of retries in each run."""
    state = random.getstate()
    random.seed(4)
    yield
    random.setstate(state)


@pytest.fixture
def tick_rarely(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, float | Lease]], None]:
    """Change the periods of loops, in seconds, by their full names: weeks of simulated time pass sooner."""

    def change(periods: dict[str, float | Lease]) -> None:
        for name, period in periods.items():
            monkeypatch.setattr(name, period)

    return change
