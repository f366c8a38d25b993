"""The hold of the whole program: over kill -9, a start, `growd safe`, and an upgrade without a login."""

import asyncio
import signal
import time

import pytest

from growd.host.hold import Hold, Holder, read_holds, release_hold, save_hold
from support.lasting_pins import LastingPins
from support.program import PATIENCE_S, heeding_hangups, home_on, said, started

pytestmark = pytest.mark.long

VALVE, OPEN = 23, 0
COMMAND = "topic/environment_1/commanded/air_carbon_dioxide_valve_on"
CONFIG = """
[simulator]
enabled = false
[[sensor]]
name = "lux"
kind = "bh1750"
[[output]]
name = "valve"
pin = 23
variable = "air_carbon_dioxide_valve_on"
active = "low"
needs = ""
"""


class Chamber:
    """Pins, a configuration and a data folder; `start` runs growd with them."""

    def __init__(self, folder, home):
        self.pins = LastingPins(folder)
        self.data = folder / "data"
        self.data.mkdir()
        self.config = folder / "growd.toml"
        self.config.write_text(CONFIG)
        self._home = home

    def start(self):
        return started(
            self.data, "--config", str(self.config), *self._home, environment=self.pins.environment
        )

    async def safe(self, *arguments, url=""):
        """`growd safe`: the exit status and the output."""
        known = ("--url", f"{url}/_svc") if url else ("--data", str(self.data), "--config", str(self.config))
        with self.pins.here():
            return await asyncio.to_thread(said, "safe", *arguments, *known)

    async def upgrade(self, reason):
        hold = Hold(Holder.UPGRADE, reason, "growd upgrade", time.time())
        await asyncio.to_thread(save_hold, self.data, hold)

    def is_open(self):
        return self.pins.levels()[VALVE] == OPEN

    def was_opened(self, mark):
        return (VALVE, OPEN) in self.pins.history()[mark:]


@pytest.fixture
async def chamber(tmp_path, database_server):
    async with home_on(database_server, shared=True) as home:
        yield await asyncio.to_thread(Chamber, tmp_path, home.arguments)


async def commanding(program, until):
    """Command the valve to open until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not until():
            await program.ask("POST", COMMAND, [1])
            await asyncio.sleep(0.05)


async def commanding_in_vain(program):
    """Command the valve to open, which growd drops."""
    answer = await program.ask("POST", COMMAND, [1])
    assert answer["hint"].startswith("is dropped: all outputs are safe since ")


async def test_a_hold_is_set_and_released_with_and_without_growd_and_survives_kills_and_starts(chamber):
    chamber.pins.left({VALVE: OPEN})  # as if growd and the keeper of pins had been killed
    status, printed = await chamber.safe("--hold", "gas bottle")
    assert (status, chamber.is_open()) == (0, False)
    first, second = printed.splitlines()
    assert first.startswith("the next start begins held: all outputs are safe since ")
    assert second == "valve: GPIO 23 is high, its safe level"
    mark = len(chamber.pins.history())
    async with chamber.start() as program:
        assert "all outputs are safe since " in program.printed
        await commanding_in_vain(program)
        assert not chamber.was_opened(mark)
        status, printed = await chamber.safe("--release", url=program.address)
        assert (status, printed) == (0, "the hold is released\n")
        await commanding(program, chamber.is_open)
        status, printed = await chamber.safe("--hold", "cleaning", url=program.address)
        assert (status, chamber.is_open()) == (0, False), printed
        assert printed.startswith("all outputs are safe since ")
        assert printed.endswith(" by 127.0.0.1: cleaning; release with `growd safe --release`\n")
        mark = len(chamber.pins.history())
        program.process.kill()
        await program.process.wait()
    assert await chamber.safe() == (0, "valve: GPIO 23 is high, its safe level\n")  # as the service does then
    async with chamber.start() as program:
        await commanding_in_vain(program)
        assert not chamber.was_opened(mark)
        program.process.kill()
        await program.process.wait()
    assert await chamber.safe("--release") == (0, "the hold is released\n")
    assert await chamber.safe("--release") == (0, "there was no hold to release\n")
    async with chamber.start() as program:
        await commanding(program, chamber.is_open)
        await program.end(signal.SIGTERM)
    assert not chamber.is_open()


async def test_an_upgrade_holds_by_file_and_hangup_and_a_growd_that_is_away_reads_holds_later(
    chamber,
):
    await chamber.upgrade("trial of 9.9")
    with heeding_hangups():
        async with chamber.start() as program:
            await commanding_in_vain(program)
            assert not chamber.was_opened(0)
            status, printed = await chamber.safe("--release", url=program.address)
            assert (status, chamber.is_open()) == (0, False)
            assert "still held: all outputs are safe since " in printed
            await asyncio.to_thread(release_hold, chamber.data, Holder.UPGRADE)
            program.process.send_signal(signal.SIGHUP)
            await commanding(program, chamber.is_open)
            await chamber.upgrade("another trial")
            program.process.send_signal(signal.SIGHUP)
            await commanding(program, lambda: not chamber.is_open())
            nowhere = ("--url", "http://127.0.0.1:1/_svc")
            with chamber.pins.here():
                held = ("safe", "--hold", "x", "--data", str(chamber.data), *nowhere)
                status, printed = await asyncio.to_thread(said, *held)
            assert status == 1
            assert "reads the hold at its next start, or at `systemctl reload growd`" in printed
            assert f"(process {program.process.pid}), but no daemon answers at http://127.0.0.1:1" in printed
            holders = {hold.holder for hold in await asyncio.to_thread(read_holds, chamber.data)}
            assert holders == {Holder.PERSON, Holder.UPGRADE}


def test_a_hold_needs_a_data_folder_that_exists(tmp_path):
    status, printed = said("safe", "--hold", "--data", str(tmp_path / "none"))
    assert (status, (tmp_path / "none").exists()) == (1, False)
    assert f"there is no data folder {tmp_path / 'none'}; name it with --data" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--hold", "x", "--release"), "--hold and --release exclude each other"),
        (("--hold", "x" * 201), "expected at most 200 characters"),
    ],
)
def test_wrong_options_change_nothing(arguments, words, tmp_path):
    status, printed = said("safe", *arguments, "--data", str(tmp_path))
    assert (status, words in printed) == (2, True), printed
    assert list(tmp_path.iterdir()) == []
