"""Times on the command line are in the time zone of the daemon's chambers, on whatever machine."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import click
import pytest

from growd_cli.times import span_in, unix_time_in, zone_of
from growd_client.address import address_from
from growd_client.connection import DaemonClient
from growd_client.errors import UsageError
from support.daemon import serving_in_a_thread
from support.program import started
from support.terminal import typed

BERLIN = ZoneInfo("Europe/Berlin")
AHEAD = "Pacific/Kiritimati"  # 14 h ahead of UTC, where no test machine is


def in_berlin(text, now=1_795_400_000.0, **how):
    return unix_time_in(lambda: BERLIN, text, now, option="--at", **how)


def at(text, zone=BERLIN):
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def test_a_time_is_in_the_zone_of_the_chamber_unless_it_names_its_own():
    assert in_berlin("1795500000") == in_berlin("2026-11-24T06:00Z") == 1_795_500_000
    assert in_berlin("2026-11-24 06:00") == 1_795_496_400
    assert in_berlin("2026-11-24") == 1_795_474_800


def test_a_time_of_day_is_the_next_or_the_last_one():
    for now, following, last in (("05:59", 24, 23), ("06:00", 25, 24), ("23:00", 25, 24)):
        present = at(f"2026-11-24T{now}")
        assert in_berlin("06:00", present, is_next=True) == at(f"2026-11-{following}T06:00")
        assert in_berlin("06:00", present) == at(f"2026-11-{last}T06:00")


def test_an_end_without_a_date_follows_its_start():
    for start, end, later_s in (
        ("18:00", "20:00", 7_200),
        ("18:00", "18:30", 1_800),
        ("22:00", "06:00", 28_800),
    ):
        begin, until = span_in(lambda: BERLIN, start, end, lambda: at("2031-11-23T19:00"))
        assert until - begin == later_s
        assert at("2031-11-22T19:00") < begin <= at("2031-11-23T19:00")  # by the clock of growd


@pytest.mark.parametrize("text", ["soon", "25:00", "nan", "inf", "-1", "2026-13-01", "0001-01-01", ""])
def test_other_words_are_not_a_time(text):
    with pytest.raises(click.BadParameter, match="is not a time: use UNIX seconds"):
        unix_time_in(lambda: None, text, 0.0, option="--at")


def test_the_zone_is_that_of_the_daemon():
    zone = ""
    with serving_in_a_thread() as daemon, closing(DaemonClient(address_from(daemon.origin))) as client:
        daemon.bus.node("chambers").describe("environments", lambda: [{"time_zone": zone}])
        for zone, hours in (("+05:30", 5.5), ("-03:00", -3), (AHEAD, 14)):  # noqa: B007  the node tells it
            found = unix_time_in(partial(zone_of, client), "2026-11-24 06:00", 0.0, option="--at")
            assert found == at("2026-11-24T06:00", UTC) - hours * 3_600
        zone = "Mars/Olympus"  # which this machine does not know
        with pytest.raises(UsageError, match="Mars/Olympus"):
            zone_of(client)


@pytest.mark.long
async def test_commands_on_a_machine_in_another_zone_use_that_of_the_daemon(tmp_path):
    zone = ZoneInfo(AHEAD)
    earlier, later = (
        (datetime.now(zone) + timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M") for hours in (-2, 2)
    )
    async with started(tmp_path / "data", f"--set=environment.time_zone={AHEAD}") as program:
        await program.until_there("recipes/demo_day")

        async def ask(*arguments):
            printed = await typed(*arguments, "--url", program.address, TZ="UTC")
            assert printed.status == 0, printed
            return printed

        ordered = await ask("recipe", "start", "demo_day", "--at", later)
        assert f"starts at {later}" in ordered.err
        assert f"waits until {later}" in (await ask("status")).out
        await ask("note", "add", "seen", "--at", earlier)
        assert (await ask("note", "list")).out.startswith(earlier)
        assert "seen" in (await ask("note", "list", "--start", earlier, "--end", later)).out
        assert (await ask("note", "list", "--start", later)).out == "no entries\n"
        rows = (await ask("db", "export", "-o", "-", "--category", "event", "--start", earlier)).out
        assert "seen" in rows
        history = await ask("db", "history", "--start", earlier, "--end", later, "--json")
        # whole buckets
        assert abs(history.json["end"] - at(later.replace(" ", "T"), zone)) < 3_600
