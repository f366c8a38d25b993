"""What the page costs a browser: bytes, time to the first values, memory over a day, and CPU.

Chromium without a window, driven over its protocol (https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

from measuring import API, Options, Process, Row, limited
from raw_client import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
LATER = ("main.rest.js", "views.js")
"""Files that are loaded once the first view has values."""
VIEWS = ("now", "charts", "recipes", "devices", "journal", "data")
PLACE = "environment_1"
SLOWER = 6
PHONE: ViewportSize = {"width": 360, "height": 740}
MANUAL = (
    "soil_moisture", "water_temperature", "water_potential_hydrogen", "water_electrical_conductivity",
    "water_oxidation_reduction_potential", "water_dissolved_oxygen", "water_level_low", "water_level_high",
    "air_oxygen",
)  # fmt: skip
SERIES = [f"{PLACE}/measured/{name}" for name in MANUAL] + [f"{PLACE}/desired/{name}" for name in (
    *MANUAL, "light_illuminance", "air_carbon_dioxide",
)]  # fmt: skip
RATE_HZ = 1.0
DAY_S = 86_400
STEP_S = 4
PIECES = 24
FIRST_VALUE = """
window.firstValue = new Promise((done) => {
  new MutationObserver((_, observer) => {
    if (!/\\d/.test(document.querySelector("article .figure strong:not(.words)")?.textContent ?? "")) return;
    observer.disconnect();
    done(performance.now());
  }).observe(document, { childList: true, subtree: true, characterData: true });
});
"""
SHIFTS = """
window.shifts = 0;
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) if (!each.hadRecentInput) window.shifts += each.value;
}).observe({ type: "layout-shift", buffered: true });
"""
NET_3G = {
    "offline": False,
    "latency": 150,  # ms
    "downloadThroughput": 1_600_000 / 8,  # bytes a second
    "uploadThroughput": 768_000 / 8,
}
TAPPED = """
const Source = EventSource;
window.EventSource = class extends Source {
  constructor(...all) { super(...all); window.tapped = this; }
};
"""
REPLAY = """async ([topics, from, to, step]) => {
  for (let time = from; time < to; time += step) {
    for (const [n, topic] of topics.entries()) {
      const value = 5 + n / 10 + (time % 60) / 100;
      const data = JSON.stringify({ topic, value, time, quality: "ok", number: time });
      window.tapped.onmessage?.(new MessageEvent("message", { data }));
    }
    if (time % 400 < step) await new Promise((done) => setTimeout(done));
  }
}"""


def measure_in_browser(options: Options, growd: Process) -> list[Row]:
    """The rows of the browser; none if the machine has no browser."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        print("no browser was found: its rows are left out (on Debian: apt install chromium)")
        return []
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  is slow to import, and for these rows only

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            return [
                *_bytes(browser, growd),
                *_first_values(browser, growd, options.rounds),
                _first_value_on_3g(browser, growd, options.rounds),
                _traffic(browser, growd, options.seconds),
                _shift(browser, growd),
                *(_heap(browser, growd, view) for view in ("now", "charts")),
                *(_cpu(browser, growd, view, options) for view in ("now", "charts")),
            ]
        finally:
            browser.close()


@contextmanager
def _opened(browser: Browser, growd: Process, view: str = "now", script: str = "") -> Iterator[Page]:
    """A new tab on a view, once it has values."""
    context = browser.new_context(viewport=PHONE)
    try:
        page = context.new_page()
        if script:
            page.add_init_script(script)
        page.goto(_address(growd, view))
        _until_there(page, view)
        yield page
    finally:
        context.close()


def _address(growd: Process, view: str) -> str:
    return growd.url(f"/_svc/#{PLACE}/{view}")


def _until_there(page: Page, view: str) -> None:
    page.wait_for_selector("html[data-connection=ok]", state="attached")
    page.wait_for_selector(
        {"now": "article .figure strong:not(.words)", "charts": ".over"}.get(
            view, "main section, main details"
        )
    )


def _bytes(browser: Browser, growd: Process) -> list[Row]:
    """What is sent of the page: its own files, compressed, without answers of the API."""
    sizes: dict[str, int] = {}
    context = browser.new_context(viewport=PHONE, service_workers="block")
    try:
        page = context.new_page()
        protocol = context.new_cdp_session(page)
        protocol.send("Network.enable")
        addresses: dict[str, str] = {}

        def asked(event: dict[str, Any]) -> None:
            addresses[event["requestId"]] = event["response"]["url"]

        def loaded(event: dict[str, Any]) -> None:
            address = addresses.get(event["requestId"], "")
            if "/_svc/page/" in address or address.endswith("/_svc/"):
                sizes[address] = max(sizes.get(address, 0), int(event["encodedDataLength"]))

        protocol.on("Network.responseReceived", asked)
        protocol.on("Network.loadingFinished", loaded)
        page.goto(_address(growd, "now"))
        for view in VIEWS:
            page.goto(_address(growd, view))
            _until_there(page, view)
            page.wait_for_timeout(500)
    finally:
        context.close()
    first = sum(size for address, size in sizes.items() if not address.endswith(LATER))
    return [
        limited("bytes of the first view, with heads", "kB", first / 1000, 50.0),
        limited("bytes of all views, with heads", "kB", sum(sizes.values()) / 1000, 120.0),
    ]


def _first_values(browser: Browser, growd: Process, rounds: int) -> list[Row]:
    """From the request to the first value on the screen; the reference is the same without a slower CPU."""
    taken: dict[tuple[str, int], list[float]] = {}
    for _ in range(max(3, rounds)):
        for slower in (1, SLOWER):
            context = browser.new_context(viewport=PHONE)
            try:
                for cache in ("cold", "warm"):
                    taken.setdefault((cache, slower), []).append(_first_value_s(context, growd, slower))
            finally:
                context.close()
    return [
        limited(
            f"first values, {cache} cache, CPU {SLOWER} times slower (reference: not slower)",
            "s",
            median(taken[cache, SLOWER]),
            1.0,
            median(taken[cache, 1]),
        )
        for cache in ("cold", "warm")
    ]


def _first_value_on_3g(browser: Browser, growd: Process, rounds: int) -> Row:
    """With an empty cache, at 1.6 Mbit/s and 150 ms (the profile "3G Fast" of WebPageTest)."""
    taken = []
    for _ in range(max(3, rounds)):
        context = browser.new_context(viewport=PHONE)
        try:
            taken.append(_first_value_s(context, growd, 1, is_slow_net=True))
        finally:
            context.close()
    return limited("first values on 3G, cold cache", "s", median(taken), 1.5)


def _traffic(browser: Browser, growd: Process, seconds: float) -> Row:
    """What an open tab takes, once it has loaded all."""
    received = 0.0

    def came(event: dict[str, Any]) -> None:
        nonlocal received
        received += event["encodedDataLength"]

    with _opened(browser, growd) as page:
        page.wait_for_timeout(15_000)  # the service worker has kept the files
        protocol = page.context.new_cdp_session(page)
        protocol.send("Network.enable")
        protocol.on("Network.dataReceived", came)
        began = time.monotonic()
        page.wait_for_timeout(1000 * max(60.0, seconds))
        an_hour = received / 1e6 * 3600 / (time.monotonic() - began)
    return limited("traffic of an open tab in an hour", "MB", an_hour, 3.0)


def _shift(browser: Browser, growd: Process) -> Row:
    """The greatest layout shift of a view while it loads (https://web.dev/articles/cls)."""
    most = 0.0
    for view in VIEWS:
        with _opened(browser, growd, view, SHIFTS) as page:
            page.wait_for_timeout(3_000)
            most = max(most, float(page.evaluate("window.shifts")))
    return limited("layout shift of a view", "", most, 0.1)


def _first_value_s(
    context: BrowserContext, growd: Process, slower: int, *, is_slow_net: bool = False
) -> float:
    page = context.new_page()
    try:
        page.add_init_script(FIRST_VALUE)
        protocol = context.new_cdp_session(page)
        protocol.send("Emulation.setCPUThrottlingRate", {"rate": slower})
        if is_slow_net:
            protocol.send("Network.enable")
            protocol.send("Network.emulateNetworkConditions", NET_3G)
        page.goto(_address(growd, "now"))
        return float(page.evaluate("window.firstValue")) / 1000
    finally:
        page.close()


def _heap(browser: Browser, growd: Process, view: str) -> Row:
    """Growth of the heap over the messages of a day: of each shown topic one each `STEP_S`."""
    with _opened(browser, growd, view, TAPPED) as page:
        protocol = page.context.new_cdp_session(page)
        topics = page.evaluate("new URL(window.tapped.url).searchParams.getAll('topic')")
        measured = [topic for topic in topics if "/measured/" in topic]
        begin = int(time.time())
        page.evaluate(REPLAY, [measured, begin, begin + 600, STEP_S])
        before = _heap_bytes(protocol)
        for piece in range(PIECES):
            start = begin + 600 + piece * DAY_S // PIECES
            page.evaluate(REPLAY, [measured, start, start + DAY_S // PIECES, STEP_S])
        after = _heap_bytes(protocol)
    return limited(
        f"growth of the heap over a day of messages, {view} (reference: before)",
        "MB",
        (after - before) / 1e6,
        10.0,
        before / 1e6,
    )


def _heap_bytes(protocol: Any) -> int:
    for _ in range(2):
        protocol.send("HeapProfiler.collectGarbage")
    return int(protocol.send("Runtime.getHeapUsage")["usedSize"])


def _cpu(browser: Browser, growd: Process, view: str, options: Options) -> Row:
    """CPU of the process that draws the page; the reference is the same without messages of the series."""
    with _opened(browser, growd, view) as page:
        if view == "charts":
            names = ",".join(MANUAL[:4])
            page.goto(_address(growd, f"charts?range=hour&variables={names},light_illuminance"))
            page.wait_for_timeout(2_000)
        protocol = page.context.new_cdp_session(page)
        protocol.send("Performance.enable")
        with Connection(growd.port) as publisher:
            rounds = [
                {
                    busy: _cpu_percent(page, protocol, publisher if busy else None, options.seconds)
                    for busy in (False, True)
                }
                for _ in range(options.rounds)
            ]
    busy, quiet = (median(each[state] for each in rounds) for state in (True, False))
    case = f"CPU of the page with {len(SERIES)} series, {view} (reference: no messages)"
    return limited(case, "% of a core", busy, 2.0, quiet)


def _cpu_percent(page: Page, protocol: Any, publisher: Connection | None, seconds: float) -> float:
    _publish(page, publisher, 2.0)
    began, before = time.monotonic(), _cpu_s(protocol)
    _publish(page, publisher, seconds)
    return 100 * (_cpu_s(protocol) - before) / (time.monotonic() - began)


def _publish(page: Page, publisher: Connection | None, seconds: float) -> None:
    """Publish on each series once a second, evenly; without a publisher only wait."""
    if publisher is None:
        page.wait_for_timeout(1000 * seconds)
        return
    for number in range(int(seconds * RATE_HZ * len(SERIES))):
        topic = SERIES[number % len(SERIES)]
        value = 0.3 + (number % 7) / 10
        publisher.send("POST", f"{API}/topic/{topic}", json.dumps([value]).encode())
        publisher.check_answer()
        page.wait_for_timeout(1000 / RATE_HZ / len(SERIES))


def _cpu_s(protocol: Any) -> float:
    """Seconds of CPU of the process that draws the page, so far."""
    metrics = {each["name"]: each["value"] for each in protocol.send("Performance.getMetrics")["metrics"]}
    return float(metrics["ProcessTime"])
