"""The view Now: cards with values, set points, outputs and commands, and the recipe in a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import aiohttp
import pytest
from playwright.async_api import expect

from support.browser import DESK, PHONE, opened
from support.page import PLACE, SIMULATED, Client, address, card, connected, in_browser, sure
from support.program import started

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Browser

    from support.program import Program

pytestmark = in_browser

LIGHT = "light_illuminance"


@pytest.mark.parametrize(
    ("look", "names", "value"),
    [
        (
            {"locale": "en-GB", "viewport": PHONE},
            ("Air temperature", "Humidity", "CO₂", "Light"),
            r"^\d+\.\d °C$",
        ),
        (
            {"locale": "de-DE", "viewport": DESK},
            ("Lufttemperatur", "Luftfeuchte", "CO₂", "Licht"),
            r"^\d+,\d °C$",
        ),
        (
            {"locale": "en-US", "viewport": DESK},
            ("Air temperature", "Humidity", "CO₂", "Light"),
            r"^\d+\.\d °F$",
        ),
    ],
    ids=["phone", "German", "Fahrenheit"],
)
async def test_each_variable_has_a_card_with_value_unit_and_age(
    shared: Program, browser: Browser, look, names, value
) -> None:
    age = re.compile(r"just now|\d+ s ago|gerade eben|vor \d+ s")
    async with opened(browser, address(shared), **look) as tab:
        for name in names:
            await expect(card(tab.page, name)).to_contain_text(age)
        await expect(tab.page.get_by_role("article")).to_have_count(4)
        await expect(card(tab.page, names[0]).get_by_text(re.compile(value))).to_be_visible()


async def test_a_set_point_that_is_typed_is_growds_until_it_is_released(
    shared: Program, browser: Browser, client: Client
) -> None:
    async with opened(browser, address(shared)) as tab:
        light = card(tab.page, "Light")
        field = light.get_by_label("Set point of Light")
        await field.fill("9000")
        await field.press("Enter")
        await expect(light).to_contain_text("by hand: 127.0.0.1")
        assert await client.last(f"desired/{LIGHT}") == 9000
        await light.get_by_role("button", name="Release").click()
        await expect(field).to_have_value("")
        assert await client.last(f"desired/{LIGHT}") is None


async def test_a_set_point_in_the_numbers_of_the_browser(
    shared: Program, browser: Browser, client: Client
) -> None:
    async with opened(browser, address(shared), locale="de-DE") as tab:
        light = card(tab.page, "Licht")
        field = light.get_by_label("Sollwert für Licht")
        await field.fill("1.234,5")
        await light.get_by_role("button", name="Setzen").click()
        await expect(light).to_contain_text("von Hand: 127.0.0.1")
        assert await client.last(f"desired/{LIGHT}") == 1234.5
        await light.get_by_role("button", name="Freigeben").click()
        await expect(field).to_have_value("")


async def test_a_set_point_that_is_none_is_not_sent(
    shared: Program, browser: Browser, client: Client
) -> None:
    async with opened(browser, address(shared)) as tab:
        light = card(tab.page, "Light")
        field = light.get_by_label("Set point of Light")
        for typed, said in (("bright", "Not a number."), ("-5", "Possible: 0 to 200,000 lx")):
            await field.fill(typed)
            await expect(light).to_contain_text(said)
            await expect(field).to_have_attribute("aria-invalid", "true")
            await expect(light.get_by_role("button", name="Set", exact=True)).to_be_disabled()
        await field.fill("190000")
        await expect(light).to_contain_text("This chamber reaches 0 to")
        await field.press("Escape")
        await expect(field).to_have_value("")
        assert await client.last(f"desired/{LIGHT}") is None


async def test_a_set_point_beyond_reach_is_marked_while_it_is_in_force(
    shared: Program, browser: Browser, client: Client
) -> None:
    async with opened(browser, address(shared)) as tab:
        light = card(tab.page, "Light")
        await client.publish(f"desired/{LIGHT}", 190_000)
        await expect(light).to_contain_text("▲ This chamber reaches 0 to 20,000 lx.")
        await client.publish(f"desired/{LIGHT}", None)
        await expect(light).not_to_contain_text("This chamber reaches")


async def test_why_a_set_point_is_refused_is_not_behind_the_bar(shared: Program, browser: Browser) -> None:
    async with opened(browser, address(shared)) as tab:
        await connected(tab.page)
        light = card(tab.page, "Light")
        await light.get_by_label("Set point of Light").evaluate(
            """field => {
                document.body.style.paddingBottom = "100vh";
                const bar = document.querySelector("nav").getBoundingClientRect().top;
                scrollBy(0, field.getBoundingClientRect().bottom - bar + 1);
                field.value = "-5";
                field.dispatchEvent(new Event("input", {bubbles: true}));
            }"""
        )
        why = light.get_by_text("Possible: 0 to 200,000 lx")
        await expect(why).to_be_visible()
        await tab.page.wait_for_function(
            """why => why.getBoundingClientRect().bottom
                <= document.querySelector("nav").getBoundingClientRect().top""",
            arg=await why.element_handle(),
        )


async def test_an_output_is_switched_by_its_own_set_point(
    shared: Program, browser: Browser, client: Client
) -> None:
    async with opened(browser, address(shared)) as tab:
        carbon_dioxide = card(tab.page, "CO₂")
        await carbon_dioxide.get_by_text("Fan", exact=True).click()
        switch = carbon_dioxide.get_by_role("group", name="Set point of Fan")
        await switch.get_by_role("button", name="on", exact=True).click()
        await expect(switch.get_by_role("button", name="on", exact=True)).to_have_attribute(
            "aria-pressed", "true"
        )
        await client.until(lambda: client.last("switches/fan"), bool)
        await switch.get_by_role("button", name="off", exact=True).click()
        await client.until(lambda: client.last("switches/fan"), lambda level: level is False or level == 0)
        await carbon_dioxide.get_by_role("button", name="Release").click()
        await client.until(lambda: client.last("desired/air_flush_on"), lambda value: value is None)


async def test_a_command_by_hand_shows_its_time_and_the_way_back(
    shared: Program, browser: Browser, client: Client
) -> None:
    await client.publish("commanded/light_intensity_white", 0.4)
    async with opened(browser, address(shared)) as tab:
        light = card(tab.page, "Light")
        await expect(light).to_contain_text(re.compile(r"Commanded by hand: 40 %, \d+ min left"))
        await expect(light.get_by_text("40 %", exact=True)).to_be_visible()  # what the lamp really does
        await light.get_by_role("button", name="Back to automatic").click()
        await expect(light).not_to_contain_text("Commanded by hand")
        assert await client.last("commanded/light_intensity_white") is None


async def test_the_recipe_in_a_line_pauses_resumes_and_stops(
    shared: Program, browser: Browser, client: Client
) -> None:
    await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days")
    async with opened(browser, address(shared), viewport=DESK) as tab:
        line = tab.page.get_by_role("region", name="lettuce_days")
        await expect(line).to_contain_text("running")
        await expect(line.get_by_role("progressbar")).to_be_visible()
        await expect(line).to_contain_text(re.compile("next: .+, in .+"))
        await expect(card(tab.page, "Light")).to_contain_text("from the recipe lettuce_days")
        await line.get_by_role("button", name="Pause").click()
        await expect(line).to_contain_text("paused")
        assert (await client.run())["state"] == "paused"
        await line.get_by_role("button", name="Resume").click()
        await expect(line).to_contain_text("running")
        await line.get_by_role("button", name="Stop").click()
        await tab.page.get_by_role("dialog").get_by_role("button", name="Back").click()
        assert (await client.run())["state"] == "running"
        await line.get_by_role("button", name="Stop").click()
        await sure(tab.page, "Stop")
        await expect(tab.page.get_by_text("No recipe runs.")).to_be_visible()
        assert (await client.run())["state"] == "idle"


async def test_a_sensor_that_dies_shows_a_fault_and_no_old_value(
    shared: Program, browser: Browser, client: Client
) -> None:
    async with opened(browser, address(shared)) as tab:
        light = card(tab.page, "Light")
        await expect(light.get_by_text(re.compile(r"^\d.* lx$"))).to_be_visible()
        await client.call("simulator/inject_fault", device="bh1750", kind="absent")
        await expect(light.get_by_text("fault", exact=True)).to_be_visible()
        await expect(light.get_by_text("\u2013 lx")).to_be_visible()
        await expect(light.get_by_text(re.compile(r"^\d.* lx$"))).to_have_count(0)
        await expect(light).to_contain_text("0x23")  # growd's own sentence
        await expect(tab.page.get_by_text(re.compile("Failure:.*bh1750_1"))).to_be_visible()
        await expect(tab.page).to_have_title(re.compile(r"^\(\d ✖\) Now · growd$"))
        await client.call("simulator/clear_faults")
        await expect(light.get_by_text(re.compile(r"^\d.* lx$"))).to_be_visible()
        alert = tab.page.locator(".wrong [role=alert]")
        await expect(alert).to_have_text("")  # a screen reader finds nothing of the past


async def test_a_set_point_is_not_called_reached_during_a_hold_and_without_its_sensor(
    shared: Program, browser: Browser, client: Client
) -> None:
    async with opened(browser, address(shared)) as tab:
        light, reached = card(tab.page, "Light"), "✓ set point reached"
        await client.publish(f"desired/{LIGHT}", 5000)
        await expect(light).to_contain_text(reached)
        await client.call("hold/set", reason="new bottle")
        await expect(light).to_contain_text("Held safe")
        await expect(light).not_to_contain_text(reached)
        await expect(tab.page).to_have_title("(◼) Now · growd")
        await client.call("hold/release")
        await expect(light).to_contain_text(reached)
        await client.call("simulator/inject_fault", device="bh1750", kind="absent")
        await expect(light.get_by_text("fault", exact=True)).to_be_visible()
        await expect(light).not_to_contain_text(reached)
        await client.call("simulator/clear_faults")
        await client.publish(f"desired/{LIGHT}", None)


async def test_a_calibration_that_drives_the_lamp_is_said_in_its_card(
    shared: Program, browser: Browser, client: Client
) -> None:
    async with opened(browser, address(shared)) as tab:
        await expect(card(tab.page, "Light")).to_contain_text("lx")
        await client.until(client.status, lambda now: all(each["state"] == "ok" for each in now["devices"]))
        await client.call(f"{PLACE}/controllers/{LIGHT}/calibrate_light")
        await expect(card(tab.page, "Light")).to_contain_text("the calibration of the lamp")
        await client.call(f"{PLACE}/controllers/{LIGHT}/stop_calibration")
        await expect(card(tab.page, "Light")).not_to_contain_text("the calibration of the lamp")


async def test_a_value_measured_by_hand_is_there_after_a_restart(tmp_path: Path, browser: Browser) -> None:
    async with started(tmp_path, *SIMULATED) as program, aiohttp.ClientSession() as session:
        await Client(program, session).publish("measured/water_potential_hydrogen", 6.1)
    async with started(tmp_path, *SIMULATED) as program, opened(browser, address(program)) as tab:
        await expect(card(tab.page, "pH")).to_contain_text(re.compile(r"6\.1.*by hand", re.DOTALL))


async def test_many_variables_are_in_groups_and_calculated_ones_in_a_line(
    tmp_path: Path, browser: Browser
) -> None:
    async with started(tmp_path, "--profile", "climate") as program, opened(browser, address(program)) as tab:
        page = tab.page
        for name in ("Air", "Light", "Water and nutrients", "Other"):
            await expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
        await expect(card(page, "Circulation pump")).to_be_visible()  # it moves nothing that is measured
        air = page.get_by_role("region", name="Air", exact=True)
        await expect(air.get_by_text(re.compile(r"Calculated.*Vapour pressure deficit \d"))).to_be_visible()
        await expect(card(page, "Vapour pressure deficit")).to_be_hidden()
        await air.get_by_text("Calculated").click()
        field = card(page, "Vapour pressure deficit").get_by_label("Set point of Vapour pressure deficit")
        await field.fill("0.8")
        await field.press("Enter")
        await expect(card(page, "Humidity")).to_contain_text("follows from the set point of Vapour")
        await air.get_by_text("Calculated").click()
        await expect(card(page, "Vapour pressure deficit")).to_be_visible()  # with a set point it has a card


async def test_few_variables_need_no_groups(shared: Program, browser: Browser) -> None:
    async with opened(browser, address(shared)) as tab:
        await expect(tab.page.get_by_text(re.compile("Calculated.*Dew point"))).to_be_visible()
        await expect(tab.page.get_by_role("heading", name="Air", exact=True)).to_have_count(0)
