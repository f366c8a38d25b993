"""Reports and comparisons of runs: what they show, and that they hold nothing active or from elsewhere."""

import base64
import hashlib
import re
from contextlib import nullcontext
from html.parser import HTMLParser

import aiohttp
import pytest
from msgspec import to_builtins

from growd.bus.errors import InvalidValueError
from growd.store.reading.source import SourceReader
from growd_analysis.figures.figures import Rating
from growd_analysis.figures.run_figures import FigurePoints, RunPoints
from growd_analysis.reports.elements import POLICY, STYLE
from growd_analysis.reports.language import Language
from growd_analysis.reports.reading import ReadPhoto, data_address, notes_of
from growd_analysis.reports.rows import figure_rows
from growd_analysis.reports.service import ReportTimeoutError, RunReports
from growd_analysis.reports.words import WORDS
from growd_analysis.runs.tables import TERMS
from support.daemon import describe_zone, serving
from support.history import ENVIRONMENT
from support.rollups import measured
from support.run_points import CO2, HOLDS_S, LIGHT, MIDNIGHT, UTC, VALVE, WARMTH, figures_of, set_point, value
from support.terminal import typed

pytestmark = pytest.mark.long

HOSTILE = "<script>alert(1)</script>\"'&\u0000"
VOID = {"meta", "img"}
PNG = b"\x89PNG"
PICTURE = ReadPhoto("photo-1.png", len(PNG), data_address("image/png", PNG))
GERMAN = ("basil: gestartet", "Sensor für CO₂", "CO₂-Dosis je Stunde")
BASIL = {
    "_id": "0123456789ab:1790035200000-aaaaaa1111",
    "environment": ENVIRONMENT,
    "recipe_id": "basil",
    "recipe_rev": "3-abc",
    "recipe": {"name": f"Basil {HOSTILE}", "format": "simple"},
    "started": MIDNIGHT,
    "started_by": HOSTILE,
    "ended": MIDNIGHT + 90_000,
    "ended_by": "",
    "end_reason": "finished",
    "revisions": [
        {"time": MIDNIGHT + 50, "elapsed": 50, "by": "bob", "recipe_id": HOSTILE, "recipe_rev": "1-x"}
    ],
    "growd": "0.1.0",
    "configuration": {"sensor": [{"name": name, "kind": "scd30"} for name in (HOSTILE, "scd30")]},
    "calibrations": {"sensors": {"scd30": {"offset": 12.5}}},
    "study": dict.fromkeys(TERMS, HOSTILE),
    "self_test": {
        "state": "done",
        "message": "",
        "ended": MIDNIGHT - 60.0,
        "results": [
            {"name": "fan", "outcome": "passed", "reason": "it moved"},
            {"name": HOSTILE, "outcome": "failed", "reason": f"no effect {HOSTILE}"},
        ],
    },
}
OTHER = BASIL | {
    "_id": "0123456789ab:1790335200000-bbbbbb2222",
    "started": MIDNIGHT + 300_000,
    "ended": MIDNIGHT + 303_600,
    "revisions": [],
}


class Page(HTMLParser):
    """The parts of a page; fails if its elements do not nest."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self._open = [], [], [], []
        self.feed(page.decode())
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return " ".join(self.text)


def check_harmless(page):
    """No scripts, no handlers, nothing from elsewhere."""
    assert not {"script", "link", "iframe", "object", "form", "base", "a"} & {*page.tags}
    for name, content in page.attributes:
        assert not name.startswith("on")
        assert name not in {"href", "style", "xlink:href", "srcdoc"}
        assert name != "src" or content.startswith("data:image/")
    assert "\u0000" not in page.words


async def store_basil(stored):
    await stored.store(
        *[measured(WARMTH, 20 + n % 5, MIDNIGHT + 600 * n) for n in range(151)],
        *[measured(LIGHT, 6_700, MIDNIGHT + 600 * n) for n in range(72)],
        measured(LIGHT, 6_700, MIDNIGHT, is_desired=True),
        measured(LIGHT, 0, MIDNIGHT + 43_200, is_desired=True),
        measured(WARMTH, 21, MIDNIGHT, is_desired=True),
        measured(VALVE, 1, MIDNIGHT + 60, category="commanded"),
        measured(VALVE, 0, MIDNIGHT + 90, category="commanded"),
        measured("fault", f"scd30: {HOSTILE}", MIDNIGHT + 500, category="event"),
        measured("recovery", "scd30: ok after 60 s", MIDNIGHT + 560, category="event"),
        measured("recipe", f"basil: paused {HOSTILE}", MIDNIGHT + 600, category="event"),
        measured(
            *("recipe", "basil: started", MIDNIGHT), category="event", details={"code": "recipe_started"}
        ),
        measured("harvest_fresh_mass", 1_150.5, MIDNIGHT + 95_000, is_manual=True, by=HOSTILE),
        measured("harvest_fresh_mass", 100, MIDNIGHT + 96_000, is_manual=True, by="ann"),
        measured("note", HOSTILE, MIDNIGHT + 700, category="event", by="ann"),
        measured("interlock", "dose_per_hour: has tripped", MIDNIGHT + 360, category="event"),
        measured(
            "calibration",
            "ph: calibrate_mid",
            MIDNIGHT + 800,
            is_manual=True,
            category="event",
            by=HOSTILE,
            details={"device": HOSTILE, "variable": "water_potential_hydrogen", "unit": "pH", "before": 7.21}
            | {"after": 7.004, "reference": None},
        ),
        measured("water_added", 1.5, MIDNIGHT + 700, is_manual=True, by="ann"),
        *[measured(WARMTH, 25, MIDNIGHT + 300_000 + 600 * n) for n in range(6)],
    )
    await stored.store_documents([BASIL, OTHER], stored.names.runs)
    notes = await stored.couch.view(
        stored.names.events, "svc", "by_variable", reduce=False, startkey=[ENVIRONMENT, "event", "note"]
    )
    note = notes[0]["value"]
    picture = {"content_type": "image/png", "data": base64.b64encode(PNG).decode()}
    attachments = {"photo-1.png": picture, "photo-2.png": picture}
    await stored.store_documents([note | {"_attachments": attachments}], stored.names.events)


@pytest.fixture
async def reports(stored, archive, tmp_path):
    await store_basil(stored)

    async def photo(note_id, name, most):
        return PICTURE if name == "photo-1.png" and most else ReadPhoto(name, 9_000_000, "")

    async with aiohttp.ClientSession() as session:
        points = RunPoints(SourceReader(session, stored.source), lambda _: HOLDS_S)

        async def where(_):
            return FigurePoints(points, {VALVE: Rating(flow_l_min=2.0)}, {})

        def made(**options):
            return RunReports(
                archive,
                stored.history,
                where,
                ship=nullcontext,
                photo=photo,
                data=tmp_path,
                time=lambda: MIDNIGHT + 400_000,
                zone=UTC,
                **options,
            )

        yield made


class TestReport:
    async def test_what_it_shows(self, reports):
        content = await reports().report("aaaaaa", "en")
        page = Page(content)
        check_harmless(page)
        assert ("lang", "en") in page.attributes
        for part in (
            "Basil <script>alert(1)</script>",
            "basil (revision 3)",
            "finished",
            "Air temperature",
            "growd",
            "0.1.0",
            "scd30: offset 12.5",
            "1 passed, 1 failed, 0 not tested",
            ": no effect <script>alert(1)",
            "Light integral: 4.33 mol/m²",
            "67 lux",
            "±15 %",
            "CO₂: 1.00 l, 1.84 g",
            "2026-09-22",
            "Harvest, fresh",
            "1,250.5",  # the sum, with what was weighed after the end
            "photo-2.png, 9.0 MB: too large for the report",
            "UTC (UTC+00:00)",
            "Water added",
            "Calibrations",
            "7.21",
            "(1 d 54 min)",  # the interlock that was not released,
            "CO₂ dose per hour",
            "CO₂ sensor",
        ):
            assert part in page.words, part
        assert ("src", f"data:image/png;base64,{base64.b64encode(PNG).decode()}") in page.attributes
        plots = re.findall(rb'<svg viewBox="0 0 720.*?</svg>', content, re.DOTALL)
        assert len(plots) == 4  # two variables, light and CO2 of each day
        for plot in plots:
            assert re.search(rb'role="img" aria-label="[^"]+"', plot)
            assert re.search(rb"<title>[^<]+</title><desc>[^<]+</desc>", plot)
        assert content.count(b"<table") > len(plots)
        # darkness is shaded, and a gap of data is no line
        assert "planned darkness" in page.words
        light = content.decode().partition(">Light, lux<")[2]
        mean = re.search(r'<path d="([^"]*)" fill="none" stroke="#1c6b3c"', light)[1]
        assert mean.count("M") == 1
        assert float(mean.rpartition("H")[2]) < 720 / 2 + 60  # data end after 12 of 25 hours

    async def test_it_speaks_german(self, reports):
        page = Page(await reports().report("aaaaaa", "de"))
        assert ("lang", "de") in page.attributes
        for part in (
            "Lufttemperatur",
            "Lichtsumme: 4,33 mol/m²",
            "22.09.2026",
            "1.250,5",
            "beendet",
            *GERMAN,
        ):
            assert part in page.words, part

    async def test_a_large_photo_is_shown_after_all_small_ones(self):
        sizes = {"large-1": 7_000_000, "large-2": 7_000_000, "small": 1_400_000, "huge": 9_000_000}

        async def photo(_, name, most):
            return ReadPhoto(name, sizes[name], "data:," if sizes[name] <= most else "")

        note = {"id": "1", "time": 0, "by": "", "text": "", "photos": list(sizes)}
        (found,) = await notes_of({"notes": [note]}, photo)
        assert [one.name for one in found.photos if one.address] == ["large-1", "small"]
        assert [one.size for one in found.photos] == list(sizes.values())

    async def test_odd_runs_have_a_report_or_a_refusal_in_one_sentence(self, reports, stored, archive):
        empty = BASIL | {"_id": "0123456789ab:1-cccccc3333", "started": 1e9, "ended": 1e9, "recipe": None}
        gone = BASIL | {"_id": "0123456789ab:1-dddddd4444", "environment": "gone"}
        await stored.store(measured(WARMTH, 20, MIDNIGHT + 10, environment="gone"))
        await stored.store_documents([empty, gone], stored.names.runs)
        check_harmless(page := Page(await reports().report("cccccc", "en")))
        assert "There were no faults" in page.words
        check_harmless(page := Page(await reports().report("dddddd", "en")))
        assert "Air temperature" in page.words
        impossible = [(1e308, 1e308), (-1e308, 5.0), (0, 4e9), (MIDNIGHT, MIDNIGHT - 10_000_000)]
        for number, (started, ended) in enumerate(impossible):
            times = {"_id": f"0123456789ab:1-aaaabbbb0{number}", "started": started, "ended": ended}
            kept = to_builtins(figures_of(end=60)) | {"start": started, "end": ended}
            await stored.store_documents([BASIL | times | {"figures": kept}], stored.names.runs)
            if ended < started:  # the clock was set back: the run counts as one without length
                assert (await reports().figures(f"aaaabbbb0{number}")).end == started
            else:
                with pytest.raises(InvalidValueError, match="at most 1100 days"):
                    await reports().report(f"aaaabbbb0{number}", "en")
            await archive.describe(BASIL | times, MIDNIGHT)

    async def test_kept_figures_are_used_and_those_of_another_form_are_not(self, reports, stored, said):
        kept = figures_of(value(0, WARMTH, 33.25), end=90_000)
        runs = [
            BASIL | {"_id": "0123456789ab:1-eeeeee5555", "figures": to_builtins(kept)},
            BASIL | {"_id": "0123456789ab:1-ffffff6666", "figures": {"start": "?"}},
        ]
        await stored.store_documents(runs, stored.names.runs)
        assert (await reports().figures("eeeeee")).variables[0].whole.mean == 33.25
        made = reports(limit_s=0.0)
        with said.raises(ReportTimeoutError):
            await made.figures("ffffff")
        made.limit_s = 60.0  # the request goes on where it was
        assert (await made.figures("ffffff")).variable(WARMTH).whole.data_s == 90_000
        assert (await made.figures("ffffff")).variables[0].whole.mean < 25


class TestNewFigures:
    async def test_a_run_goes_on_with_points_that_were_read_before(self, reports, stored):
        running = BASIL | {"_id": "0123456789ab:1-999999ffff", "ended": None}
        await stored.store_documents([running], stored.names.runs)
        made = reports()
        first = await made.figures("999999")
        await stored.store(measured(WARMTH, 90, MIDNIGHT + 399_900))
        again = await made.figures("999999")
        assert (first.variable(WARMTH).whole.max, again.variable(WARMTH).whole.max) == (25, 90)
        assert again.variable(WARMTH).whole.data_s == first.variable(WARMTH).whole.data_s + 100
        assert again == await reports().figures("999999")


class TestComparison:
    def test_rows_with_differences_from_the_first_run(self):
        runs = [
            figures_of(value(0, WARMTH, 20), end=600),
            figures_of(value(0, WARMTH, 18.5), value(0, CO2, 500), end=660),
        ]
        rows = {row.name: row for row in figure_rows(runs, Language("en", UTC))}
        assert rows["Air temperature, °C: mean"].values == ["20.00", "18.50"]
        assert rows["Air temperature, °C: mean"].differences == ["", "−1.50"]  # noqa: RUF001
        assert rows["CO₂, ppm: mean"].values == ["–", "500"]  # noqa: RUF001
        assert rows["CO₂, ppm: mean"].differences == ["", "–"]  # noqa: RUF001
        assert rows["Duration"].differences == ["", "+1 min"]

    def test_differences_of_shares_are_percentage_points_and_no_difference_has_no_sign(self):
        runs = [
            figures_of(value(0, WARMTH, 20), set_point(0, WARMTH, 20.001), end=600),
            figures_of(value(0, WARMTH, 20.001), set_point(0, WARMTH, 25), end=600),
        ]
        english, german = (
            {row.name: row.differences[1] for row in figure_rows(runs, Language(code, UTC))}
            for code in ("en", "de")
        )
        assert english["Air temperature, °C: in tolerance"] == "−100.0 % points"  # noqa: RUF001
        assert german["Lufttemperatur, °C: In Toleranz"] == "−100,0 %-Punkte"  # noqa: RUF001
        assert english["Air temperature, °C: mean"] == "±0.00"


class TestCalls:
    @pytest.fixture
    async def daemon(self, reports, stored, archive):
        async with serving(history=stored.history, runs=archive, reports=reports()) as daemon:
            yield daemon

    async def test_a_page_has_its_own_policy(self, daemon):
        answer = await daemon.ask("GET", "/report/aaaaaa")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert answer.headers["Content-Security-Policy"] == POLICY
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
        assert f"style-src 'sha256-{digest}'" in POLICY
        assert STYLE in answer.body.decode()
        figures = (await daemon.ask("GET", "/figures/aaaaaa")).json
        assert (figures["start"], figures["end"]) == (MIDNIGHT, MIDNIGHT + 90_000)
        answer = await daemon.ask("GET", "/compare?run=aaaaaa&run=bbbbbb&lang=de")
        assert answer.status == 200
        assert b'lang="de"' in answer.body
        unknown = 'there is no run named "ffff"'
        for call, status, sentence in (
            ("/report/ffff", 404, unknown),
            ("/figures/ffff", 404, unknown),
            ("/report/aaaaaa?lang=fr", 400, "lang must be en or de"),
            ("/compare?run=aaaaaa", 400, "run"),
            ("/compare?" + "&".join(["run=aaaaaa"] * 7), 400, "run must be at most 6"),
            ("/compare?run=aaaaaa&run=ffff", 404, unknown),
        ):
            answer = await daemon.ask("GET", call)
            assert (answer.status, sentence in answer.json["ERROR"]) == (status, True), call


class TestCommands:
    @pytest.fixture
    async def ask(self, reports, stored, archive, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        async with serving(history=stored.history, runs=archive, reports=reports()) as daemon:
            describe_zone(daemon.bus, "UTC")

            async def ask(*arguments, status=0):
                printed = await typed("run", *arguments, "--url", daemon.origin)
                assert printed.status == status, printed
                return printed.out + printed.err

            yield ask

    async def test_a_report_is_named_after_recipe_and_date_and_replaces_nothing(self, ask, tmp_path):
        assert "growd: basil-2026-09-22.html has " in await ask("report", "aaaaaa")
        page = (tmp_path / "basil-2026-09-22.html").read_bytes()
        check_harmless(Page(page))
        exists = "basil-2026-09-22.html exists already: --replace replaces it"
        assert exists in await ask("report", "aaaaaa", status=1)
        assert (tmp_path / "basil-2026-09-22.html").read_bytes() == page
        await ask("report", "aaaaaa", "-o", "mine.html", "--lang", "de")
        assert b'lang="de"' in (tmp_path / "mine.html").read_bytes()
        assert 'there is no run named "ffff"' in await ask("report", "ffff", status=1)
        refused = await ask("report", "aaaaaa", "-o", "nowhere/x.html", status=1)
        assert "nowhere/x.html can't be written" in refused

    async def test_a_comparison_is_a_table_and_with_a_file_a_page(self, ask, tmp_path):
        lines = (await ask("compare", "aaaaaa", "bbbbbb", "-o", "both.html")).splitlines()
        assert lines[0].split() == ["aaaaaa", "(2026-09-22)", "bbbbbb", "(2026-09-25)", "difference"]
        (mean,) = [line for line in lines if line.startswith("Air temperature, °C: mean ")]
        assert mean.split()[-2] == "25.00"
        page = Page((tmp_path / "both.html").read_bytes())
        check_harmless(page)
        for part in (
            "1: basil, 2026-09-22 00:00 (aaaaaa)",
            "2: basil, 2026-09-25 11:20 (bbbbbb)",
            "25.00",
            "Air temperature, °C: mean",
        ):
            assert part in page.words, part
        assert [name for name, _ in page.attributes].count("viewbox") == 2 + 2  # two plots, and the key
        assert "expected 2 to 6 runs, got 1" in await ask("compare", "aaaaaa", status=2)


class TestTexts:
    def test_each_text_has_the_same_values_in_each_language(self):
        for key, texts in WORDS.items():
            english, german = ({*re.findall(r"{(\w+)}", text)} for text in texts)
            assert english == german, key

    def test_numbers_and_times(self):
        english, german = Language("en", UTC), Language("de", UTC)
        assert (english.number(1_234.56), german.number(1_234.56)) == ("1,234.6", "1.234,6")
        assert (english.number(-0.01), english.number(None)) == ("0.0", "–")  # noqa: RUF001
        assert [english.duration(seconds) for seconds in (59, 3_599.6, 107_998.5, 86_400)] == [
            "59 s",
            "1 h",
            "1 d 6 h",
            "1 d",
        ]
        assert (english.typed(5.9), german.typed(1212.5), english.typed(6.0)) == ("5.9", "1.212,5", "6")
        assert (english.moment(1e308), english.day(-1e308)) == ("–", "–")  # noqa: RUF001
        assert (english.moment(MIDNIGHT), german.moment(MIDNIGHT)) == ("2026-09-22 00:00", "22.09.2026 00:00")

    def test_small_amounts_have_three_digits_and_no_more_than_three_decimals(self):
        english, german = Language("en", UTC), Language("de", UTC)
        amounts = (0.001, 0.0363, 1.5504, 23.4567, 1_234.5, 0.0, 0.0001, None)
        shown = ["0.001", "0.036", "1.55", "23.5", "1,234", "0.0", "0.000", "–"]  # noqa: RUF001
        assert [english.amount(value) for value in amounts] == shown
        assert german.amount(0.0363) == "0,036"
