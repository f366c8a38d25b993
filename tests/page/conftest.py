"""A growd with simulated hardware, and a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.browser import running_browser
from support.program import started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Browser

    from support.program import Program


@pytest.fixture
async def growd(tmp_path: Path) -> AsyncIterator[Program]:
    async with started(tmp_path, "--profile", "sim") as program:
        yield program


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser
