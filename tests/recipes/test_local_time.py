"""Values held from an earlier day, over a DST change."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from support.recipes import LIGHT, Chamber

BERLIN = ZoneInfo("Europe/Berlin")


async def test_a_light_stays_off_after_its_phase_when_dst_ends():
    daily = {LIGHT: [{"at": "06:00", "value": 8000}, {"at": "23:30", "value": 0}]}
    evening = {"duration": 2.5, "time_units": "hours", "daily": daily}
    night = {"duration": 8, "time_units": "hours"}
    chamber = Chamber()
    chamber.zone, chamber.period_s = BERLIN, 30.0
    chamber.recipes["evening"] = {"format": "phased", "phases": [evening, night]}
    chamber.clock.step(datetime(2026, 10, 24, 21, 30, tzinfo=BERLIN).timestamp() - chamber.clock.time())
    async with chamber.on():
        await chamber.start("evening")
        assert chamber.set_points() == {LIGHT: 8000}
        for _ in range(12):  # until 02:30, after 02:59 was there once
            await chamber.clock.advance(1_800)
            seen = chamber.set_points()
        assert seen == {LIGHT: 0}
