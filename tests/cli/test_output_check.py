"""`growd check --outputs` on a running growd, and its result in the record and the report of a run."""

import asyncio
import json
import signal

import pytest

from support.program import home_on, started
from support.terminal import begun, typed

pytestmark = pytest.mark.long

TESTED = ["light_intensity_white", "heater", "circulation"]


async def test_the_running_growd_tests_outputs_and_keeps_the_result_in_the_run(tmp_path, database_server):
    async with (
        home_on(database_server, shared=True) as home,
        started(tmp_path / "data", "--profile", "climate", *home.arguments, "--speed", "50") as program,
    ):
        await program.until_there(f"{home.recipes}/demo_day", home.headers)
        where = ("--url", program.address, "--set", f"couchdb.prefix={home.prefix}")
        user, password = database_server.auth or ("", "")

        async def ask(*arguments):
            printed = await typed(*arguments, *where, GROWD_USER=user, GROWD_PASSWORD=password)
            return printed.status, printed.out

        status, out = await ask("check", "--outputs", *TESTED)
        assert status == 0, out
        assert out.splitlines()[-1] == "2 passed, 0 failed, 1 not tested"
        await ask("service", "call", "simulator/inject_fault", "kind=without_effect", "device=heater")
        status, out = await ask("check", "--outputs", "heater", "--json")
        assert status == 1
        (found,) = json.loads(out)["results"]
        assert (found["name"], found["outcome"]) == ("heater", "failed")

        await ask("recipe", "start", "demo_day")
        status, out = await ask("check", "--outputs")
        assert status == 1
        async with asyncio.timeout(60):
            while not (runs := json.loads((await ask("run", "list", "--json"))[1])):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        _, out = await ask("run", "show", runs[0]["short_id"], "--json")
        (kept,) = json.loads(out)["run"]["self_test"]["results"]
        assert kept["reason"] == found["reason"]
        report = tmp_path / "report.html"
        await ask("run", "report", runs[0]["short_id"], "-o", str(report))
        assert "0 passed, 1 failed, 0 not tested" in report.read_text()


async def test_options_that_do_not_fit_are_refused():
    for arguments, named in (
        (("heater",), "--outputs"),
        (("--include", "acid"), "--outputs"),
        (("--outputs", "--hardware"), "--hardware"),
        (("--outputs", "--pi"), "--pi"),
    ):
        printed = await typed("check", *arguments)
        assert (printed.status, named in printed.err) == (2, True), printed.err


async def test_ctrl_c_stops_the_test(tmp_path):
    async with (
        started(tmp_path, "--profile", "climate") as program,
        begun("check", "--outputs", "heater", "--url", program.address) as check,
    ):
        assert b"heater" in await check.stderr.readline()
        check.send_signal(signal.SIGINT)
        assert await check.wait() == 130
        async with asyncio.timeout(30):
            while (await typed("status", "--json", "--url", program.address)).json["experiments"]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
