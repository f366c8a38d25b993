"""The real `growd upgrade` between two real versions, with simulated hardware."""

import asyncio
import json
import re

import pytest
import pytest_asyncio

from support.couch_client import client_of
from support.installed import NEW, OLD, installed
from support.ports import held_port
from support.program import home_on

pytestmark = [pytest.mark.kill, pytest.mark.timeout(300)]

TRIAL_S = "4"
ADD = "    def add(self, point: DataPoint) -> None:\n"
NO_POINTS = f"{ADD}        return\n\n    def _add(self, point: DataPoint) -> None:\n"


@pytest_asyncio.fixture
async def home(database_server):
    async with home_on(database_server, shared=True) as made:
        yield made


@pytest_asyncio.fixture
async def machine(tmp_path, home):
    settings = dict(setting.split("=", 1) for setting in home.settings)
    with held_port() as port:
        configuration = f"""
            [http]
            port = {port}
            [simulator]
            enabled = true
            speed = 20
            [couchdb]
            url = "{settings["couchdb.url"]}"
            prefix = "{settings["couchdb.prefix"]}"
        """
        async with installed(tmp_path / "root", configuration) as made:
            yield made


async def status_of(machine):
    config = machine.root / "etc/growd/growd.toml"
    _, printed = await machine.growd("status", "--json", "--config", config)
    return json.loads(printed)


async def test_an_upgrade_and_the_way_back_keep_all_points(machine, home, database_server):
    assert (await status_of(machine))["machine"]["growd_version"] == OLD
    status, printed = await machine.upgrade(await asyncio.to_thread(machine.bundle), "--trial", TRIAL_S)
    assert status == 0, printed + machine.log("growd.service")
    assert f"growd {NEW} is installed." in printed
    assert "\n  compiling for Python 3." in printed
    assert machine.versions == (NEW, OLD)
    now = await status_of(machine)
    assert now["machine"]["growd_version"] == NEW
    assert now["holds"] == []
    assert json.loads((machine.home / "installed.json").read_text())["version"] == NEW

    status, printed = await machine.upgrade("--back", "--trial", TRIAL_S)
    assert status == 0, printed
    assert machine.versions == (OLD, NEW)
    now = await status_of(machine)
    assert now["store"]["dropped_ever"] == now["store"]["rejected"] == 0

    await machine.systemctl("stop", "growd.service")
    async with client_of(database_server.url, database_server.auth) as client:
        events = await documents(client, home.events)
        starts = sorted(each["timestamp"] for each in events if "growd started" in str(each["value"]))
        points = [each["timestamp"] for each in await documents(client, home.points)]
    assert len(starts) == 3
    for begin, end in zip(starts, [*starts[1:], float("inf")], strict=True):
        assert any(begin < moment < end for moment in points)


async def documents(client, database):
    answer = await client("GET", f"/{database}/_all_docs", include_docs=True)
    return [row["doc"] for row in answer.json["rows"] if not row["id"].startswith("_")]


READY = "                    on_ready(running)\n"
APP = "growd/wiring/app.py"


def after_a_second(what):
    later = f"                    asyncio.get_running_loop().call_later(1, {what})\n"
    return {APP: (READY, READY + later)}


REFUSED = {
    "does not start at all": (
        {"growd_cli/__main__.py": ("", "raise ImportError('a package')\n")},
        "ImportError: a package",
    ),
    "refuses the configuration": (
        {"growd_cli/check.py": ("    given = ()", "    refuse('light: no such option')\n    given = ()")},
        "can't use the configuration: .*light: no such option",
    ),
}
FAILING = {
    "cannot import a module": (
        {APP: ("", "raise ImportError('a package')\n")},
        "ended at its start.*: ImportError: a package",
    ),
    "crashes": (after_a_second("__import__('os')._exit, 3"), "ended"),
    "exits with 0": (after_a_second("__import__('os')._exit, 0"), "ended"),
    "hangs": (after_a_second("__import__('time').sleep, 1000"), "does not answer"),
    "answers 503": (
        {
            "growd/api/api.py": (
                "            response = await self._dispatch(request, path, query)\n",
                "            return web.Response(status=503)\n",
            )
        },
        "does not answer",
    ),
    "records no points": ({"growd/store/outbox.py": (ADD, NO_POINTS)}, "no point was recorded"),
    "ignores the hold": (
        {
            "growd/host/hold.py": (
                "    return [hold for holder in Holder",
                "    return [hold for holder in ()",
            )
        },
        "does not hold its outputs",
    ),
    "is another version": ({"growd/__init__.py": (NEW, "1.0.5")}, "growd 1.0.5 answers"),
}


DAILY = {"records no points"}  # found at the end of the trial


@pytest.mark.parametrize(
    "kind", ["refuses the configuration", pytest.param("does not start at all", marks=pytest.mark.nightly)]
)
async def test_a_version_that_is_refused_and_a_bundle_that_is_damaged_change_nothing(machine, kind):
    edits, words = REFUSED[kind]
    before = await asyncio.to_thread(lambda: machine.log("growd.service"))
    bundle = await asyncio.to_thread(machine.bundle, NEW, edits)
    status, printed = await machine.upgrade(bundle)
    assert status == 1
    assert re.search(words, printed), printed
    assert "Traceback" not in printed
    await asyncio.to_thread(lambda: bundle.write_bytes(bundle.read_bytes()[:200_000]))
    status, printed = await machine.upgrade(bundle)
    assert (status, "Traceback" in printed) == (1, False), printed
    await assert_untouched(machine)
    assert await asyncio.to_thread(lambda: machine.log("growd.service")) == before


async def assert_untouched(machine):
    assert machine.versions == (OLD, None)
    assert {path.name for path in (machine.home / "versions").iterdir()} == {f"{OLD}-old"}
    assert not (machine.home / "upgrade.json").exists()
    assert (await status_of(machine))["machine"]["growd_version"] == OLD


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in DAILY else pytest.mark.nightly) for kind in FAILING]
)
async def test_a_version_that_does_not_work_is_replaced_by_the_old_one(machine, kind):
    edits, words = FAILING[kind]
    bundle = await asyncio.to_thread(machine.bundle, NEW, edits)
    status, printed = await machine.upgrade(bundle, "--trial", TRIAL_S)
    assert status == 1
    last = printed.strip().splitlines()[-1]
    assert re.search(words, last), printed
    assert "Log: journalctl -u growd-upgrade -u growd" in last
    await assert_untouched(machine)
    now = await status_of(machine)
    assert now["holds"] == []
    (note,) = (each["text"] for each in now["problems"] if "upgrade" in each["text"])
    assert note.startswith(f"the upgrade to growd {NEW} failed: ")
    assert re.search(words, note)
