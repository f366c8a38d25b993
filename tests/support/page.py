"""The page of a running growd: addresses of its views, and another client that looks at what the page did."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest
from playwright.async_api import expect

from support.browser import needs_browser
from support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import aiohttp
    from playwright.async_api import Locator, Page

    from support.program import Program

T = TypeVar("T")

PLACE: Final = "environment_1"
VIEWS: Final = ("now", "charts", "recipes", "devices", "journal", "data")
SIMULATED: Final = ("--profile", "sim", "--speed", "10")
"""Readings, and the faults of sensors, come ten times as soon."""

in_browser: Final = [needs_browser, pytest.mark.browser, pytest.mark.timeout(180)]
"""The marks of tests of the page."""


def address(program: Program, view: str = "now", query: str = "", environment: str = PLACE) -> str:
    """The address of a view."""
    return f"{program.address}/_svc/#{environment}/{view}{query and f'?{query}'}"


def module(name: str) -> str:
    """An expression of JavaScript: a promise of a module of the page, such as "lib/format.js"."""
    main = "document.querySelector('script[type=module]').src"
    return f"import({main}).then(({{ later }}) => later({name!r}))"


@dataclass
class Client:
    """Another client of the same growd."""

    program: Program
    session: aiohttp.ClientSession

    async def get(self, path: str) -> Any:
        """What a call of the API answers, or a path of the database that begins with a slash."""
        base = self.program.address if path.startswith("/") else f"{self.program.api}/"
        async with self.session.get(base + path) as answer:
            assert answer.ok, await answer.text()
            return await answer.json()

    async def put(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """Store a document of the database."""
        async with self.session.put(self.program.address + path, json=document) as answer:
            assert answer.ok, await answer.text()
            found: dict[str, Any] = await answer.json()
            return found

    async def call(self, service: str, **arguments: Any) -> dict[str, Any]:
        async with self.session.post(f"{self.program.api}/service/{service}", json=arguments) as answer:
            assert answer.ok, await answer.text()
            found: dict[str, Any] = await answer.json()
            return found

    async def publish(self, topic: str, value: object) -> None:
        async with self.session.post(f"{self.program.api}/topic/{PLACE}/{topic}", json=[value]) as answer:
            assert answer.ok, await answer.text()

    async def last(self, topic: str) -> Any:
        """The value of the last message of a topic of the environment; None without one."""
        url = f"{self.program.api}/topic_data/{PLACE}/{topic}?last=true"
        async with self.session.get(url) as answer:
            return (await answer.json())["result"] if answer.ok else None

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.get("node/status"))["status"]
        return found

    async def run(self) -> dict[str, Any]:
        """The recipe of the environment in the status."""
        run: dict[str, Any] = (await self.status())["recipes"][0]
        return run

    async def until(self, ask: Callable[[], Awaitable[T]], is_right: Callable[[T], object]) -> T:
        """Ask again and again until the answer is right."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_right(answer := await ask()):  # noqa: ASYNC110  growd announces it only to the page
                await asyncio.sleep(0.1)
        return answer


def card(page: Page, name: str) -> Locator:
    """The tile of a value."""
    return page.get_by_role("article", name=name, exact=True)


async def sheet(page: Page, name: str) -> Locator:
    """The sheet of a value, opened by its tile."""
    await card(page, name).get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    return dialog


def verdict(page: Page) -> Locator:
    """The strip that says whether all is well."""
    return page.get_by_role("region", name=re.compile("^(Verdict|Gesamtzustand)$"))


async def connected(page: Page) -> None:
    """Wait until values come."""
    await expect(page.locator("html[data-connection=ok]")).to_be_attached()


async def sure(page: Page, name: str) -> None:
    """Press the button of the question that is asked."""
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name=name, exact=True).click()
    await expect(dialog).to_have_count(0)
