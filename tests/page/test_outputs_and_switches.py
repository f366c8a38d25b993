"""Outputs of each kind, switches and interlocks of a chamber with water, as the page shows them."""

import re

import pytest
from playwright.async_api import expect

from support.browser import DESK, opened
from support.page import address, in_browser
from support.program import started

pytestmark = [*in_browser, pytest.mark.browser]

CONFIG = """
[light]
enabled = true

[[sensor]]
name = "air"
kind = "scd30"

[[sensor]]
name = "ph"
kind = "ezo_ph"
interval_s = 10

[[sensor]]
name = "float"
kind = "gpio"
pin = 5
variable = "water_level_low"

[[sensor]]
name = "heater_contact"
kind = "gpio"
pin = 6
confirms = "heater"

[[output]]
name = "heater"
kind = "relay"
pin = 25
drives = ["air_temperature"]

[[output]]
name = "humidifier"
kind = "http"
protocol = "shelly_gen2"
url = "http://192.168.1.40"
drives = ["air_humidity"]

[[output]]
name = "peltier"
kind = "pwm"
pin = 24
drives = ["air_temperature"]
direction = "lowers"

[[output]]
name = "acid"
pin = 22
drives = ["water_potential_hydrogen"]
direction = "lowers"
flow_ml_min = 30

[[output]]
name = "circulation"
pin = 23
variable = "water_circulation"

[[condition]]
name = "cold"
outputs = ["acid"]
variable = "air_temperature"
below = 5
"""


def card(page, name):
    """A card of a device."""
    heading = page.get_by_role("heading", name=name, exact=True)
    return page.locator("details.device").filter(has=heading)


async def test_outputs_switches_and_interlocks_are_shown_in_words(tmp_path, browser):
    config = tmp_path / "growd.toml"
    config.write_text(CONFIG)
    async with (
        started(tmp_path, "--config", str(config), "--speed", "10") as program,
        opened(browser, address(program, "devices"), viewport=DESK) as tab,
    ):
        page = tab.page
        await expect(card(page, "humidifier")).to_contain_text("Shelly at http://192.168.1.40")
        await expect(card(page, "humidifier")).to_contain_text(re.compile("off"))
        await expect(card(page, "peltier")).to_contain_text("0 %")
        await expect(card(page, "float")).to_contain_text(re.compile("yes|no"))
        await expect(card(page, "heater_contact")).to_contain_text(re.compile("gpio-6[01](just|[0-9])"))
        await expect(card(page, "acid")).to_contain_text("Measure the flow of the pump")
        guides = card(page, "ph").locator(".guides")
        await expect(guides).to_have_text(re.compile("middle point.*low point.*high point"))
        await page.get_by_text(re.compile(r"^\d+ ready$")).click()
        interlocks = page.locator("section").filter(has=page.get_by_role("heading", name="Interlocks"))
        await expect(interlocks).to_contain_text("Condition: cold")
        await expect(interlocks).to_contain_text("Heater / Cooler: never both")
        pause = interlocks.get_by_role("listitem").filter(has_text="Water not circulated")
        await expect(pause).to_contain_text("pauses")
        await expect(pause.locator(".bad")).to_have_count(0)

        await page.get_by_role("link", name="Now", exact=True).click()
        for name in ("Humidifier off", "Heater off", "Lamp 0 %"):
            await expect(page.get_by_role("button", name=name)).to_be_visible()
        await expect(
            page.get_by_role("button", name=re.compile("^Water level low (yes|no)$"))
        ).to_be_visible()
        await page.get_by_role("button", name="Lamp").click()
        lamp = page.get_by_role("dialog", name="Light")
        await expect(lamp).to_contain_text("Set point")  # also without a sensor of light
        await expect(lamp).not_to_contain_text("no value yet")
        assert not tab.errors
