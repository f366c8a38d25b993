"""Changes of the recipe, with kill -9 of the whole program at any moment."""

import asyncio
import random
import signal
from contextlib import suppress

import aiohttp
import pytest

from support.program import home_on, started
from support.waiting import until_found

LIGHT = "light_illuminance"
ENVIRONMENT = "environment_1"


def recipe(number):
    """Its revision sets the lamp to so many lux."""
    return {"format": "simple", "operations": [[0, LIGHT, 1_000 + number], [36_000, LIGHT, 0]]}


class Chamber:
    """The data folder and database of a program that is killed again and again."""

    def __init__(self, folder, home):
        self._folder = folder
        self._home = home

    def start(self):
        arguments = (*self._home.arguments, "--profile", "sim")
        return started(self._folder / "data", *arguments, headers=self._home.headers)

    async def store(self, program, document):
        """Store the recipe `mine`; the new revision."""
        present = (await program.documents(self._home.recipes)).get("mine", {})
        body = document | {name: value for name, value in present.items() if name == "_rev"}
        return (await program.ask("PUT", f"/{self._home.recipes}/mine", body))["rev"]

    async def documents(self, program):
        """All documents of runs that have ended, once there is one."""

        async def ended():
            found = await program.documents(f"{self._home.prefix}recipe_run")
            return [each for each in found.values() if each.get("ended")]

        return await until_found(ended, AssertionError)


async def ask(program, service, **arguments):
    return await program.ask("POST", f"service/{ENVIRONMENT}/{service}", arguments)


async def last(program, topic):
    with suppress(AssertionError):  # no message yet
        return (await program.ask("GET", f"topic_data/{ENVIRONMENT}/{topic}?last=true")).get("result")


async def until_state(program, state):
    async def found():
        said = await last(program, "recipe_state") or {}
        return said if said.get("state") == state else None

    return await until_found(found)


async def set_point(program):
    """The set point of the lamp, once there is one."""
    return await until_found(lambda: last(program, f"desired/{LIGHT}"))


async def kill(program):
    program.process.send_signal(signal.SIGKILL)
    await program.process.wait()


@pytest.fixture
async def chamber(tmp_path, database_server):
    async with home_on(database_server) as home:
        yield Chamber(tmp_path, home)


async def change_and_kill(program, moment):
    """Kill the program so many seconds after the request; whether the change was acknowledged."""
    call = asyncio.create_task(ask(program, "change_recipe"), name="change")
    await asyncio.wait({call}, timeout=moment)
    await kill(program)
    with suppress(aiohttp.ClientError):
        return (await call)["success"]
    return False


@pytest.mark.kill
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [2, pytest.param(12, marks=pytest.mark.nightly)])
async def test_a_change_at_the_moment_of_a_kill_is_whole_or_not_there(chamber, kills):
    chance = random.Random(16)
    allowed, seen = {1_000}, []
    async with chamber.start() as program:
        await program.until_there(f"{chamber._home.recipes}/demo_day", chamber._home.headers)
        revisions = {await chamber.store(program, recipe(0)): 1_000}
        assert (await ask(program, "start_recipe", recipe_id="mine"))["success"]
        await kill(program)
    for number in range(1, kills + 1):
        async with chamber.start() as program:
            await until_state(program, "running")
            lux = await set_point(program)
            assert lux in allowed
            seen.append(lux)
            await program.until_there(f"{chamber._home.recipes}/mine", chamber._home.headers)
            revisions[await chamber.store(program, recipe(number))] = 1_000 + number
            was_acknowledged = await change_and_kill(program, chance.uniform(0, 0.06))
            allowed = {1_000 + number} if was_acknowledged else {lux, 1_000 + number}
    async with chamber.start() as program:
        await until_state(program, "running")
        seen.append(await set_point(program))
        assert seen[-1] in allowed
        assert (await ask(program, "stop_recipe"))["success"]
        (document,) = await chamber.documents(program)
    ran = [document, *document["revisions"]]
    assert [revisions[each["recipe_rev"]] for each in ran] == list(dict.fromkeys(seen))
    assert [each["recipe"]["operations"][0][2] for each in ran] == list(dict.fromkeys(seen))
    elapsed = [each["elapsed"] for each in ran[1:]]
    assert elapsed == sorted(elapsed)
