"""`growd fleet` for administrators: invitations, the list of devices, and revoked logins."""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, get_args

import click

from growd.bus.errors import counted
from growd.config.base import NAME
from growd.runtime.text import columns, duration, printable
from growd_cli.fleet_cloud import cloud_options
from growd_cli.options import json_option, refuse
from growd_cli.output import echo_lines, print_json
from growd_cli.terminal import echo_text
from growd_cloud.devices import MOST_NAME, DeviceState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from growd_cli.fleet_cloud import CloudPlace, FleetCloud
    from growd_cloud.devices import FleetRow

_DAY_S: Final = 86_400.0
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADINGS: Final = ("device", "name", "group", "state", "report", "lag", "recipe")
_RIGHT: Final = ("report", "lag")
_MOST_ALERTS: Final = 5  # of a device
_MOST_TEXT: Final = 300  # characters of an alert


@click.command()
@click.option("--uses", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Devices.")
@click.option(
    "--days", type=click.FloatRange(0.01, 365), default=7.0, show_default=True, help="How long it is valid."
)
@cloud_options
def invite(*, place: CloudPlace, uses: int, days: float) -> None:
    """Print a code with which a device can enrol (`growd fleet enroll`).

    The cloud stores its hash only. Give it to nobody but the owner of the device.

    Exit status: 0 if the code is stored; 1 if CouchDB refuses; 2 for a usage error; 3 if CouchDB does not
    answer; 4 if another login is needed.
    """
    code = place.run(lambda cloud: cloud.accounts.invite(uses, days * _DAY_S))
    echo_text(code)
    whom = "one device" if uses == 1 else counted(uses, "device")
    echo_text(
        f"growd: for {whom}, valid for {days:g} days; on the device: sudo growd fleet enroll URL {code}",
        err=True,
    )


@click.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(get_args(DeviceState)),
    multiple=True,
    help="Only devices in this state; repeatable.",
)
@json_option
@cloud_options
def list_command(*, place: CloudPlace, states: tuple[str, ...], as_json: bool) -> None:
    """List the devices with their state, last report, lag, recipes and alerts.

    A device is silent if no report has come for 15 minutes, and new before its first one. The lag counts the
    documents that its replications have to copy. A reader may list too, at the address of a receiver.

    Exit status: 0; 1 if CouchDB refuses; 2 for a usage error; 3 if it does not answer; 4 if another login is
    needed.
    """
    rows = place.run(lambda cloud: cloud.rows())
    chosen = [row for row in rows if not states or row.state in states]
    if as_json:
        print_json({"devices": chosen})
    else:
        echo_lines(fleet_lines(chosen, time.time()))


@click.command()
@click.argument("device", metavar="DEVICE")
@click.option("--name", metavar="TEXT", help="The new name.")
@click.option("--group", metavar="NAME", help='The new group; "" for none.')
@cloud_options
def rename(*, place: CloudPlace, device: str, name: str | None, group: str | None) -> None:
    """Change the name or the group of a DEVICE, named by its id or present name.

    With a new group the device gets the recipes that are published for it from then on.

    Exit status: 0 if it is changed; 1 for an unknown device, or if CouchDB refuses; 2 for a usage error; 3 if
    CouchDB does not answer; 4 if another login is needed.
    """
    if name is None and group is None:
        raise click.UsageError("name the new --name or --group")
    if name is not None and not 0 < len(name.strip()) <= MOST_NAME:
        raise click.BadParameter(f"must have 1 to {MOST_NAME} characters", param_hint="--name")
    if group and not re.fullmatch(NAME, group):
        raise click.BadParameter(f"{group} is no name of a group", param_hint="--group")
    row = place.run(lambda cloud: _renamed(cloud, device, name, group))
    echo_text(f"{row.device} is {name or row.name}, group {(row.group if group is None else group) or '-'}")


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--again", is_flag=True, help="Give a reader who has a login a new password.")
@click.option("--remove", is_flag=True, help="End the login of a reader.")
@cloud_options
def reader(*, place: CloudPlace, name: str, again: bool, remove: bool) -> None:
    """Make a reader's login, for the page of the fleet and `growd fleet list`; print the password.

    A reader sees all devices and reads all points. After --again and --remove a receiver accepts the old
    password for a minute.

    Exit status: as of `growd fleet rename`; 1 also if there is an account of this name, or with --again and
    --remove no reader.
    """
    if not _ACCOUNT.fullmatch(name):
        raise click.BadParameter("must be letters, digits, . _ and -", param_hint="NAME")
    if again and remove:
        raise click.UsageError("--again and --remove exclude each other")
    password = None if remove else secrets.token_urlsafe(12)
    place.run(lambda cloud: _change_reader(cloud, name, password, is_new=not (again or remove)))
    if password is None:
        echo_text(f"{name} has no login any more")
        return
    echo_text(password)
    echo_text(f"growd: the password of {name}, which nobody can read again", err=True)


@click.command()
@click.argument("devices", metavar="DEVICE...", nargs=-1, required=True)
@cloud_options
def revoke(*, place: CloudPlace, devices: tuple[str, ...]) -> None:
    """Remove the logins of devices, by id or name. Their points stay.

    A device loses its access within a minute. `growd status` on it says so, and its points wait there. To
    bring it back, enrol it again with a new code and --again.

    Exit status: 0 if the devices have no login any more; 1 for an unknown device, or if CouchDB refuses; 2
    for a usage error; 3 if CouchDB does not answer; 4 if another login is needed.
    """
    for row, had_account in place.run(lambda cloud: _revoked(cloud, devices)):
        words = "revoked" if had_account else "had no login"
        echo_text(f"{row.device} ({row.name}) {words}")


async def _change_reader(cloud: FleetCloud, name: str, password: str | None, *, is_new: bool) -> None:
    await cloud.couch.all_docs(cloud.names.devices, limit=1)  # an error if there is no such cloud
    if await cloud.accounts.is_administrator(name):
        refuse(f"{name} is an administrator of CouchDB; a reader needs another name")
    if password is None or not is_new:
        if not await cloud.accounts.change_reader(name, password):
            refuse(f"there is no account {name} with the role reader alone")
    elif not await cloud.accounts.add_reader(name, password):
        refuse(f"there is an account {name} already; --again gives a reader a new password")


async def _renamed(cloud: FleetCloud, device: str, name: str | None, group: str | None) -> FleetRow:
    (row,) = await cloud.found([device])
    await cloud.accounts.rename(row.device, name, group)
    return row


async def _revoked(cloud: FleetCloud, devices: tuple[str, ...]) -> list[tuple[FleetRow, bool]]:
    rows = [await cloud.account_or_row(each) for each in devices]
    return [(row, await cloud.accounts.revoke(row.device)) for row in rows]


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
