"""A real browser on the page of a running growd."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import async_playwright, expect

if TYPE_CHECKING:
    from playwright.async_api import Page

BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 800}
PATIENCE_MS = 30_000

expect.set_options(timeout=PATIENCE_MS)


def browser_path():
    """The program of the browser: GROWD_TEST_BROWSER, or Chromium or Chrome in PATH."""
    return os.environ.get("GROWD_TEST_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)


needs_browser = pytest.mark.skipif(
    browser_path() is None,
    reason="the page was not tested: no browser found (on Debian: apt install chromium)",
)


@asynccontextmanager
async def running_browser():
    """Chromium without a window."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Tab:
    """A page in the browser, and what went wrong in it: errors, console messages, failed requests."""

    page: Page
    errors: list[str] = field(default_factory=list)

    def watch(self):
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heard)

    def _heard(self, message):
        # the browser reports each refused or broken request itself; tests of faults cause some
        expected = ("Failed to load resource", "Service Worker registration blocked")
        if message.type in {"error", "warning"} and not any(words in message.text for words in expected):
            self.errors.append(message.text)


@asynccontextmanager
async def opened(browser, url, **options):
    """A new tab with nothing saved, on `url`; it must not have errors at the end.

    `options` are those of a browser context: viewport, color_scheme, locale. Service workers would answer
    requests that a test wants to fail, so there are none without `service_workers="allow"`.
    """
    context = await browser.new_context(
        **{"viewport": PHONE, "locale": "en-GB", "service_workers": "block", **options}
    )
    try:
        context.set_default_timeout(PATIENCE_MS)
        tab = Tab(await context.new_page())
        tab.watch()
        await tab.page.goto(url)
        try:
            yield tab
        except Exception as error:
            text = await tab.page.locator("body").inner_text()
            error.add_note("\n".join(("The page said:", text, *tab.errors)))
            raise
        assert tab.errors == [], tab.errors
    finally:
        await context.close()


@asynccontextmanager
async def page_at(browser, url, **options):
    """The page of a new tab, as of `opened`."""
    async with opened(browser, url, **options) as tab:
        yield tab.page
