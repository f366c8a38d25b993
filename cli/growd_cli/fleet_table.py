"""The devices of a cloud as a table, their alerts, and a line that counts them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, get_args

from growd.bus.errors import counted
from growd.runtime.text import columns, duration, printable
from growd_cloud.devices import DeviceState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from growd_cloud.devices import FleetRow

_HEADINGS: Final = ("device", "name", "group", "state", "report", "lag", "recipe")
_RIGHT: Final = ("report", "lag")
_MOST_ALERTS: Final = 5  # of a device
_MOST_TEXT: Final = 300  # characters of an alert


def fleet_lines(rows: Sequence[FleetRow], now: float) -> Iterator[str]:
    """The lines of a list of devices at `now`, in UNIX seconds of the cloud."""
    if rows:
        cells = [tuple(map(_on_one_line, _cells(row, now))) for row in rows]
        yield from columns(_HEADINGS, cells, right=_RIGHT)
        yield ""
    names = Counter(row.name for row in rows)
    alerts = [
        _on_one_line(line)
        for row in rows
        for line in _alerts(row, f"{row.name} ({row.device})" if names[row.name] > 1 else row.name, now)
    ]
    if alerts:
        yield from [*alerts, ""]
    yield _count(rows)


def _on_one_line(text: str) -> str:
    """What a device says of itself must not look like a line of its own."""
    return printable(" ".join(text.splitlines()))


def _cells(row: FleetRow, now: float) -> tuple[str, ...]:
    report = duration(max(0.0, now - row.received)) if row.received else "never"
    return row.device, row.name, row.group or "-", row.state, report, _lag(row), _recipes(row)


def _lag(row: FleetRow) -> str:
    """The documents that all replications have to copy; "?" if one of them does not know."""
    known = [lag for lag in row.lag.values() if lag is not None]
    return "?" if len(known) < len(row.lag) or not row.lag else _dated(row, str(sum(known)))


def _recipes(row: FleetRow) -> str:
    running = [each for each in row.environments.values() if each.recipe]
    words = ", ".join(f"{each.recipe}{f' {each.phase}' if each.phase else ''}" for each in running)
    return _dated(row, words) if words else "-"


def _dated(row: FleetRow, text: str) -> str:
    """In brackets if it was so at the last report, and may have changed."""
    return f"({text})" if row.state in {"silent", "revoked"} else text


def _alerts(row: FleetRow, name: str, now: float) -> Iterator[str]:
    if row.state == "revoked":
        return
    for alert in row.alerts[:_MOST_ALERTS]:
        since = f" ({duration(max(0.0, now - alert.since))})" if alert.since else ""
        yield f"{name}: {_dated(row, alert.severity)}: {_short(alert.text)}{since}"
    if len(row.alerts) > _MOST_ALERTS:
        yield f"{name}: and {len(row.alerts) - _MOST_ALERTS} more"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _count(rows: Sequence[FleetRow]) -> str:
    """Such as "3 devices: 2 ok, 1 silent"."""
    numbers = Counter(row.state for row in rows)
    states = ", ".join(f"{numbers[state]} {state}" for state in get_args(DeviceState) if numbers[state])
    return f"{counted(len(rows), 'device')}{': ' if states else ''}{states}"
