"""`growd pump` in a terminal, against a running growd with a worn pump."""

import signal

import aiohttp
import pytest

from growd_commissioning.pump_calibration import PLAN
from support.program import started
from support.terminal import typed

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]
ACID = """
[[output]]
name = "acid"
variable = "nutrient_ph_down"
pin = 5
flow_ml_min = 30
needs = ""
"""
STEPS = "\n\n" * len(PLAN)  # Enter runs the pump, Enter takes what is in the simulated cylinder


def arguments(tmp_path):
    config = tmp_path / "growd.toml"
    config.write_text(ACID)
    return "--config", str(config), "--speed", "10"


async def pump(program, *words, answers=None):
    return await typed("pump", *words, "--url", f"{program.address}/_svc", answers=answers)


async def listed(program):
    [found] = (await pump(program, "list", "--json")).json
    return found


async def posted(program, service, **given):
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{program.api}/service/{service}", json=given) as answer,
    ):
        return answer.status, (await answer.json()).get("message", "")


async def test_a_person_is_guided_through_a_calibration_which_outlasts_a_kill(tmp_path):
    given = arguments(tmp_path)
    async with started(tmp_path / "data", *given) as program:
        fault = {"kind": "weak", "device": "ph_down", "amount": 0.8}
        assert (await posted(program, "simulator/inject_fault", **fault))[0] == 200
        before = await listed(program)
        assert (before["ml_min"], before["dead_s"], before["last"]) == (30, 0, None)
        printed = await pump(program, "calibrate", "acid", answers=f"y\nn\n{STEPS}y\n")
        assert printed.status == 0, printed.out + printed.err
        after = await listed(program)
        assert after["ml_min"] == pytest.approx(24, rel=0.08)  # at ten times the speed
        assert after["last"]["after"] == after["ml_min"]
        assert len(after["last"]["points"]) == len(PLAN)
        await program.end(signal.SIGKILL)
    async with started(tmp_path / "data", *given) as program:
        assert (await listed(program))["ml_min"] == after["ml_min"]
        lines = (await pump(program, "list")).out.splitlines()
        assert lines[0].split() == ["pump", "variable", "ml/min", "dead", "s", "calibrated", "by", "due"]
        assert lines[1].split()[:2] == ["acid", "nutrient_ph_down"]
        assert float(lines[1].split()[2]) == pytest.approx(after["ml_min"], rel=1e-4)


async def test_who_ends_it_changes_nothing_and_refusals_name_what_is_wrong(tmp_path):
    base = "environment_1/pump_calibration"
    async with started(tmp_path / "data", *arguments(tmp_path)) as program:
        for answers in ("n\n\nq\n", "n\n\n", f"n\n{STEPS}n\n"):
            printed = await pump(program, "calibrate", "acid", answers=answers)
            assert printed.status == 1, printed.out
            cancelled = await pump(program, "cancel", "acid")
            assert (cancelled.status, cancelled.err) == (1, "growd: no calibration of acid is open\n")
            assert (await listed(program))["ml_min"] == 30
        answers = "n\n" + "\nr\n" + "\nmuch\n1,75\n" + "\nq\n"
        printed = await pump(program, "calibrate", "acid", answers=answers)
        assert "much is not a number" in printed.out
        assert "dose 1: 1.75 ml" in printed.out
        assert printed.out.count("acid gives a dose") == 3

        printed = await pump(program, "calibrate", "base")
        assert (printed.status, printed.out) == (1, "")
        assert printed.err == "growd: pump: there is no dosing pump base; there is acid\n"
        status, message = await posted(program, f"{base}/save")
        assert (status, message[:28]) == (400, "no pump is being calibrated;")
        assert (await posted(program, f"{base}/begin", pump="acid"))[0] == 200
        assert (await posted(program, f"{base}/measured", ml=-1))[0] == 400
        assert (await posted(program, f"{base}/dose", seconds=60))[0] == 400
        assert (await posted(program, f"{base}/dose", seconds=4_000))[0] == 400
        printed = await pump(program, "calibrate", "acid")
        assert printed.status == 1
        assert "calibrates acid; save or cancel that" in printed.err
        assert (await pump(program, "cancel", "base")).status == 1
        command = printed.err.partition("growd pump ")[2].split()
        assert (await pump(program, *command)).status == 0
        assert (await pump(program, "cancel", "acid")).status == 1
        assert (await posted(program, f"{base}/begin", pump="acid"))[0] == 200


async def test_a_chamber_without_pumps_says_so(tmp_path):
    async with started(tmp_path / "data") as program:
        for words in (["list"], ["calibrate", "acid"], ["cancel", "acid"]):
            printed = await pump(program, *words)
            assert (printed.status, printed.out) == (1, "")
            assert printed.err == "growd: environment_1 has no dosing pumps\n"
