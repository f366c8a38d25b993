"""Times on the command line, in the time zone of the chamber."""

from __future__ import annotations

import math
import re
import time
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from growd_cli.asking import status_of
from growd_client.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_client.connection import DaemonClient

_TIME_OF_DAY: Final = re.compile(r"\d{1,2}:\d{2}")
FORMS: Final = 'UNIX seconds, "06:00" or "2026-11-24 06:00"'


def zone_of(client: DaemonClient) -> tzinfo | None:
    """The time zone of the daemon's chambers. Raises `GrowdError`."""
    chambers = client.get("node", "chambers", kind=dict[str, Any])["environments"]
    name = str(chambers[0]["time_zone"])
    try:
        is_offset = name.startswith(("+", "-"))
        return datetime.fromisoformat(f"2000-01-01T00:00{name}").tzinfo if is_offset else ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        raise UsageError(f"this machine does not know the time zone of the daemon, {name!r}") from None


def time_of(client: DaemonClient) -> float:
    """UNIX seconds of the daemon's clock, which may run fast in a simulation. Raises `GrowdError`."""
    try:
        return status_of(client).time
    except RefusedError:  # one that does not tell its state
        return time.time()


def unix_time_in(
    zone: Callable[[], tzinfo | None],
    text: str,
    now: float,
    *,
    option: str,
    is_next: bool = False,
    after: float = 0.0,
) -> float:
    """UNIX seconds of a time in words.

    Unless it names its own time zone, it is in that which `zone` returns (None: that of this machine). A time
    of day is the last one before `now`, or the next one if `is_next` or the last one is not after `after`.
    Raises `click.BadParameter`.
    """
    with suppress(ValueError, OverflowError):  # also of the year 1
        seconds = _seconds(zone, text, now, math.inf if is_next else after)
        if 0 <= seconds < math.inf:
            return seconds
    raise click.BadParameter(f"{text} is not a time: use {FORMS}", param_hint=f"'{option}'")


def span_in(
    zone: Callable[[], tzinfo | None],
    start: str | None,
    end: str | None,
    clock: Callable[[], float] = time.time,
) -> tuple[float | None, float | None]:
    """UNIX seconds of --start and --end; an end without a date is the first one after the start.

    `clock` is that by which a time without a date is the last one.
    """
    needs_now = any(_TIME_OF_DAY.fullmatch(text or "") for text in (start, end))
    now = clock() if needs_now else 0.0
    begin = None if start is None else unix_time_in(zone, start, now, option="--start")
    until = None if end is None else unix_time_in(zone, end, now, option="--end", after=begin or 0.0)
    if begin is not None and until is not None and begin > until:
        raise click.UsageError("--start must not be after --end")
    return begin, until


def span_of(client: DaemonClient, start: str | None, end: str | None) -> tuple[float | None, float | None]:
    """As `span_in`, by the time zone and the clock of the daemon. Raises `GrowdError`."""
    return span_in(partial(zone_of, client), start, end, partial(time_of, client))


def _seconds(zone: Callable[[], tzinfo | None], text: str, now: float, after: float) -> float:
    with suppress(ValueError):
        return float(text)
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        clock = datetime.strptime(text, "%H:%M")  # noqa: DTZ007  a time of day
        return _time_of_day(zone(), clock, now, after)
    if given.tzinfo is None:
        own = zone()
        given = given.replace(tzinfo=own) if own is not None else given.astimezone()
    return given.timestamp()


def _time_of_day(zone: tzinfo | None, clock: datetime, now: float, after: float) -> float:
    today = datetime.fromtimestamp(now, zone)
    days = [
        datetime.combine(today + timedelta(days=day), clock.time(), zone).timestamp() for day in (-1, 0, 1)
    ]
    last = max(day for day in days if day <= now)
    return last if last > after else min(day for day in days if day > now)
