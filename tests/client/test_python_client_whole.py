"""`growd_client` and the whole program: recipes, the past, the journal."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from growd_client import AsyncGrowd, Growd, NotFoundError, RefusedError, UsageError
from growd_client.points import PointPages
from support.photos import jpeg
from support.program import home_on, started
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.long

E1 = "environment_1"


def use(url, options, prefix, photo):
    """What a user does with the blocking client."""
    with Growd(url, **options) as growd:
        (environment,) = growd.environments()
        assert environment.environment == E1
        assert {"air_temperature"} <= {each.variable for each in environment.variables if each.measured}
        began = datetime.now(UTC) - timedelta(minutes=1)
        assert "demo_day" in growd.start_recipe(E1, "demo_day", by="anna")
        with pytest.raises(RefusedError):
            growd.start_recipe(E1, "demo_day")
        growd.pause_recipe(E1)
        growd.resume_recipe(E1)
        assert growd.stop_recipe(E1)
        entry = growd.write_entry(
            E1,
            "harvest",
            measurements={"harvest_fresh_mass": 212.4},
            photos=[photo, photo.read_bytes()],
            by="anna",
        )
        assert (entry.text, entry.by, entry.measurements) == (
            "harvest",
            "anna",
            {"harvest_fresh_mass": 212.4},
        )
        assert growd.photo(entry.photos[0]) == growd.photo(entry.photos[1])
        growd.write_entry(E1, "harvest of tray 1", corrects=entry.id)
        (found,) = growd.journal(E1, start=began, search="tray").entries
        assert (found.id, found.earlier[0].text) == (entry.id, "harvest")
        with pytest.raises(UsageError, match="can't be read: No such file"):
            growd.write_entry(E1, photos=[photo.with_name("missing.jpg")])
        wait_until(lambda: growd.runs(E1).runs)
        runs = growd.runs(E1, before=datetime.now(UTC) + timedelta(minutes=1)).runs
        run = growd.run(runs[0].short_id)
        assert (runs[0].recipe_id, runs[0].started_by, run.short_id) == ("demo_day", "anna", runs[0].short_id)
        assert growd.figures(runs[0].id)["start"] == pytest.approx(runs[0].started)
        assert b"<html" in growd.report(runs[0].id, lang="de")
        assert b"<html" in growd.compare(runs[0].id, runs[0].id)
        with pytest.raises(NotFoundError):
            growd.run("nothing")
        series = stored(growd, "air_temperature", began)
        assert series.measured.min[0] <= series.measured.mean[0] <= series.measured.max[0]
        points_are_read(growd, prefix, began)
        past = growd.history(E1, start=began, series=False)
        assert (past.series, past.variable("air_temperature")) == ([], None)
        assert "restart" in {event.kind for event in past.events}


def points_are_read(growd, prefix, began):
    points = list(growd.points(E1, "air_temperature", start=began, prefix=prefix))
    assert [each.time for each in points] == sorted({each.time for each in points})
    assert (points[0].variable, points[0].moment >= began) == ("air_temperature", True)
    last = points[-1].time
    assert [*growd.points(E1, "air_temperature", start=last, end=last, prefix=prefix)] == points[-1:]
    pages = PointPages((E1, "measured", "air_temperature"), began, last, prefix, rows=2)
    read = []
    while not pages.done:
        read += growd._connection.send(pages.call())
    assert read == points
    assert list(growd.points(E1, "restart", category="event", prefix=prefix))
    sentence = "the database nothing_environmental_data_point: Database does not exist.*prefix must be"
    with pytest.raises(NotFoundError, match=sentence):
        list(growd.points(E1, "air_temperature", prefix="nothing_"))
    assert list(growd.points(E1, "plant_height", prefix=prefix)) == []
    assert list(growd.points(E1, "air_temperature", end=1.0, prefix=prefix)) == []
    with pytest.raises(RefusedError, match='such as air_temperature, not "air_temprature"'):
        list(growd.points(E1, "air_temprature", prefix=prefix))
    with pytest.raises(NotFoundError, match='there is no environment named "env"'):
        list(growd.points("env", "restart", category="event", prefix=prefix))
    with pytest.raises(UsageError, match="start: expected a time before the end, 1, got 2"):
        list(growd.points(E1, "air_temperature", start=2.0, end=1.0, prefix=prefix))
    with pytest.raises(UsageError, match="category: expected one of measured, "):
        list(growd.points(E1, "air_temperature", category="raw"))


def stored(growd, variable, start):
    """The past of a variable, once it has points: they wait for some seconds."""
    found = []

    def has_points():
        found[:] = growd.history(E1, variable, start=start).series
        return bool(found and found[0].measured.time)

    wait_until(has_points)
    return found[0]


async def test_a_user_grows_and_looks_back(tmp_path, database_server, said):
    photo = tmp_path / "tray.jpg"
    photo.write_bytes(jpeg())
    async with (
        home_on(database_server, shared=True) as home,
        started(tmp_path / "data", "--profile", "sim", *home.arguments) as program,
    ):
        user, password = database_server.auth or (None, None)
        options = {"user": user, "password": password, "timeout_s": PATIENCE_S}
        await asyncio.to_thread(use, program.address, options, home.prefix, photo)
        async with AsyncGrowd(program.address, **options) as growd:
            entry = await growd.write_entry(E1, "with a photo", photos=[photo])
            assert await growd.photo(entry.photos[0])
            assert [each.value async for each in growd.points(E1, "air_temperature", prefix=home.prefix)]
            with pytest.raises(RefusedError, match='not "air_temprature"'):
                [each async for each in growd.points(E1, "air_temprature", prefix=home.prefix)]
            with said.raises(UsageError):
                await growd.write_entry(E1, photos=[tmp_path / "missing.jpg"])
