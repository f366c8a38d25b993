"""What the tests of faults have in common."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def same_dice() -> Iterator[None]:
    """The jitter of the retries, each time the same."""
    state = random.getstate()
    random.seed(4)
    yield
    random.setstate(state)
