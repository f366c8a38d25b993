"""An empty chamber: first steps, the documentation, and devices that are added, named and removed."""

import tomllib

import pytest_asyncio
from playwright.async_api import expect

from support.axe import violations
from support.browser import opened, page_at
from support.page import address, connected, in_browser
from support.ports import held_port
from support.program import started

pytestmark = in_browser

EMPTY = """\
# An empty chamber.
sensor = []

[simulator]
enabled = true
unconfigured = ["sht4x"]   # wired already
"""


@pytest_asyncio.fixture(loop_scope="session")
async def empty(tmp_path):
    """A chamber without any device, and one chip on its bus. It keeps its port when it starts again."""
    (tmp_path / "growd.toml").write_text(EMPTY)
    with held_port() as port:
        given = ("--config", str(tmp_path / "growd.toml"), "--port", str(port))
        async with started(tmp_path / "data", *given) as program:
            yield program


def sheet(page):
    return page.get_by_role("dialog", name="Add a device")


async def test_a_sensor_is_added_in_six_clicks_and_renamed_and_removed(empty, browser, tmp_path):
    async with opened(browser, address(empty)) as tab:
        page, file = tab.page, tmp_path / "growd.toml"
        clicks = 0

        async def click(target):
            nonlocal clicks
            clicks += 1
            await target.click()

        await expect(page.get_by_role("heading", name="First steps")).to_be_visible()
        await click(page.get_by_role("navigation").get_by_role("link", name="Devices"))
        await connected(page)  # also without a single value
        await expect(page.get_by_role("link", name="Documentation")).to_be_visible()
        await click(page.get_by_role("button", name="Add a device"))
        await click(sheet(page).get_by_role("button", name="SHT4x"))
        await sheet(page).get_by_label("Name").fill("leaf temperature")
        await click(sheet(page).get_by_role("button", name="Try"))
        await expect(sheet(page).get_by_role("alert").first).to_contain_text("leaf_temperature")
        await sheet(page).get_by_label("Name").fill("leaf")
        await sheet(page).get_by_role("button", name="Try").click()
        await expect(sheet(page).get_by_role("status")).to_contain_text("%")
        assert await violations(page) == []
        await click(sheet(page).get_by_role("button", name="Add and restart growd"))
        assert clicks <= 6
        card = page.locator("details.device")
        await expect(card.get_by_role("heading")).to_have_text("leaf")
        await expect(card).to_contain_text("°C")
        await expect(sheet(page)).to_have_count(0)
        assert "# wired already" in file.read_text()

        await card.locator("summary").click()
        await card.get_by_role("button", name="Rename").click()
        await card.get_by_label("Name").fill("top")
        await card.get_by_role("button", name="Rename").click()
        await expect(card.get_by_role("heading")).to_have_text("top")
        assert tomllib.loads(file.read_text())["sensor"][0]["name"] == "top"


async def test_an_output_is_tried_added_and_removed(empty, browser, tmp_path):
    async with page_at(browser, address(empty, "devices"), locale="de-DE") as page:
        await page.get_by_role("button", name="Gerät hinzufügen").click()
        await page.get_by_role("button", name="Ausgang an einem Pin").click()
        dialog = page.get_by_role("dialog", name="Gerät hinzufügen")
        await dialog.get_by_label("Was er tut").select_option(label="Umluft")
        await dialog.get_by_label("Pin (GPIO)").select_option("17")
        await dialog.get_by_label("Name").fill("umluft")
        await dialog.get_by_role("button", name="1 s einschalten").click()
        await page.get_by_role("dialog", name="GPIO 17").get_by_role("button", name="1 s einschalten").click()
        await expect(dialog.get_by_role("status")).to_contain_text("✓")
        await dialog.get_by_role("button", name="Hinzufügen und growd neu starten").click()
        card = page.locator("details.device")
        await expect(card.get_by_role("heading")).to_have_text("umluft")
        written = tomllib.loads((tmp_path / "growd.toml").read_text())["output"]
        assert written == [
            {"name": "umluft", "kind": "relay", "pin": 17, "active": "low", "variable": "air_circulation"}
        ]
        await card.locator("summary").click()
        await card.get_by_role("button", name="Entfernen").click()
        await page.get_by_role("dialog").get_by_role("button", name="Entfernen").click()
        await expect(page.get_by_role("heading", name="Erste Schritte")).to_be_visible()
        await expect(card).to_have_count(0)


async def test_a_file_that_may_not_change_is_said_plainly(shared, browser):
    async with page_at(browser, address(shared, "devices")) as page:
        await page.get_by_role("button", name="Add a device").click()
        await expect(sheet(page).get_by_role("alert")).to_contain_text("--config growd.toml")


async def test_the_documentation_is_read_on_the_page(shared, browser):
    async with page_at(browser, address(shared, "devices")) as page:
        await page.get_by_role("link", name="Documentation").click()
        await page.get_by_role("link", name="First grow").click()
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.url.endswith("/_svc/docs/first-grow.md")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
