"""The frame of the page: the way to it, the navigation, and that each view fits and has all texts."""

import itertools
import re

import pytest
from playwright.async_api import expect

from support.browser import DESK, PHONE, opened, page_at
from support.page import VIEWS, address, card, connected, in_browser
from support.program import started

pytestmark = in_browser

GERMAN = ("Jetzt", "Verlauf", "Rezepte", "Geräte", "Journal", "Daten")
MISSING_TEXT = re.compile(
    r"\b(now|charts|recipe|devices|journal|data|quality|run|calibration|faults?|help|safe|hold|interlock)_\w+"
)


async def test_the_address_of_growd_leads_to_the_page(shared, browser):
    async with page_at(browser, shared.address) as page:
        await expect(page.get_by_role("heading", name="growd")).to_be_visible()
        assert page.url.startswith(f"{shared.address}/_svc/")


async def test_another_name_of_growds_part(tmp_path, browser):
    async with (
        started(tmp_path, "--profile", "sim", "--set", "http.name=grow") as program,
        page_at(browser, program.address) as page,
    ):
        assert page.url.startswith(f"{program.address}/_grow/")
        await connected(page)


@pytest.mark.parametrize(("viewport", "locale"), [(PHONE, "de-DE"), (DESK, "en-GB")], ids=["phone", "desk"])
async def test_each_view_fits_and_has_all_texts(shared, browser, viewport, locale):
    async with page_at(browser, shared.address, viewport=viewport, locale=locale) as page:
        await connected(page)
        for view, german in zip(VIEWS, GERMAN, strict=True):
            name = german if locale == "de-DE" else view.capitalize()
            await page.get_by_role("link", name=name, exact=True).first.click()
            await expect(page).to_have_title(f"{name} · growd")
            await expect(
                page.get_by_role("main").get_by_text(re.compile("Loading|Wird geladen"))
            ).to_have_count(0)
            text = await page.get_by_role("main").inner_text()
            assert len(text) > 100, f"{name} is empty"
            assert not MISSING_TEXT.findall(text)
            wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{name} is {wide} px wider than the screen"


@pytest.mark.parametrize("locale", ["de-DE", "en-GB"])
async def test_nothing_in_the_header_of_a_phone_is_cut_or_covered(shared, browser, locale):
    elsewhere = {"locale": locale, "timezone_id": "Asia/Tokyo"}  # so that the clock is there too
    async with page_at(browser, address(shared), viewport=PHONE, **elsewhere) as page:
        await connected(page)
        parts = page.locator(".who > h1, .who .pill, header .all_safe")
        await expect(parts).to_have_count(5)
        for part in await parts.all():
            cut = await part.evaluate("(each) => each.scrollWidth - each.clientWidth")
            assert cut <= 0, await part.inner_text()
        boxes = [await part.bounding_box() for part in await parts.all()]
        for one, other in itertools.combinations(boxes, 2):
            is_beside = any(
                first[at] + first[size] <= second[at] + 1
                for at, size in (("x", "width"), ("y", "height"))
                for first, second in ((one, other), (other, one))
            )
            assert is_beside, (one, other)


async def test_the_whole_navigation_with_the_keyboard(shared, browser):
    async with page_at(browser, shared.address, viewport=DESK) as page:
        await connected(page)
        await page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to the content")
        await expect(skip).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("main")).to_be_focused()
        await page.get_by_role("link", name="Devices").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("main", name="Devices")).to_be_focused()


async def test_the_address_keeps_view_and_range_over_a_reload_and_back(shared, browser):
    async with page_at(browser, address(shared, "charts", "range=hour"), viewport=DESK) as page:
        hour = page.get_by_role("button", name="Hour", exact=True)
        await expect(hour).to_have_attribute("aria-pressed", "true")
        await page.reload()
        await expect(hour).to_have_attribute("aria-pressed", "true")
        await page.get_by_role("link", name="Data", exact=True).click()
        await expect(page).to_have_title("Data · growd")
        await page.go_back()
        await expect(page).to_have_title("Charts · growd")


async def test_a_view_that_was_not_loaded_is_loaded_by_another_try(shared, browser):
    async with opened(browser, "about:blank") as tab:
        await tab.page.route("**/main.rest.js", lambda route: route.abort())
        await tab.page.goto(address(shared))
        await connected(tab.page)
        await tab.page.get_by_role("link", name="Journal").click()
        await expect(tab.page.get_by_text("could not be loaded")).to_be_visible()
        await expect(tab.page.get_by_text("newer version")).to_have_count(0)
        assert all("main.rest.js" in each for each in tab.errors)
        tab.errors.clear()
        await tab.page.unroute("**/main.rest.js")
        await tab.page.get_by_role("button", name="Try again").click()
        await expect(tab.page.get_by_role("button", name="Save").first).to_be_visible()


@pytest.mark.parametrize("place", ["#%", "#environment_1/constructor", "#shelf_5/now"])
async def test_an_address_that_means_nothing_leads_to_the_view_now(shared, browser, place):
    async with page_at(browser, f"{shared.address}/_svc/{place}") as page:
        await expect(card(page, "Light")).to_be_visible()
        await expect(page.get_by_role("button", name="All safe")).to_be_visible()
        if place == "#shelf_5/now":
            await expect(page.get_by_role("alert").get_by_text("no chamber shelf 5")).to_be_visible()
