"""The frame of the page: reached from the address of growd, and without errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from support.browser import needs_browser, opened

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from support.program import Program

pytestmark = [needs_browser, pytest.mark.timeout(180)]


async def test_the_address_of_growd_leads_to_the_page(growd: Program, browser: Browser) -> None:
    async with opened(browser, growd.address) as tab:
        await expect(tab.page.get_by_role("heading", name="growd")).to_be_visible()
        assert tab.page.url.startswith(f"{growd.address}/_svc/")
