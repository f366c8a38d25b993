"""The button that makes all outputs safe, on each view, and the bar while they are held."""

import re
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from playwright.async_api import expect

from support.browser import DESK, PHONE, opened, page_at
from support.page import VIEWS, address, connected, in_browser, sure, verdict

pytestmark = in_browser

HELD = "All outputs are held safe"


async def lit(client):
    """Have the lamp lit by hand."""
    await client.publish("desired/light_intensity_white", 0.5)
    await client.until(lambda: client.last("light_channels"), lambda found: found and found["x"] > 0.4)


async def is_held(client):
    return bool((await client.status())["holds"])


@asynccontextmanager
async def timed(browser, url):
    """A page whose clock the test can set."""
    async with page_at(browser, "about:blank") as page:
        await page.clock.install()
        await page.goto(url)
        await connected(page)
        yield page


async def pressed_twice(page):
    """Press and press again, in time and not as fast as one press bounces, by the clock of `timed`."""
    await page.clock.pause_at(await page.evaluate("Date.now() / 1000") + 3)  # not yet over on a busy machine
    await page.get_by_role("button", name="All safe").last.click()
    await page.clock.run_for(200)
    await page.get_by_role("button", name="Press again").last.click()
    await page.clock.resume()


async def test_two_presses_make_all_safe_and_a_release_ends_it(shared, browser, client):
    await lit(client)
    async with timed(browser, address(shared)) as page, opened(browser, address(shared, "data")) as other:
        await pressed_twice(page)
        await expect(page.get_by_text(HELD)).to_be_visible()
        assert await is_held(client)
        assert (await client.last("light_channels"))["x"] == 0
        await page.get_by_label("Reason").fill("new bottle")
        await page.get_by_role("button", name="Save").click()
        await expect(other.page.get_by_text(HELD)).to_be_visible()  # as does each other client
        await expect(other.page.get_by_text("new bottle")).to_be_visible()
        await expect(page.get_by_text(re.compile("new bottle.*by somebody at the device"))).to_be_visible()
        assert (await client.status())["holds"][0]["reason"] == "new bottle"
        await verdict(page).get_by_role("button", name="Release").click()
        await sure(page, "Release")
        await expect(page.get_by_text(HELD)).to_have_count(0)
        await expect(other.page.get_by_text(HELD)).to_have_count(0)
        assert not await is_held(client)
    await client.until(lambda: client.last("light_channels"), lambda found: found["x"] > 0.4)
    await client.publish("desired/light_intensity_white", None)


async def test_it_is_within_reach_in_a_dialog_and_a_question_ends_with_its_hold(shared, browser, client):
    async with page_at(browser, address(shared)) as page:
        await connected(page)
        await client.call("hold/set", reason="power work")
        await verdict(page).get_by_role("button", name="Release").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("power work, by somebody at the device")
        await client.call("hold/release")
        await client.call("hold/set", reason="man in chamber")
        await expect(dialog).to_have_count(0)
        await expect(page.get_by_text("man in chamber")).to_be_visible()
        await verdict(page).get_by_role("button", name="Release").click()
        await expect(dialog.get_by_role("button", name="All safe")).to_be_in_viewport()
        await dialog.get_by_role("button", name="Release", exact=True).click()
        await expect(page.get_by_text(HELD)).to_have_count(0)


async def test_it_has_a_connection_in_six_tabs_of_one_browser(shared, browser, client):
    async with timed(browser, address(shared)) as page, AsyncExitStack() as stack:
        for _ in range(5):
            await connected(page)
            other = await page.context.new_page()
            stack.push_async_callback(other.close)
            await other.goto(address(shared))
        await client.until(client.status, lambda found: found["http"]["streams"] == 6)
        await pressed_twice(page)
        await client.until(lambda: is_held(client), bool)
        await expect(page.get_by_text(HELD)).to_be_visible()
        await expect(page.get_by_text("NOT CONFIRMED")).to_have_count(0)


async def test_a_login_that_is_needed_is_said_at_once(shared, browser):
    async def refuse(route):
        await route.fulfill(status=401, json={"ERROR": "a login is required"})

    async with timed(browser, address(shared)) as page:
        for path in ("**/node/status", "**/service/hold/set"):
            await page.route(path, refuse)
        await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        await pressed_twice(page)
        bar = page.get_by_role("alert").filter(has_text="a login is required")
        await expect(bar).to_contain_text("NOT DONE")


@pytest.mark.parametrize(
    ("viewport", "locale", "name"), [(PHONE, "de-DE", "Sicher schalten"), (DESK, "en-GB", "All safe")]
)
async def test_the_button_is_at_the_top_right_of_each_view(shared, browser, viewport, locale, name):
    async with page_at(browser, address(shared), viewport=viewport, locale=locale) as page:
        for view in VIEWS:
            await page.goto(address(shared, view))
            button = page.get_by_role("button", name=name)
            await expect(button).to_be_in_viewport()
            box = await button.bounding_box()
            assert box["x"] + box["width"] > viewport["width"] - 30
            assert box["y"] < 30
            assert box["height"] >= 40


async def test_one_press_does_nothing_and_the_page_says_so_if_it_was_not_done(shared, browser, client):
    async with timed(browser, address(shared)) as page:
        await page.get_by_role("button", name="All safe").click()
        await expect(page.get_by_role("button", name="Press again")).to_be_visible()
        await page.clock.run_for(6_000)
        await expect(page.get_by_role("button", name="All safe")).to_be_visible()
        assert not await is_held(client)
        await page.route("**/service/hold/set", lambda route: route.abort())
        await pressed_twice(page)
        bar = page.get_by_role("alert").filter(has_text="NOT CONFIRMED")
        await expect(bar).to_be_visible()
        await page.unroute("**/service/hold/set")
        await bar.get_by_role("button", name="Try again").click()
        await expect(page.get_by_text(HELD)).to_be_visible()
        await expect(bar).to_have_count(0)
