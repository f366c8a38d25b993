"""The part of a running daemon that shows the page, the documentation and the description of the API."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from growd.wiring.files import shipped_folder
from growd_web.api_document import ApiDocument
from growd_web.page_files import PageFiles, page_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.parts import Surroundings


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Serve them for the body."""
    folder, is_edited = await asyncio.to_thread(page_folder)
    docs, _ = await asyncio.to_thread(shipped_folder, "docs")
    PageFiles(around.api, folder, docs, is_edited=is_edited)
    around.api.offer(ApiDocument(around.api).operations)
    yield
