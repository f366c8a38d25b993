"""The view of recipes: run, edit and change them as a grower does."""

import asyncio
import json
import re
from contextlib import asynccontextmanager

from playwright.async_api import expect

from support.browser import DESK, page_at
from support.page import PLACE, address, in_browser, module
from support.waiting import until_found

pytestmark = in_browser

LETTUCE = "/recipes/lettuce_days"
OURS = "Lettuce, 41 days by the clock"


@asynccontextmanager
async def recipes(shared, browser, query="", **options):
    there = address(shared, "recipes", query)
    async with page_at(browser, there, **{"viewport": DESK, **options}) as page:
        yield page


async def press(page, name):
    await page.get_by_role("button", name=name, exact=True).click()


async def confirm(page):
    await page.locator("dialog button.primary").click()


async def as_json(page):
    await press(page, "JSON")
    return await page.get_by_label("JSON").input_value()


async def test_a_recipe_runs_pauses_skips_and_stops(shared, browser, client):
    async def newest():
        return (await client.get(f"runs/{PLACE}"))["runs"][0]

    async with recipes(shared, browser) as page:
        await page.get_by_role("link", name=OURS).click()
        await page.get_by_text("Experiment", exact=True).click()
        await page.get_by_label("Cultivar").fill("Rex")
        await press(page, "Start")
        await expect(page.get_by_text("Phase 1 of 4: germination")).to_be_visible()
        await press(page, "Pause")
        await press(page, "Resume")
        await page.get_by_label("Skip to a phase").select_option("3")
        await press(page, "Skip")
        await confirm(page)
        await expect(page.get_by_text("Phase 3 of 4: growth")).to_be_visible()
        assert (await client.run())["phase"] == "growth"
        await press(page, "Stop")
        await confirm(page)
        await expect(page.get_by_text("No recipe is running")).to_be_visible()
        run = await client.until(newest, lambda run: run["ended"])
        await page.goto(address(shared, "recipes", f"run={run['id']}"))
        await expect(page.get_by_text("Cultivar").locator("..")).to_contain_text("Rex")
        await page.get_by_role("link", name="Charts: plan and measured values").click()
        await expect(page).to_have_url(re.compile(r"/charts\?range=any&start=\d+&end=\d+"))


async def test_the_plan_stays_if_growd_cannot_draw_it_again(shared, browser, client):
    async with recipes(shared, browser) as page:
        await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days")
        phases = page.get_by_label("Skip to a phase")
        await phases.select_option("3")
        refused = {"success": False, "message": "32 recipes are being drawn; try again", "plan": None}
        await page.route(f"**/service/{PLACE}/recipe_plan", lambda route: route.fulfill(json=refused))
        async with page.expect_response("**/recipe_plan"):
            await press(page, "Pause")
        await expect(page.get_by_role("button", name="Resume")).to_be_visible()
        await expect(phases).to_have_value("3")


async def test_a_message_that_is_older_than_the_status_ends_no_recipe(shared, browser, client):
    topic = f"{PLACE}/recipe_state"
    idle = await client.get(f"topic_data/{topic}?last=true")
    message = json.dumps({"topic": topic, "value": idle["result"], "time": idle["time"]})
    is_open = asyncio.Event()

    async def late(route):
        await is_open.wait()
        await route.fulfill(content_type="text/event-stream", body=f"data: {message}\n\n")

    async with recipes(shared, browser) as page:
        await page.route("**/stream?*", late)
        await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days")
        await page.reload()
        phases = page.get_by_label("Skip to a phase")
        await phases.select_option("3")
        is_open.set()
        shown = f"{module('lib/live.js')}.then((live) => live.topic('{topic}').value)"
        await client.until(lambda: page.evaluate(shown), bool)
        await expect(phases).to_have_value("3")


async def test_no_recipe_is_started_while_another_one_runs(shared, browser, client):
    async with recipes(shared, browser, "recipe=demo_day") as page:
        await expect(page.get_by_role("button", name="Start", exact=True)).to_be_enabled()
        await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days")
        await expect(page.get_by_text("lettuce_days runs or waits; stop it first.")).to_be_visible()
        await expect(page.get_by_role("button", name="Start", exact=True)).to_be_disabled()


async def test_a_start_waits_for_its_time_in_the_middle_of_a_recipe(shared, browser, client):
    """The time of the chamber counts, not that of the browser."""
    zone = {"timezone_id": "Pacific/Kiritimati"}
    async with recipes(shared, browser, "recipe=lettuce_days", **zone) as page:
        await expect(page.get_by_text("Times are those of the chamber")).to_be_visible()
        await page.get_by_role("combobox", name="Time").select_option("true")
        at = await page.locator("input[type=datetime-local]").input_value()
        await page.get_by_role("combobox", name="Begin with").select_option("1")
        await press(page, "Start")
        await expect(page.get_by_text("waits for its start")).to_be_visible()
        await expect(page.get_by_text(f"starts at {at.replace('T', ' ')}")).to_be_visible()
        run = await client.run()
        assert (run["state"], run["elapsed_s"]) == ("waiting", 3 * 86_400)
        await page.evaluate("location.hash = '#environment_1/now'")
        line = page.locator("main").get_by_text("waits for its start")
        await expect(line.locator("..")).to_contain_text(at[-5:])
        await page.evaluate("location.hash = '#environment_1/recipes'")
        await expect(page.locator("svg.strip")).to_be_visible()
        assert not await page.locator("path.now").count()
        await press(page, "Cancel the start")
        await expect(page.get_by_role("dialog")).to_contain_text("no set point changes")
        await confirm(page)
        await expect(page.get_by_text("No recipe is running")).to_be_visible()


async def test_a_position_behind_the_end_is_refused_and_an_empty_field_is_the_beginning(shared, browser):
    async with recipes(shared, browser, "recipe=lettuce_days") as page:
        position = page.get_by_label("Position (days)")
        start = page.get_by_role("button", name="Start", exact=True)
        for text in "41", "-1", "1.5.":
            await position.fill(text)
            await expect(position).to_have_attribute("aria-invalid", "true")
            await expect(page.get_by_role("alert").get_by_text("41 days")).to_be_visible()
            await expect(start).to_be_disabled()
        phase = page.get_by_role("combobox", name="Begin with")
        await phase.focus()
        await phase.select_option("1")
        await expect(position).to_have_value("3")
        await expect(position).to_have_attribute("aria-invalid", "false")
        await position.fill("3.5")
        await expect(start).to_be_enabled()
        await position.fill("")
        await start.focus()
        await expect(position).to_have_value("0")
        await start.click()
        await expect(page.get_by_text("Phase 1 of 4: germination")).to_be_visible()


async def test_an_error_is_said_in_words_and_marked_in_its_field(shared, browser):
    async with recipes(shared, browser, "edit=lettuce_days", locale="de-DE") as page:
        phase = page.get_by_role("group", name="Phase 1", exact=True)
        level = phase.get_by_label("Sollwert", exact=True).first
        await expect(page.get_by_text("keine Fehler")).to_be_visible()
        await level.fill("abc")
        place = page.locator(".findings").get_by_text(re.compile("Phase 1 · .* · Zeile 1 · Sollwert:"))
        await expect(place).to_be_visible()
        await expect(level).to_have_attribute("aria-invalid", "true")
        await expect(page.get_by_text("growd würde es nicht starten")).to_be_visible()
        await expect(page.get_by_text("Dies ist der Plan vor den Fehlern.")).to_be_visible()
        await level.fill("999999")
        await expect(page.locator(".findings")).to_contain_text(re.compile(r"to [\d.]+ (°C|lx|ppm), not"))
        await level.fill("1,7")
        await expect(page.get_by_text("keine Fehler")).to_be_visible()
        assert '"value": 1.7' in await as_json(page)


async def test_the_days_of_a_plan_are_reached_by_keyboard_and_by_a_tap(shared, browser):
    async with recipes(shared, browser, "recipe=lettuce_days") as page:
        day = page.locator(".turn b")
        await expect(day).to_contain_text("Day 1 of 41")
        await page.get_by_label("Day of the plan").press("End")
        await expect(day).to_contain_text("Day 41 of 41")
        await page.locator("svg.strip").click()
        await expect(day).to_contain_text(re.compile("Day 2[12] of 41 .* growth"))
        await page.locator("svg.pick").first.click()
        await expect(page.get_by_label("Position (days)")).not_to_have_value("0")
        await page.get_by_text("As a table").click()
        row = page.get_by_role("row", name=re.compile("Light 14,000 lx"))
        await expect(row.first).to_be_visible()


async def test_errors_stand_beside_their_lines_as_one_types(shared, browser):
    async with recipes(shared, browser, "edit=lettuce_days") as page:
        text = await as_json(page)
        lines = text.split("\n")
        number = next(i for i, line in enumerate(lines, start=1) if '"22:00"' in line)
        editor = page.get_by_label("JSON")
        await editor.fill(text.replace('"22:00"', '"22:0"', 1))
        sentence = 'expected a time of day such as "06:30", got "22:0"'
        await expect(page.locator(".code em")).to_have_text(sentence)
        await expect(page.locator(".code mark")).to_have_text(lines[number - 1].replace("22:00", "22:0"))
        await press(page, f"line {number}")
        await expect(editor).to_be_focused()
        await editor.fill(text.replace('"phases": [', '"phases": ', 1))
        await expect(page.locator(".code em")).to_have_text("expected a name in quotes, found {")
        await expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
        await editor.fill(text.replace("14000", "9000"))
        await expect(page.get_by_text("no errors, no warnings")).to_be_visible()
        await expect(page.get_by_text(re.compile("^0 . 9,000 lx"))).to_be_visible()  # the plan beside it


async def test_what_is_typed_survives_a_reload_and_a_conflict(shared, browser):
    async with recipes(shared, browser, "edit=lettuce_days") as page:
        description = page.get_by_label("Description")
        await description.fill("mine")
        await page.reload()
        await expect(description).to_have_value("mine")
        other = await shared.ask("GET", LETTUCE)
        await shared.ask("PUT", LETTUCE, other | {"description": "theirs"})
        await press(page, "Save")
        await expect(page.get_by_role("dialog")).to_contain_text("was saved by somebody else")
        await press(page, "Load the other one")
        await expect(description).to_have_value("theirs")
        await page.get_by_role("link", name="← lettuce_days").click()
        await page.get_by_role("link", name="All recipes").click()
        await page.get_by_role("link", name="Not saved: lettuce_days_2").click()
        await expect(description).to_have_value("mine")
        await press(page, "Save")
        await expect(page.get_by_text("lettuce_days_2 has been saved")).to_be_visible()
        assert (await shared.ask("GET", "/recipes/lettuce_days_2"))["description"] == "mine"
        assert (await shared.ask("GET", LETTUCE))["description"] == "theirs"


async def test_a_new_revision_takes_over_in_place(shared, browser, client):
    await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days", offset=20 * 86_400)
    async with recipes(shared, browser, "edit=lettuce_days") as page:
        await expect(page.get_by_text("a revision of it runs")).to_be_visible()
        third = page.get_by_role("group", name="Phase 3")
        await (
            third.get_by_role("group", name="Light")
            .get_by_label("Set point", exact=True)
            .nth(1)
            .fill("15000")
        )
        await press(page, "Save")
        await expect(page.get_by_text(re.compile(r"Revision \d+-.* runs, \d+-.* is saved"))).to_be_visible()
        await press(page, "Show what changes")
        compared = page.locator("section", has=page.get_by_role("button", name="Take over now"))
        await expect(compared.get_by_text(re.compile("^0 . 15,000 lx"))).to_be_visible()
        dashed = compared.locator("figure path.before").nth(1)
        assert await dashed.get_attribute("d") != await compared.locator("figure path.line").nth(
            1
        ).get_attribute("d")
        before = await client.run()
        await press(page, "Take over now")
        await expect(page.get_by_text("this revision since")).to_be_visible()
        after = await client.run()
        assert (after["state"], after["changed"]) == ("running", "")
        assert 0 < after["elapsed_s"] - before["elapsed_s"] < 3_600
        await page.get_by_role("link", name=re.compile("lettuce_days running .* 2 revisions")).click()
        await expect(page.get_by_text(re.compile(r"lettuce_days \d+-.* took over"))).to_be_visible()


async def test_a_recipe_is_made_copied_exported_imported_and_deleted(shared, browser, tmp_path):
    async with recipes(shared, browser) as page:
        await press(page, "New")
        await page.get_by_label("Id in the library").fill("basil")
        await page.get_by_label("Name").first.fill("Basil")
        await page.get_by_label("Lasts").fill("3")
        await page.get_by_label("Variable", exact=True).select_option("course/air_carbon_dioxide")
        carbon_dioxide = page.get_by_role("group", name="CO₂")
        await carbon_dioxide.get_by_label("Set point", exact=True).fill("800")
        await expect(page.get_by_text("Day 1 of")).to_be_visible()
        await press(page, "Save")
        await press(page, "Duplicate")
        await expect(page.get_by_label("Id in the library")).to_have_value("basil_2")
        await page.go_back()
        async with page.expect_download() as download:
            await press(page, "Export")
        file = tmp_path / "basil.json"
        await (await download.value).save_as(file)
        written = json.loads(file.read_text())
        assert written["phases"][0]["course"] == {"air_carbon_dioxide": [{"at": 0, "value": 800}]}
        await press(page, "Delete")
        await confirm(page)
        await expect(page.get_by_text("basil has been deleted")).to_be_visible()
        await expect(page.get_by_role("link", name="Not saved: basil_2")).to_be_visible()
        await expect(page.get_by_role("link", name="Lettuce, four weeks")).to_be_visible()
        await expect(page.get_by_role("link", name=re.compile("^Basil "))).to_have_count(0)
        await page.locator("input[type=file]").set_input_files(file)
        await press(page, "Save")

        async def kept():  # the notice of the first time may still be there
            return await shared.ask("GET", "/recipes/basil")

        saved = await until_found(kept, AssertionError)
        assert {name: value for name, value in saved.items() if name != "_rev"} == written


async def test_a_reader_sees_plan_and_library_without_controls(shared, browser, client):
    await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days")
    async with recipes(shared, browser) as page:
        reader = {"access": "couchdb", "user": "ann", "role": "reader"}
        await page.route("**/session", lambda route: route.fulfill(json=reader))
        await page.reload()
        await expect(page.get_by_text("Day 1 of 41")).to_be_visible()
        await expect(page.get_by_role("link", name="Lettuce, four weeks")).to_be_visible()
        names = {"Pause", "Stop", "New", "Import", "Skip"}
        assert not names & {*await page.locator("main").get_by_role("button").all_inner_texts()}
        await page.goto(address(shared, "recipes", "edit=lettuce_days"))
        await expect(page.get_by_role("button", name="Save", exact=True)).to_have_count(0)


async def test_a_run_is_steered_while_the_database_is_away(shared, browser, client):
    await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days")
    async with recipes(shared, browser) as page:
        away = {"ERROR": "the database is not reachable"}
        await page.route(re.compile("/recipe(s|_run)/_"), lambda route: route.fulfill(status=503, json=away))
        await page.reload()
        await expect(
            page.get_by_text("The library is not available: the database is not reachable")
        ).to_be_visible()
        await press(page, "Pause")
        await expect(page.get_by_role("button", name="Resume")).to_be_visible()


TEXTS = [
    '{"__proto__": {"a": 1}}',
    '{"a": [1, -2.5e3, {"b": null}], "c/d~": "x\\n\\u00e9", "e": {}, "f": [], "g": true}',
    "[[[[]]]]", '"text"', " 3 ", "", "{", "[1,]", '{"a": 1,}', '{"a" 1}', "{a: 1}", "[1 2]", "[01]",
    "[1] x", '"\\q"', '"\t"', "[,]", "nul", "NaN", "[1", '{"a"', '{"a":',
]  # fmt: skip


async def test_json_is_read_as_the_browser_reads_it(shared, browser):
    """A key that appears twice is an error here: the first value would be lost."""
    async with recipes(shared, browser) as page:
        found = await page.evaluate(
            f"""async (texts) => {{
              const {{ read, written }} = await {module("lib/json_text.js")};
              const attempt = (work) => {{
                try {{ return JSON.stringify(work()); }} catch (error) {{ return error.name; }}
              }};
              return [...texts, '{{"a": 1, "a": 2}}'].map((text) => [
                () => JSON.parse(text),
                () => read(text).value,
                () => JSON.parse(written(read(text).value)),
              ].map(attempt));
            }}""",
            TEXTS,
        )
        *same, (_, repeated, _) = found
        for text, (parsed, value, again) in zip(TEXTS, same, strict=True):
            assert (value, again) == (parsed, parsed), text
        assert repeated == "SyntaxError"


async def test_files_that_are_hostile_too_large_or_no_recipes(shared, browser):
    async def give(page, name, text):
        file = {"name": name, "mimeType": "application/json", "buffer": text.encode()}
        await page.locator("input[type=file]").set_input_files(file)

    async with recipes(shared, browser) as page:
        await page.evaluate("localStorage['growd recipe  broken'] = 'not json'")
        await page.evaluate("localStorage['growd recipe  null'] = 'null'")
        await page.reload()
        await expect(page.get_by_role("link", name=OURS)).to_be_visible()
        await expect(page.get_by_text("Not saved:")).to_have_count(0)  # the damaged drafts
        await give(page, "large.json", " " * 4_000_001)
        await expect(page.get_by_text("large.json is larger than 4 MB").first).to_be_visible()
        recipe = await shared.ask("GET", "/recipes/demo_day")
        pages = {"notes.html": {"content_type": "text/html", "data": "PGI+"}}
        await give(page, "forum.json", json.dumps(recipe | {"_id": "forum", "_attachments": pages}))
        await press(page, "Save")
        await expect(page.get_by_text("forum has been saved")).to_be_visible()
        assert "_attachments" not in await shared.ask("GET", "/recipes/forum")
        # a recipe for which the browser has no room, which it measures in characters
        await page.goto(address(shared, "recipes"))
        await page.evaluate("localStorage['filled'] = 'x'.repeat(5_200_000)")
        await give(page, "second.json", json.dumps(recipe | {"_id": "second", "note": "y" * 60_000}))
        await expect(page.get_by_text("The browser cannot keep a draft").first).to_be_visible()
        await press(page, "Save")
        await expect(page.get_by_text("second has been saved")).to_be_visible()
        await page.goto(address(shared, "recipes"))
        await give(page, "picture.json", "PNG")
        await expect(page.get_by_text("picture.json is not JSON.").first).to_be_visible()
        for query in ("range=any&start=NaN&end=1e400", "range=any&start=-1e308&end=5", "range=__proto__"):
            await page.goto(address(shared, "charts", query))
            await expect(page.get_by_role("button", name="Day", exact=True)).to_be_visible()


async def test_a_draft_of_a_browser_that_keeps_nothing_is_still_edited(shared, browser):
    async with recipes(shared, browser) as page:
        await page.add_init_script(
            "Object.defineProperty(window, 'localStorage', {get() { throw new Error('off'); }})"
        )
        await page.goto(f"{shared.address}/_svc/?again#environment_1/recipes?edit=demo_day")
        editor = page.get_by_label("JSON")
        await expect(editor).to_have_value(re.compile("15000"))
        await editor.fill((await editor.input_value()).replace("15000", "14000"))
        await expect(page.get_by_text("The browser cannot keep a draft").first).to_be_visible()
        await press(page, "Save")
        await expect(page.get_by_text("demo_day has been saved")).to_be_visible()


async def test_a_version_of_a_recipe_in_conflict_is_kept(shared, browser):
    versions = [
        {
            "_id": "both", "_rev": f"2-{letter * 4}", "_revisions": {"start": 2, "ids": [letter * 4, "aa"]},
            "format": "simple", "operations": [[0, "light_illuminance", value], [60, "light_illuminance", 0]],
        }
        for letter, value in (("b", 9_000), ("c", 100))
    ]  # fmt: skip
    await shared.ask("POST", "/recipes/_bulk_docs", {"new_edits": False, "docs": versions})
    async with recipes(shared, browser, "recipe=both") as page:
        await expect(page.get_by_text("edited in two places")).to_be_visible()
        other = page.locator(".row", has_text="revision 2-bbbb")
        await other.get_by_role("button", name="Keep this version").click()
        await confirm(page)
        await expect(page).to_have_url(address(shared, "recipes"))
    left = await shared.ask("GET", "/recipes/both?conflicts=true")
    assert (left["_rev"], left.get("_conflicts")) == ("2-bbbb", None)
