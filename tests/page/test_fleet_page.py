"""The page of a fleet, in a browser, from a receiver in front of a real CouchDB."""

import json
import re
import secrets
import time
from base64 import b64encode
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest
from playwright.async_api import expect
from yarl import URL

from growd_cloud.devices import (
    DeviceDocument,
    DeviceReport,
    ReportedAlert,
    ReportedEnvironment,
    ReportedValue,
    fleet_row,
)
from growd_cloud.devices import device_document_id as document_id
from support.axe import violations
from support.browser import DESK, PHONE, opened, page_at
from support.cloud import needs_cloud, running_cloud
from support.page import in_browser

pytestmark = [*in_browser, needs_cloud]

READER = f"fleet_page_reader_{secrets.token_hex(4)}"  # of this process: others may run tests of this file
PASSWORD = "pässword: 7"
NO_CO2 = "environment_1/scd30_1: the sensor does not answer"


def device(number, name, *alerts, ago=20.0, group=""):
    """A device whose report came `ago` seconds before now; 0: none has come."""
    now = time.time()
    values = {
        "air_temperature": ReportedValue(21.42, unit="degC", set_point=22.0),
        "air_carbon_dioxide": ReportedValue(None, "fault", "ppm")
        if alerts
        else ReportedValue(612.0, unit="ppm"),
        "water_circulation": ReportedValue(None, "", "fraction", 1.0),
        "door_open": ReportedValue(value=False, unit="switch"),
    }
    if alerts:
        values["water_potential_hydrogen"] = ReportedValue(6.0, unit="pH")
    if name == "Elm":
        values["water_potential_hydrogen"] = ReportedValue(6.0, unit="pH")
    place = ReportedEnvironment(
        recipe="lettuce_days",
        state="paused" if alerts else "running",
        phase="growth",
        remaining_s=7_200.0,
        values=values,
    )
    host = "127.0.0.1" if name == "Elm" else f"chamber-{number}.local"
    api = f"http://{host}:5984/_svc/api/0.0.1"
    report = DeviceReport(
        name, "0.9.0", now - ago, api=api, alerts=list(alerts), environments={"environment_1": place}
    )
    identity = f"{number:012x}"
    received = now - ago if ago else 0.0
    return DeviceDocument(
        document_id(identity), identity, name, group, now - 9e5, version="0.9.0", received=received,
        report=report if ago else None,
    )  # fmt: skip


def some_devices():
    failure = ReportedAlert("critical", NO_CO2, time.time() - 600)
    strange = [ReportedAlert("warning", f"strange {since}", since) for since in (0.0, 1.0, 2.5e11)]
    return [
        device(1, "Alder", group="school"),
        device(2, "Birch", ago=7_400.0),
        device(3, "Cedar", failure, *strange, group="school"),
        device(4, "Date", ago=0.0),
        device(5, "Elm", ago=400.0),
    ]


@asynccontextmanager
async def fleet():
    async with running_cloud() as cloud:
        for each in some_devices():
            await cloud.couch.put(cloud.names.devices, msgspec.to_builtins(each))
        await cloud.account(READER, PASSWORD, "reader")
        yield cloud


async def log_in(page, password=PASSWORD):
    await page.get_by_label("User").fill(READER)
    await page.get_by_label("Password").fill(password)
    await page.keyboard.press("Enter")


def card(page, name):
    return page.get_by_role("article", name=name)


async def names(page):
    return [await each.inner_text() for each in await page.get_by_role("article").locator("h2").all()]


async def test_a_reader_sees_all_devices_those_with_problems_first(browser):
    async with fleet() as cloud, opened(browser, cloud.url) as tab:
        page = tab.page
        await log_in(page, "wrong")
        await expect(page.get_by_role("alert")).to_contain_text("incorrect")
        await log_in(page)
        await expect(page.get_by_role("button", name="5 devices")).to_be_visible()
        assert await names(page) == ["Cedar", "Birch", "Date", "Alder", "Elm"]
        await expect(page.get_by_role("button", name="1 failure")).to_be_visible()
        await expect(page).to_have_title("(1) Fleet")

        cedar, birch, alder, elm = (card(page, name) for name in ("Cedar", "Birch", "Alder", "Elm"))
        await expect(cedar).to_contain_text(NO_CO2)
        await expect(cedar).to_contain_text("lettuce_days · paused · growth · 2 h left")
        await expect(cedar).to_contain_text(re.compile(r"CO₂\s*\W no reading"))
        alerts = await cedar.get_by_role("listitem").all_inner_texts()
        assert [" since " in each for each in alerts] == [
            True,
            False,
            False,
            False,
        ]  # no device can have written the other times
        await expect(cedar).to_contain_text(re.compile(r"pH\s*6\.00(?!\s*pH)"))
        await expect(birch).to_contain_text("silent for 2 h")
        await expect(birch).not_to_contain_text("left")
        await expect(birch).to_contain_text("Old values of")
        await expect(alder).to_contain_text(re.compile(r"lettuce_days · growth · (2 h|1 h 59 min) left"))
        await expect(alder).to_contain_text(re.compile(r"21\.4 °C.*22\.0 °C"))
        await expect(alder).not_to_contain_text("Old values")
        await expect(alder).to_contain_text(f"school · {1:012x} · growd 0.9.0")
        await expect(elm).to_contain_text(re.compile(r"lettuce_days · growth · 1 h 5[23] min left"))
        await expect(elm).to_contain_text("Old values of")  # two reports are missing
        await expect(elm).to_contain_text(re.compile(r"Door\s*shut"))
        await expect(elm).to_contain_text(re.compile(r"pH\s*6\.00(?! pH)"))
        await expect(elm).to_contain_text(re.compile(r"Circulation pump\s*\W →"))
        link = alder.get_by_role("link", name="Alder")
        await expect(link).to_have_attribute("href", "http://chamber-1.local:5984/_svc/")
        await expect(card(page, "Date")).to_contain_text("no report yet")

        await page.reload()  # the login holds until the tab is closed
        await expect(alder).to_be_visible()
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_label("Password")).to_be_visible()
        await expect(page.get_by_role("article")).to_have_count(0)


async def test_what_a_device_reports_takes_little_room(browser):
    alerts = [ReportedAlert("warning", f"alert {n} {'x' * 900}", 0.0) for n in range(200)]
    oak = device(6, "Oak", *alerts)
    assert oak.report is not None
    values = {"air_temperature": ReportedValue(1e308, unit="degC"), "door_open": ReportedValue("y" * 2_000)}
    places = {"environment_1": ReportedEnvironment(values=values)}
    api = "http://user:password@chamber.example/"
    oak.report = msgspec.structs.replace(oak.report, api=api, environments=places)
    async with fleet() as cloud, page_at(browser, cloud.url) as page:
        await cloud.couch.put(cloud.names.devices, msgspec.to_builtins(oak))
        await log_in(page)
        found = card(page, "Oak")
        await expect(found.get_by_role("listitem")).to_have_count(6)
        await expect(found).to_contain_text("and 195 more")
        await expect(found).to_contain_text("1.0e+308 °C")
        assert len(await found.inner_text()) < 3_000
        await expect(found.get_by_role("link")).to_have_count(0)


async def test_filters(browser):
    address = "http://fleet.localhost"  # of this machine, and no loopback address to the page
    async with fleet() as cloud, opened(browser, f"{address}:{URL(cloud.url).port}", viewport=DESK) as tab:
        page = tab.page
        await log_in(page)
        await expect(card(page, "Alder").get_by_role("link")).to_have_count(1)
        name = page.get_by_role("heading", name="Fleet", exact=True)
        assert await name.evaluate("each => each.scrollWidth <= each.clientWidth && each.offsetLeft < 100")
        await expect(card(page, "Elm").get_by_role("link")).to_have_count(0)
        await page.get_by_role("button", name="silent").click()
        await expect(page.get_by_role("article")).to_have_count(1)
        await page.get_by_role("button", name="silent").click()
        await page.get_by_label("Group", exact=True).select_option("school")
        await expect(page.get_by_role("article")).to_have_count(2)
        await page.get_by_label("Group", exact=True).select_option("")
        await page.get_by_label("Name, group, recipe or variable").fill("birch")
        await expect(page.get_by_role("article")).to_have_count(1)
        await page.get_by_label("Name, group, recipe or variable").fill("co2")
        await expect(page.get_by_role("article")).to_have_count(4)
        await expect(card(page, "Alder")).not_to_contain_text("Air temperature")
        await page.get_by_label("Name, group, recipe or variable").fill("elm 000000000005")
        await expect(page.get_by_role("button", name="1 device", exact=True)).to_be_visible()
        await page.get_by_label("Name, group, recipe or variable").fill("nothing like it")
        await expect(page.get_by_text("No device matches.")).to_be_visible()


async def test_without_an_answer_all_values_are_old(browser):
    async with fleet() as cloud, opened(browser, cloud.url) as tab:
        page = tab.page
        await log_in(page)
        await expect(page.locator("html[data-connection=ok]")).to_be_attached()
        await page.route("**/_fleet", lambda route: route.abort())
        await page.evaluate("dispatchEvent(new Event('online'))")
        await expect(page.get_by_role("alert")).to_contain_text(
            "the receiver does not answer. All values are old."
        )
        await expect(page.locator("html[data-connection=lost]")).to_be_attached()
        await expect(page).to_have_title("(old) Fleet")
        await expect(card(page, "Alder")).to_be_visible()
        await page.unroute_all(behavior="ignoreErrors")
        await page.evaluate("dispatchEvent(new Event('online'))")
        await expect(page.locator("html[data-connection=ok]")).to_be_attached()
        await expect(page.get_by_role("alert")).to_have_count(0)


async def test_a_login_that_has_ended_is_asked_for_again(browser):
    async with fleet() as cloud, opened(browser, cloud.url) as tab:
        page = tab.page
        await log_in(page)
        await expect(card(page, "Alder")).to_be_visible()
        refusal = {"ERROR": "name or password is incorrect"}
        await page.route("**/_fleet", lambda route: route.fulfill(status=401, json=refusal))
        await page.evaluate("dispatchEvent(new Event('online'))")
        await expect(page.get_by_label("Password")).to_be_visible()
        await expect(page.get_by_role("article")).to_have_count(0)
        assert await page.evaluate("sessionStorage.length") == 0


async def test_a_thousand_devices_make_a_small_page(browser):
    devices = [device(number, f"Chamber {number}") for number in range(1_000)]
    rows = json.loads(msgspec.json.encode([fleet_row(each, time.time()) for each in devices]))
    async with fleet() as cloud, opened(browser, cloud.url) as tab:
        page = tab.page
        await page.route("**/_fleet", lambda route: route.fulfill(json={"devices": rows}))
        await log_in(page)
        await expect(page.get_by_role("button", name="1,000 devices")).to_be_visible()
        await expect(page.get_by_role("article")).to_have_count(48)
        assert await page.evaluate("document.querySelectorAll('*').length") < 2_000
        assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        await page.get_by_role("button", name="Show 48 more").click()
        await expect(page.get_by_role("article")).to_have_count(96)
        await expect(page.get_by_role("article").nth(48).locator("h2")).to_be_focused()
        await page.get_by_label("Name, group, recipe or variable").fill("chamber 999")
        await expect(page.get_by_role("article")).to_have_count(1)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing(browser, theme):
    async with fleet() as cloud:
        for width in (PHONE, DESK):
            async with page_at(browser, cloud.url, viewport=width, color_scheme=theme) as page:
                found = await violations(page)
                await log_in(page)
                await expect(card(page, "Alder")).to_be_visible()
                found += await violations(page)
                await page.route("**/_fleet", lambda route: route.abort())
                await page.evaluate("dispatchEvent(new Event('online'))")
                await expect(page.locator("html[data-connection=lost]")).to_be_attached()
                found += await violations(page)
                assert found == []


async def test_browsers_get_the_page_with_its_policy_and_programs_a_greeting(browser):
    assert browser.is_connected()
    async with fleet() as cloud, aiohttp.ClientSession() as session:
        async with session.get(cloud.url, headers={"Accept": "text/html"}) as answer:
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'; ")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            (script,) = re.findall(r'<script type="module" src="(page/\w+/fleet\.js)">', await answer.text())
        async with session.get(f"{cloud.url}/{script}") as answer:
            assert answer.status == 200
            assert "immutable" in answer.headers["Cache-Control"]
        async with session.get(cloud.url) as answer:
            assert (await answer.json())["couchdb"] == "Welcome"
        for encoding in ("identity", "gzip"):
            login = b64encode(f"{READER}:{PASSWORD}".encode()).decode()
            headers = {"Accept-Encoding": encoding, "Authorization": f"Basic {login}"}
            async with session.get(f"{cloud.url}/_fleet", headers=headers) as answer:
                assert answer.headers.get("Content-Encoding", "identity") == encoding
                assert len((await answer.json())["devices"]) == 5
        for path in ("page/x/fleet.js", "page/../_fleet", "page/%2e%2e/package.json"):
            async with session.get(URL(f"{cloud.url}/{path}", encoded=True)) as answer:
                assert answer.status in {401, 404}
