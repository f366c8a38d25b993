"""The runs of recipes: the list, one run with its figures and what people recorded, and two compared."""

import re

import aiohttp
import pytest_asyncio
from playwright.async_api import expect

from support.browser import page_at
from support.page import PLACE, Client, address, in_browser

pytestmark = in_browser

STORED = f"history/{PLACE}?variable=air_carbon_dioxide&events=false"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def runs(lasting):
    """Two runs that have ended, with their figures; the newest first."""
    async with aiohttp.ClientSession() as session:
        client = Client(lasting[0], session)

        async def newest():
            return (await client.get(f"runs/{PLACE}"))["runs"][:2]

        await client.until(lambda: client.get(STORED), lambda found: found["series"][0]["measured"]["time"])
        for number in range(2):
            await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days", by="Ada")
            await client.until(client.run, lambda run: run["elapsed_s"] > 70)
            await client.publish("measured/harvest_fresh_mass", 200 + number)
            await client.call(f"{PLACE}/stop_recipe", by="Ben")
            found = await client.until(newest, lambda runs: runs and runs[0]["ended"])
            run = f"run/{found[0]['id']}"
            await client.until(lambda run=run: client.get(run), lambda its: its["run"].get("figures"))
        return found


async def test_a_run_has_its_figures_notes_and_record(shared, browser, runs):
    async with page_at(browser, address(shared, "recipes")) as page:
        await page.get_by_role("link", name=re.compile("lettuce_days stopped .* Ada")).first.click()
        await expect(page.get_by_role("heading", name="Lettuce, 41 days by the clock")).to_be_visible()
        await expect(page.get_by_text("by Ada · ended by Ben")).to_be_visible()
        await expect(page.get_by_role("row", name=re.compile(r"^CO₂ \d+ ppm"))).to_be_visible()
        await expect(page.get_by_role("row", name=re.compile("Harvest, fresh 201 g"))).to_be_visible()
        await page.get_by_text("Configuration at the start").click()
        await expect(page.get_by_text('"speed": 10')).to_be_visible()
        await page.get_by_role("link", name="Charts: plan and measured values").click()
        first = int(runs[0]["started"])
        await expect(page).to_have_url(re.compile(rf"/charts\?range=any&start={first}&end=\d+"))


def without_figures(**changes):
    """Answers for a run as it was before its figures came."""

    async def answer(route):
        found = await (await route.fetch()).json()
        del found["run"]["figures"]
        found["run"] |= changes
        await route.fulfill(json=found)

    return answer


async def test_figures_come_after_the_end_while_the_run_is_open(shared, browser, runs):
    async with page_at(browser, "about:blank") as page:
        await page.clock.install()
        await page.route("**/run/*", without_figures())
        await page.goto(address(shared, "recipes", f"run={runs[0]['id']}"))
        await expect(page.get_by_text("There are no figures of this run yet.")).to_be_visible()
        await page.unroute("**/run/*")
        await page.clock.run_for(16_000)
        await expect(page.get_by_role("row", name=re.compile("Humidity"))).to_be_visible()


async def test_events_of_a_run_have_names_for_people(shared, browser, runs):
    async def answered(route):
        found = await (await route.fetch()).json()
        lasted = {"count": 2, "lasted_s": 600, "times": []}
        sources = (("hold", "hold"), ("interlock", "no_rise_after_dose"), ("fault", "bh1750_1"))
        found["run"]["figures"]["events"] = [{"kind": kind, "source": of} | lasted for kind, of in sources]
        await route.fulfill(json=found)

    async with page_at(browser, "about:blank") as page:
        await page.route("**/run/*", answered)
        await page.goto(address(shared, "recipes", f"run={runs[0]['id']}"))
        for name in "Hold", "Interlock No rise after a dose", "Fault Light sensor":
            term = page.get_by_role("term").filter(has_text=re.compile(f"^{name}"))
            await expect(term).to_be_visible()
        await page.unroute_all(behavior="wait")  # it may be asking again


async def test_a_run_that_goes_on_leads_to_its_report(shared, browser, runs):
    async with page_at(browser, "about:blank") as page:
        await page.route("**/run/*", without_figures(ended=None))
        await page.goto(address(shared, "recipes", f"run={runs[0]['id']}"))
        async with page.expect_popup() as report:
            await page.get_by_role("link", name="The report has the figures until now").click()
        await expect((await report.value).get_by_role("heading", level=1)).to_be_visible()


async def test_a_run_that_does_not_exist(shared, browser):
    async with page_at(browser, address(shared, "recipes", "run=none")) as page:
        await expect(page.get_by_role("main")).to_contain_text("none")
        await expect(page.get_by_role("link", name="All recipes")).to_be_visible()


async def test_a_report_and_a_comparison_open_in_a_new_tab(shared, browser, runs):
    async with page_at(browser, address(shared, "recipes"), locale="de-DE") as page:
        for run in runs:
            await page.locator(f"li:has(a[href*='{run['id'][-10:]}']) input").check()
        async with page.expect_popup() as comparison:
            await page.get_by_role("link", name="Die zwei Läufe vergleichen").click()
        await expect((await comparison.value).locator("html[lang=de] svg").first).to_be_visible()
        await page.goto(address(shared, "recipes", f"run={runs[0]['id']}"))
        async with page.expect_popup() as report:
            await page.get_by_role("link", name="Bericht").click()
        await expect((await report.value).locator("html[lang=de] h1")).to_be_visible()
