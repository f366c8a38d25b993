"""The simulation of a recipe in its view: the button, its progress, its report, a failure, and a stop."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from support.browser import DESK, opened, page_at
from support.page import address, in_browser
from support.program import started

pytestmark = [*in_browser, pytest.mark.browser]

# Python imports it first. It takes the place of `growd simulate`, and does what the number of days says.
STAND_IN = """
import os, pathlib, sys, time
if sys.orig_argv[1:6] == ["-s", "-P", "-m", "growd_cli", "simulate"]:
    days = sys.orig_argv[sys.orig_argv.index("--days") + 1]
    print('{"done": 0.12, "speed": 3100}', flush=True)
    time.sleep(3600 * (days == "2"))
    if days == "3":
        print("growd: this chamber has no lamp", file=sys.stderr, flush=True)
        os._exit(1)
    pathlib.Path("report.html").write_text("<h1>A season</h1>")
    os._exit(0)
"""


def card_of(page, heading):
    return page.locator("section").filter(has=page.get_by_role("heading", name=heading))


@pytest_asyncio.fixture(loop_scope="session")
async def growd(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(STAND_IN)
    environment = {"PYTHONPATH": str(tmp_path)}
    async with started(tmp_path / "data", "--profile", "sim", environment=environment) as program:
        await program.until_there("recipes/lettuce_days")
        yield program


async def test_a_recipe_is_tried_in_the_simulation(growd, browser):
    there = address(growd, "recipes", "recipe=lettuce_days")
    async with page_at(browser, there, viewport=DESK) as page:
        card = card_of(page, "Try it in the simulation")
        button, days = card.get_by_role("button"), card.get_by_label("days")
        await expect(days).to_have_value("41")
        await days.fill("101")
        await expect(button).to_be_disabled()
        await days.fill("3")
        await button.click()
        await expect(card.get_by_role("status")).to_have_text("this chamber has no lamp")
        await days.fill("2")
        await button.click()
        await expect(card).to_contain_text("lettuce_days is simulated: 12 %, 3,100 times as fast")
        await expect(card.get_by_role("progressbar")).to_be_visible()
        await card.get_by_role("button", name="Stop").click()
        await days.fill("1")
        await button.click()
        async with page.expect_popup() as opening:
            await card.get_by_role("link", name="Report").click()
        report = await opening.value
        await expect(report.get_by_role("heading")).to_have_text("A season")


async def test_another_tab_shows_it_in_german(growd, browser):
    there = address(growd, "recipes", "recipe=lettuce_days")
    async with (
        opened(browser, there, viewport=DESK) as ours,
        opened(browser, there, viewport=DESK, locale="de-DE") as theirs,
    ):
        our_card = card_of(ours.page, "Try it in the simulation")
        await our_card.get_by_label("days").fill("2")
        await our_card.get_by_role("button").click()
        card = card_of(theirs.page, "In der Simulation ausprobieren")
        await expect(card).to_contain_text("lettuce_days wird simuliert: 12 %, 3.100-mal so schnell")
        await card.get_by_role("button", name="Stoppen").click()
        await expect(our_card.get_by_role("progressbar")).to_have_count(0)
