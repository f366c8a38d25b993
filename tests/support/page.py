"""The page of a running growd: addresses of its views, and another client that looks at what the page did."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from support.browser import needs_browser
from support.waiting import PATIENCE_S

if TYPE_CHECKING:
    import aiohttp

    from support.program import Program

PLACE = "environment_1"
VIEWS = ("now", "charts", "recipes", "devices", "journal", "data")
SIMULATED = ("--profile", "sim", "--speed", "10")
"""Readings, and the faults of sensors, come ten times as soon."""

in_browser = [needs_browser, pytest.mark.browser, pytest.mark.timeout(180)]
"""The marks of tests of the page."""


def address(program, view="now", query="", environment=PLACE):
    """The address of a view."""
    return f"{program.address}/_svc/#{environment}/{view}{query and f'?{query}'}"


def module(name):
    """An expression of JavaScript: a promise of a module of the page, such as "lib/format.js"."""
    main = "document.querySelector('script[type=module]').src"
    return f"import({main}).then(({{ later }}) => later({name!r}))"


@dataclass
class Client:
    """Another client of the same growd."""

    program: Program
    session: aiohttp.ClientSession

    async def get(self, path):
        """What a call of the API answers, or a path of the database that begins with a slash."""
        base = self.program.address if path.startswith("/") else f"{self.program.api}/"
        async with self.session.get(base + path) as answer:
            assert answer.ok, await answer.text()
            return await answer.json()

    async def put(self, path, document):
        """Store a document of the database."""
        async with self.session.put(self.program.address + path, json=document) as answer:
            assert answer.ok, await answer.text()
            return await answer.json()

    async def call(self, service, **arguments):
        async with self.session.post(f"{self.program.api}/service/{service}", json=arguments) as answer:
            assert answer.ok, await answer.text()
            return await answer.json()

    async def publish(self, topic, value):
        async with self.session.post(f"{self.program.api}/topic/{PLACE}/{topic}", json=[value]) as answer:
            assert answer.ok, await answer.text()

    async def last(self, topic):
        """The value of the last message of a topic of the environment; None without one."""
        url = f"{self.program.api}/topic_data/{PLACE}/{topic}?last=true"
        async with self.session.get(url) as answer:
            return (await answer.json())["result"] if answer.ok else None

    async def status(self):
        return (await self.get("node/status"))["status"]

    async def run(self):
        """The recipe of the environment in the status."""
        return (await self.status())["recipes"][0]

    async def come_to_rest(self, recipes):
        """End faults, holds, recipes, and what is set by hand; and have these recipes again."""
        await self.call("simulator/clear_faults")
        status = await self.status()
        if status["holds"]:
            await self.call("hold/release")
        if status["recipes"][0]["state"] != "idle":
            await self.call(f"{PLACE}/stop_recipe")
        for each in status["set_points"]:
            await self.publish(f"desired/{each['variable']}", None)
        present = await self.program.documents("recipes")
        for name, document in present.items():
            if name not in recipes:
                await self.program.ask("DELETE", f"/recipes/{name}?rev={document['_rev']}")
        for name, document in recipes.items():
            rev = {"_rev": present[name]["_rev"]} if name in present else {}
            if name not in present or present[name] | {"_rev": ""} != document | {"_rev": ""}:
                content = {key: value for key, value in document.items() if key != "_rev"}
                await self.program.ask("PUT", f"/recipes/{name}", content | rev)

    async def until(self, ask, is_right):
        """Ask again and again until the answer is right."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_right(answer := await ask()):  # noqa: ASYNC110  growd announces it only to the page
                await asyncio.sleep(0.1)
        return answer


def card(page, name):
    """The tile of a value."""
    return page.get_by_role("article", name=name, exact=True)


async def sheet(page, name):
    """The sheet of a value, opened by its tile."""
    await card(page, name).get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    return dialog


def verdict(page):
    """The strip that says whether all is well."""
    return page.get_by_role("region", name=re.compile("^(Verdict|Gesamtzustand)$"))


async def connected(page):
    """Wait until values come."""
    await expect(page.locator("html[data-connection=ok]")).to_be_attached()


async def sure(page, name):
    """Press the button of the question that is asked."""
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name=name, exact=True).click()
    await expect(dialog).to_have_count(0)
