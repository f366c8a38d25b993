from __future__ import annotations

import pytest


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which of the two clients a test uses."""
    return str(request.param)
