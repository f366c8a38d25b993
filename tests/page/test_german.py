"""All views in German: no English words, and no names that growd uses inside."""

import re

import aiohttp
import pytest_asyncio
from playwright.async_api import expect

from growd.config.profiles import profile_path
from support.browser import DESK, opened, page_at
from support.page import PLACE, SIMULATED, VIEWS, Client, address, connected, in_browser, sheet
from support.program import started

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


SPOKEN = """() => {
    const found = [];
    const parts = document.querySelectorAll("main, dialog");
    for (const part of parts) {
        const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
        while (walker.nextNode())
            if (!walker.currentNode.parentElement.closest(".faults, select, h3, [translate=no]"))
                found.push(walker.currentNode.data.trim());
    }
    return [...new Set(found)];
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fresh(tmp_path_factory):
    """A growd in which no other test has written anything."""
    async with started(tmp_path_factory.mktemp("growd"), *SIMULATED) as program:
        await program.until_there("recipes/lettuce_days")
        yield program


@pytest_asyncio.fixture(loop_scope="session")
async def client(fresh):
    async with aiohttp.ClientSession() as session:
        yield Client(fresh, session)


async def test_no_view_has_english_words_or_internal_names(fresh, browser, client):
    chambers = await client.get("node/chambers")
    variables = {each["variable"] for chamber in chambers["environments"] for each in chamber["variables"]}
    recipes = await client.get("/recipes/_all_docs?include_docs=true")
    given = {text for row in recipes["rows"] for text in row["doc"].values() if isinstance(text, str)}
    given |= {device["name"] for chamber in chambers["environments"] for device in chamber["devices"]}
    internal = {PLACE} | {name for name in variables if "_" in name}
    bad = []
    async with page_at(browser, address(fresh), locale="de-DE", viewport=DESK) as page:
        await connected(page)
        for view in (*VIEWS, "settings", "log"):
            await page.goto(address(fresh, view))
            await expect(page.locator("main > :not(h2)").first).to_be_visible()
            await expect(page.get_by_text("Wird geladen")).to_have_count(0)
            await page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
            await expect(page.get_by_text("Wird geladen")).to_have_count(0)
            for text in await page.evaluate(TEXTS):
                own = set(re.findall(r"\w+", text)) & internal
                if (ENGLISH.search(text) or own) and text not in given:
                    bad.append((view, text))
        assert bad == []


async def test_a_fault_a_trip_and_a_hold_are_told_in_german(fresh, browser, client):
    """In all views also what growd says itself: events, reasons, problems with effects."""
    await client.publish("desired/light_illuminance", 5_000)
    await client.publish("desired/light_illuminance", None)
    await client.call("simulator/inject_fault", kind="absent", device="scd30")
    await client.call("hold/set")
    await client.call("hold/release")
    bad = []
    async with page_at(browser, address(fresh), locale="de-DE", viewport=DESK) as page:
        strip = page.get_by_role("region", name="Gesamtzustand")
        await expect(strip).to_contain_text("Sensor für CO₂ antwortet nicht")

        async def look(where):
            await expect(page.get_by_text("Wird geladen")).to_have_count(0)
            bad.extend((where, text) for text in await page.evaluate(SPOKEN) if ENGLISH.search(text))

        await strip.get_by_role("button").click()
        await page.evaluate(
            "document.querySelectorAll('dialog details').forEach((each) => (each.open = true))"
        )
        await expect(page.get_by_role("dialog")).to_contain_text("CO₂ unbekannt")
        await look("problems")
        await page.keyboard.press("Escape")
        co2 = await sheet(page, "CO₂")
        await expect(co2).to_contain_text("Sensor für CO₂ antwortet nicht")
        await look("sheet")
        await page.goto(address(fresh, "devices"))
        await expect(page.get_by_text("ausgelöst").first).to_be_visible()
        await look("devices")
        await page.goto(address(fresh, "journal"))
        for said in (
            "Licht: 5.000 lx von Hand freigegeben",
            "antwortet nicht",
            "Ausgänge wieder freigegeben",
        ):
            await expect(page.get_by_role("main").get_by_text(said).first).to_be_visible()
        await look("journal")
        await page.goto(address(fresh, "charts"))
        await page.get_by_text("Ereignisse (").click()
        await expect(page.get_by_role("main").get_by_text("antwortet nicht").first).to_be_visible()
        await look("charts")
    assert bad == []


async def test_tests_calibrations_and_alerts_are_told_in_german(tmp_path, browser):
    config = tmp_path / "growd.toml"
    alert = (
        '[[alert]]\nname = "warm"\nkind = "out_of_band"\nseverity = "critical"\n'
        'variable = "air_temperature"\nabove = 10\nfor_s = 1\n'
    )
    config.write_text(profile_path("sim").read_text(encoding="utf-8") + alert, encoding="utf-8")
    async with (
        started(tmp_path / "data", "--config", str(config), "--speed", "60") as program,
        aiohttp.ClientSession() as session,
        opened(browser, address(program), locale="de-DE", viewport=DESK) as tab,
    ):
        page, client = tab.page, Client(program, session)

        async def begun_and_ended(begin, end=""):
            await client.call(f"{PLACE}/{begin}")
            if end:
                await client.call(f"{PLACE}/{end}")
            await client.until(client.status, lambda status: not status["experiments"])

        await begun_and_ended("controllers/light_illuminance/calibrate_light")
        co2 = "controllers/air_carbon_dioxide"
        await begun_and_ended(f"{co2}/autotune", f"{co2}/stop_autotune")
        await client.call(f"{PLACE}/self_test/begin")
        strip = page.get_by_role("region", name="Gesamtzustand")
        await expect(strip).to_contain_text(re.compile(r"Lufttemperatur ist \d+,\d °C; Grenze 10"))
        await page.goto(address(program, "devices"))
        await expect(page.get_by_text(re.compile(r"\d bestanden, "))).to_be_visible(timeout=120_000)
        for name in ("light", "valve", "scd30_1"):
            await page.get_by_role("heading", name=name, exact=True).click()
        await expect(page.get_by_text(re.compile("volles Licht: "))).to_be_visible()
        await expect(page.get_by_text(re.compile(r"✕ abgebrochen \("))).to_be_visible()
        await expect(page.get_by_text("Wird geladen")).to_have_count(0)
        assert [text for text in await page.evaluate(SPOKEN) if ENGLISH.search(text)] == []
