"""The view Charts in a real browser."""

import asyncio
import csv
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import expect

from support.browser import DESK, needs_browser, opened, page_at
from support.page import PLACE, address, module
from support.waiting import until_found

pytestmark = [needs_browser, pytest.mark.timeout(180)]

T = 1_790_000_000
YEAR = 31_557_600
TIMES = re.compile(r"(\d\d):(\d\d)")
NOTHING = {"before": None} | {key: [] for key in ("time", "min", "mean", "max", "last", "count")}


def charts(page):
    return page.get_by_role("group", name="Charts")


def moment(page):
    """The shown time, or that of the cursor."""
    return page.locator(".moment")


async def drawn(page):
    await expect(page.locator(".over").first).to_be_visible()


async def shown_rows(page):
    """The CSV of the chart, once it has a value."""
    async with page.expect_download() as shown:
        await page.get_by_role("button", name="CSV: the values of this chart").click()
    rows = [*csv.reader((await (await shown.value).path()).read_text().splitlines())]
    if len(rows) == 1:
        raise LookupError
    return rows


def past(minutes, **more):
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


def event(kind, second):
    return {"time": T + second, "kind": kind, "message": ""}


async def columns_of(page, answer, *messages):
    """The columns that a chart makes of a history and of later messages (category, minute, value)."""
    script = f"""async ([answer, messages]) => {{
        const {{ Timeline }} = await {module("views/timeline.js")};
        const {{ growdTime }} = await {module("lib/live.js")};
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
    return await page.evaluate(script, [answer, messages])


async def test_a_value_holds_until_the_next_and_has_a_gap_where_it_is_not_known(shared, browser):
    async with page_at(browser, address(shared, "now")) as page:
        await expect(page.get_by_text("Air temperature").first).to_be_visible()
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


async def test_live_values_join_their_bucket_and_set_points_hold(shared, browser):
    async with page_at(browser, address(shared, "now")) as page:
        await expect(page.get_by_text("Air temperature").first).to_be_visible()
        messages = (("measured", 2, 30), ("measured", 2, 40), ("desired", 3, 25))
        found = await columns_of(page, past([0, 2]), *messages)
        assert (found["min"][2], found["mean"][2], found["max"][2]) == (21, pytest.approx(91 / 3), 40)
        assert found["desired"][:5] == [22, 22, 22, 25, 25]
        stopped = past([0, 5]) | {"events": [event("stop", 130), event("restart", 200)]}
        assert (await columns_of(page, stopped))["desired"][:4] == [22, 22, None, None]


async def test_a_lane_shows_when_an_interlock_or_a_hold_held_its_output(shared, browser):
    def told(kind, second, code, source="low"):
        return event(kind, second) | {"source": source, "details": {"code": code}}

    async with page_at(browser, address(shared, "now")) as page:
        script = f"(given) => {module('views/timeline.js')}.then(({{ heldSpans }}) => heldSpans(...given))"
        for events, status, expected in (
            ([told("interlock", 5, "rests"), told("interlock", 9, "released")], {}, [(5, 9)]),
            ([told("interlock", 9, "released")], {}, [(None, 9)]),  # it began before
            ([told("interlock", 5, "rests"), event("restart", 7)], {}, [(5, 7)]),
            ([told("interlock", 5, "doses_differ"), told("interlock", 9, "problem_over")], {}, []),
            ([told("interlock", 5, "rests", "other"), told("interlock", 9, "released", "other")], {}, []),
            ([told("hold", 5, "hold_set"), told("hold", 9, "hold_released")], {}, [(5, 9)]),
            ([told("hold", 5, "hold_set")], {"holds": [{"since": T + 5}]}, [(5, None)]),
            ([], {"interlocks": [{"name": "e/interlocks/low", "tripped": True, "since": T}]}, [(0, None)]),
        ):
            spans = await page.evaluate(script, [events, ["low"], status])
            found = [[end - T if end and abs(end) < 1e12 else None for end in span] for span in spans]
            assert found == [[*each] for each in expected]


def chip(page, name):
    """A variable of the chart, with its value."""
    return page.locator(".legend .chip:has(.reading)").filter(has_text=name)


async def test_two_variables_are_compared_in_three_clicks_and_each_can_be_seen_alone(shared, browser):
    async with page_at(browser, address(shared, "now"), viewport=DESK) as page:
        await page.get_by_role("link", name="Charts", exact=True).click()
        await page.get_by_role("button", name="CO₂", exact=True).click()
        await page.get_by_role("button", name="Add Light", exact=True).click()
        await drawn(page)
        await expect(page.locator(".legend .chip:has(.reading)")).to_have_text(
            [re.compile(r"CO₂ +[\d,]+ ppm"), re.compile(r"Light +[\d,]+ lx")]
        )
        await chip(page, "CO₂").get_by_role("button").first.click()
        await expect(page.locator(".chip.away")).to_have_text(re.compile("Light"))
        await page.get_by_role("button", name="Add Humidity", exact=True).click()
        await expect(chip(page, "Light")).to_have_count(0)
        await page.reload()
        await drawn(page)
        await expect(chip(page, "CO₂")).to_be_visible()
        await expect(chip(page, "Humidity")).to_be_visible()
        for name in "Add Light", "Add Air temperature":
            await page.get_by_role("button", name=name, exact=True).click()
        await expect(page.get_by_role("button", name="Add Light (PPFD)")).to_be_disabled()


@pytest.mark.parametrize("locale", ["en-GB", "de-DE"])
async def test_no_chip_of_a_chart_is_cut_on_a_narrow_phone(shared, browser, locale):
    narrow = {"width": 360, "height": 740}
    query = "variables=air_temperature,air_carbon_dioxide,air_vapour_pressure_deficit"
    async with page_at(browser, address(shared, "charts", query), viewport=narrow, locale=locale) as page:
        await drawn(page)
        chips = page.locator("main .row > .chip, main .row > .row > .chip")
        assert await chips.count() > 12
        for each in await chips.all():
            box = await each.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 350
            assert await each.evaluate("(chip) => chip.scrollWidth <= chip.clientWidth")


async def minutes(page):
    """The minutes that the charts show."""
    await expect(moment(page)).to_have_text(re.compile(r"\d\d:\d\d\D.*\d\d:\d\d"))
    first, last = re.findall(r"(\d\d):(\d\d)", await moment(page).inner_text())
    return (60 * (int(last[0]) - int(first[0])) + int(last[1]) - int(first[1])) % 1440


async def test_a_drag_zooms_and_buttons_and_keys_move(shared, browser):
    async with page_at(browser, address(shared, "charts", "range=hour"), viewport=DESK) as page:
        await drawn(page)
        follow = page.get_by_role("button", name="Follow now")
        await expect(follow).to_have_attribute("aria-pressed", "true")
        await charts(page).focus()
        for key, follows in ("ArrowLeft", "false"), ("End", "true"), ("ArrowLeft", "false"):
            await page.keyboard.press(key)
            await expect(follow).to_have_attribute("aria-pressed", follows)
        async with page.expect_response("**/history/**"):
            await page.keyboard.press("Home")
        await expect(follow).to_have_attribute("aria-pressed", "true")
        await expect(moment(page)).not_to_contain_text("…")
        over = await page.locator(".over").bounding_box()
        x, y = over["x"] + over["width"] / 2, over["y"] + 20
        await page.mouse.move(x, y)
        await expect(moment(page)).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
        shown = await moment(page).inner_text()
        await page.keyboard.press("Shift+ArrowLeft")
        await expect(moment(page)).not_to_have_text(shown)
        await page.mouse.down()
        await page.mouse.move(x - over["width"] / 4, y, steps=5)
        await page.mouse.up()
        await expect(follow).to_have_attribute("aria-pressed", "false")
        await page.mouse.move(0, 0)
        part = await minutes(page)
        back = page.get_by_role("button", name="Back to the view before")
        await back.click()
        await expect(follow).to_have_attribute("aria-pressed", "true")
        await expect(back).to_be_disabled()
        whole = await minutes(page)  # an hour, or less of a young growd
        assert abs(4 * part - whole) <= 8
        for _ in range(20):  # to before the start of growd
            await page.get_by_role("button", name="Earlier").click()
        await expect(page.get_by_text("no data in this time")).to_be_visible()
        await page.mouse.dblclick(x, y)
        await expect(follow).to_have_attribute("aria-pressed", "true")
        await page.get_by_role("button", name="Zoom in").click()
        zoomed = await moment(page).inner_text()
        await charts(page).focus()
        await page.locator(".over").hover()
        await page.mouse.wheel(0, -200)
        await page.mouse.move(0, 0)
        await expect(moment(page)).not_to_have_text(zoomed)


def half_an_hour_old(before=None):
    """Answers with the history of a young chamber."""

    async def answer(route):
        query = parse_qs(urlsplit(route.request.url).query)
        start, end = (float(query[name][0]) for name in ("start", "end"))
        answer = past(range(9), breaks=[], desired=NOTHING) | {"start": start, "end": end}
        answer["bucket_s"] = (end - start) / 1_000
        measured = {"time": [end - 1_800 + 200 * n for n in range(9)], "before": before}
        answer["series"][0]["measured"] |= measured
        await route.fulfill(json=answer)

    return answer


async def test_a_drag_ends_at_the_times_that_were_marked_also_if_the_view_moves_meanwhile(shared, browser):
    free = asyncio.Event()

    async def held(route):
        await free.wait()
        await half_an_hour_old()(route)

    async with page_at(browser, f"{shared.address}/_svc/", viewport=DESK) as page:
        await page.route("**/history/**", half_an_hour_old())
        await page.goto(address(shared, "charts", "range=day&variables=air_temperature"))
        await drawn(page)
        await page.route("**/history/**", held)
        await charts(page).focus()
        await page.keyboard.press("Home")  # a day, until the answer comes
        over = await page.locator(".over").bounding_box()
        x, y = over["x"] + over["width"] * 0.5, over["y"] + 20
        await page.mouse.move(x, y)
        await page.mouse.down()
        await page.mouse.move(x + over["width"] / 4, y, steps=5)
        free.set()
        await expect(moment(page)).not_to_contain_text("…")
        await page.mouse.up()
        await page.mouse.move(0, 0)
        assert 360 - 5 <= await minutes(page) <= 360 + 5


@pytest.mark.parametrize(("before", "length"), [(None, 30), ({"time": T, "value": 20}, 24 * 60)])
async def test_the_chart_of_a_new_chamber_begins_with_its_first_value(shared, browser, before, length):
    async with page_at(browser, f"{shared.address}/_svc/", viewport=DESK) as page:
        await page.route("**/history/**", half_an_hour_old(before))
        await page.goto(address(shared, "charts", "range=day&variables=air_temperature"))
        await drawn(page)
        hours = [
            int(hour) * 60 + int(minute)
            for hour, minute in re.findall(TIMES, await moment(page).inner_text())
        ]
        shown = (hours[1] - hours[0] - 1) % (24 * 60) + 1
        assert length - 1 <= shown <= length + 15


async def test_today_over_yesterday_and_a_table(shared, browser):
    async with page_at(browser, f"{shared.address}/_svc/", viewport=DESK) as page:
        ends = []

        async def shifted(route):
            """growd's answer for a day before, as if it had measured the same then."""
            query = parse_qs(urlsplit(route.request.url).query)
            start, end = (float(query[name][0]) for name in ("start", "end"))
            ends.append(end)
            if end > max(ends) - 43_200:
                await route.continue_()
                return
            answer = past(range(9), breaks=[]) | {"start": start, "end": end}
            answer["series"][0]["measured"]["time"] = [start + n * (end - start) / 8 for n in range(9)]
            await route.fulfill(json=answer)

        await page.route("**/history/**", shifted)
        await page.goto(address(shared, "charts", "range=hour&variables=air_temperature"))
        await drawn(page)
        await page.get_by_role("button", name="over yesterday").click()
        over = await page.locator(".over").bounding_box()
        await page.mouse.move(over["x"] + over["width"] * 0.75, over["y"] + 20)
        await expect(chip(page, "Air temperature")).to_contain_text(re.compile(r"yesterday 2\d\.0"))
        assert max(ends) - min(ends) == pytest.approx(86_400, abs=3_600)
        await page.get_by_role("button", name="Table", exact=True).click()
        table = page.get_by_role("region", name="Table")
        await expect(table.get_by_role("columnheader")).to_contain_text(
            ["Time", "Air temperature Mean", "Air temperature Minimum"]
        )
        await expect(table.get_by_role("cell").first).to_have_text(re.compile(r"\d\d\.\d\d"))


async def test_without_an_answer_the_chart_says_so_and_nothing_moves(shared, browser):
    async with page_at(browser, f"{shared.address}/_svc/", viewport=DESK) as page:
        asked = asyncio.Event()

        async def late(route):
            await asked.wait()
            await route.continue_()

        await page.route("**/history/**", late)
        await page.add_init_script(
            "window.shift = 0; new PerformanceObserver((list) => list.getEntries().forEach(({ value }) => "
            "(window.shift += value))).observe({ type: 'layout-shift', buffered: true })"
        )
        await page.goto(address(shared, "charts", "range=hour"))
        await page.reload()
        await expect(page.locator(".drawing").get_by_text("Loading")).to_be_visible()
        await expect(page.get_by_text("growd has not answered for")).to_be_visible()
        asked.set()
        await drawn(page)
        assert await page.evaluate("window.shift") < 0.1


@pytest.mark.browser
async def test_years(shared, browser):
    async with page_at(browser, address(shared, "charts", "range=day"), viewport=DESK) as page:
        await drawn(page)
        await expect(moment(page)).not_to_have_text(re.compile(r"\d{4}"))
    years = f"range=any&start={T - 10 * YEAR}&end={T}"
    async with page_at(browser, address(shared, "charts", years), viewport=DESK) as page:
        await expect(moment(page)).to_have_text(re.compile(r"\d{4}.*\d{4}"))
        first, last = map(int, re.findall(r"\b\d{4}\b", await moment(page).inner_text()))
        assert last - first == 10
        call = "[366, 31, 1].map((days) => timeLabel(1767268800, days * 86400))"
        labels = await page.evaluate(f"{module('views/drawing.js')}.then(({{ timeLabel }}) => {call})")
        assert labels == ["2026", "Jan 2026", "1 Jan"]


@pytest.mark.browser
async def test_the_run_of_a_recipe_and_what_happened_in_it(shared, browser, client):
    await client.call(f"{PLACE}/start_recipe", recipe_id="demo_day", by="Ada")
    await client.publish("notes?by=Ada", "watered")
    async with page_at(browser, address(shared, "charts")) as page:
        await drawn(page)
        await page.get_by_role("button", name="CO₂", exact=True).click()
        await page.get_by_role("button", name="Recipe run").click()
        await page.get_by_text(re.compile(r"Events \([1-9]")).click()
        await expect(page.get_by_text("watered")).to_be_visible()
        await expect(page.get_by_text("demo day").first).to_be_visible()
        await expect(chip(page, "CO₂")).to_contain_text("→ 400")


@pytest.mark.browser
async def test_both_kinds_of_csv(shared, browser, client):
    async with page_at(browser, address(shared, "charts", "range=hour&variables=air_temperature")) as page:
        await drawn(page)
        rows = await until_found(lambda: shown_rows(page), LookupError)
        assert rows[0][:3] == ["time", "air_temperature mean", "air_temperature min"]
        assert re.fullmatch(r"[\d-]+T[\d:.]+Z", rows[-1][0])
        history = f"history/{PLACE}?variable=air_temperature&events=false"
        await client.until(lambda: client.get(history), lambda found: found["series"][0]["measured"]["time"])
        async with page.expect_download() as stored:
            await page.get_by_role("link", name="CSV: all stored points").click()
        lines = (await (await stored.value).path()).read_text().splitlines()
        assert any(",measured,air_temperature," in line for line in lines)
        assert lines[0] == "time,category,variable,value,unit,is_manual,by"


@pytest.mark.browser
async def test_without_the_history_live_values_are_drawn_and_the_reason_is_shown(shared, browser):
    async def away(route):
        body = {"ERROR": "the database is not reachable", "error": "database_unavailable", "reason": ""}
        await route.fulfill(status=503, json=body)

    async with opened(browser, f"{shared.address}/_svc/") as tab:
        page = tab.page
        await page.route("**/history/**", away)
        await page.goto(address(shared, "charts", "range=hour&variables=air_temperature"))
        await expect(page.get_by_text("the database is not reachable")).to_be_visible()
        await expect(chip(page, "Air temperature")).to_have_text(re.compile(r"\d °C"))


RED = """(box) => {
    const canvas = box.querySelector("canvas"), ratio = devicePixelRatio;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 12 * ratio); // above the lines
    return data.some((red, i) => !(i % 4) && data[i + 3] > 200 && red > 150 && data[i + 1] < 50);
}"""


@pytest.mark.parametrize(
    ("events", "is_red"),
    [
        ([("interlock", "tripped")], [True]),
        ([("interlock", "tripped", {"is_expected": True})], [False]),
        ([("interlock", "released")], [False]),
        ([("interlock", "problem_over")], [False]),
        ([("hold", "hold_set")], [True]),
        ([("hold", "hold_released")], [False]),
        ([("recovery", "recovered"), ("fault", "device_failed")], [False, True]),
        ([("fault", "device_failed"), ("recovery", "recovered")], [True, False]),
        ([("fault", "device_failed"), ("note", "")], [True, False]),
    ],
)
async def test_the_begin_of_a_problem_is_red_and_its_end_is_not(shared, browser, events, is_red):
    async def answered(route):
        query = parse_qs(urlsplit(route.request.url).query)
        start, end = (float(query[name][0]) for name in ("start", "end"))
        middle = {"time": (start + end) / 2, "message": "", "source": "pump_1"}
        found = [{**middle, "kind": kind, "details": dict(*more, code=code)} for kind, code, *more in events]
        await route.fulfill(json=past([], breaks=[]) | {"start": start, "end": end, "events": found})

    async with page_at(browser, f"{shared.address}/_svc/", viewport=DESK) as page:
        await page.route("**/history/**", answered)
        await page.goto(address(shared, "charts", "range=hour&variables=air_temperature"))
        await page.get_by_text(re.compile(r"Events \([1-9]")).click()
        marks = page.locator("details .mark:visible")
        await expect(marks.nth(len(events) - 1)).to_be_visible()
        found = [await each.evaluate("(each) => each.matches('.bad')") for each in await marks.all()]
        assert found[::-1][: len(events)] == is_red  # above them may be what came since
        if any(is_red):  # the view may still move to where its values begin
            await page.wait_for_function(RED, arg=await charts(page).element_handle())
        else:
            assert not await charts(page).evaluate(RED)
