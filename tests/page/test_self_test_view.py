"""The self-test of the outputs in the view Devices: its start, its progress, its results, and a stop."""

import re

import pytest
from playwright.async_api import expect

from support.browser import DESK, page_at
from support.page import address, in_browser, sure
from support.program import started

pytestmark = [*in_browser, pytest.mark.browser]


def card(page, heading):
    return page.locator("section").filter(has=page.get_by_role("heading", name=heading))


async def test_outputs_are_tested_and_the_results_survive_a_reload(tmp_path, browser):
    async with (
        started(tmp_path, "--profile", "sim", "--speed", "60") as program,
        page_at(browser, address(program, "devices"), viewport=DESK) as page,
    ):
        test = card(page, "Self-test of the outputs")
        await test.get_by_role("checkbox", name="valve").check()
        await test.get_by_role("button", name="Test outputs").click()
        await sure(page, "Test outputs")
        await expect(test.get_by_role("progressbar")).to_be_visible()
        await expect(test.get_by_role("button", name="Test outputs")).to_be_visible(timeout=120_000)
        lamp = test.get_by_role("listitem").filter(has_text="light white")
        await expect(lamp).to_contain_text(re.compile("passed.*Light changed by", re.DOTALL))
        await expect(test.get_by_role("listitem").filter(has_text="valve")).not_to_contain_text("ask for it")
        await page.reload()
        await expect(lamp).to_contain_text("passed")


async def test_it_can_be_stopped_and_is_shown_in_german(shared, browser, client):
    async with page_at(browser, address(shared, "devices"), viewport=DESK, locale="de-DE") as page:
        test = card(page, "Selbsttest der Ausgänge")
        await test.get_by_role("button", name="Ausgänge testen").click()
        await sure(page, "Ausgänge testen")
        await test.get_by_role("button", name="Abbrechen").click()
        await expect(test.get_by_role("status")).to_contain_text("abgebrochen (")
        assert not (await client.status())["experiments"]
