"""The views Devices and Data in a real browser: faults, calibrations, a full store, and a reader."""

import json
import re

import pytest
from playwright.async_api import expect

from support.browser import opened, page_at
from support.page import address, in_browser

pytestmark = in_browser


def card(page, device):
    """The card of a device. It is open after a click on its name."""
    return page.locator("details.device", has=page.get_by_role("heading", name=device))


async def test_a_fault_is_injected_seen_at_its_device_and_cleared(shared, browser):
    async with page_at(browser, address(shared, "devices")) as page:
        lux = card(page, "bh1750_1")
        await expect(lux).to_contain_text(re.compile("ok.*lx.*(just now|ago)", re.DOTALL))
        await page.get_by_label("Where").select_option("bh1750")
        await page.get_by_label("What").select_option(label="nak (refuses data)")
        await expect(page.get_by_text("The address answers, and refuses data.")).to_be_visible()
        await page.get_by_role("button", name="Inject").click()
        await expect(lux).to_contain_text("failed")
        await page.get_by_role("button", name="Clear nak at bh1750").click()
        await expect(page.get_by_role("heading", name="Active (0)")).to_be_visible()
        await page.get_by_label("What").select_option("noise")
        await expect(page.get_by_label("Amount (counts)")).to_be_visible()


async def test_the_life_of_a_relay_that_is_left_is_shown(shared, browser):
    async def worn(route):
        answer = await route.fetch()
        body = await answer.json()
        for each in body["status"]["outputs"]:
            if each["name"] == "valve":
                each |= {"cycles": 25_000, "life_left": 0.75, "days_left": 75.0}
        await route.fulfill(response=answer, json=body)

    async with page_at(browser, address(shared, "devices")) as page:
        await card(page, "valve").locator("summary").click()
        await expect(card(page, "valve")).to_contain_text("100 % of 100,000 starts left")
        await card(page, "light").locator("summary").click()
        await expect(card(page, "light")).to_contain_text("switched on")
        await expect(card(page, "light")).not_to_contain_text("starts left")
        await page.route("**/node/status", worn)
        await expect(card(page, "valve")).to_contain_text("75 % of 100,000 starts left, about 75 days")
        await page.unroute_all(behavior="ignoreErrors")


async def test_the_calibration_of_the_lamp_survives_a_reload_and_can_be_aborted(shared, browser):
    async with page_at(browser, address(shared, "devices")) as page:
        await expect(card(page, "bh1750_1")).to_contain_text("lx")
        await expect(card(page, "light")).to_contain_text("Measure the curve of the lamp")  # when closed
        await expect(card(page, "valve")).to_contain_text("shut")
        await card(page, "light").locator("summary").click()
        await page.get_by_role("button", name="Start").click()
        await page.get_by_role("dialog").get_by_role("button", name="Start").click()
        await expect(card(page, "light").get_by_role("progressbar")).to_be_visible()
        await page.reload()
        await expect(card(page, "light")).to_contain_text("lamp at ")
        await page.get_by_role("button", name="Abort").click()
        await expect(card(page, "light")).to_contain_text("it was stopped by 127.0.0.1; nothing has changed")


ENGLISH = {
    "gap": "must measure for 120 s without a gap",
    "steady": "Steady at 433 ppm.",
    "reference": "True CO₂ (ppm)",
    "calibrate": "Calibrate",
    "refusal": "scd30_1 must measure for 120 s",
}
GERMAN = {
    "gap": "Der Sensor muss 2 min ohne Lücke messen",
    "steady": "Gleichbleibend bei 433 ppm.",
    "reference": "Wahres CO₂ (ppm)",
    "calibrate": "Kalibrieren",
    "refusal": "Der Sensor muss 2 min ohne Lücke messen",
}


@pytest.mark.parametrize(("locale", "words"), [("en-GB", ENGLISH), ("de-DE", GERMAN)])
async def test_a_sensor_is_calibrated_when_growd_says_that_the_air_is_steady(
    shared, browser, client, locale, words
):
    node = "**/node/environment_1/samplers/scd30_1"
    await client.call("simulator/inject_fault", device="scd30", kind="absent")  # and so no steady air
    async with page_at(browser, address(shared, "devices"), locale=locale) as page:
        await card(page, "scd30_1").locator("summary").click()
        calibrate = page.get_by_role("button", name=words["calibrate"])
        await expect(card(page, "scd30_1")).to_contain_text(words["gap"])
        await expect(calibrate).to_be_disabled()

        async def steady(route):
            answer = await route.fetch()
            body = await answer.json()
            body["calibrations"][0] |= {"reason": "", "reading": 433.2}
            await route.fulfill(response=answer, json=body)

        await page.route(node, steady)
        await expect(page.get_by_text(words["steady"])).to_be_visible()
        reference = page.get_by_label(words["reference"])
        await expect(reference).to_have_value("420")
        await reference.fill("4,2,0")
        await expect(calibrate).to_be_disabled()
        await reference.fill("433")
        await calibrate.click()
        await page.get_by_role("dialog").get_by_role("button", name=words["calibrate"]).click()
        refusal = page.locator(".notices").get_by_text(words["refusal"])
        await expect(refusal).to_be_visible()  # growd decides, not the page
        await page.unroute_all(behavior="ignoreErrors")


async def test_a_full_or_failing_store_is_shown_with_what_helps(shared, browser):
    async def failing(route):
        answer = await route.fetch()
        body = await answer.json()
        status = body["status"]
        status["store"] |= {"rejected": 3, "waiting": 12345, "shipping": "Connection refused", "since": 1.0}
        status["database"] |= {"reachable": False, "reason": "it does not answer"}
        await route.fulfill(response=answer, json=body)

    rejected = {"point": {"_id": "a", "environment": "e", "variable": "v", "value": 7}, "reason": "no such"}

    async def listed(route):
        results = [{**rejected, "rejected_at": 1e9}]
        await route.fulfill(body=json.dumps({"success": True, "message": "", "results": results}))

    async with opened(browser, shared.address) as tab:
        page = tab.page
        await page.route("**/node/status", failing)
        await page.route("**/service/store/rejected", listed)
        await page.goto(address(shared, "data"))
        await expect(page.get_by_text("12,345")).to_be_visible()
        await expect(page.locator("main").get_by_text("Connection refused")).to_be_visible()
        await expect(page.locator("main").get_by_text("it does not answer")).to_be_visible()
        await page.get_by_role("main").get_by_role("button", name="Show", exact=True).click()
        await expect(page.get_by_role("cell", name="e/v = 7")).to_be_visible()
        await page.unroute_all(behavior="ignoreErrors")


async def test_a_reader_sees_devices_and_data_without_buttons(shared, browser):
    async with page_at(browser, shared.address) as page:
        reader = {"access": "couchdb", "user": "eva", "role": "reader"}
        await page.route("**/0.0.1/session", lambda route: route.fulfill(json=reader))
        for name, heading in (("devices", "Active (0)"), ("data", "Outbox")):
            await page.goto(address(shared, name))
            await page.reload()
            await expect(page.get_by_role("heading", name=heading)).to_be_visible()
            if name == "devices":
                await card(page, "light").locator("summary").click()
                await expect(
                    page.get_by_role("heading", name="Measure the curve of the lamp")
                ).to_be_visible()
            assert await page.locator("main button").count() == 0
