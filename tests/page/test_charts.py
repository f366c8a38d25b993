"""The view Charts in a real browser."""

from __future__ import annotations

import asyncio
import csv
import re
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from playwright.async_api import expect

from support.browser import DESK, needs_browser, opened
from support.program import started
from support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Browser, Locator, Page, Route

    from support.program import Program

pytestmark = [needs_browser, pytest.mark.timeout(180)]

T = 1_790_000_000
MODULE = "document.querySelector('script[type=module]').src.replace('main.js', 'views/timeline.js')"
NOTHING: dict[str, Any] = {"before": None} | {
    key: [] for key in ("time", "min", "mean", "max", "last", "count")
}


def view(growd: Program, name: str) -> str:
    return f"{growd.address}/_svc/#environment_1/{name}"


def charts(page: Page) -> Locator:
    return page.get_by_role("group", name="Charts")


def moment(page: Page) -> Locator:
    """The shown time, or that of the cursor."""
    return page.locator(".moment")


async def drawn(page: Page) -> None:
    await expect(page.locator(".u-over").first).to_be_visible()


async def post(growd: Program, path: str, body: Any) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{growd.api}/{path}", json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()


def past(minutes: list[int], **more: Any) -> dict[str, Any]:
    """A history of temperatures, one in each of these minutes; and a set point from an earlier time."""
    values = [20.0 + n for n, _ in enumerate(minutes)]
    columns = dict.fromkeys(("min", "mean", "max", "last"), values) | {"count": [1] * len(values)}
    temperature = {
        "variable": "air_temperature",
        "unit": "degC",
        "holds_s": 660,
        "breaks": [],
        "measured": {"before": None, "time": [T + 60 * minute for minute in minutes], **columns},
        "desired": NOTHING | {"before": {"time": T - 9_999, "value": 22}},
        "commanded": NOTHING,
    }
    answer = {"start": T, "end": T + 3_600, "bucket_s": 60, "events": [], "events_truncated": False}
    return answer | {"series": [temperature | more]}


def event(kind: str, second: int) -> dict[str, Any]:
    return {"time": T + second, "kind": kind, "message": ""}


async def columns_of(page: Page, answer: dict[str, Any], *messages: tuple[str, int, Any]) -> dict[str, Any]:
    """The columns that a chart makes of a history and of later messages (category, minute, value)."""
    script = f"""async ([answer, messages]) => {{
        const {{ Timeline }} = await import({MODULE});
        const {{ growdTime }} = await import({MODULE}.replace("views/timeline", "lib/live"));
        while (!growdTime.value) await new Promise((done) => setTimeout(done, 20));
        const line = new Timeline(["air_temperature"], answer);
        for (const [category, minute, value] of messages) {{
            const quality = value === null ? "fault" : "ok";
            line.take("air_temperature", category, {{ time: {T} + 60 * minute, value, quality }});
        }}
        const {{ mean, min, max, desired }} = line.of.air_temperature;
        const sign = (value) => (value === null ? "." : "abcdefghijk"[value - 20]);
        return {{ line: mean.map(sign).join(""), mean, min, max, desired }};
    }}"""
    found: dict[str, Any] = await page.evaluate(script, [answer, messages])
    return found


async def test_a_value_holds_until_the_next_and_has_a_gap_where_it_is_not_known(
    growd: Program, browser: Browser
) -> None:
    async with opened(browser, view(growd, "now")) as tab:
        page = tab.page
        await expect(page.get_by_role("heading", name="Air temperature")).to_be_visible()
        for answer, messages, expected in (
            (past([0, 5, 16]), (), "aaaaabbbbbbbbbbbcccccccccccc"),
            (past([0, 14]), (), "aaaaaaaaaaaa..bbbbbbbbbbbb"),
            (past([0, 5], breaks=[T + 200]), (), "aaa..bbbbbbbbbbbb"),
            (past([0, 5, 8], breaks=[T + 310]), (), "aaaaab..cccccccccccc"),
            (past([0, 5, 8], breaks=[T + 310], resumes=[T + 320]), (), "aaaaabbbcccccccccccc"),
            (past([0, 5]) | {"events": [event("restart", 200)]}, (), "a....bbbbbbbbbbbb"),
            (past([0, 5]) | {"events": [event("restart", 310)]}, (), "a....bbbbbbbbbbbb"),
            (past([0, 5]) | {"events": [event("stop", 130), event("restart", 200)]}, (), "aa...bbbbbbbbbbbb"),
            (
                past([0]),
                (("measured", 3, 21), ("measured", 5, None), ("measured", 7, 22)),
                "aaabb..cccccccccccc",
            ),
        ):
            line = (await columns_of(page, answer, *messages))["line"]
            assert line.rstrip(".") == expected


async def test_live_values_join_their_bucket_and_set_points_hold(growd: Program, browser: Browser) -> None:
    async with opened(browser, view(growd, "now")) as tab:
        page = tab.page
        await expect(page.get_by_role("heading", name="Air temperature")).to_be_visible()
        messages = (("measured", 2, 30), ("measured", 2, 40), ("desired", 3, 25))
        found = await columns_of(page, past([0, 2]), *messages)
        assert (found["min"][2], found["mean"][2], found["max"][2]) == (21, pytest.approx(91 / 3), 40)
        assert found["desired"][:5] == [22, 22, 22, 25, 25]
        stopped = past([0, 5]) | {"events": [event("stop", 130), event("restart", 200)]}
        assert (await columns_of(page, stopped))["desired"][:4] == [22, 22, None, None]


async def test_the_charts_follow_now_until_one_pans(growd: Program, browser: Browser) -> None:
    async with opened(browser, view(growd, "charts?range=hour"), viewport=DESK) as tab:
        page = tab.page
        await drawn(page)
        follow = page.get_by_role("button", name="Follow now")
        await expect(follow).to_have_attribute("aria-pressed", "true")
        await expect(page.get_by_role("heading", name="Air temperature")).to_be_visible()
        await charts(page).focus()
        for key, follows in ("ArrowLeft", "false"), ("End", "true"), ("ArrowLeft", "false"), ("Home", "true"):
            await page.keyboard.press(key)
            await expect(follow).to_have_attribute("aria-pressed", follows)
        over = await page.locator(".u-over").first.bounding_box()
        assert over is not None
        x, y = over["x"] + over["width"] / 2, over["y"] + 20
        await page.mouse.move(x, y)
        await expect(moment(page)).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
        shown = await moment(page).inner_text()
        await page.keyboard.press("Shift+ArrowLeft")
        await expect(moment(page)).not_to_have_text(shown)
        await page.mouse.down()
        await page.mouse.move(x + 150, y, steps=5)
        await page.mouse.up()
        await expect(follow).to_have_attribute("aria-pressed", "false")
        await page.mouse.dblclick(x, y)
        await expect(follow).to_have_attribute("aria-pressed", "true")


async def test_a_time_without_data_is_called_so(growd: Program, browser: Browser) -> None:
    async with opened(browser, view(growd, "charts?range=day&variables=air_temperature")) as tab:
        page = tab.page
        await drawn(page)
        temperature = page.locator("section", has=page.get_by_role("heading", name="Air temperature"))
        await expect(temperature.get_by_text("now")).to_be_visible()
        await page.get_by_role("button", name="Earlier").click()
        await expect(temperature.get_by_text("no data in this time")).to_be_visible()
        await expect(temperature.locator("b")).to_have_count(0)
        await expect(moment(page)).not_to_contain_text("…")
        later = await moment(page).inner_text()
        await page.get_by_role("button", name="Earlier").click()
        await expect(moment(page)).not_to_have_text(later)
        first, last = (re.findall(r"\d\d:\d\d", text) for text in (later, await moment(page).inner_text()))
        assert first == last  # the same times, on other days


async def test_a_library_that_did_not_come_is_asked_for_again(growd: Program, browser: Browser) -> None:
    async with opened(browser, f"{growd.address}/_svc/") as tab:
        page = tab.page
        await page.route("**/vendor/uplot.js", lambda route: route.abort())
        await page.goto(view(growd, "charts?range=hour&variables=air_temperature"))
        await expect(page.get_by_text("Stored values are missing")).to_be_visible()
        await page.unroute("**/vendor/uplot.js")  # no sooner: the charts ask again by themselves
        await page.get_by_role("button", name="Earlier").click()
        await drawn(page)
        tab.errors.clear()


async def test_years(growd: Program, browser: Browser) -> None:
    async with opened(browser, view(growd, "charts?range=day"), viewport=DESK) as tab:
        page = tab.page
        await drawn(page)
        await expect(moment(page)).not_to_have_text(re.compile(r"\d{4}"))
        await page.get_by_role("button", name="10 years").click()
        await expect(moment(page)).to_have_text(re.compile(r"\d{4}.*\d{4}"))
        first, last = map(int, re.findall(r"\b\d{4}\b", await moment(page).inner_text()))
        assert last - first == 10
        call = "[366, 31, 1].map((days) => timeLabel(1767268800, days * 86400))"
        module = MODULE.replace("timeline", "plots")
        labels = await page.evaluate(f"import({module}).then(({{ timeLabel }}) => {call})")
        assert labels == ["2026", "Jan 2026", "1 Jan"]


async def test_a_week_zoomed_by_wheel_and_buttons(growd: Program, browser: Browser) -> None:
    async with opened(browser, view(growd, "charts?range=week"), viewport=DESK) as tab:
        page = tab.page
        await drawn(page)
        week = await moment(page).inner_text()
        await page.get_by_role("button", name="Zoom in").click()
        await expect(moment(page)).not_to_have_text(week)
        await page.get_by_role("button", name="Earlier").click()
        earlier = await moment(page).inner_text()
        await charts(page).focus()
        await page.locator(".u-over").first.hover()
        await page.mouse.wheel(0, -200)
        await page.mouse.move(0, 0)
        await expect(moment(page)).not_to_have_text(earlier)


async def test_variables_are_chosen_and_remembered(growd: Program, browser: Browser) -> None:
    async with opened(browser, view(growd, "charts")) as tab:
        page = tab.page
        await drawn(page)
        await page.get_by_text("Variables (6)").click()
        await page.get_by_role("checkbox", name="Humidity", exact=True).uncheck()
        await expect(page.get_by_role("heading", name="Humidity", exact=True)).to_have_count(0)
        await page.goto(view(growd, "now"))
        await page.goto(view(growd, "charts"))
        await drawn(page)
        await expect(page.get_by_text("Variables (5)")).to_be_visible()


async def test_the_run_of_a_recipe_and_what_happened_in_it(growd: Program, browser: Browser) -> None:
    await post(growd, "service/environment_1/start_recipe", {"recipe_id": "demo_day", "by": "Ada"})
    await post(growd, "topic/environment_1/notes?by=Ada", ["watered"])
    async with opened(browser, view(growd, "charts")) as tab:
        page = tab.page
        await drawn(page)
        await page.get_by_role("button", name="Recipe run").click()
        await page.get_by_text(re.compile(r"Events \([1-9]")).click()
        await expect(page.get_by_text("watered")).to_be_visible()
        await expect(page.get_by_text("demo_day").first).to_be_visible()
        await expect(page.get_by_text("Set point 400").first).to_be_visible()


async def test_a_table_and_both_kinds_of_csv(growd: Program, browser: Browser) -> None:
    async with opened(browser, view(growd, "charts?range=hour&variables=air_temperature")) as tab:
        page = tab.page
        await drawn(page)
        await page.get_by_text("Table", exact=True).first.click()
        table = page.get_by_role("region", name="Table: Air temperature")
        await expect(table.get_by_role("cell").first).to_be_visible()
        async with page.expect_download() as shown:
            await page.get_by_role("button", name="CSV: the values of these charts").click()
        rows = [*csv.reader((await (await shown.value).path()).read_text().splitlines())]
        assert rows[0][:3] == ["time", "air_temperature mean", "air_temperature min"]
        assert re.fullmatch(r"[\d-]+T[\d:.]+Z", rows[-1][0])
        lines: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while not any(",measured,air_temperature," in line for line in lines):  # once it is sent
                async with page.expect_download() as stored:
                    await page.get_by_role("link", name="CSV: all stored points").click()
                lines = (await (await stored.value).path()).read_text().splitlines()
        assert lines[0] == "time,category,variable,value,unit,is_manual,by"


async def test_without_the_history_live_values_are_drawn_and_the_reason_is_shown(
    growd: Program, browser: Browser
) -> None:
    async def away(route: Route) -> None:
        body = {"ERROR": "the database is not reachable", "error": "database_unavailable", "reason": ""}
        await route.fulfill(status=503, json=body)

    async with opened(browser, f"{growd.address}/_svc/") as tab:
        page = tab.page
        await page.route("**/history/**", away)
        await page.goto(view(growd, "charts?range=hour&variables=air_temperature"))
        await expect(page.get_by_text("the database is not reachable")).to_be_visible()
        temperature = page.locator("section", has=page.get_by_role("heading", name="Air temperature"))
        await expect(temperature.locator("b")).to_have_text(re.compile(r"\d"))


async def test_charts_of_a_whole_climate_are_answered(tmp_path: Path, browser: Browser) -> None:
    async with (
        started(tmp_path, "--profile", "climate") as program,
        opened(browser, view(program, "charts"), viewport=DESK) as tab,
    ):
        await drawn(tab.page)
        await expect(tab.page.get_by_role("heading", name="Water level", exact=True)).to_be_visible()
        await expect(tab.page.get_by_text("Stored values are missing")).to_have_count(0)
