"""The bar of what is wrong: growd's own sentences, and the button that helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import aiohttp
import pytest
from playwright.async_api import expect

from support.browser import DESK, PHONE, opened
from support.page import PLACE, VIEWS, Client, address, card, in_browser, sure
from support.program import started

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Browser, Locator, Page

    from support.program import Program

pytestmark = in_browser

ALERT = """
[simulator]
enabled = true
[[sensor]]
name = "lux"
kind = "bh1750"
interval_s = 1.0
[[notify]]
name = "house"
kind = "apprise"
url_file = "house"
[[alert]]
name = "devices"
kind = "device_failed"
for_s = 0
"""


def problem(page: Page, text: str) -> Locator:
    """The item of a problem in the bar."""
    return page.get_by_role("region", name="Problems").get_by_role("group").filter(has_text=text)


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
async def test_a_fault_is_on_each_view_and_leads_to_the_devices(
    shared: Program, browser: Browser, client: Client, viewport
) -> None:
    await client.call("simulator/inject_fault", device="scd30", kind="absent")
    async with opened(browser, address(shared), viewport=viewport) as tab:
        for view in VIEWS:
            await tab.page.goto(address(shared, view))
            await expect(problem(tab.page, "Failure: environment_1/scd30_1")).to_be_in_viewport()
        item = problem(tab.page, "Failure: environment_1/scd30_1")
        await item.locator("summary").click()
        await item.get_by_role("link", name="Devices").click()
        await expect(tab.page).to_have_title(re.compile("Devices · growd"))
        await client.call("simulator/clear_faults")
        await expect(item).to_have_count(0)


async def test_simulated_hardware_is_said_calmly(shared: Program, browser: Browser) -> None:
    async with opened(browser, address(shared)) as tab:
        mark = tab.page.get_by_role("banner").get_by_text(re.compile("^Simulated .10$"))
        await mark.click()
        await expect(tab.page.get_by_text("no sensor is read and no output is switched")).to_be_visible()


async def test_an_interlock_that_waits_for_a_reset_gets_one_after_a_question(
    tmp_path: Path, browser: Browser
) -> None:
    name = f"{PLACE}/interlocks/no_rise_after_dose"
    options = ["--set", "interlock.no_rise_open_s=30"]
    async with (
        started(tmp_path, "--profile", "sim", "--speed", "20", *options) as program,
        aiohttp.ClientSession() as session,
        opened(browser, address(program), viewport=DESK) as tab,
    ):
        client = Client(program, session)
        await expect(card(tab.page, "CO₂")).to_contain_text("ppm")
        await client.call("simulator/inject_fault", kind="without_effect", device="valve")
        await client.publish("commanded/air_carbon_dioxide_valve_on", 1)
        item = problem(tab.page, "No rise after a dose has tripped")
        await expect(item).to_be_visible()
        await expect(card(tab.page, "CO₂")).to_contain_text("Held by an interlock")
        await expect(card(tab.page, "CO₂")).to_contain_text("shut")  # whatever is commanded
        await client.publish("commanded/air_carbon_dioxide_valve_on", None)
        await item.locator("summary").click()
        await item.get_by_role("button", name="Reset").click()
        await sure(tab.page, "Reset")
        await expect(item).to_have_count(0)
        locks = {each["name"]: each for each in (await client.status())["interlocks"]}
        assert not locks[name]["tripped"]


async def test_an_alert_is_acknowledged(tmp_path: Path, browser: Browser) -> None:
    config = tmp_path / "growd.toml"
    config.write_text(ALERT)
    (tmp_path / "house").write_text("json://127.0.0.1:9/growd\n")
    (tmp_path / "house").chmod(0o600)
    async with (
        started(tmp_path / "data", "--config", str(config), "--speed", "10") as program,
        aiohttp.ClientSession() as session,
        opened(browser, address(program), viewport=DESK) as tab,
    ):
        client = Client(program, session)
        await client.call("simulator/inject_fault", device="bh1750", kind="absent")
        item = problem(tab.page, "devices").filter(
            has=tab.page.get_by_role("button", name="Acknowledge", include_hidden=True)
        )
        await item.first.locator("summary").click()
        await item.first.get_by_role("button", name="Acknowledge").click()
        await expect(item).to_have_count(0)
        alerts = (await client.status())["alerts"]
        assert [alert["acknowledged_by"] is None for alert in alerts] == [False]
