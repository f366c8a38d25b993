"""What is wrong: the verdict on each view, the sheet of problems, and the button that helps."""

import re

import aiohttp
import pytest
from playwright.async_api import expect

from support.browser import DESK, PHONE, page_at
from support.page import PLACE, VIEWS, Client, address, card, in_browser, module, verdict
from support.program import started

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


async def problem(page, text):
    """A problem in the sheet of problems, which is opened."""
    await verdict(page).get_by_role("button", name=re.compile("^Show")).click()
    dialog = page.get_by_role("dialog", name="Problems")
    return dialog.get_by_role("listitem").filter(has_text=text).first


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
async def test_a_fault_is_on_each_view_and_leads_to_the_devices(shared, browser, client, viewport):
    await client.call("simulator/inject_fault", device="scd30", kind="absent")
    async with page_at(browser, address(shared), viewport=viewport) as page:
        for view in VIEWS:
            await page.goto(address(shared, view))
            await expect(verdict(page)).to_contain_text("CO₂ sensor does not answer")
            await expect(verdict(page)).to_be_in_viewport()
        await page.goto(address(shared))
        item = await problem(page, "CO₂ sensor")
        await item.get_by_role("link", name="Devices").click()
        await expect(page).to_have_title(re.compile("Devices · growd"))
        await client.call("simulator/clear_faults")
        await expect(verdict(page)).to_have_count(0)
        await page.goto(address(shared))
        await expect(verdict(page)).to_contain_text("All well")


async def test_simulated_hardware_is_said_calmly(shared, browser):
    async with page_at(browser, address(shared)) as page:
        await page.get_by_role("banner").get_by_text(re.compile("^Simulated .10$")).click()
        note = page.get_by_text("no sensor is read and no output is switched")
        await expect(note).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(note).to_be_hidden()


async def test_an_interlock_that_waits_for_a_reset_gets_one_after_a_question(tmp_path, browser):
    name = f"{PLACE}/interlocks/no_rise_after_dose"
    options = ["--set", "interlock.no_rise_open_s=30"]
    async with (
        started(tmp_path, "--profile", "sim", "--speed", "20", *options) as program,
        aiohttp.ClientSession() as session,
        page_at(browser, address(program), viewport=DESK) as page,
    ):
        client = Client(program, session)
        await client.until(client.status, lambda now: all(each["state"] == "ok" for each in now["devices"]))
        await client.call("simulator/inject_fault", kind="without_effect", device="valve")
        await client.publish("commanded/air_carbon_dioxide_valve_on", 1)
        await expect(verdict(page)).to_contain_text("CO₂ valve held: No rise after a dose")
        await client.publish("commanded/air_carbon_dioxide_valve_on", None)
        await client.publish("desired/air_carbon_dioxide", 3_000)
        await expect(card(page, "CO₂")).to_contain_text("held: No rise after a dose")
        await client.publish("desired/air_carbon_dioxide", None)
        chip = page.get_by_role("button", name="CO₂ valve shut")  # whatever is commanded
        await expect(chip).to_contain_text("Held by an interlock")
        await client.until(client.status, lambda now: not any(each["held_by"] for each in now["variables"]))
        await page.reload()
        await expect(chip).to_contain_text("Held by an interlock")  # also while nothing commands it
        item = await problem(page, "rise")
        await item.get_by_role("button", name="Reset").click()
        question = page.get_by_role("dialog", name=re.compile(r"^Reset\?"))
        await question.get_by_role("button", name="Reset", exact=True).click()
        await expect(item).to_have_count(0)
        locks = {each["name"]: each for each in (await client.status())["interlocks"]}
        assert not locks[name]["tripped"]


@pytest.mark.parametrize(
    ("locale", "known", "unknown"),
    [
        ("en-GB", "CO₂ is 900 ppm although the valve is shut", "it stays on"),
        ("de-DE", "CO₂ ist 900 ppm, obwohl das Ventil zu ist", "CO₂ bleibt zu hoch"),
    ],
)
async def test_an_output_that_stays_on_has_its_reason_in_the_headline(
    shared, browser, locale, known, unknown
):
    async with page_at(browser, address(shared), locale=locale) as page:
        script = f"(said) => {module('lib/verdict.js')}.then(({{ sentence }}) => sentence(said))"
        stuck = {"code": "valve_stuck_open", "fields": {"value": 900, "unit": "ppm"}, "text": "x"}
        for why, expected in ((stuck, known), ({"code": "", "fields": {}, "text": "it stays on"}, unknown)):
            fields = {"interlock": "carbon_dioxide_stays_high", "why": why}
            said = await page.evaluate(script, {"code": "interlock_reason", "fields": fields, "text": ""})
            assert said.startswith(expected)


async def test_an_alert_is_acknowledged(tmp_path, browser):
    config = tmp_path / "growd.toml"
    config.write_text(ALERT)
    (tmp_path / "house").write_text("json://127.0.0.1:9/growd\n")
    (tmp_path / "house").chmod(0o600)
    async with (
        started(tmp_path / "data", "--config", str(config), "--speed", "10") as program,
        aiohttp.ClientSession() as session,
        page_at(browser, address(program), viewport=DESK) as page,
    ):
        client = Client(program, session)
        await client.call("simulator/inject_fault", device="bh1750", kind="absent")
        await client.until(client.status, lambda now: now["alerts"])
        await problem(page, "lux")
        button = page.get_by_role("dialog", name="Problems").get_by_role("button", name="Acknowledge")
        await button.click()
        await expect(button).to_have_count(0)
        alerts = (await client.status())["alerts"]
        assert [alert["acknowledged_by"] is None for alert in alerts] == [False]
