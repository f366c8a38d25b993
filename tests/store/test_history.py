"""The history from a real database: series, steps, releases, events, late points, refusals."""

import asyncio
import math
import random

import jsonschema_rs
import msgspec
import pytest
from aiohttp import web
from yarl import URL

from growd.bus.errors import BusyError, InvalidValueError, UnknownNameError
from growd.store.errors import NO_ROOM, CouchUnavailableError
from growd.store.history import events
from growd.store.history import history as requests
from growd.store.history import query as sizes
from growd.store.history.grid import Grid
from growd.store.history.history import HistoryTimeoutError
from growd.store.history.query import HistoryQuery
from growd.store.index_builds import IndexBuild
from growd.store.reading.source import ExportBrokenError, ExportRefusedError, PointSource
from growd_web.answer_schemas import ANSWERS
from support.history import stored_past
from support.http_server import serving_http
from support.rollups import measured
from support.stand_in import StandIn

T = 1_790_000_000.0
CO2, LIGHT, WARMTH = "air_carbon_dioxide", "light_illuminance", "air_temperature"


@pytest.fixture
async def past(database_server, request):
    async with stored_past(database_server, getattr(request, "param", 300_000)) as stored:
        yield stored


# The second has no room to remember anything.
with_and_without_memory = pytest.mark.parametrize("past", [300_000, 0], indirect=True)


def of(answer, variable, category="measured"):
    (series,) = [one for one in answer["series"] if one["variable"] == variable]
    return series[category]


class TestSeries:
    @pytest.mark.long
    @with_and_without_memory
    async def test_random_points_are_counted_exactly(self, past):
        chance = random.Random(1)
        points = [(round(T + chance.random() * 5_000, 6), round(chance.gauss(20, 5), 2)) for _ in range(700)]
        await past.store(*[measured(WARMTH, value, at) for at, value in points])
        for start, end, number in (
            (0, 5_000, 300),
            (1_000, 2_000, 50),
            (0, 40_000, 10),
            (1_234.5, 1_240, 300),
        ):
            answer = await past.ask(T + start, T + end, WARMTH, points=number)
            grid = Grid.covering(T + start, T + end, number)
            assert (answer["start"], answer["end"], answer["bucket_s"]) == (grid.start, grid.end, grid.width)
            columns = of(answer, WARMTH)
            expected = {}
            for at, value in sorted(points):
                if grid.start <= at < grid.end:
                    expected.setdefault(int(at // grid.width) * grid.width, []).append(value)
            assert columns["time"] == [*expected]
            for n, values in enumerate(expected.values()):
                assert columns["count"][n] == len(values)
                assert (columns["min"][n], columns["max"][n]) == (min(values), max(values))
                assert columns["last"][n] == values[-1]
                assert math.isclose(columns["mean"][n], sum(values) / len(values), rel_tol=1e-8)
            earlier = [(at, value) for at, value in sorted(points) if at < grid.start]
            before = {"time": earlier[-1][0], "value": earlier[-1][1]} if earlier else None
            assert columns["before"] == before

    @with_and_without_memory
    async def test_set_points_and_commands_with_releases(self, past):
        await past.store(
            measured(LIGHT, 8_000, T - 90_000, is_desired=True),
            measured(LIGHT, 4_000, T + 10, is_desired=True),
            measured(LIGHT, None, T + 11, is_desired=True),
            measured("light_par", None, T, is_desired=True),
            measured(CO2, None, T - 50, category="commanded"),
            measured(CO2, True, T + 20, category="commanded"),
        )
        answer = await past.ask(T, T + 3_600)
        jsonschema_rs.validate(ANSWERS["history"], answer)
        light, alone = of(answer, LIGHT, "desired"), of(answer, "light_par", "desired")
        assert light["before"] == {"time": T - 90_000, "value": 8_000}
        assert (light["min"], light["last"], light["count"]) == ([4_000], [None], [1])
        assert [alone[name] for name in ("count", "last", "min", "mean")] == [[0], [None], [None], [None]]
        doses = of(answer, CO2, "commanded")
        assert doses["before"] == {"time": T - 50, "value": None}
        assert (doses["mean"], doses["last"]) == ([1.0], [1.0])
        units = {one["variable"]: one["unit"] for one in answer["series"]}
        assert units.items() >= {CO2: "ppm", LIGHT: "lux"}.items()
        assert of(answer, CO2)["time"] == []

    async def test_manual_measurements_are_part_of_a_series_and_texts_and_other_environments_are_not(
        self, past
    ):
        await past.store(
            measured(WARMTH, 6.1, T, is_manual=True),
            measured(WARMTH, 30, T, environment="environment_2"),
            measured("recipe_start", "demo_day", T, is_desired=True),
            measured("custom", "a text", T - 10),
        )
        answer = await past.ask(T, T + 60)
        assert [one["variable"] for one in answer["series"]] == [WARMTH, "custom"]
        assert of(answer, WARMTH)["last"] == [6.1]
        assert (of(answer, "custom")["time"], of(answer, "custom")["before"]) == ([], None)

    async def test_the_times_at_which_a_value_was_no_longer_known(self, past):
        qualities = {-5_000: "warm-up", 9: "fault", 20: "ok", 30: "stale"}
        await past.store(
            measured(WARMTH, 20, T),
            measured(CO2, 400, T),
            *[measured(WARMTH, quality, T + at, category="quality") for at, quality in qualities.items()],
        )
        warmth, carbon_dioxide = (await past.ask(T, T + 60, WARMTH, CO2))["series"]
        assert (warmth["breaks"], carbon_dioxide["breaks"]) == ([T + 9, T + 30], [])
        assert (warmth["resumes"], warmth["holds_s"]) == ([T + 20], 660)

    async def test_a_new_series_is_found_after_some_seconds_and_at_once_if_it_is_asked_for(
        self, past, monkeypatch
    ):
        await past.store(measured(WARMTH, 20, T))
        await past.ask(T, T + 60)
        await past.store(measured("leaf_wetness", 7, T))
        assert of(await past.ask(T, T + 60, "leaf_wetness"), "leaf_wetness")["last"] == [7]
        monkeypatch.setattr("growd.store.history.answers.SERIES_S", 0.0)
        assert of(await past.ask(T, T + 60), "leaf_wetness")["last"] == [7]

    async def test_an_empty_database(self, past):
        answer = await past.ask(T, T + 60)
        assert (answer["series"], answer["events"], answer["events_truncated"]) == ([], [], False)
        assert past.shipped == ["begin", "end"]  # waiting points, around the reading
        chosen = (await past.ask(T, T + 60, WARMTH, "custom"))["series"]
        assert [one["variable"] for one in chosen] == [WARMTH, "custom"]

    @with_and_without_memory
    async def test_points_of_another_writer_and_deletions_are_in_the_next_answer(self, past):
        await past.store(*[measured(WARMTH, n, T + n) for n in range(100)])
        assert sum(of(await past.ask(T, T + 100), WARMTH)["count"]) == 100
        foreign = {"environment": "environment_1", "variable": WARMTH, "is_desired": False}
        foreign |= {"_id": "mine", "is_manual": False, "value": 99.5, "timestamp": T + 3}
        await past.store_documents([foreign])
        columns = of(await past.ask(T, T + 100), WARMTH)
        assert (sum(columns["count"]), max(columns["max"])) == (101, 99.5)
        stored = await past.couch.get(past.names.points, "mine")
        await past.store_documents([{**stored, "_deleted": True}])
        assert sum(of(await past.ask(T, T + 100), WARMTH)["count"]) == 100


class TestEvents:
    async def test_all_kinds_in_their_order(self, past):
        details = {"device": "scd30_1", "before": 452.0, "after": 420.0, "reference": 420.0}
        await past.store(
            measured("note", "planted: basil", T + 5, category="event", is_manual=True),
            measured("fault", "scd30: no answer: timeout", T + 1, category="event"),
            measured("restart", "growd started after a clean end", T, category="event"),
            measured("recipe_start", "demo_day", T + 2, is_desired=True),
            measured("recipe", "demo_day: skipped (by ann)", T + 3, category="event"),
            measured("calibration", "scd30_1: done", T + 6, category="event", by="ann", details=details),
            measured("pruned", "ann: two leaves", T + 7, category="event"),  # of another program
            measured("fault", "too late", T + 100_000, category="event"),
            measured("fault", "other: room", T + 1, category="event", environment="environment_2"),
        )
        answer = await past.ask(T, T + 60)
        jsonschema_rs.validate(ANSWERS["history"], answer)
        assert [tuple(event.values()) for event in answer["events"]] == [
            (T, "restart", "growd", "growd started after a clean end", ""),
            (T + 1, "fault", "scd30", "no answer: timeout", ""),
            (T + 2, "recipe", "demo_day", "started", "", {"code": "recipe_started", "recipe": "demo_day"}),
            (T + 3, "recipe", "demo_day", "skipped (by ann)", "ann"),
            (T + 5, "note", "", "planted: basil", ""),
            (T + 6, "calibration", "scd30_1", "done", "ann", details),
            (T + 7, "pruned", "ann", "two leaves", ""),
        ]
        assert (await past.ask(T, T + 60, with_events=False))["events"] == []

    async def test_the_first_of_a_kind_is_in_the_next_answer(self, past):
        await past.ask(T, T + 60)
        await past.store(
            measured("note", "planted basil", T, category="event", by="ann"),
            measured("recipe_end", "demo_day", T + 1, is_desired=True),
            measured("recipe_end", "basil", T + 2, is_desired=True, details={"reason": "stopped"}),
        )
        found = (await past.ask(T, T + 60))["events"]
        ends = [("ended", ""), ("stopped", "")]
        assert [(one["message"], one["by"]) for one in found] == [("planted basil", "ann"), *ends]
        assert found[-1]["details"] == {"code": "recipe_stopped", "recipe": "basil"}

    @pytest.mark.long
    async def test_the_newest_of_very_many(self, past):
        number = events.MOST_EVENTS + 5
        kinds = ("fault", "note")
        await past.store(*[measured(kinds[n % 2], "x", T + n, category="event") for n in range(number)])
        answer = await past.ask(T, T + 3_600)
        assert answer["events_truncated"]
        assert [event["time"] for event in answer["events"]] == [T + n for n in range(5, 1_005)]


class TestRefusals:
    async def test_unknown_names_and_too_much_at_once(self, past, said):
        await past.store(measured(WARMTH, 20, T))
        with said.raises(UnknownNameError):
            await past.ask(T, T + 60, environment="nowhere")
        many = [f"v{n}" for n in range(51)]
        for names, points in ((["temperature"], 300), (["qqqqqqqq"], 300), (many, 300), (many[:50], 5_000)):
            with said.raises(InvalidValueError):
                await past.ask(T, T + 60, *names, points=points)

    async def test_too_much_at_once_without_a_choice_of_variables(self, past, monkeypatch, said):
        monkeypatch.setattr(sizes, "MOST_BUCKETS", 1_000)
        await past.store(measured(WARMTH, 20, T), measured(CO2, 400, T))
        assert len((await past.ask(T, T + 60, points=500))["series"]) == 2
        with said.raises(InvalidValueError):
            await past.ask(T, T + 60, points=600)
        assert (await past.ask(T, T + 60, points=600, with_series=False))["series"] == []

    async def test_too_many_variables_in_the_database(self, past, monkeypatch, said):
        monkeypatch.setattr(sizes, "MOST_VARIABLES", 2)
        await past.store(measured(WARMTH, 20, T), measured(CO2, 400, T), measured("light_par", 1, T))
        with said.raises(InvalidValueError):
            await past.ask(T, T + 60)
        assert len((await past.ask(T, T + 60, WARMTH, CO2))["series"]) == 2

    async def test_kinds_of_events_beyond_a_limit_are_left_out(self, past, monkeypatch):
        monkeypatch.setattr(events, "MOST_KINDS", 2)
        await past.store(*(measured(kind, "x: y", T, category="event") for kind in ("one", "three", "two")))
        found = await past.ask(T, T + 60)
        assert {each["kind"] for each in found["events"]} == {"one", "three"}
        assert found["events_truncated"]


async def test_series_are_encoded_one_by_one(past):
    """Encoding an answer of the largest size at once takes a tenth of a second."""
    await past.store(measured(WARMTH, 20, T))
    async with past.history.answering(HistoryQuery("environment_1", (), T, T + 60, 300)) as answer:
        assert isinstance(answer["series"][0]["measured"], msgspec.Raw)


async def test_too_many_requests_are_refused(past, monkeypatch):
    monkeypatch.setattr(requests, "MOST_REQUESTS", 1)
    results = await asyncio.gather(*(past.ask(T, T + 60) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in results] == [dict, BusyError, BusyError]
    assert (await past.ask(T, T + 60))["series"] == []


async def test_one_client_leaves_three_quarters_of_the_places_to_others(past, monkeypatch, said):
    monkeypatch.setattr(requests, "MOST_REQUESTS", 8)
    query = HistoryQuery("environment_1", (), T, T + 60, 300)
    async with past.history.answering(query, "192.0.2.1"), past.history.answering(query, "192.0.2.1"):
        with said.raises(BusyError):
            async with past.history.answering(query, "192.0.2.1"):
                pass
        async with past.history.answering(query, "192.0.2.2"), past.history.answering(query):
            pass
    async with past.history.answering(query, "192.0.2.1"):  # its places are free again
        pass


async def test_a_full_disk_is_called_one_and_no_path_is_shown(past, monkeypatch):
    async def full(request):
        reason = "IO error: /data/points/000003.log: No space left on device"
        return web.json_response({"error": "internal_server_error", "reason": reason}, status=500)

    async with serving_http(full) as url:
        past.history.source = lambda: PointSource(URL(url), "a", "b", "svc")
        with pytest.raises(ExportBrokenError, match=NO_ROOM) as caught:
            await past.ask(T, T + 60)
    assert "000003" not in str(caught.value)


async def test_an_absent_database(past, own_port, said):
    def no_source():
        raise CouchUnavailableError("no database is running")

    past.history.source = lambda: PointSource(URL(f"http://127.0.0.1:{own_port}"), "a", "b", "svc")
    with said.raises(ExportBrokenError):
        await past.ask(T, T + 60)
    past.history.source = no_source
    with pytest.raises(CouchUnavailableError):
        await past.ask(T, T + 60)


async def test_a_missing_database(past):
    await past.couch.delete(past.names.points)
    with pytest.raises(ExportRefusedError, match="answered 404"):
        await past.ask(T, T + 60)


BUILD = IndexBuild("points", "svc", 10_000, 40)


@pytest.mark.parametrize("build", [None, BUILD], ids=["slow", "index"])
async def test_a_request_that_takes_too_long_says_why(database_server, said, build):
    async def serve(reader, writer):
        await reader.read()

    async def building(_):
        return build

    async with (
        StandIn(serve) as hanging,
        stored_past(database_server, limit_s=0.05, building=building) as past,
    ):
        past.history.source = lambda: PointSource(URL(hanging.url), "points", "events", "svc")
        with said.raises(HistoryTimeoutError):
            await past.ask(T, T + 60)


async def test_points_at_the_very_ends_of_a_range(past):
    start, end = T - T % 3_600, T - T % 3_600 + 3_600
    times = (start - 1e-6, start, end - 1e-6, end)
    await past.store(*[measured(WARMTH, n, at) for n, at in enumerate(times)])
    await past.store(*[measured("fault", f"a: {at}", at, category="event") for at in (start, end)])
    answer = await past.ask(start, end)
    columns = of(answer, WARMTH)
    assert (columns["last"], columns["before"]["value"]) == ([1, 2], 0)
    assert [event["time"] for event in answer["events"]] == [start]
