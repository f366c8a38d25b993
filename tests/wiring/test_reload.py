import asyncio
import logging
import os
import re
import signal
from contextlib import asynccontextmanager

import pytest

from growd.config import Config, ConfigError, load
from growd.wiring.reload import Reloader
from support.program import GROWD, PATIENCE_S, heeding_hangups, home_on


class Rig:
    """A file, and parts that take the options of some sections."""

    def __init__(self, file):
        self.file = file
        file.write_text("")
        self.taken = []
        self.reloader = Reloader(load(file, environ={}), lambda: load(file, environ={}))
        self.reloader.offer("store.max_age_s", "store.minimum_interval_s", apply=self.take)
        self.reloader.offer("topics", "access", apply=self.take)

    async def take(self, config):
        if config.store.max_age_s == 13:
            raise ConfigError("[store] max_age_s: is unlucky")
        self.taken.append(config)

    async def reload(self, text):
        self.file.write_text(text)
        await self.reloader.reload()


@pytest.fixture
def rig(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    return Rig(tmp_path / "growd.toml")


async def test_reloadable_options_change_and_the_others_are_logged(rig, caplog, said):
    await rig.reload("[store]\nmax_age_s = 7\nbudget_mb = 90\n[http]\nport = 1\nhost = 'localhost'\n")
    (config,) = rig.taken
    assert (config.store.max_age_s, config.store.budget_mb, config.http.port) == (7, 256, 5984)
    assert rig.reloader.config == config
    said([record.message for record in caplog.records])


async def test_a_pending_change_is_logged_at_each_reload(rig, caplog, said):
    await rig.reload("[http]\nport = 1\n")
    caplog.clear()
    await rig.reload("[http]\nport = 1\n[topics]\n'a/b' = 'std_msgs/String'\n")
    said([record.message for record in caplog.records])
    caplog.clear()
    await rig.reload("[topics]\n'a/b' = 'std_msgs/String'\n")
    said(caplog.messages)
    (config,) = rig.taken
    assert (list(config.topics), rig.reloader.config) == (["a/b"], config)


@pytest.mark.parametrize(
    ("text", "faults"), [("[http\n", 1), ("[http]\nprot = 1\n[store]\nmax_age_s = 'x'\nbudget_mb = 30\n", 2)]
)
async def test_an_invalid_file_changes_nothing_and_all_errors_are_logged(rig, caplog, text, faults):
    await rig.reload(text)
    assert rig.taken == []
    assert rig.reloader.config == Config()
    *told, last = caplog.messages
    assert len(told) == faults
    assert all(sentence.startswith(f"{rig.file}") for sentence in told)
    assert last == "the configuration is invalid; keeping the previous one"


async def test_a_component_that_refuses_its_options_does_not_affect_the_others(rig, caplog, said):
    await rig.reload("[store]\nmax_age_s = 13\n[topics]\n'a/b' = 'std_msgs/String'\n")
    (config,) = rig.taken
    assert (config.store.max_age_s, list(config.topics)) == (600, ["a/b"])
    said(caplog.messages)
    await rig.reload("[store]\nmax_age_s = 14\n[topics]\n'a/b' = 'std_msgs/String'\n")
    assert rig.reloader.config.store.max_age_s == 14


@pytest.fixture
def heeded_signals():
    with heeding_hangups():
        yield


@asynccontextmanager
async def at_a_terminal(*arguments):
    """growd with a terminal of its own, and our end of that."""
    ours, its = os.openpty()
    process = await asyncio.create_subprocess_exec(
        "setsid", "--ctty", str(GROWD), *arguments,
        stdin=its,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    os.close(its)
    try:
        yield process, ours
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process._transport.close()


@pytest.mark.long
async def test_sighup_reloads_the_file_and_without_its_terminal_stops_growd(
    tmp_path, heeded_signals, database_server
):
    file = tmp_path / "growd.toml"
    file.write_text("[retention]\nkeep_days = 30\n")
    arguments = ("run", "--port", "0", "--data", str(tmp_path / "data"), "--config", str(file))
    async with (
        home_on(database_server, shared=True) as home,
        at_a_terminal(*arguments, *home.arguments) as (process, terminal),
    ):
        await line_with(process, "Ctrl-C.")
        file.write_text("[retention]\nkeep_days = -1\n[http]\nhost = '::1'\n")
        process.send_signal(signal.SIGHUP)  # its terminal is there: this is no end of it
        assert await line_with(process, "keep_days") == (
            f"{file}:2: [retention] keep_days: must be a number from 0 to 36500, got -1"
        )
        file.write_text("[retention]\nkeep_days = 31\n[http]\nhost = '::1'\n")
        process.send_signal(signal.SIGHUP)
        assert (await line_with(process, "reloaded the configuration; changed")).endswith(
            ": [retention] keep_days"
        )
        assert (await line_with(process, "need a restart")).endswith(": [http] host")
        os.close(terminal)
        assert process.stdout is not None
        rest = await asyncio.wait_for(process.stdout.read(), PATIENCE_S)
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    assert b"outputs are safe" in rest
    assert b"Traceback" not in rest


async def line_with(process, words):
    assert process.stdout is not None
    while True:
        line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)).decode()
        assert line
        if words in line:
            return re.sub(r"^\S+ [A-Z]+ +", "", line.rstrip())
