"""The upgrade of an installed growd, as the service growd-upgrade carries it out.

upgrade.json exists while an upgrade runs. The link `current` says which version is started, and the phase in
upgrade.json whether the way leads to the new version or back. Each phase can be begun again at any time, so
after a power cut or a kill the next run of the service finishes it:

    forward    stop growd, hold the outputs, back up the data, switch `current`, place
               the units of the new version, start it, and watch it for the time of the trial
    accepted   keep the old version as `previous`, release the outputs, remove older versions; remove the
               backup if the old version can read the present data
    back       stop growd, switch `current` back, restore the backup if the old version can't read the
               data, place its units, release the outputs, start it

All this runs in the old version. A new version that does not even start can't prevent the way back.
"""

from __future__ import annotations

import time
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from growd.host.hold import Hold, Holder, release_hold, save_hold
from growd.runtime.files import read_regular, sync_folder, write_atomically
from growd_machine.data_folder import leave_note
from growd_machine.installation.data_copy import BACKUPS, back_up, discard, restore, unreadable
from growd_machine.installation.growd_service import GrowdService, driver_warnings, last_words, output_of
from growd_machine.installation.health import GrowdHealth, ProbeError
from growd_machine.installation.machine import CONFIGURATION, DATA, PROGRAM, InstallError
from growd_machine.installation.versions import (
    CURRENT,
    PREVIOUS,
    UPGRADE,
    UPGRADING,
    VERSIONS,
    choose,
    linked,
    remove_link,
    remove_unused,
    version_at,
)
from growd_machine.owner import as_owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from growd_machine.installation.growd_service import ServiceState
    from growd_machine.installation.machine import Machine
    from growd_machine.installation.versions import Version

OUTCOME: Final = PROGRAM / "upgraded.json"
CONFIGURATION_FILE: Final = CONFIGURATION / "growd.toml"
LOG: Final = "journalctl -u growd-upgrade -u growd"
TRIAL_S: Final = 120.0
START_S: Final = 300.0
"""By which a version has started; bringing data to a new format takes time."""

SILENT_S: Final = 20.0
"""How long a started version may not answer."""

DELIVERY_S: Final = 30.0
"""How long before the end of a trial points are sent to the database."""

_POLL_S: Final = 1.0
_ENOUGH: Final = 5.0
"""So many points are expected in a trial before their absence counts."""

_MOST_BYTES: Final = 1 << 20


class TrialError(InstallError):
    """The new version does not work."""


class UpgradePhase(StrEnum):
    """The way of an upgrade; see the module."""

    FORWARD = "forward"
    ACCEPTED = "accepted"
    BACK = "back"


class Upgrade(msgspec.Struct, kw_only=True):
    """A running upgrade. `source` and `target` are the folders of the versions.

    `before` is the health of the old version, None if it did not run; it recorded `points_per_s`. `backup` is
    the name of the backup, "" on the way to the previous version. `began` is in UNIX seconds.
    """

    source: str
    target: str
    began: float
    trial_s: float = TRIAL_S
    phase: UpgradePhase = UpgradePhase.FORWARD
    reason: str = ""
    before: GrowdHealth | None = None
    points_per_s: float = 0.0
    backup: str = ""


class UpgradeOutcome(msgspec.Struct, kw_only=True):
    """The end of the last upgrade; `reason` is empty if it has succeeded. Times are UNIX seconds."""

    source: str
    target: str
    began: float
    ended: float
    reason: str = ""


class DaemonAccess(Protocol):
    """The running growd over HTTP."""

    def health(self) -> GrowdHealth:
        """Raises `ProbeError`."""

    def read_points(self) -> None:
        """Ask the database for points, so that growd sends those that wait. Never fails."""


def upgrade_of(machine: Machine) -> Upgrade | None:
    """The running upgrade. Raises `InstallError` if upgrade.json can't be read."""
    file = machine.at(UPGRADE)
    try:
        content = read_regular(file, _MOST_BYTES)
        return None if content is None else msgspec.json.decode(content, type=Upgrade)
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise InstallError(f"{file} can't be read: {error}") from None


def outcome_of(machine: Machine) -> UpgradeOutcome | None:
    """The end of the last upgrade, None without one or with a damaged file."""
    try:
        return msgspec.json.decode(machine.at(OUTCOME).read_bytes(), type=UpgradeOutcome)
    except (OSError, ValueError, msgspec.DecodeError):
        return None


def begin(machine: Machine, upgrade: Upgrade, version: Version) -> None:
    """Write upgrade.json: from now on the service finishes the upgrade, whatever happens. Raises OSError."""
    choose(machine, UPGRADING, version)
    _write(machine.at(UPGRADE), upgrade)


def tidy(machine: Machine) -> None:
    """Remove what an upgrade leaves that is interrupted before it begins or after its end. Raises OSError."""
    remove_link(machine, UPGRADING)
    remove_unused(machine)


class UpgradeRun:
    """Carries out the upgrade of upgrade.json; `say` gets a line for each step."""

    def __init__(
        self,
        machine: Machine,
        daemon: DaemonAccess,
        say: Callable[[str], None],
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._machine = machine
        self._daemon = daemon
        self._say = say
        self._sleep = sleep
        self._monotonic = monotonic
        self._service = GrowdService(machine)
        self._data = machine.at(DATA)

    def run(self) -> UpgradeOutcome | None:
        """Finish the upgrade, if there is one. Raises `InstallError` or OSError if it must be tried again."""
        upgrade = upgrade_of(self._machine)
        if upgrade is None:
            tidy(self._machine)
            return None
        source = version_at(self._machine.at(VERSIONS) / upgrade.source)
        if upgrade.phase is UpgradePhase.FORWARD:
            self._try(upgrade, source)
        if upgrade.phase is UpgradePhase.ACCEPTED:
            self._accept(upgrade, source)
        else:
            self._go_back(upgrade, source)
        return self._end(upgrade)

    def _try(self, upgrade: Upgrade, source: Version) -> None:
        """Choose the next phase."""
        try:
            target = version_at(self._machine.at(VERSIONS) / upgrade.target)
            self._switch(upgrade, source, target)
            self._watch(upgrade, target)
        except Exception as error:  # noqa: BLE001  the way back must not depend on what fails
            is_known = isinstance(error, InstallError | OSError)
            upgrade.phase = UpgradePhase.BACK
            upgrade.reason = str(error) if is_known else f"{type(error).__name__}: {error}"
            self._say(f"Failed: {error}.")
            with suppress(OSError):  # a full disk must not prevent the way back
                _write(self._machine.at(UPGRADE), upgrade)
        else:
            upgrade.phase = UpgradePhase.ACCEPTED
            _write(self._machine.at(UPGRADE), upgrade)

    def _switch(self, upgrade: Upgrade, source: Version, target: Version) -> None:
        self._stop(source)
        self._say("Holding all outputs at their safe states.")
        reason = f"trial of growd {target.version}"
        with as_owner(self._data):
            save_hold(self._data, Hold(Holder.UPGRADE, reason, "growd upgrade", time.time()))
        current = linked(self._machine, CURRENT)
        if current is None or current.folder != target.folder:
            # before the switch: what runs after it may already have changed the data
            if upgrade.backup:
                self._say(f"Backing up the data to {self._data / BACKUPS / upgrade.backup}.")
                configuration = read_regular(self._machine.at(CONFIGURATION_FILE), _MOST_BYTES)
                back_up(self._data, configuration or b"", upgrade.backup)
            self._say(f"Switching to growd {target.version}.")
            choose(self._machine, CURRENT, target)
        self._settle(target)

    def _stop(self, source: Version) -> None:
        self._say("Stopping growd.")
        self._service.stop()
        places = ["--config", str(self._machine.at(CONFIGURATION_FILE)), "--data", str(self._data)]
        try:  # once more: the version that has just ended may be broken
            output_of([source.program, "safe", *places])
        except InstallError as error:
            self._say(f"Warning: {error}.")

    def _settle(self, version: Version) -> None:
        """Let a version place its own unit files and the record."""
        self._install(version, "service")
        self._service.read_units()

    def _install(self, version: Version, part: str) -> None:
        root = str(self._machine.root)
        output_of([version.program, "install", "--only", part, "--allow-downgrade", "--root", root])

    def _watch(self, upgrade: Upgrade, target: Version) -> None:
        """Start the new version and watch it. Raises `TrialError`."""
        self._say(f"Starting growd {target.version}.")
        began = time.time()
        invocation = self._start(target)
        self._say(f"Watching it for {upgrade.trial_s:g} s.")
        trial = _Trial(upgrade, target.version)
        heard = self._monotonic()
        end = heard + upgrade.trial_s
        while True:
            state = self._service.state()
            if not state.runs or state.invocation != invocation:
                raise self._ended(f"growd {target.version} ended during the trial", state, began)
            left = end - self._monotonic()
            try:
                trial.take(self._daemon.health())
            except ProbeError as error:
                if self._monotonic() - heard > SILENT_S:
                    raise TrialError(f"growd {target.version} does not answer: {error}") from None
            else:
                if left <= 0:
                    break
                heard = self._monotonic()
            if left < DELIVERY_S:
                self._daemon.read_points()
            self._sleep(_POLL_S)
        trial.judge()

    def _start(self, version: Version) -> str:
        """Start the service; its invocation once it runs. Raises `TrialError`."""
        before = self._service.state().invocation
        began = time.time()
        self._service.start()
        first = ""
        end = self._monotonic() + START_S
        while True:
            state = self._service.state()
            if state.invocation != before:
                first = first or state.invocation
            if state.active == "failed" or (first and (state.has_ended or state.invocation != first)):
                raise self._ended(f"growd {version.version} ended at its start", state, began)
            if state.runs:
                return state.invocation
            if self._monotonic() > end:
                raise TrialError(f"growd {version.version} did not start within {START_S:g} s")
            self._sleep(_POLL_S)

    def _ended(self, words: str, state: ServiceState, began: float) -> TrialError:
        """With systemd's result, unless that of a later start has replaced it, and what growd said."""
        result = "" if state.result == "success" else f" ({state.result})"
        said = last_words(self._machine, began)
        return TrialError(f"{words}{result}{f': {said}' if said else ''}")

    def _accept(self, upgrade: Upgrade, source: Version) -> None:
        choose(self._machine, PREVIOUS, source)
        self._say("The trial was successful. Releasing the outputs.")
        self._release()
        with as_owner(self._data):
            is_needed = bool(unreadable(self._data))
        if not is_needed:
            discard(self._data, upgrade.backup)
        self._service.reload()
        target = version_at(self._machine.at(VERSIONS) / upgrade.target)
        with suppress(InstallError):  # a new default of the configuration, written beside the present one
            self._install(target, "configuration")
        with suppress(InstallError):
            for warning in driver_warnings(target, self._machine.at(CONFIGURATION_FILE)):
                self._say(warning)

    def _go_back(self, upgrade: Upgrade, source: Version) -> None:
        self._say(f"Going back to growd {source.version}.")
        self._stop(source)
        choose(self._machine, CURRENT, source)
        self._restore(upgrade)
        self._settle(source)
        with as_owner(self._data), suppress(OSError):
            target = upgrade.target.partition("-")[0]
            leave_note(self._data, f"the upgrade to growd {target} failed: {upgrade.reason}")
        self._release()
        try:
            self._start(source)
        except TrialError as error:
            upgrade.reason += f"; {error}"

    def _restore(self, upgrade: Upgrade) -> None:
        """Only if the data can't be read: else the points of the trial stay where they are."""
        backup, kept = (self._data / BACKUPS / f"{upgrade.backup}{end}" for end in ("", "-trial"))
        with as_owner(self._data):
            reason = unreadable(self._data)
        has_backup = bool(upgrade.backup) and backup.is_dir()
        if has_backup and (reason or kept.is_dir()):  # or it was interrupted
            self._say(f"Restoring the data from {backup}.")
            restore(self._data, backup.name, kept.name)
        elif reason:
            upgrade.reason += f"; {reason}, and there is no backup"
        discard(self._data, upgrade.backup)
        if upgrade.backup and kept.is_dir():
            upgrade.reason += f"; the points of the trial are only in {kept}"

    def _release(self) -> None:
        with as_owner(self._data):
            release_hold(self._data, Holder.UPGRADE)

    def _end(self, upgrade: Upgrade) -> UpgradeOutcome:
        outcome = UpgradeOutcome(
            source=upgrade.source,
            target=upgrade.target,
            began=upgrade.began,
            ended=time.time(),
            reason=upgrade.reason,
        )
        with suppress(OSError):
            _write(self._machine.at(OUTCOME), outcome)
        remove_unused(self._machine)  # before the command that follows ends
        state = self._machine.at(UPGRADE)
        state.unlink(missing_ok=True)
        sync_folder(state.parent)
        tidy(self._machine)
        return outcome


class _Trial:
    """What a trial has seen."""

    def __init__(self, upgrade: Upgrade, version: str) -> None:
        self._upgrade = upgrade
        self._version = version
        self._first: GrowdHealth | None = None
        self._last = GrowdHealth()

    def take(self, health: GrowdHealth) -> None:
        """The next health. Raises `TrialError` if another version answers."""
        if health.version and health.version != self._version:
            raise TrialError(f"growd {health.version} answers, and not {self._version}")
        if health.is_held is False:
            raise TrialError(f"growd {self._version} does not hold its outputs")
        self._first = self._first or health
        self._last = health

    def judge(self) -> None:
        """Raise `TrialError` if the new version does not work as well as the old one did."""
        if faults := [*self._last.worse_than(self._upgrade.before), *self._missing_points()]:
            raise TrialError(
                f"growd {self._version} has failures that were not there before: {'; '.join(faults)}"
            )

    def _missing_points(self) -> Iterator[str]:
        upgrade, first, last = self._upgrade, self._first, self._last
        if first is None or first.recorded is None or last.recorded is None:
            return
        expected = upgrade.points_per_s * upgrade.trial_s
        if expected >= _ENOUGH and last.recorded <= first.recorded:
            yield f"no point was recorded in {upgrade.trial_s:g} s"
        before = upgrade.before
        had_database = before is not None and before.delivered and "database" not in before.failures
        if had_database and last.recorded and not last.delivered and upgrade.trial_s >= DELIVERY_S:
            yield "no point has reached the database"


def _write(path: Path, value: msgspec.Struct) -> None:
    write_atomically(path, msgspec.json.format(msgspec.json.encode(value)) + b"\n")
