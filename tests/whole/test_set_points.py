"""Manual set points and values survive a kill of the whole program."""

import asyncio
import json
import signal

import pytest

from support.program import PATIENCE_S, home_on, started
from support.terminal import typed
from support.waiting import until_found

TOPIC = "environment_1/desired/light_illuminance"
ENTRIES = {"environment_1/measured/water_potential_hydrogen": 6.1, "environment_1/notes": "watered"}
STEADY = {"format": "simple", "operations": [[0, "light_illuminance", 8000], [86400, "light_illuminance", 0]]}
RELEASE = f"growd topic release {TOPIC}"


async def status(program):
    return (await typed("status", "--json", "--url", program.address)).json


async def entries_in_data(program, home):
    """The values of the note and of the pH in the database."""
    documents = [*(await program.documents(home.points)).values()]
    documents += (await program.documents(home.events)).values()
    entered = ("water_potential_hydrogen", "note")
    return [each["value"] for name in entered for each in documents if each["variable"] == name]


async def set_points_in_data(program, home):
    """The points of the variable, once the release is in the database: value and `is_manual`."""
    key = '["environment_1","desired","light_illuminance"'
    path = f"/{home.points}/_design/svc/_view/by_variable?reduce=false&startkey={key}]&endkey={key},{{}}]"

    async def values():
        rows = (await program.ask("GET", path))["rows"]
        found = [(row["value"]["value"], row["value"]["is_manual"]) for row in rows]
        return found if (None, True) in found else None

    return await until_found(values, AssertionError)


@pytest.mark.timeout(180)
@pytest.mark.kill
async def test_a_manual_set_point_survives_a_kill_overrides_a_recipe_and_is_released(
    tmp_path, database_server
):
    async with home_on(database_server, shared=True) as home:
        arguments = (*home.arguments, "--profile", "sim")
        async with started(tmp_path / "data", *arguments) as program:
            for topic, value in {TOPIC: 4321, **ENTRIES}.items():
                answer = await program.ask("POST", f"topic/{topic}", [value])
                assert answer == {"message": "Posted message to topic"}
            program.process.send_signal(signal.SIGKILL)
            await program.process.wait()
        async with started(tmp_path / "data", *arguments, headers=home.headers) as program:
            (held,) = (await status(program))["set_points"]
            assert (held["value"], held["by"], held["over"]) == (4321, "127.0.0.1", "")
            await program.until_there(f"{home.recipes}/demo_day", home.headers)
            file = tmp_path / "steady.json"
            file.write_text(json.dumps(STEADY))
            where = ("--url", program.address, "--set", f"couchdb.prefix={home.prefix}")
            user, password = database_server.auth or ("", "")
            login = {"GROWD_USER": user, "GROWD_PASSWORD": password}
            assert (await typed("recipe", "put", str(file), *where, **login)).status == 0
            assert (await typed("recipe", "start", "steady", *where)).status == 0
            printed = await typed("topic", "pub", TOPIC, "100", *where)
            assert printed.err.startswith(f"growd: {TOPIC}: overrides the recipe steady (8000 lux)")
            assert printed.err.endswith(f"until you release it: {RELEASE}\n")
            told = (await typed("status", *where)).out
            assert "light_illuminance 100 lux by hand, by 127.0.0.1, for" in told
            assert ", revision 1" in told
            assert "changed since" not in told
            assert (await typed("recipe", "put", str(file), *where, **login)).status == 0
            async with asyncio.timeout(PATIENCE_S):
                while not (await status(program))["recipes"][0]["changed"]:  # noqa: ASYNC110  no event announces it
                    await asyncio.sleep(0.5)
            assert "(changed since: revision 2 is in the database)" in (await typed("status", *where)).out
            assert (await typed("topic", "release", TOPIC, *where)).err.startswith(
                f"growd: {TOPIC}: released; now in force: the recipe"
            )
            values = await set_points_in_data(program, home)
            assert await entries_in_data(program, home) == list(ENTRIES.values())
        # restored (a kill may lose the first point), from the recipe, manual, released
        expected = [(4321, True), (8000, False), (100, True), (None, True)]
        assert list(dict.fromkeys(values)) == expected
