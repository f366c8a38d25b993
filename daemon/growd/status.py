"""How the devices of a running daemon are, and its replications, asked over its REST API."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from growd.bus.errors import counted
from growd.client import ClientError, NotReachedError, RefusedError
from growd.control.health import State
from growd.store.replication_health import ReplicationStatus  # noqa: TC001  msgspec reads it
from growd.store.store_node import StoreStatus  # noqa: TC001  likewise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from growd.client import Client

_HEADINGS: Final = ("device", "state", "for", "successes", "failures", "outages", "last error")
_REPLICATION_HEADINGS: Final = ("replication", "state", "for", "lag", "refused", "restarts", "last error")
_NUMBERS: Final = ("successes", "failures", "outages", "lag", "refused", "restarts")
_LEEWAY_S: Final = 5.0
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Counters(msgspec.Struct, frozen=True):
    """What a device did since growd started; `last_error_time` in UNIX seconds, 0 for never."""

    successes: int
    failures: int
    outages: int
    outage_seconds: float
    last_error: str
    last_error_time: float


class DeviceStatus(msgspec.Struct, frozen=True):
    """The state of a device, `since` when (UNIX seconds), and why."""

    name: str
    state: str
    since: float
    message: str
    counters: Counters

    @property
    def has_failed(self) -> bool:
        """It does not do what it is asked for."""
        return self.state == State.FAILED


class InterlockStatus(msgspec.Struct, frozen=True):
    """The state of an interlock, `since` when (UNIX seconds), and why."""

    name: str
    tripped: bool
    reason: str
    needs_reset: bool
    since: float


class Status(msgspec.Struct, frozen=True):
    """How the daemon is: devices by the names of their nodes, interlocks, the store, what is replicated."""

    devices: list[DeviceStatus]
    interlocks: list[InterlockStatus]
    store: StoreStatus | None
    replications: list[ReplicationStatus]

    @property
    def has_failed(self) -> bool:
        """Something does not do what it is there for."""
        store_failed = self.store is not None and self.store.has_failed
        is_held = any(interlock.needs_reset for interlock in self.interlocks)
        return store_failed or is_held or any(device.has_failed for device in self.devices)


class _Names(msgspec.Struct):
    results: list[str]


class _Node(msgspec.Struct):
    device: DeviceStatus | None = None
    interlocks: list[InterlockStatus] = []
    store: StoreStatus | None = None
    replications: list[ReplicationStatus] = []


def is_running(client: Client) -> bool:
    """Whether a daemon answers there, be it with a refusal."""
    try:
        client.get("node", kind=_Names)
    except NotReachedError:
        return False
    except ClientError:
        return True
    return True


def status_of(client: Client) -> Status:
    """How the daemon there is. Raises `ClientError` where none answers."""
    names = client.get("node", kind=_Names).results
    nodes = [_node(client, name) for name in names]
    return Status(
        [node.device for node in nodes if node.device is not None],
        [interlock for node in nodes for interlock in node.interlocks],
        next((node.store for node in nodes if node.store is not None), None),
        [replication for node in nodes for replication in node.replications],
    )


def report(status: Status, now: float) -> str:
    """For a person, at the UNIX time `now`: devices, interlocks that have tripped, store, replications."""
    parts = [table(status.devices, now)]
    if tripped := [interlock for interlock in status.interlocks if interlock.tripped]:
        parts.append("\n".join(_of_interlock(interlock, now) for interlock in tripped))
    if status.store is not None:
        parts.append("\n".join(_of_store(status.store, now)))
    if status.replications:
        parts.append(replication_table(status.replications, now))
    return "\n\n".join(parts)


def table(found: Sequence[DeviceStatus], now: float) -> str:
    """The devices in aligned columns, at the UNIX time `now`."""
    return _columns(_HEADINGS, [_row(device, now) for device in found])


def replication_table(found: Sequence[ReplicationStatus], now: float) -> str:
    """The replications in aligned columns, at the UNIX time `now`; the lag is in documents."""
    return _columns(_REPLICATION_HEADINGS, [_replication_row(each, now) for each in found])


def _of_interlock(interlock: InterlockStatus, now: float) -> str:
    hint = f"; reset it with the service {interlock.name}/reset" if interlock.needs_reset else ""
    return f"{interlock.name} has tripped, for {_lasted(now - interlock.since)}: {interlock.reason}{hint}"


def _of_store(store: StoreStatus, now: float) -> Iterator[str]:
    yield f"store: {counted(store.waiting, 'point')} on the way to the database"
    if store.shipping:
        yield f"  the database takes none, for {_lasted(now - store.since)}: {store.shipping}"
    if store.saving:
        yield f"  the disk takes nothing, {store.unsaved} of them are in memory only: {store.saving}"
    if store.thinned:
        yield f"  {counted(store.thinned, 'point')} thinned out for want of room, extremes stayed"
    if store.dropped:
        yield f"  {counted(store.dropped, 'point')} LOST for want of room"
    if store.rejected:
        yield f"  {counted(store.rejected, 'point')} refused by the database: see `growd db rejected`"
    yield from (f"  {notice}" for notice in store.notices)


def _node(client: Client, name: str) -> _Node:
    """What is known about a node; one that has left meanwhile is an empty answer."""
    try:
        return client.get("node", name, kind=_Node)
    except RefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return _Node()
        raise


def _row(device: DeviceStatus, now: float) -> tuple[str, ...]:
    counted = device.counters
    numbers = map(str, (counted.successes, counted.failures, counted.outages))
    error = _error(counted.last_error, counted.last_error_time, now)
    return (device.name, device.state, _lasted(now - device.since), *numbers, error)


def _replication_row(each: ReplicationStatus, now: float) -> tuple[str, ...]:
    lag = "?" if each.lag is None else str(each.lag)
    numbers = lag, str(each.refused), str(each.restarts)
    error = _error(each.last_error, each.last_error_time, now)
    return (each.name, each.state, _lasted(now - each.since), *numbers, error)


def _error(sentence: str, at: float, now: float) -> str:
    return f"{sentence} ({_lasted(now - at)} ago)" if sentence else "-"


def _columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows beneath their headings; numbers to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = []
    for row in (headings, *rows):
        cells = [
            cell.rjust(width) if heading in _NUMBERS else cell.ljust(width)
            for heading, cell, width in zip(headings, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _lasted(seconds: float) -> str:
    """In the two largest units; "?" where the daemon's clock is ahead, as one of a simulation may be."""
    if seconds < -_LEEWAY_S:
        return "?"
    left = max(0, round(seconds))
    parts = []
    for length, unit in _UNITS:
        if left >= length:
            parts.append(f"{left // length} {unit}")
            left %= length
    return " ".join(parts[:2]) or "0 s"
