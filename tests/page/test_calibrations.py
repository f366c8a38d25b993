"""Calibrations at growd's accelerated clock, from the first step to the result."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from growd.config.profiles import profile_path
from support.browser import DESK, PHONE, page_at
from support.page import address, in_browser, sure
from support.program import started

DEVICES = """
[[sensor]]
name = "ph_1"
kind = "ezo_ph"

[[output]]
name = "acid"
variable = "nutrient_ph_down"
pin = 5
flow_ml_min = 30
needs = ""

[[output]]
name = "base"
variable = "nutrient_ph_up"
pin = 6
flow_ml_min = 30
needs = ""
"""
pytestmark = [*in_browser, pytest.mark.browser]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fast(tmp_path_factory):
    """A growd with a probe and pumps, which runs 60 times as fast."""
    folder = tmp_path_factory.mktemp("growd")
    config = folder / "growd.toml"
    config.write_text(profile_path("sim").read_text(encoding="utf-8") + DEVICES)
    async with started(folder, "--config", str(config), "--speed", "60") as program:
        yield program


async def open_device(page, name):
    """The card of a device, opened."""
    heading = page.get_by_role("heading", name=name, exact=True)
    await heading.click()
    return page.get_by_role("group").filter(has=heading)


async def test_the_curve_of_the_lamp_is_measured(shared, browser, client):
    async with page_at(browser, address(shared, "devices"), viewport=DESK) as page:
        lamp = await open_device(page, "light")
        await lamp.get_by_role("button", name="Start", exact=True).click()
        await sure(page, "Start")
        await expect(lamp.get_by_role("progressbar")).to_be_visible()
        assert (await client.status())["experiments"]
        await expect(lamp.get_by_role("progressbar")).to_have_count(0)
        await expect(lamp.get_by_role("status").last).to_contain_text("✓")
        await expect(lamp.get_by_role("img", name=re.compile("Light in lx over the level"))).to_be_visible()
        assert not (await client.status())["experiments"]


async def test_autotune_shows_its_progress_and_can_be_stopped(shared, browser, client):
    async with page_at(browser, address(shared, "devices"), viewport=DESK, locale="de-DE") as page:
        valve = await open_device(page, "valve")
        await valve.get_by_role("button", name="Starten", exact=True).click()
        await sure(page, "Starten")
        await expect(valve.get_by_text(re.compile("^höchstens noch"))).to_be_visible()
        await valve.get_by_role("button", name="Abbrechen").click()
        await expect(valve.get_by_text(re.compile("^✕ "))).to_be_visible()
        await client.until(client.status, lambda status: not status["experiments"])


async def test_a_sensor_is_calibrated_in_air_that_is_steady(fast, browser):
    async with page_at(browser, address(fast, "devices"), viewport=PHONE) as page:
        sensor = await open_device(page, "scd30_1")
        calibrate = sensor.get_by_role("button", name="Calibrate", exact=True)
        await expect(calibrate).to_be_enabled(timeout=90_000)
        await sensor.get_by_label("True CO₂ (ppm)").fill("430")
        await calibrate.click()
        await sure(page, "Calibrate")
        await expect(sensor.get_by_text(re.compile("reads the air around it as 430"))).to_be_visible()


async def test_a_probe_is_calibrated_in_a_solution(fast, browser):
    async with page_at(browser, address(fast, "devices"), viewport=PHONE) as page:
        heading = page.get_by_role("heading", name="Calibrate the middle point (pH 7)")
        guide = (await open_device(page, "ph_1")).locator("section").filter(has=heading)
        calibrate = guide.get_by_role("button", name="Calibrate", exact=True)
        reference = guide.get_by_label("True value (pH)")
        await expect(guide.get_by_text(re.compile("Steady at 6.*pH"))).to_be_visible(timeout=90_000)
        await expect(calibrate).to_be_disabled()
        await reference.fill("8.5")
        await expect(calibrate).to_be_disabled()
        await reference.fill("6.86")
        await calibrate.click()
        await sure(page, "Calibrate")
        await expect(guide.get_by_text(re.compile("reads what is around it as 6.86 pH"))).to_be_visible()


async def test_a_pump_is_calibrated_in_a_measuring_cylinder(fast, browser):
    async with page_at(browser, address(fast, "devices"), viewport=PHONE) as page:
        acid = await open_device(page, "acid")
        await expect(
            acid.get_by_text(re.compile("30.0 ml/min, 0.00 s dead time · never calibrated"))
        ).to_be_visible()
        await acid.get_by_role("button", name="Start", exact=True).click()
        await sure(page, "Start")
        run = acid.get_by_role("button", name=re.compile("Run the pump for"))
        save = acid.get_by_role("button", name="Save", exact=True)
        await run.click()  # fills the hose
        for number in range(1, 5):
            await expect(run).to_be_visible()
            await expect(save).to_be_disabled()
            await run.click()
            in_cylinder = acid.get_by_text(re.compile("In the simulated cylinder: "))
            field = acid.get_by_label(re.compile(f"^Dose {number}, "))
            await expect(field).to_be_visible()
            await field.fill((await in_cylinder.inner_text()).split()[-2])
            await acid.get_by_role("button", name="Enter", exact=True).last.click()
        await page.reload()
        await expect(save).to_be_enabled()
        await expect(acid.get_by_label(re.compile("^Dose "))).to_have_count(4)
        await save.click()
        await expect(acid.get_by_text(re.compile(r"· calibrated .* by "))).to_be_visible()
        await expect(run).to_have_count(0)
        base = await open_device(page, "base")
        await base.get_by_role("button", name="Start", exact=True).click()
        await sure(page, "Start")
        start = acid.get_by_role("button", name="Start", exact=True)
        await expect(start).to_be_disabled()
        await base.get_by_role("button", name="Abort").click()
        await expect(start).to_be_enabled()
