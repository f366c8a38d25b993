"""Two browsers at one growd: what one does appears in the other, and neither overwrites the other."""

import re

from playwright.async_api import expect

from support.browser import DESK, opened, page_at
from support.page import PLACE, address, connected, in_browser, sure

pytestmark = in_browser

NAME = "edited"
DOCUMENT = {
    "format": "phased",
    "name": "before",
    "phases": [
        {
            "name": "growth",
            "duration": 2,
            "time_units": "days",
            "daily": {"light_illuminance": [{"at": "06:00", "value": 5000}, {"at": "22:00", "value": 0}]},
        }
    ],
}


async def test_a_set_point_of_one_client_appears_at_another(shared, browser):
    at = address(shared, "now", "of=light_illuminance")
    async with opened(browser, at) as one, opened(browser, at) as other:
        fields = [tab.page.get_by_role("dialog").get_by_label("Set point of Light") for tab in (one, other)]
        await connected(other.page)
        await fields[0].fill("7000.5")
        await fields[0].press("Enter")
        await expect(fields[1]).to_have_value("7000.5")  # as it was typed
        await other.page.get_by_role("dialog").get_by_role("button", name="Release").click()
        await expect(fields[0]).to_have_value("")


async def test_what_another_client_sets_does_not_replace_what_one_types(shared, browser, client):
    async with page_at(browser, address(shared, "now", "of=light_illuminance")) as page:
        light = page.get_by_role("dialog")
        field = light.get_by_label("Set point of Light")
        await field.fill("12")
        await client.publish("desired/light_illuminance", 3000)
        await expect(light).to_contain_text("by hand")
        await field.press_sequentially("34")
        await field.press("Enter")
        await client.until(lambda: client.last("desired/light_illuminance"), lambda value: value == 1234)


async def test_a_recipe_started_by_one_is_paused_by_another(shared, browser, client):
    async with (
        opened(browser, address(shared, "recipes", "recipe=lettuce_days")) as one,
        opened(browser, address(shared), viewport=DESK, locale="de-DE") as other,
    ):
        await connected(other.page)
        await one.page.get_by_role("button", name="Start", exact=True).click()
        line = other.page.get_by_role("region", name="Lettuce, 41 days by the clock")
        await line.get_by_label("Rezept pausieren oder stoppen").click()
        await line.get_by_role("button", name="Pause").click()
        await expect(one.page.get_by_role("button", name="Resume")).to_be_visible()
        assert (await client.run())["state"] == "paused"
        await client.call(f"{PLACE}/stop_recipe")
        await expect(one.page.get_by_role("heading", name="No recipe is running")).to_be_visible()


async def test_two_who_edit_a_recipe_lose_nothing(shared, browser, client):
    await client.put(f"/recipes/{NAME}", DOCUMENT)
    at = address(shared, "recipes", f"edit={NAME}")
    async with opened(browser, at) as one, opened(browser, at, viewport=DESK) as other:
        for tab, name in ((one, "of one"), (other, "of the other")):
            await tab.page.get_by_label("Name").first.fill(name)
        await one.page.get_by_role("button", name="Save", exact=True).click()
        await expect(one.page.get_by_role("heading", name="of one")).to_be_visible()
        await other.page.get_by_role("button", name="Save", exact=True).click()
        dialog = other.page.get_by_role("dialog", name=f"{NAME} was saved by somebody else meanwhile")
        await dialog.get_by_role("button", name=f"{NAME}_2").click()
        await expect(other.page.get_by_role("heading", name="of the other")).to_be_visible()
        assert (await client.get(f"/recipes/{NAME}"))["name"] == "of one"
        assert (await client.get(f"/recipes/{NAME}_2"))["name"] == "of the other"
        await other.page.get_by_role("button", name="Delete").click()
        await sure(other.page, "Delete")
        await client.until(
            lambda: client.program.documents("recipes"), lambda found: f"{NAME}_2" not in found
        )
        await expect(other.page.get_by_role("link", name=re.compile(f"{NAME}_2"))).to_have_count(0)


async def test_a_note_of_one_client_appears_at_another(shared, browser, client):
    async with (
        opened(browser, address(shared, "journal")) as one,
        opened(browser, address(shared, "journal"), viewport=DESK, locale="de-DE") as other,
    ):
        await expect(other.page.get_by_role("group", name="Zeigen")).to_be_visible()
        await one.page.get_by_role("textbox", name="Note").fill("watered both trays")
        await one.page.get_by_label("Your name").fill("Ada")
        await one.page.get_by_role("button", name="Save").click()
        await expect(one.page.get_by_text("Saved", exact=False)).to_be_visible()
        for tab in (one, other):
            note = tab.page.get_by_role("listitem").filter(has_text="watered both trays")
            await expect(note).to_contain_text("Ada")
    history = await client.get(f"history/{PLACE}?variable=air_temperature")
    (found,) = [event for event in history["events"] if event["message"] == "watered both trays"]
    assert (found["kind"], found["by"]) == ("note", "Ada")
