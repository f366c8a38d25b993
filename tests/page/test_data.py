"""The view Data: database, outbox, replications, and exports."""

import json
import re

from playwright.async_api import expect

from support.browser import DESK, opened, page_at
from support.page import address, connected, in_browser

pytestmark = in_browser


async def test_database_and_outbox_and_how_long_points_are_kept(shared, browser):
    async with opened(browser, address(shared, "data"), viewport=DESK) as tab:
        page = tab.page
        for said in ("✓ answers", r"\d points", "✓ works", "embedded"):
            await expect(page.get_by_text(re.compile(said)).first).to_be_visible()
        card = page.locator("section", has=page.get_by_role("heading", name="How long data are kept"))
        await expect(card).to_contain_text("90 days")
        await expect(card).to_contain_text("nothing yet")
        await expect(card.get_by_text("Old measured points are deleted from")).to_have_count(0)
        await expect(page.get_by_text("growd backup FILE")).to_be_visible()
        await expect(page.get_by_text("is no backup")).to_be_visible()
        await page.get_by_label("To", exact=True).fill("2020-01-01T00:00")
        await page.get_by_label("To", exact=True).blur()
        await expect(page.get_by_text("The end must be later than the start.")).to_be_visible()


async def test_on_a_phone_in_german(shared, browser):
    async with page_at(browser, address(shared, "data"), locale="de-DE") as page:
        for said in ("✓ antwortet", r"\d Messpunkte", "✓ in Ordnung"):
            await expect(page.get_by_text(re.compile(said))).to_be_visible()
        table = page.get_by_role("region", name="Als CSV exportieren")
        await expect(table.get_by_role("columnheader", name="Ausgang")).to_be_visible()
        assert await table.evaluate("each => each.scrollWidth <= each.clientWidth")


async def test_exports_of_one_variable_and_of_all(shared, browser):
    async with page_at(browser, address(shared, "data"), viewport=DESK) as page:
        await connected(page)
        for name, content in (
            ("CSV Air temperature: Measured", "measured,air_temperature"),
            ("All measured values and set points", "air_carbon_dioxide"),
        ):
            async with page.expect_download() as download:
                await page.get_by_role("link", name=name).click()
            head, *rows = (await (await download.value).path()).read_text().splitlines()
            assert head == "time,environment,category,variable,value,unit,is_manual"
            assert any(content in row for row in rows)
        async with page.expect_download() as download:
            await page.get_by_role("link", name="All recipes (JSON)").click()
        assert "demo_day" in [
            row["id"] for row in json.loads((await (await download.value).path()).read_text())["rows"]
        ]


async def test_the_page_of_the_api(shared, browser):
    async with page_at(browser, address(shared, "data"), viewport=DESK) as page:
        await page.get_by_role("link", name="All calls of the API").click()
        await expect(page).to_have_url(re.compile("/_svc/api/$"))
        heading = page.get_by_role("heading", name="Describe a node").first
        await expect(heading).to_be_visible(timeout=90_000)  # RapiDoc computes for ten seconds


async def test_it_says_when_deleting_begins_if_there_are_old_points(shared, browser, client):
    old = {"category": "measured", "variable": "air_temperature", "is_manual": False}

    async def answer(route):
        await route.fulfill(json={"rows": [{"id": "old", "key": [], "value": old}]})

    await client.until(lambda: client.get("node/retention"), lambda nodes: nodes["retention"]["begins_at"])
    async with page_at(browser, "about:blank") as page:
        await page.route("**/_view/by_timestamp?*", answer)
        await page.goto(address(shared, "data"))
        await expect(page.get_by_text("Old measured points are deleted from")).to_be_visible()
