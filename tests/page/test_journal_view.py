"""The view Journal: entries with measurements and photos, and what they survive."""

import base64
import re

from playwright.async_api import expect

from support.browser import opened, page_at
from support.page import PLACE, address, connected, in_browser

pytestmark = in_browser

PHONE_S_PLACE = b"52.5200N 13.4050E"
MADE = """async ([width, height]) => {
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d").fillRect(0, 0, width / 2, height);
  return canvas.toDataURL("image/jpeg").split(",")[1];
}"""
SIZE = """async (image) => {
  await image.decode();
  return [image.naturalWidth, image.naturalHeight];
}"""


async def photo(page, width=2_400, height=1_200):
    """A photo as a phone makes it, with the place in its metadata."""
    jpeg = base64.b64decode(await page.evaluate(MADE, [width, height]))
    exif = b"Exif\0\0" + PHONE_S_PLACE
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    return {"name": "IMG_1.jpg", "mimeType": "image/jpeg", "buffer": jpeg[:2] + segment + jpeg[2:]}


async def entries(client, text):
    """The entries with this text."""
    found = await client.get(f"journal/{PLACE}?limit=1000")
    return [each for each in found["entries"] if each["text"] == text]


async def save(page):
    await page.get_by_role("button", name="Save").click()


async def test_an_entry_has_a_note_measurements_and_photos(shared, browser, client):
    async with opened(browser, address(shared, "journal")) as tab:
        page = tab.page
        await page.get_by_label("Your name").fill("Ada")
        await page.get_by_label("Note", exact=True).fill("first harvest")
        choice = page.get_by_role("combobox", name="Measurement")
        await choice.select_option("harvest_fresh_mass")
        await choice.select_option("plant_height")
        await expect(page.get_by_role("button", name="Save")).to_be_disabled()
        await page.get_by_label("Harvest, fresh (g)").fill("212,5")
        await page.get_by_label("Plant height (cm)").fill("31")
        files = page.locator("input[type=file]").first
        await files.set_input_files([await photo(page), await photo(page, 90, 60)])
        await expect(page.get_by_role("img", name="Photo 2")).to_be_visible()
        async with page.expect_request(re.compile(f"/journal/{PLACE}$")) as request:
            await save(page)
        await expect(page.get_by_role("status").get_by_text("Saved")).to_be_visible()
        assert PHONE_S_PLACE not in ((await request.value).post_data_buffer or b"")
        await expect(page.get_by_label("Note", exact=True)).to_have_value("")
        await expect(page.get_by_label("Plant height (cm)")).to_have_count(0)
        item = page.get_by_role("listitem").filter(has_text="first harvest")
        await expect(item).to_contain_text("Harvest, fresh 212.5 g")
        small = item.get_by_role("img", name="Photo 1: first harvest")
        assert await small.evaluate(SIZE) == [1600, 800]
        (entry,) = await entries(client, "first harvest")
        assert entry["measurements"] == {"harvest_fresh_mass": 212.5, "plant_height": 31}
        assert entry["by"] == "Ada"
        await small.click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("img", name="Photo 1: first harvest")).to_be_visible()
        await dialog.get_by_role("button", name="Next (1 of 2)").press("Enter")
        shown = dialog.get_by_role("img", name="Photo 2: first harvest")
        assert await shown.evaluate(SIZE) == [90, 60]
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await expect(item.get_by_text("waits for the database")).to_have_count(0)
        await page.goto(address(shared, "charts", "range=hour"))
        await page.get_by_text(re.compile(r"^Events \(")).click()
        await expect(page.get_by_role("img", name="Photo 1: first harvest")).to_be_visible()


async def test_what_is_typed_is_checked_survives_a_reload_and_is_removed(shared, browser):
    async with page_at(browser, address(shared, "journal")) as page:
        await page.get_by_role("combobox", name="Measurement").select_option("leaf_count")
        await expect(page.get_by_text("Leaves: enter a number")).to_be_visible()
        field = page.get_by_label("Leaves", exact=True)
        await field.fill("6.5")
        await field.blur()
        await expect(field).to_have_value("6.5")
        await expect(field).to_have_attribute("aria-invalid", "true")
        await expect(page.get_by_role("button", name="Save")).to_be_disabled()
        await field.fill("6")
        await expect(page.get_by_text("Leaves: enter a number")).to_have_count(0)
        await expect(page.get_by_role("button", name="Save")).to_be_enabled()
        await page.get_by_label("Note", exact=True).fill("roots are white")
        await page.reload()
        await expect(page.get_by_label("Note", exact=True)).to_have_value("roots are white")
        await expect(field).to_have_value("6")
        await page.get_by_role("button", name="Remove Leaves").click()
        await expect(field).to_have_count(0)
        await page.locator("input[type=file]").first.set_input_files(await photo(page, 90, 60))
        remove = page.get_by_role("button", name="Remove Photo 1")
        await remove.click()
        await expect(page.get_by_role("img", name="Photo 1", exact=True)).to_be_visible()
        await expect(remove).to_have_text("Remove?")
        await remove.click()
        await expect(page.get_by_role("img", name="Photo 1", exact=True)).to_have_count(0)


async def test_the_text_of_an_entry_is_corrected(shared, browser, client):
    async with page_at(browser, address(shared, "journal")) as page:
        await page.get_by_label("Note", exact=True).fill("tray 1 sown")
        await save(page)
        item = page.get_by_role("listitem").filter(has_text="tray 1 sown")
        await item.get_by_role("button", name="Correct the text").click()
        await item.get_by_label("New text").fill("tray 2 sown")
        await item.get_by_role("button", name="Save").click()
        changed = page.get_by_role("listitem").filter(has_text="tray 2 sown")
        await expect(changed.get_by_text("corrected", exact=True)).to_be_visible()
    (entry,) = await entries(client, "tray 2 sown")
    assert [each["text"] for each in entry["earlier"]] == ["tray 1 sown"]


async def test_an_entry_without_an_answer_is_sent_again_and_stored_once(shared, browser, client):
    calls = []

    async def lose(route):
        if route.request.method == "POST":
            calls.append(route)
            if len(calls) == 2:
                await route.fetch()  # growd has it, but the answer is lost
            await route.abort()
        else:
            await route.continue_()

    async with page_at(browser, address(shared, "journal")) as page:
        await page.route(f"**/journal/{PLACE}**", lose)
        await page.get_by_label("Note", exact=True).fill("new bottle")
        await page.locator("input[type=file]").first.set_input_files(await photo(page, 90, 60))
        await expect(page.get_by_role("img", name="Photo 1")).to_be_visible()
        await save(page)
        await expect(page.get_by_text("Not sent yet")).to_be_visible()
        await expect(page.get_by_label("Note", exact=True)).to_have_value("new bottle")
        await expect(page.get_by_role("status").get_by_text("Saved")).to_be_visible()
        await expect(page.get_by_label("Note", exact=True)).to_have_value("")
    (entry,) = await entries(client, "new bottle")
    assert len(entry["photos"]) == 1
    assert len(calls) == 2


async def test_a_refused_entry_stays_in_its_fields(shared, browser):
    async def refuse(route):
        sentence = "it can't be written to the disk"
        await route.fulfill(status=503, json={"ERROR": sentence, "error": "not_kept", "reason": sentence})

    async with page_at(browser, address(shared, "journal")) as page:
        await connected(page)
        await page.route(re.compile(f"/journal/{PLACE}$"), refuse)
        await page.get_by_label("Note", exact=True).fill("seedlings are up")
        await save(page)
        await expect(page.get_by_text("it can't be written to the disk")).to_be_visible()
        await expect(page.get_by_label("Note", exact=True)).to_have_value("seedlings are up")
        await expect(page.get_by_text("Saved")).to_have_count(0)


async def test_the_list_has_times_authors_and_a_search(shared, browser, client):
    async with page_at(browser, address(shared, "journal")) as page:
        await page.get_by_label("Your name").fill("Ben")
        await page.get_by_label("Note", exact=True).fill("lamp is higher")
        await page.get_by_label("Time (empty: now)").fill("2026-01-02T03:04")
        await save(page)
        await expect(page.get_by_role("status").get_by_text("Saved")).to_be_visible()
        await client.publish("measured/water_electrical_conductivity", 1.8)
        search = page.get_by_label("Search in all entries")
        await search.fill("LAMP is")
        await expect(page.get_by_role("listitem")).to_have_text(re.compile("03:04 .*lamp is higher · Ben"))
        await search.fill("not written")
        await expect(page.get_by_text("There are no such entries")).to_be_visible()
        await search.fill("")
        await expect(page.get_by_role("listitem").filter(has_text="Conductivity 1.8")).to_have_count(1)
        await page.get_by_label("Events").uncheck()
        await expect(page.get_by_text("growd started")).to_have_count(0)


async def test_a_reader_sees_the_journal_without_its_fields(shared, browser):
    async def reader(route):
        await route.fulfill(json={"access": "couchdb", "user": "ben", "role": "reader"})

    async with page_at(browser, f"{shared.address}/_svc/") as page:
        await page.route("**/session", reader)
        await page.goto(f"{shared.address}/_svc/?reader#{PLACE}/journal")
        await expect(page.get_by_role("checkbox", name="Notes")).to_be_visible()
        await expect(page.get_by_text("growd started").first).to_be_visible()
        await expect(page.get_by_role("button", name="Save")).to_have_count(0)
