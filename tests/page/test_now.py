"""The first view: tiles with values and states, their sheets, outputs, and the recipe in a line."""

import re

import aiohttp
import pytest
from playwright.async_api import expect

from support.browser import DESK, PHONE, page_at
from support.page import PLACE, SIMULATED, Client, address, card, connected, in_browser, sheet, sure, verdict
from support.program import started

pytestmark = in_browser

LIGHT = "light_illuminance"
TALL_PHONE = {"width": 390, "height": 844}
EIGHT = (
    *("Air temperature", "Humidity", "CO₂", "Light"),
    *("pH", "Conductivity", "Water level", "Water temperature"),
)
SHIFTS = """
window.shifts = 0;
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) if (!each.hadRecentInput) window.shifts += each.value;
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.mark.parametrize(
    ("look", "names", "value"),
    [
        ({"locale": "en-GB", "viewport": PHONE}, ("Air temperature", "Light"), r"^\d+\.\d °C"),
        ({"locale": "de-DE", "viewport": DESK}, ("Lufttemperatur", "Licht"), r"^\d+,\d °C"),
        ({"locale": "en-US", "viewport": DESK}, ("Air temperature", "Light"), r"^\d+\.\d °C"),
    ],
    ids=["phone", "German", "American"],
)
async def test_each_value_has_a_tile_in_the_units_of_the_browser(shared, browser, look, names, value):
    async with page_at(browser, address(shared), **look) as page:
        await expect(card(page, names[0]).get_by_text(re.compile(value))).to_be_visible()
        await expect(card(page, names[1])).to_contain_text("µmol")
        chips = page.get_by_role("region", name=re.compile("Outputs|Ausgänge"))
        await expect(chips.get_by_text(re.compile("^(Fan|Lüfter)"))).to_have_count(1)


async def test_all_values_of_a_climate_are_on_one_screen_and_in_charts(tmp_path, browser):
    async with started(tmp_path, "--profile", "climate") as program:
        for viewport, tiles in ((TALL_PHONE, 8), (DESK, 11)):
            async with page_at(browser, "about:blank", viewport=viewport) as page:
                await page.add_init_script(SHIFTS)
                await page.goto(address(program))
                await connected(page)
                await expect(verdict(page)).to_be_visible()
                for name in EIGHT:
                    await expect(card(page, name)).to_contain_text(re.compile(r"\d"))
                    await expect(card(page, name).locator(".spark path")).to_be_attached()
                    await expect(card(page, name)).to_be_in_viewport(ratio=0.99)
                await expect(page.get_by_role("article")).to_have_count(tiles)
                height = await page.evaluate("document.documentElement.scrollHeight - innerHeight")
                assert height <= 0
                assert await page.evaluate("window.shifts") < 0.1
                asked = await page.evaluate("performance.getEntriesByType('resource').map(each => each.name)")
                days = [each for each in asked if "/history/" in each and "points=100" in each]
                assert len(days) <= 2  # with values by hand, as soon as it is known that there are some
                await page.goto(address(program, "charts"))
                await expect(page.locator(".over").first).to_be_visible()
                await expect(page.get_by_role("button", name="Add Water level", exact=True)).to_be_visible()
                await expect(page.get_by_text("Stored values are missing")).to_have_count(0)
                if viewport is TALL_PHONE:
                    await expect(page.get_by_text(re.compile("^Not drawn: .*valve"))).to_be_visible()


async def test_a_set_point_is_set_and_released_in_the_sheet(shared, browser, client):
    async with page_at(browser, address(shared, "now", f"of={LIGHT}")) as page:
        light = page.get_by_role("dialog", name="Light")
        field = light.get_by_label("Set point of Light")
        for typed, said in (("bright", "Not a number."), ("-5", "Possible: 0 to 200,000 lx")):
            await field.fill(typed)
            await expect(light).to_contain_text(said)
            await expect(field).to_have_attribute("aria-invalid", "true")
            await expect(light.get_by_role("button", name="Set", exact=True)).to_be_disabled()
        await field.fill("190000")
        await expect(light).to_contain_text("This chamber reaches 0 to")
        assert await client.last(f"desired/{LIGHT}") is None
        await field.fill("9000")
        await field.press("Enter")
        await expect(light).to_contain_text("by hand: somebody at the device")
        assert await client.last(f"desired/{LIGHT}") == 9000
        await page.keyboard.press("Escape")
        await expect(light).to_have_count(0)
        await expect(card(page, "Light")).to_contain_text(re.compile("→ .*9"))
        await expect(card(page, "Light")).to_contain_text("at the set point")
        light = await sheet(page, "Light")
        await expect(light.locator(".over").first).to_be_visible()  # the chart of the day
        await light.get_by_role("button", name="Release").click()
        await expect(light.get_by_label("Set point of Light")).to_have_value("")
        assert await client.last(f"desired/{LIGHT}") is None
        await client.publish(f"desired/{LIGHT}", 190_000)
        await expect(light).to_contain_text("▲ This chamber reaches 0 to 20,000 lx.")
        await client.publish(f"desired/{LIGHT}", None)
        await page.go_back()  # as the button of a phone
        await expect(light).to_have_count(0)
        await expect(page).to_have_title(re.compile("Now · growd"))


async def test_a_set_point_in_the_numbers_of_the_browser(shared, browser, client):
    async with page_at(browser, address(shared, "now", f"of={LIGHT}"), locale="de-DE") as page:
        light = page.get_by_role("dialog", name="Licht")
        await light.get_by_label("Sollwert für Licht").fill("1.234,5")
        await light.get_by_role("button", name="Setzen").click()
        await expect(light).to_contain_text("von Hand: jemand am Gerät")
        assert await client.last(f"desired/{LIGHT}") == 1234.5
        await light.get_by_role("button", name="Freigeben").click()
        await client.until(lambda: client.last(f"desired/{LIGHT}"), lambda value: value is None)


async def test_an_output_is_switched_in_its_sheet(shared, browser, client):
    async with page_at(browser, address(shared)) as page:
        await page.get_by_role("button", name="Fan").click()
        fan = page.get_by_role("dialog", name="Fan")
        switch = fan.get_by_role("group", name="Set point of Fan")
        on, off = (switch.get_by_role("button", name=name, exact=True) for name in ("on", "off"))
        await on.click()
        await expect(on).to_have_attribute("aria-pressed", "true")
        await client.until(lambda: client.last("switches/fan"), bool)
        await off.click()
        await client.until(lambda: client.last("switches/fan"), lambda level: level is False or level == 0)
        await fan.get_by_role("button", name="Release").click()
        await client.until(lambda: client.last("desired/air_flush_on"), lambda value: value is None)
        await fan.get_by_role("button", name="Close").click()
        await expect(page.get_by_role("button", name="Fan off")).to_be_visible()
        await client.publish("commanded/light_intensity_white", 0.4)
        await expect(page.get_by_role("button", name="Lamp 40 %")).to_be_visible()
        light = await sheet(page, "Light")
        await light.get_by_role("button", name="Close").click()
        await page.get_by_role("button", name="Lamp").click()
        lamp = page.get_by_role("dialog")
        await expect(lamp).to_contain_text(re.compile(r"Commanded by hand: 40 %, \d+ min left"))
        await lamp.get_by_role("button", name="Back to automatic").click()
        await expect(lamp).not_to_contain_text("Commanded by hand")
        assert await client.last("commanded/light_intensity_white") is None


async def test_the_recipe_in_a_line_pauses_resumes_and_stops(shared, browser, client):
    await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days", offset=3 * 86_400)
    async with page_at(browser, address(shared), viewport=DESK) as page:
        line = page.get_by_role("region", name="Lettuce, 41 days by the clock")
        await expect(line).to_contain_text("day 4 of 41")
        await expect(line).to_contain_text(re.compile("light (on in|off in|begins to fade in) "))
        await expect(line.get_by_role("img", name="next 24 hours")).to_be_visible()
        menu = line.get_by_label("Pause or stop the recipe")
        await menu.click()
        await line.get_by_role("button", name="Pause").click()
        await expect(line).to_contain_text("paused")
        assert (await client.run())["state"] == "paused"
        await line.get_by_role("button", name="Resume").click()
        await expect(line).to_contain_text(re.compile("light (on in|off in|begins to fade in) "))
        await line.get_by_role("button", name="Stop").click()
        await page.get_by_role("dialog").get_by_role("button", name="Back").click()
        assert (await client.run())["state"] == "running"
        await line.get_by_role("button", name="Stop").click()
        await sure(page, "Stop")
        await expect(page.get_by_text("No recipe runs.")).to_be_visible()
        assert (await client.run())["state"] == "idle"


async def test_a_sensor_that_dies_is_the_verdict_and_its_tile_has_no_value(shared, browser, client):
    async with page_at(browser, address(shared)) as page:
        light = card(page, "Light")
        await client.publish(f"desired/{LIGHT}", 5000)
        await expect(light).to_contain_text("at the set point")
        await client.call("hold/set", reason="new bottle")
        await expect(light).not_to_contain_text("at the set point")
        await expect(page).to_have_title("(◼) Now · growd")
        await client.call("hold/release")
        await expect(light).to_contain_text("at the set point")
        await client.call("simulator/inject_fault", device="bh1750", kind="absent")
        await expect(light.get_by_text("no reading").first).to_be_visible()
        await expect(light).to_contain_text(re.compile(r"last \d.* ago"))
        await expect(light).not_to_contain_text("at the set point")
        await expect(verdict(page)).to_contain_text("Light sensor does not answer")
        await expect(page).to_have_title(re.compile(r"^\(\d ✖\) Now · growd$"))
        dialog = await sheet(page, "Light")
        await expect(dialog).to_contain_text("Light sensor does not answer")
        await client.call("simulator/clear_faults")
        await expect(dialog.locator(".value")).to_have_text(re.compile(r"^\d.* lx$"))


async def test_a_held_lamp_is_called_so_on_its_tile_and_in_the_verdict(tmp_path, browser):
    async with (
        started(tmp_path, *SIMULATED, "--set", "interlock.light_off_degc=10") as program,
        aiohttp.ClientSession() as session,
        page_at(browser, address(program)) as page,
    ):
        await Client(program, session).publish(f"desired/{LIGHT}", 5000)
        await expect(card(page, "Light")).to_contain_text("held: Air too warm for the lamp")
        await expect(verdict(page)).to_contain_text("Lamp held: Air too warm for the lamp")


async def test_a_set_point_that_another_one_overrides_says_so(shared, browser, client):
    async with page_at(browser, address(shared, "now", "of=light_ppfd")) as page:
        dialog = page.get_by_role("dialog")
        await client.publish("desired/light_ppfd", 50)
        await expect(dialog).to_contain_text("by hand: ")
        await expect(dialog).not_to_contain_text("without effect")
        await client.publish(f"desired/{LIGHT}", 5000)
        await expect(dialog).to_contain_text("without effect: the set point of Light wins")


async def test_a_held_output_beyond_the_edge_does_not_widen_the_page(shared, browser, client):
    await client.call("simulator/inject_fault", device="scd30", kind="absent")
    async with page_at(browser, address(shared)) as page:
        label = page.locator(".chip").get_by_text("Held by an interlock")
        assert await label.evaluate("(each) => each.offsetParent.matches('.chip')")


async def test_a_sunset_is_not_called_light_off(shared, browser, client):
    points = [
        {"at": 0, "value": 8_000},
        {"at": 60, "value": 8_000, "to_next": "ramp"},
        {"at": 90, "value": 0},
    ]
    phase = {"name": "day", "duration": 100, "time_units": "minutes", "course": {"light_illuminance": points}}
    await client.put("/recipes/sunset", {"format": "phased", "name": "Sunset", "phases": [phase]})
    await client.call(f"{PLACE}/start_recipe", recipe_id="sunset")
    async with page_at(browser, address(shared)) as page:
        await expect(page.locator(".recipe_line")).to_contain_text("begins to fade in")


async def test_a_calibration_that_drives_the_lamp_is_said_in_the_line_of_the_recipe(shared, browser, client):
    async with page_at(browser, address(shared)) as page:
        await client.until(client.status, lambda now: all(each["state"] == "ok" for each in now["devices"]))
        await client.call(f"{PLACE}/controllers/{LIGHT}/calibrate_light")
        await expect(page.locator(".recipe_line")).to_contain_text("calibration of the lamp")
        await client.call(f"{PLACE}/controllers/{LIGHT}/stop_calibration")
        await expect(page.get_by_text("No recipe runs.")).to_be_visible()


async def test_the_age_of_a_lost_value_goes_on_while_another_view_is_shown(shared, browser, client):
    async with page_at(browser, address(shared), viewport=DESK) as page:
        tile = card(page, "CO₂")
        await expect(tile.get_by_text("ppm").first).to_be_visible()
        await client.until(lambda: client.last("measured/air_carbon_dioxide"), bool)
        await client.call("simulator/inject_fault", device="scd30", kind="absent")
        await expect(tile).to_contain_text(re.compile(r"last .*, \d+ (s|min) ago"))
        before = seconds_in(await tile.inner_text())
        await page.get_by_role("link", name="Charts", exact=True).click()
        await expect(page).to_have_title(re.compile("Charts"))
        await page.get_by_role("link", name="Now", exact=True).click()
        await expect(tile).to_contain_text(re.compile(r"last .*, \d+ (s|min) ago"))
        assert before <= seconds_in(await tile.inner_text()) < before + 1_200


def seconds_in(text):
    """The age in the words of a tile."""
    found = re.search(r"(\d+) (s|min) ago", text)
    assert found is not None, text
    return int(found[1]) * (60 if found[2] == "min" else 1)


async def test_a_stored_value_that_nothing_measures_now_is_shown_with_its_age_alone(tmp_path, browser):
    async with started(tmp_path, *SIMULATED) as program, aiohttp.ClientSession() as session:
        await Client(program, session).publish("measured/water_potential_hydrogen", 6.1)
    async with started(tmp_path, *SIMULATED) as program, page_at(browser, address(program)) as page:
        await expect(card(page, "pH")).to_contain_text(re.compile(r"6\.1.* ago", re.DOTALL))
        await expect(card(page, "pH")).not_to_contain_text("by hand")  # or of a sensor that was removed


async def test_tiles_are_ordered_hidden_and_pinned_with_the_keyboard_and_stay_so(shared, browser):
    async with page_at(browser, address(shared)) as page:
        await connected(page)
        tiles = page.get_by_role("article")
        await page.get_by_role("button", name="Arrange tiles").press("Enter")
        dialog = page.get_by_role("dialog", name="Arrange tiles")
        await dialog.get_by_label("Humidity", exact=True).press("Space")
        await dialog.get_by_role("checkbox", name=re.compile("^Vapour pressure")).press("Space")
        await dialog.get_by_role("button", name="Move CO₂ up").press("Enter")
        await dialog.get_by_role("button", name="Move CO₂ up").press("Enter")
        await page.keyboard.press("Escape")
        for _ in range(2):
            await expect(card(page, "Humidity")).to_have_count(0)
            await expect(card(page, "Vapour pressure deficit")).to_be_visible()
            await expect(tiles.first).to_contain_text("CO₂")
            await page.reload()
        await page.get_by_role("button", name="Arrange tiles").click()
        await dialog.get_by_role("button", name="As at the beginning").click()
        await dialog.get_by_role("button", name="Close").click()
        await expect(card(page, "Humidity")).to_be_visible()
        await expect(tiles.first).to_contain_text("Air temperature")
