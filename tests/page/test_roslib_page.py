"""The page docs/examples/roslib.html, in a browser, on a site of its own."""

from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer
from playwright.async_api import expect

from growd.bus.messages import Quality
from growd.config import Http
from support.browser import opened
from support.checkout import ROOT
from support.daemon import CO2, LIGHT, serving
from support.page import in_browser

ROSLIB = ROOT / "page/node_modules/roslib-1/build/roslib.min.js"

pytestmark = [
    *in_browser,
    pytest.mark.skipif(not ROSLIB.exists(), reason="page/node_modules has no roslib (./test installs it)"),
]


@asynccontextmanager
async def own_site(page):
    """The origin of another web server, and its pages by path, with roslib beside them."""
    pages = {}

    async def answer(request):
        return web.Response(text=pages[request.path], content_type="text/html")

    await page.route("**/roslib.min.js", lambda route: route.fulfill(path=ROSLIB))
    async with RawTestServer(answer) as server:
        yield f"http://127.0.0.1:{server.port}", pages


def example(daemon):
    """The page, with the address of this growd."""
    page = (ROOT / "docs/examples/roslib.html").read_text(encoding="utf-8")
    return page.replace("127.0.0.1:5984", f"127.0.0.1:{daemon.port}")


async def test_the_example_of_the_documentation(browser):
    async with opened(browser, "about:blank") as tab, own_site(tab.page) as (site, pages):
        async with serving(policy=Http(origins=(site,))) as daemon:
            daemon.sensor[CO2].publish(612.4)
            pages["/"] = example(daemon)
            await tab.page.goto(site)
            await use(tab.page, daemon)
        await expect(tab.page.locator("#co2")).to_have_text("not connected")
        tab.errors.clear()  # of the connection that is tried again


async def use(page, daemon):
    """Read and set on the example."""
    co2, said = page.locator("#co2"), page.locator("#said")
    await expect(co2).to_have_text("612 ppm")
    daemon.sensor[CO2].publish(None, Quality.FAULT)
    await expect(co2).to_have_text("fault")
    await page.get_by_role("button", name="Start demo_day").click()
    await expect(said).to_have_text("started demo_day")

    daemon.bus.topics.get(LIGHT).note = "there is no lamp"
    await page.get_by_label("Light in lux").fill("8000")
    await page.get_by_role("button", name="Set").click()
    await expect(said).to_have_text("there is no lamp")
    last = daemon.bus.topics.get(LIGHT).last
    assert last.value == 8000.0
    await page.get_by_label("Light in lux").fill("")
    await page.get_by_role("button", name="Set").click()
    await expect(said).to_have_text("type a number")
    assert daemon.bus.topics.get(LIGHT).last is last
    await page.get_by_label("Light in lux").fill("-1")
    await page.get_by_role("button", name="Set").click()
    await expect(said).to_have_text("data must be a number from 0 to 200000 lux, not -1")


async def test_a_site_that_is_not_named_is_refused(browser):
    async with opened(browser, "about:blank") as tab, own_site(tab.page) as (site, pages):
        async with serving(policy=Http(origins=("*",))) as daemon:
            daemon.sensor[CO2].publish(612.4)
            pages["/"] = example(daemon)
            await tab.page.goto(site)
            await expect(tab.page.locator("#said")).to_have_text("no connection")
            await expect(tab.page.locator("#co2")).to_have_text("not connected")
            assert daemon.server.answered[4] > 0
            assert len(daemon.api.streams) == 0
        tab.errors.clear()
