"""All views in German: no English words, and no names that growd uses inside."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from playwright.async_api import expect

from support.browser import DESK, opened
from support.page import PLACE, VIEWS, address, connected, in_browser

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from support.page import Client
    from support.program import Program

pytestmark = in_browser

ENGLISH = re.compile(
    r"\b(the|and|is|are|was|of|with|without|has|have|not|for|this|that|value|unknown|set point|error|warning|"
    r"from|since|yes|open|shut|running|failed|started|tripped|water|air|heater|lamp|press|drag|show|more)\b",
    re.IGNORECASE,
)
TEXTS = """() => {
    const found = [], of = (element) => element.closest("[lang]").lang;
    const isGerman = (element) => of(element) === "de" && !element.closest("noscript, script, .faults");
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode())
        if (isGerman(walker.currentNode.parentElement)) found.push(walker.currentNode.data);
    for (const name of ["aria-label", "title", "placeholder"])
        for (const element of document.querySelectorAll(`[${name}]`))
            if (isGerman(element)) found.push(element.getAttribute(name));
    return [...new Set(found.map((text) => text.trim()))];
}"""


async def test_no_view_has_english_words_or_internal_names(
    shared: Program, browser: Browser, client: Client
) -> None:
    chambers: dict[str, Any] = await client.get("node/chambers")
    variables = {each["variable"] for chamber in chambers["environments"] for each in chamber["variables"]}
    recipes = await client.get("/recipes/_all_docs?include_docs=true")
    given = {text for row in recipes["rows"] for text in row["doc"].values() if isinstance(text, str)}
    given |= {device["name"] for chamber in chambers["environments"] for device in chamber["devices"]}
    internal = {PLACE} | {name for name in variables if "_" in name}
    bad: list[tuple[str, str]] = []
    async with opened(browser, address(shared), locale="de-DE", viewport=DESK) as tab:
        page = tab.page
        await connected(page)
        for view in (*VIEWS, "settings", "log"):
            await page.goto(address(shared, view))
            await expect(page.locator("main > :not(h2)").first).to_be_visible()
            await expect(page.get_by_text("Wird geladen")).to_have_count(0)
            await page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
            await expect(page.get_by_text("Wird geladen")).to_have_count(0)
            for text in await page.evaluate(TEXTS):
                own = set(re.findall(r"\w+", text)) & internal
                if (ENGLISH.search(text) or own) and text not in given:
                    bad.append((view, text))
        assert bad == []
