"""growd on a root that keeps nothing: a real overlay, with its changes in memory."""

import asyncio
import signal
from contextlib import asynccontextmanager

import pytest

from growd_machine.data_folder import memory_below
from support.lasting_pins import LastingPins
from support.mount_namespace import on_read_only_root
from support.program import home_on, started

pytestmark = pytest.mark.long

CHAMBER = """
[simulator]
enabled = false
[[sensor]]
name = "lux"
kind = "bh1750"
[[output]]
name = "fan"
pin = 23
variable = "air_flush_on"
"""


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(CHAMBER)
    return file


async def test_a_data_folder_in_the_overlay_is_reported_and_lost(config, tmp_path, database_server):
    data = tmp_path / "data"
    async with home_on(database_server, shared=True) as home, run(data, config, home) as program:
        assert "is in memory" in program.printed
        problems = str(await program.ask("GET", "node/status"))
        assert f"the data folder {data} is in memory (an overlay with its changes in tmpfs)" in problems
        await program.end(signal.SIGTERM)
    assert not data.exists()


async def test_a_data_folder_on_a_disk_of_its_own_survives_power_cuts(config, tmp_path, database_server):
    if await asyncio.to_thread(memory_below, tmp_path):
        pytest.skip("the folder of this test is in memory")
    disk = tmp_path / "disk"
    disk.mkdir()
    async with home_on(database_server, shared=True) as home:
        async with run(disk / "data", config, home, disk=str(disk)) as program:
            await program.ask("POST", "param/grower/note", {"value": "basil"})
            assert "is in memory" not in program.printed
            await program.end(signal.SIGKILL)
        async with run(disk / "data", config, home, disk=str(disk)) as program:
            note = await program.ask("GET", "param/grower/note")
            assert note["result"] == "basil"


@asynccontextmanager
async def run(data, config, home, disk=""):
    pins = LastingPins(config.parent)
    inside = await asyncio.to_thread(on_read_only_root, disk)
    arguments = ("--config", str(config), *home.arguments)
    async with started(data, *arguments, environment=pins.environment, inside=inside) as program:
        yield program
