"""Settings of the browser, the app without growd, and the log, in a real browser."""

import re
import signal

from playwright.async_api import expect

from support.browser import DESK, opened, page_at
from support.page import address, connected, in_browser, module
from support.program import started

pytestmark = in_browser

WORKER = (
    "navigator.serviceWorker.ready.then(() => caches.open('page')).then((c) => c.match(location.pathname))"
)
NOWHERE = {"device": "", "environment": "", "topic": "", "traceback": ""}
SILENT = {"device": "scd30", "environment": "environment_1", "message": "scd30 does not answer"}
FULL = {"message": "the disk is full", "traceback": "Traceback: OSError"}
RECORDS = [
    NOWHERE | {"time": 1_795_960_000, "level": "warning", "logger": "growd.bus"} | SILENT,
    NOWHERE | {"time": 1_795_960_060, "level": "error", "logger": "growd.store"} | FULL,
]


async def choose(page, name, option):
    """Choose a setting, with which the page is loaded again."""
    async with page.expect_navigation():
        await page.get_by_label(name).select_option(option)
    await connected(page)


async def computed(page, call):
    """A call of a function of lib/format.js."""
    return await page.evaluate(f"{module('lib/format.js')}.then((format) => format.{call})")


async def test_the_worker_has_the_policy_of_the_page_and_is_asked_for_each_time(shared, client):
    async with client.session.get(f"{shared.address}/_svc/worker.js") as answer:
        assert answer.headers["Content-Type"].startswith("text/javascript")
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Cache-Control"] == "no-cache"


async def test_language_units_and_colours_are_chosen_and_kept(shared, browser):
    async with page_at(browser, address(shared, "settings"), locale="en-US", color_scheme="light") as page:
        await connected(page)
        assert await computed(page, "quantity(20, 'degC')") == "20 °C"  # in a browser from the USA too
        await choose(page, "Units", "us")
        assert await computed(page, "quantity(20, 'degC')") == "68 °F"
        assert await computed(page, "symbol('degC d')") == "°F d"
        told = "readable('it was 25 °C, 1.5 mol/m², rose by 2 °C; 30 degC')"
        words = await page.evaluate(f"{module('lib/names.js')}.then((names) => names.{told})")
        assert words == "it was 77 °F, 1.5 mol/m², rose by 4 °F; 86 °F"
        assert await computed(page, "given(format.shown(10, 'degC d'), 'degC d')") == 10
        await choose(page, "Colours", "dark")
        background = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert sum(map(int, re.findall(r"\d+", background))) < 150
        await choose(page, "Language", "de")
        await expect(page.locator("html")).to_have_attribute("lang", "de")
        assert await computed(page, "number(1234.5, 1)") == "1.234,5"
        await page.goto(address(shared))
        await expect(page.get_by_role("link", name="Verlauf")).to_be_visible()


async def test_without_growd_the_app_shows_the_last_state_with_its_age(tmp_path, browser):
    async with (
        started(tmp_path, "--profile", "sim") as program,
        opened(browser, address(program), service_workers="allow") as tab,
    ):
        page = tab.page
        await connected(page)
        reading = page.get_by_text(re.compile(r"^2\d\.\d")).first
        await expect(reading).to_be_visible()
        manifest = await page.locator("link[rel=manifest]").get_attribute("href")
        icons = await page.evaluate(
            "(href) => fetch(href).then((a) => a.json()).then(({ icons }) => Promise.all(icons.map((each) =>"
            " fetch(new URL(each.src, new URL(href, location))).then((a) => a.status))))",
            manifest,
        )
        assert icons == [200, 200, 200]
        await page.wait_for_function(WORKER)
        other = await page.context.new_page()  # hides the first, which keeps what it has
        await page.evaluate("dispatchEvent(new Event('pagehide'))")
        program.process.send_signal(signal.SIGKILL)
        await program.process.wait()
        await other.goto(address(program))
        await expect(other.get_by_text(re.compile(r"^2\d\.\d")).first).to_be_visible()
        await expect(other.locator("html")).to_have_attribute("data-connection", "lost")
        await expect(other).to_have_title(re.compile("old"))
        kept = await other.evaluate(
            "caches.open('page').then((c) => c.keys()).then((k) => k.map((r) => r.url))"
        )
        assert not [url for url in kept if "/api/" in url]  # nothing old in place of an answer
        tab.errors.clear()


async def test_the_log_by_device_and_for_a_report(shared, browser):
    async def answer(route):
        await route.fulfill(json={"node_name": "log", "records": RECORDS})

    async with page_at(browser, f"{shared.address}/_svc/", viewport=DESK) as page:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.route("**/node/log", answer)
        await page.goto(address(shared, "log"))
        entries = page.locator(".log li")
        await expect(entries).to_contain_text(["the disk is full", "scd30 does not answer"])
        await page.get_by_label("Device").select_option("scd30")
        await expect(entries).to_have_count(1)
        await page.get_by_label("Device").select_option("")
        await page.get_by_role("button", name="Copy for a bug report").click()
        await expect(page.get_by_role("button", name="Copied")).to_be_visible()
        copied = (await page.evaluate("navigator.clipboard.readText()")).splitlines()
        assert copied[0].startswith("growd ")
        assert copied[1].endswith("WARNING growd.bus environment_1/scd30: scd30 does not answer")
        assert copied[-1] == "Traceback: OSError"
