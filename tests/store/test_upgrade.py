"""The data folder of an older growd, in the formats that it wrote, can be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from growd.store.journal import RunJournal, SetPointKeeper
from growd.store.local import LocalStore
from growd.store.points import PointMaker
from support.clock import ManualClock
from support.outbox import opened

if TYPE_CHECKING:
    from pathlib import Path

DEVICE = "9782d5dcf927"

# The blocks of points.log: points 1 and 2.5; an event, a set point and a note; point 5, which releases two.
FRAMES = (
    (
        b"gLOG\xd6\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        b"\x00\x00\x00\x00\x00\x00C\xa9\xc0\xb2"
        b'["9782d5dcf927:1700000001000-2ca83ac510","environment_1","air_temperature",false,false,1,1700'
        b'000001.0,""]\n'
        b'["9782d5dcf927:1700000002500-10784c604c","environment_1","air_temperature",false,false,2.5,17'
        b'00000002.5,""]\n'
    ),
    (
        b"gLOG\x06\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        b"\x00\x00\x00\x00\x00\x00\x87\xba\xa6;"
        b'["9782d5dcf927:1700000003000-9081e1dbac","environment_1","air_temperature",false,true,3,17000'
        b'00003.0,"event"]\n'
        b'["9782d5dcf927:1700000004000-9fe8652200","environment_1","air_temperature",true,false,4,17000'
        b'00004.0,""]\n'
        b'{"environment_1":["4f8d31db",60.0,61,0.0,61.0]}'
    ),
    (
        b"gLOG\x99\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x02\x00"
        b"\x00\x00\x00\x00\x00\x00\xacI\xdb-"
        b'["9782d5dcf927:1700000005000-f71d6a8804","environment_1","air_temperature",false,false,5,1700'
        b'000005.0,""]\n'
        b'{"environment_1":["4f8d31db",60.0,61,0.0,61.0]}'
    ),
)

TABLES = """
CREATE TABLE waiting (number INTEGER PRIMARY KEY, point TEXT NOT NULL);
CREATE TABLE rejected (
    id TEXT PRIMARY KEY, point TEXT NOT NULL, reason TEXT NOT NULL, rejected_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE parameters (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 2;
"""
START = f'["{DEVICE}:1700000000000-48226f57d6","environment_1","recipe_start",true,false,"basil",1.7e9,""]'
REFUSED = f'["{DEVICE}:1700000002500-10784c604c","environment_1","air_temperature",false,false,2.5,1.7e9,""]'
STATE = {
    "device": f'"{DEVICE}"',
    "environment_1/recipe_progress": (
        '{"recipe_id":"basil","elapsed":5.0,"seen":1,"lasted":0.0,"monotonic":6.0,"serial":"4f8d31db"}'
    ),
    "environment_1/recipe_run": (
        '{"recipe_id":"basil","recipe":{"note":"x"},"elapsed":0.0,"seen":1,"lasted":0.0,"monotonic":1.0}'
    ),
    "environment_1/set_points": '{"air_temperature":{"value":20}}',
}


def write_folder(folder: Path) -> None:
    (folder / "points.log").write_bytes(
        b"".join(frame.ljust(512, b"\0") for frame in FRAMES).ljust(8192, b"\0")
    )
    with closing(sqlite3.connect(folder / "growd.sqlite3")) as file:
        file.executescript(TABLES)
        file.execute("INSERT INTO waiting VALUES (1, ?)", (START,))
        file.execute("INSERT INTO rejected VALUES (?, ?, 'forbidden: no', 1.7e9)", (REFUSED[2:44], REFUSED))
        file.execute("INSERT INTO parameters VALUES ('a/b', '1.5')")
        file.executemany("INSERT INTO state VALUES (?, ?)", STATE.items())
        file.commit()


async def test_the_data_folder_of_an_older_growd_is_read(tmp_path: Path):
    write_folder(tmp_path)
    local = await LocalStore.open(tmp_path / "growd.sqlite3")
    async with opened(local, ManualClock()) as outbox:
        assert (local.device, local.notices, outbox.notices) == (DEVICE, [], [])
        points = [waiting.point for waiting in await outbox.next_batch(10)]
        assert [point.value for point in points] == ["basil", 3, 4, 5]
        assert [point.category or point.is_desired for point in points] == [True, "event", True, False]
        (rejected,) = await outbox.rejected()
        assert (rejected.point.value, rejected.reason) == (2.5, "forbidden: no")
        assert await local.parameters() == {"a/b": 1.5}
        run = await RunJournal(local, outbox, PointMaker(DEVICE), "environment_1").load()
        assert run is not None
        assert (run["recipe"], run["elapsed"], run["seen"]) == ({"note": "x"}, 60.0, 61)
        assert await SetPointKeeper(local, "environment_1").load() == {"air_temperature": {"value": 20}}
    await local.close()
