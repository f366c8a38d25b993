"""What the program says to a user who asked for something that can't be."""

from __future__ import annotations

import json
import re
import socket
import sys
import types
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from growd.__main__ import main
from support.program import failed, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)


def one_sentence(printed: str) -> str:
    """The refusal; anything else that was printed is a log line, and never a traceback."""
    assert "Traceback" not in printed, printed
    sentences = [line for line in printed.splitlines() if line.startswith("growd: ")]
    assert len(sentences) == 1, printed
    return sentences[0]


async def test_help_names_every_option():
    status, printed = await failed("run", "--help")
    assert status == 0
    for option in ("--port", "--data", "--config", "--set", "--speed", "--faults"):
        assert option in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], "[http] port"),
        (["--port", "x"], "[http] port"),
        (["--speed", "0"], "[simulator] speed"),
        (["--speed", "fast"], "[simulator] speed"),
        (["--set", "http.prot=1"], "[http] prot: unknown option"),
        (["--config", "/nowhere/growd.toml"], "/nowhere/growd.toml: can't be read"),
        (["--faults", "/nowhere/faults.toml"], "/nowhere/faults.toml"),
        (["--set", "simulator.replay=/nowhere/day.csv"], "/nowhere/day.csv: can't be read: No such file"),
        (["--set", "couchdb.credentials_file=/nowhere/login"], "[couchdb] credentials_file"),
        (["--set", "simulator.enabled=false"], "simulated hardware"),
    ],
)
async def test_a_wrong_configuration_is_one_clear_sentence(tmp_path: Path, arguments: list[str], words: str):
    status, printed = await failed("run", "--data", str(tmp_path / "data"), *arguments)
    assert status != 0
    assert words in one_sentence(printed)


async def test_two_sensors_at_one_address_are_refused_by_name(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text(
        '[[sensor]]\nname = "upper"\nkind = "bh1750"\n'
        '[[sensor]]\nname = "lower"\nkind = "bh1750"\naddress = 0x23\n'
    )
    status, printed = await failed("run", "--data", str(tmp_path / "data"), "--config", str(file))
    assert status != 0
    assert "upper and lower are both at 0x23 on bus 1" in one_sentence(printed)


async def test_a_recording_that_is_broken_is_refused_with_its_line(tmp_path: Path):
    file = tmp_path / "day.csv"
    file.write_text("timestamp,variable,value\n1,air_temperature,20\n2,air_temperature,warm\n")
    arguments = ("--data", str(tmp_path / "data"), "--set", f"simulator.replay={file}")
    status, printed = await failed("run", *arguments)
    assert status != 0
    assert f"{file}: line 3: value 'warm' is no number" in one_sentence(printed)


async def test_a_port_in_use_is_said(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, printed = await failed("run", "--data", str(tmp_path), "--port", str(port))
    assert status != 0
    assert re.search(rf"^growd: port {port} on 127\.0\.0\.1 is in use", one_sentence(printed))


def test_ctrl_c_while_the_program_is_still_read_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch):
    class Interrupted(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "growd.cli", Interrupted("growd.cli"))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130


async def test_a_data_folder_in_use_is_said_and_the_other_goes_on(tmp_path: Path):
    async with started(tmp_path) as program:
        status, printed = await failed("run", "--data", str(tmp_path), "--port", "0")
        assert status != 0
        sentence = one_sentence(printed)
        assert str(tmp_path) in sentence
        assert f"in use by another growd (process {program.process.pid})" in sentence
        async with aiohttp.ClientSession() as session, session.get(f"{program.api}/node") as response:
            assert response.status == 200


async def test_a_data_folder_that_can_not_be_is_said(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    status, printed = await failed("run", "--data", str(tmp_path / "file" / "data"), "--port", "0")
    assert status != 0
    assert "can't be written to" in one_sentence(printed)


async def test_node_that_is_not_there_is_said_and_the_chamber_works_on(tmp_path: Path):
    async with started(tmp_path, "--set", "couchdb.node=/nowhere/node") as program:
        assert "can't be started with /nowhere/node" in program.printed
        async with aiohttp.ClientSession() as session:
            url = f"{program.api}/topic_data/environment_1/measured/air_carbon_dioxide"
            async with session.get(url) as response:
                assert response.status == 200
            async with session.get(f"{program.address}/recipes") as response:
                assert response.status == 503
                assert (await response.json())["error"]


async def test_another_name_serves_old_clients(tmp_path: Path):
    options = ("--set", "http.name=openag")
    async with started(tmp_path, *options) as program, aiohttp.ClientSession() as session:
        async with session.get(f"{program.address}/_openag/api/0.0.1/node") as response:
            assert response.status == 200
        view = f"{program.address}/environmental_data_point/_design/openag/_view/by_variable"
        async with session.get(view) as response:
            assert response.status == 200


async def test_faults_strike_and_are_told(tmp_path: Path):
    faults = tmp_path / "faults.toml"
    faults.write_text('[[fault]]\ndevice = "scd30"\nkind = "absent"\n')
    options = ("--faults", str(faults), "--speed", "10")
    async with started(tmp_path / "data", *options) as program, aiohttp.ClientSession() as session:
        stream = f"{program.api}/topic_stream/environment_1/diagnostics/scd30_1"
        async with session.get(stream) as response:
            told = [line async for line in until_level_2(response.content)]
        assert b"SCD30" in told[-1]
        url = f"{program.api}/topic_data/environment_1/measured/light_illuminance"
        async with session.get(url) as response:
            assert (await response.json())["quality"] == "ok"


async def until_level_2(lines: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    async for line in lines:
        yield line
        if json.loads(line)["value"]["level"] == 2:
            return
