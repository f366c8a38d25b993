"""The photos of a camera on the first view, and beside the charts."""

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import expect

from growd.config.profiles import profile_path
from support.browser import DESK, PHONE, opened, page_at
from support.page import address, in_browser
from support.program import started
from support.waiting import until_found

pytestmark = in_browser

CAMERA = """
[[camera]]
name = "top"
kind = "simulated"
interval_s = 30
width = 640
"""
FEW = 3


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def seeing(tmp_path_factory):
    """A growd whose camera has taken a few photos."""
    tmp_path = tmp_path_factory.mktemp("growd")
    config = tmp_path / "growd.toml"
    config.write_text(profile_path("sim").read_text(encoding="utf-8") + CAMERA, encoding="utf-8")
    async with started(tmp_path / "data", "--config", str(config), "--speed", "30") as program:
        async with aiohttp.ClientSession() as session:

            async def are_taken():
                async with session.get(f"{program.api}/photos/environment_1") as answer:
                    return len((await answer.json())["photos"]) >= FEW

            await until_found(are_taken)
        yield program


async def is_drawn(page, name):
    """Wait until a picture has arrived."""
    picture = page.get_by_role("img", name=name)
    await expect(picture).to_be_visible()
    await expect(picture).to_have_js_property("complete", value=True)
    assert await picture.evaluate("(image) => image.naturalWidth") > 0


@pytest.mark.parametrize(
    "viewport", [PHONE, DESK, {"width": 1920, "height": 1080}], ids=["phone", "desk", "wide"]
)
async def test_the_newest_photo_is_on_the_first_view_and_leads_to_the_film(seeing, browser, viewport):
    async with page_at(browser, address(seeing), viewport=viewport) as page:
        await is_drawn(page, "Photo of")
        photo = page.get_by_role("link", name="Photo of")
        await expect(photo).to_be_in_viewport(ratio=0.9)
        await photo.click()
        await expect(page.get_by_role("region", name="Photos")).to_be_visible()
        await is_drawn(page, "Photo of")


async def test_a_slider_shows_each_photo_and_the_values_of_its_time(seeing, browser):
    async with opened(browser, address(seeing, "charts", "range=hour"), viewport=DESK) as tab:
        film = tab.page.get_by_role("region", name="Photos")
        slider = film.get_by_role("slider")
        await slider.focus()
        await slider.press("ArrowLeft")
        number = film.get_by_text("photo ")
        before = await slider.get_attribute("aria-valuetext")
        await slider.press("ArrowLeft")
        await expect(slider).not_to_have_attribute("aria-valuetext", before or "")
        time = await slider.get_attribute("aria-valuetext")
        assert time is not None
        await expect(tab.page.locator(".moment")).to_contain_text(time)  # the cursor of the chart
        await is_drawn(film.page, f"Photo of {time}")
        await expect(number).to_contain_text(time)


async def test_the_photos_are_played_to_the_last(seeing, browser):
    async with page_at(browser, address(seeing, "charts", "range=hour"), viewport=DESK) as page:
        film = page.get_by_role("region", name="Photos")
        await film.get_by_role("button", name="Play").click()
        await expect(film.get_by_role("button", name="Stop")).to_be_visible()
        await expect(film.get_by_role("button", name="Play")).to_be_visible()
        shown, count = (await film.get_by_text("photo ").inner_text()).split("photo ")[1].split(" of ")
        assert int(shown) >= FEW
        assert int(count) - int(shown) <= 2  # taken meanwhile


async def test_without_a_camera_there_is_no_photo(shared, browser):
    async with page_at(browser, address(shared, "charts"), viewport=DESK) as page:
        await expect(page.locator(".moment")).not_to_be_empty()
        await expect(page.get_by_role("region", name="Photos")).to_have_count(0)


async def test_a_camera_is_a_device_that_takes_a_photo_when_asked(seeing, browser):
    async with page_at(browser, address(seeing, "devices"), viewport=DESK) as page:
        card = page.locator("details.device").filter(has_text="Camera")
        await expect(card).to_contain_text("ok")
        await expect(card.locator(".guides")).to_have_count(0)  # nothing to calibrate
        await card.locator("summary").click()
        await card.get_by_role("button", name="Take a photo now").click()
        await expect(page.get_by_text("top took a photo")).to_be_visible()
