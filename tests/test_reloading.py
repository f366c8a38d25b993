from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from typing import TYPE_CHECKING

import pytest

from growd.config import Config, ConfigError, load
from growd.reloading import Reloader
from support.program import GROWD, PATIENCE_S, Program, heeding_hangups, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Rig:
    """A file, and parts that take the options of some sections."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_text("")
        self.taken: list[Config] = []
        self.reloader = Reloader(load(file, environ={}), lambda: load(file, environ={}))
        self.reloader.offer("store.batch", "store.max_batch", apply=self.take)
        self.reloader.offer("topics", "access", apply=self.take)

    async def take(self, config: Config) -> None:
        if config.store.batch == 13:
            raise ConfigError("[store] batch: is unlucky")
        self.taken.append(config)

    async def reload(self, text: str) -> None:
        self.file.write_text(text)
        await self.reloader.reload()


@pytest.fixture
def rig(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Rig:
    caplog.set_level(logging.INFO)
    return Rig(tmp_path / "growd.toml")


async def test_what_can_change_does_and_the_rest_is_named(rig: Rig, caplog):
    await rig.reload("[store]\nbatch = 7\nmax_age_s = 9\n[http]\nport = 1\nhost = 'localhost'\n")
    (config,) = rig.taken
    assert (config.store.batch, config.store.max_age_s, config.http.port) == (7, 600, 5984)
    assert rig.reloader.config == config
    assert [record.message for record in caplog.records] == [
        "the configuration was read again; in force from now on: [store] batch",
        "changed, but in force only after a restart of growd: [http] host, [http] port, [store] max_age_s",
    ]


async def test_a_section_can_be_taken_as_a_whole(rig: Rig):
    await rig.reload("[access]\nanswer_s = 5\noutage_s = 6\n")
    (config,) = rig.taken
    assert (config.access.answer_s, config.access.outage_s) == (5, 6)
    assert rig.reloader.config == config


async def test_what_stays_behind_is_named_again_until_it_is_undone(rig: Rig, caplog):
    await rig.reload("[http]\nport = 1\n")
    caplog.clear()
    await rig.reload("[http]\nport = 1\n[topics]\n'a/b' = 'std_msgs/String'\n")
    assert [record.message for record in caplog.records] == [
        "the configuration was read again; in force from now on: [topics]",
        "changed, but in force only after a restart of growd: [http] port",
    ]
    caplog.clear()
    await rig.reload("[topics]\n'a/b' = 'std_msgs/String'\n")
    assert caplog.messages == ["the configuration was read again: nothing has changed"]
    assert len(rig.taken) == 1


@pytest.mark.parametrize(
    ("text", "faults"), [("[http\n", 1), ("[http]\nprot = 1\n[store]\nbatch = 'x'\nmax_batch = 3\n", 2)]
)
async def test_a_file_that_is_wrong_changes_nothing_and_all_of_it_is_told(
    rig: Rig, caplog, text: str, faults: int
):
    await rig.reload(text)
    assert rig.taken == []
    assert rig.reloader.config == Config()
    *told, last = caplog.messages
    assert len(told) == faults
    assert all(sentence.startswith(f"{rig.file}") for sentence in told)
    assert last == "the configuration was not taken: everything goes on as before"


async def test_a_part_that_can_not_take_its_options_keeps_the_others_from_nothing(rig: Rig, caplog):
    await rig.reload("[store]\nbatch = 13\n[topics]\n'a/b' = 'std_msgs/String'\n")
    (config,) = rig.taken
    assert (config.store.batch, list(config.topics)) == (500, ["a/b"])
    assert caplog.messages == [
        "[store] batch: is unlucky; as before goes on [store] batch",
        "the configuration was read again; in force from now on: [topics]",
    ]
    await rig.reload("[store]\nbatch = 14\n[topics]\n'a/b' = 'std_msgs/String'\n")
    assert rig.reloader.config.store.batch == 14


@pytest.fixture
def heeded_signals() -> Iterator[None]:
    with heeding_hangups():
        yield


async def test_systemctl_reload_takes_what_it_can_and_says_the_rest(tmp_path: Path, heeded_signals: None):
    file = tmp_path / "growd.toml"
    file.write_text("[http]\ntopic_data_s = 1\n")
    async with started(tmp_path / "data", "--config", str(file)) as program:
        file.write_text("[http]\ntopic_data_s = 0\nhost = '::1'\n")
        program.process.send_signal(signal.SIGHUP)
        assert await line_with(program, "topic_data_s") == (
            f"{file}:2: [http] topic_data_s: must be a number above 0 to 3600, got 0"
        )
        file.write_text("[http]\ntopic_data_s = 2\nhost = '::1'\n")
        program.process.send_signal(signal.SIGHUP)
        assert (await line_with(program, "in force from now on")).endswith(": [http] topic_data_s")
        assert (await line_with(program, "after a restart")).endswith(": [http] host")
        status, rest = await program.end(signal.SIGTERM)
    assert (status, "Traceback" in rest) == (0, False)


async def line_with(program: Program, words: str) -> str:
    assert program.process.stdout is not None
    while True:
        line = (await asyncio.wait_for(program.process.stdout.readline(), PATIENCE_S)).decode()
        assert line
        if words in line:
            return re.sub(r"^\S+ [A-Z]+ +", "", line.rstrip())


async def test_the_end_of_its_terminal_ends_it_with_outputs_safe(tmp_path: Path, heeded_signals: None):
    ours, its = os.openpty()
    arguments = ("run", "--port", "0", "--data", str(tmp_path / "data"))
    process = await asyncio.create_subprocess_exec(
        "setsid", "--ctty", str(GROWD), *arguments, stdin=its, stdout=asyncio.subprocess.PIPE
    )
    try:
        os.close(its)
        assert process.stdout is not None
        await asyncio.wait_for(process.stdout.readuntil(b"Ctrl-C.\n"), PATIENCE_S)
        process.send_signal(signal.SIGHUP)  # its terminal is there: this is no end of it
        os.close(ours)
        rest = await asyncio.wait_for(process.stdout.read(), PATIENCE_S)
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert b"outputs are safe" in rest
