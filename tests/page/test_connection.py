"""The page while growd, its database or the network is away: it says so, greys values, and recovers."""

import os
import re
import signal
from contextlib import contextmanager

import aiohttp
import pytest
from playwright.async_api import expect

from support.browser import DESK, PHONE, opened, page_at
from support.page import SIMULATED, VIEWS, Client, address, card, connected, in_browser, verdict
from support.program import started

pytestmark = [*in_browser, pytest.mark.timeout(240)]

NO_DATA = re.compile(r"No data for \d+ (s|min)\. All values are old\.")
VALUE = re.compile(r"^\d.* °C")


async def is_lost(page):
    """Wait until the page says that it gets no data; its values must look old."""
    await expect(page.get_by_text(NO_DATA)).to_be_visible()
    await expect(page.locator("html[data-connection=lost]")).to_be_attached()
    bright, grey = await page.evaluate(
        """() => {
            const value = document.querySelector("article strong, main .card");
            const look = () => {
                let all = "";
                for (let each = value; each; each = each.parentElement) {
                    const { color, opacity, filter } = getComputedStyle(each);
                    all += color + opacity + filter;
                }
                return all;
            };
            const grey = look();
            document.documentElement.dataset.connection = "ok";
            const bright = look();
            document.documentElement.dataset.connection = "lost";
            return [bright, grey];
        }"""
    )
    assert bright != grey


async def is_back(page):
    await expect(page.get_by_text(NO_DATA)).to_have_count(0)
    await connected(page)


@contextmanager
def frozen(program):
    """growd stands still, as a machine that is too busy or a network that loses everything."""
    os.kill(program.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(program.process.pid, signal.SIGCONT)


@pytest.mark.nightly
@pytest.mark.parametrize("view", VIEWS[1:])
async def test_kill_9_while_open_and_a_later_start(tmp_path, browser, own_port, view):
    options = (*SIMULATED, "--port", str(own_port))
    async with (
        started(tmp_path, *options) as program,
        opened(browser, address(program, view), viewport=DESK) as tab,
    ):
        await connected(tab.page)
        program.process.kill()
        await program.process.wait()
        await expect(tab.page.get_by_text(NO_DATA)).to_be_visible()
        async with started(tmp_path, *options):
            await is_back(tab.page)
            await tab.page.get_by_role("link", name="Now", exact=True).click()
            await expect(card(tab.page, "Air temperature").get_by_text(VALUE)).to_be_visible()
        # a part that was still loading at the kill is loaded again
        tab.errors[:] = [each for each in tab.errors if "dynamically imported module" not in each]


async def test_kill_9_greys_the_values_and_a_start_brings_new_ones(tmp_path, browser, own_port):
    options = (*SIMULATED, "--port", str(own_port))
    async with started(tmp_path, *options) as program, page_at(browser, address(program)) as page:
        temperature = card(page, "Air temperature")
        await expect(temperature.get_by_text(VALUE)).to_be_visible()
        await connected(page)
        program.process.kill()
        await program.process.wait()
        await is_lost(page)
        await expect(temperature).to_contain_text(re.compile(r"\d+ (s|min) ago"))
        # without a sensor from its start: an old value would stay
        faults = tmp_path / "faults.toml"
        faults.write_text('[[fault]]\nkind = "absent"\ndevice = "scd30"\n')
        async with started(tmp_path, *options, "--faults", str(faults)):
            await is_back(page)
            await expect(temperature.get_by_text(VALUE)).to_have_count(0)
            await expect(card(page, "Light").get_by_text(re.compile(r"^\d.*µmol"))).to_be_visible()


@pytest.mark.browser
async def test_a_growd_that_stands_still_is_noticed(shared, browser, client):
    async with page_at(browser, address(shared)) as page:
        await connected(page)
        await client.call("hold/set", reason="gas alarm")
        await expect(page.get_by_text("gas alarm")).to_be_visible()
        with frozen(shared):
            await is_lost(page)
            await expect(page).to_have_title(re.compile(r"^\(old\) Now"))
            await expect(page.get_by_text("were held safe when growd answered last")).to_be_visible()
            release = verdict(page).get_by_role("button", name="Release")
            await expect(release).to_be_disabled()
        await is_back(page)


async def test_half_an_hour_without_network(shared, browser, client):
    async with page_at(browser, "about:blank", viewport=PHONE) as page:
        await page.clock.install()
        await page.goto(address(shared))
        await expect(card(page, "Air temperature").get_by_text(VALUE)).to_be_visible()
        await connected(page)
        await page.context.set_offline(True)
        with frozen(shared):  # an open stream survives `set_offline`
            for _ in range(30):
                await page.clock.run_for(60_000)
            await expect(page.get_by_text(re.compile(r"No data for (29|30|31) min\."))).to_be_visible()
            await expect(page.locator("html[data-connection=lost]")).to_be_attached()
        await client.publish("desired/light_illuminance", 4321)  # meanwhile
        await page.context.set_offline(False)
        await page.clock.resume()
        await is_back(page)
        await expect(card(page, "Light")).to_contain_text(re.compile("→ .*4.3"))  # klx
        await client.publish("desired/light_illuminance", None)
        await expect(card(page, "Air temperature")).not_to_contain_text("ago")


async def test_a_wish_without_connection_is_refused_and_kept(shared, browser, client):
    before = await client.last("desired/light_illuminance")  # None, unless a test before this one failed
    async with page_at(browser, address(shared, "now", "of=light_illuminance")) as page:
        field = page.get_by_role("dialog").get_by_label("Set point of Light")
        await expect(page.get_by_role("dialog").locator(".over")).to_be_visible()  # all is loaded
        await field.fill("6000")
        await page.context.set_offline(True)
        await field.press("Enter")
        await expect(page.get_by_role("status").get_by_text("no connection to growd").last).to_be_visible()
        await expect(field).to_have_value("6000")
        assert await client.last("desired/light_illuminance") == before
        await page.context.set_offline(False)


async def test_the_stopped_database_is_said_and_the_chamber_is_steered_on(tmp_path, browser):
    options = ("--set", "couchdb.url=http://127.0.0.1:9")
    async with (
        started(tmp_path, *SIMULATED, *options) as program,
        aiohttp.ClientSession() as session,
        page_at(browser, address(program)) as page,
    ):
        client = Client(program, session)
        await expect(verdict(page)).to_contain_text(re.compile("database"))
        await page.goto(address(program, "now", "of=light_illuminance"))
        field = page.get_by_role("dialog").get_by_label("Set point of Light")
        await field.fill("5000")
        await field.press("Enter")
        await client.until(lambda: client.last("desired/light_illuminance"), lambda value: value == 5000)
        await page.goto(address(program, "charts"))
        await expect(page.get_by_text("Stored values are missing")).to_be_visible()
        await page.goto(address(program, "recipes"))
        await expect(page.get_by_text("The library is not available")).to_be_visible()
        await page.goto(address(program, "journal"))
        await expect(page.get_by_text("The entries cannot be read")).to_be_visible()
        await page.goto(address(program, "data"))
        await expect(page.get_by_text("✕ does not answer")).to_be_visible()
