"""The page with large text, with the keyboard, with a screen reader, and on a slow network."""

import asyncio

import pytest
from playwright.async_api import expect

from support.browser import DESK, page_at
from support.page import PLACE, VIEWS, address, card, connected, in_browser

pytestmark = in_browser

FOCUSED = "document.activeElement.textContent.trim()"


@pytest.mark.parametrize(
    ("width", "size"), [(360, "200%"), (320, "100%")], ids=["text of 200 %", "zoom of 400 %"]
)
async def test_nothing_leaves_a_narrow_screen(shared, browser, width, size):
    screen = {"width": width, "height": 800}
    async with page_at(browser, "about:blank", viewport=screen, locale="de-DE") as page:
        script = (
            f"addEventListener('DOMContentLoaded', () => document.documentElement.style.fontSize = '{size}')"
        )
        await page.add_init_script(script)
        for view in VIEWS:
            await page.goto(address(shared, view))
            await connected(page)
            await expect(page.get_by_role("main").get_by_text("Wird geladen")).to_have_count(0)
            for element in (
                page.get_by_role("button", name="Sicher schalten"),
                *await page.get_by_role("navigation").get_by_role("link").all(),
            ):
                box = await element.bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width, f"{view}: {await element.inner_text()}"
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{view} is {wide} px wide"


async def test_the_focus_stays_where_the_work_is(shared, browser, client):
    await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days")
    async with page_at(browser, address(shared), viewport=DESK) as page:
        line = page.get_by_role("region", name="Lettuce, 41 days by the clock")
        await line.get_by_label("Pause or stop").click()
        await line.get_by_role("button", name="Pause").focus()
        await page.keyboard.press("Enter")
        await expect(line.get_by_role("button", name="Resume")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(line.get_by_role("button", name="Pause")).to_be_focused()
        await line.get_by_role("button", name="Stop").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("No recipe runs.")).to_be_visible()
        await expect(page.locator("main :focus")).to_have_count(1)
        await page.goto(address(shared, "now", "of=light_illuminance"))
        light = page.get_by_role("dialog")
        await light.get_by_label("Set point of Light").fill("5000")
        await page.keyboard.press("Enter")
        await light.get_by_role("button", name="Release").focus()
        await page.keyboard.press("Enter")
        await expect(light.get_by_label("Set point of Light")).to_be_focused()
        await page.keyboard.press("Escape")
        await page.get_by_role("link", name="Recipes", exact=True).first.click()
        await page.get_by_role("link", name="A day in four minutes").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("main :focus, main:focus")).to_have_count(1)


async def test_what_has_the_focus_is_never_behind_the_bars(shared, browser):
    async with page_at(browser, address(shared)) as page:
        await connected(page)
        await page.get_by_role("main").focus()
        for _ in range(20):
            await page.keyboard.press("Tab")
            seen = await page.evaluate(
                """() => {
                    const box = document.activeElement.getBoundingClientRect();
                    const [top, bottom] = ["header", "nav"].map(each => document.querySelector(each));
                    return document.activeElement.closest("main") === null
                        || (box.top >= top.getBoundingClientRect().bottom
                            && box.bottom <= bottom.getBoundingClientRect().top);
                }"""
            )
            assert seen, await page.evaluate(FOCUSED)


async def test_a_change_is_announced_once(shared, browser, client):
    async with page_at(browser, address(shared), viewport=DESK) as page:
        await connected(page)
        alert = page.get_by_role("region", name="Problems").get_by_role("alert")
        await client.call("simulator/inject_fault", device="scd30", kind="absent")
        await expect(alert).to_contain_text("CO₂ sensor")
        await client.call("simulator/clear_faults")
        await expect(alert).to_contain_text("resolved: ")
        await expect(alert).to_have_text("")
        await client.call("hold/set", reason="smoke")
        said = page.get_by_role("status").filter(has_text="All outputs are held safe")
        await expect(said).to_have_text("All outputs are held safe")  # without how long
        await client.call("hold/release")
        await expect(said).to_have_count(0)


async def test_a_slow_network_is_no_alarm(shared, browser):
    is_open = asyncio.Event()

    async def late(route):
        await is_open.wait()
        await route.continue_()

    async with page_at(browser, "about:blank") as page:
        await page.clock.install()
        await page.route("**/stream?*", late)
        await page.goto(address(shared))
        await expect(card(page, "Light")).to_be_visible()
        await expect(page.get_by_text("Connecting to growd")).to_be_visible()
        before = await card(page, "CO₂").bounding_box()
        await page.clock.run_for(2_500)  # it would say so at the next second
        await expect(page.get_by_text("All values are old")).to_have_count(0)
        is_open.set()
        await connected(page)
        await expect(page.get_by_text("Connecting to growd")).to_have_count(0)
        after = await card(page, "CO₂").bounding_box()
        assert after["y"] == before["y"]
