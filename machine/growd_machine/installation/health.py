"""The health of a running growd before and after an upgrade.

The version that watches an upgrade reads the status of another version. So all fields are optional, and
unknown ones are ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator


_UNLOADED: Final = re.compile("the driver .* can't be loaded: ")


class ProbeError(Exception):
    """growd does not answer; the message says why."""


class _Device(msgspec.Struct):
    name: str = ""
    state: str = ""
    message: str = ""


class _Interlock(msgspec.Struct):
    name: str = ""
    needs_reset: bool = False
    reason: str = ""


class _Store(msgspec.Struct):
    saving: str = ""
    shipping: str = ""
    waiting: int = 0
    shipped: int = 0


class _Database(msgspec.Struct):
    reachable: bool = True
    reason: str = ""


class _Problem(msgspec.Struct):
    text: str = ""
    is_failure: bool = False


class _Machine(msgspec.Struct):
    growd_version: str = ""


class _Hold(msgspec.Struct):
    holder: str = ""


class StatusAnswer(msgspec.Struct):
    """The parts of a status that an upgrade compares."""

    devices: list[_Device] = []
    interlocks: list[_Interlock] = []
    store: _Store | None = None
    database: _Database | None = None
    problems: list[_Problem] = []
    machine: _Machine | None = None
    stuck: list[str] = []
    stage: str = "running"
    holds: list[_Hold] | None = None

    def failures(self) -> Iterator[tuple[str, str]]:
        """What does not work: a key that stays the same over restarts, and a sentence."""
        for device in self.devices:
            # a driver of another package that does not fit must not stop an upgrade
            if device.state == "failed" and not _UNLOADED.match(device.message):
                yield f"device {device.name}", f"{device.name} has failed: {device.message}"
        for interlock in self.interlocks:
            if interlock.needs_reset:
                yield f"interlock {interlock.name}", f"{interlock.name} has tripped: {interlock.reason}"
        for loop in self.stuck:
            yield f"stuck {loop}", f"{loop} is stuck"
        for problem in self.problems:
            if problem.is_failure:
                yield re.sub(r"\d+", "0", problem.text), problem.text
        yield from self._single_failures()

    def _single_failures(self) -> Iterator[tuple[str, str]]:
        if self.stage != "running":
            yield "stage", f"growd is {self.stage}"
        if self.store is not None and self.store.saving:
            yield "saving", f"points can't be saved: {self.store.saving}"
        if self.store is not None and self.store.shipping:
            yield "shipping", f"the database stores no points: {self.store.shipping}"
        if self.database is not None and not self.database.reachable:
            yield "database", f"the database is not reachable: {self.database.reason}"


class GrowdHealth(msgspec.Struct, frozen=True):
    """Failures by key; points since the start; whether an upgrade holds the outputs. None: unknown."""

    version: str = ""
    failures: dict[str, str] = {}
    recorded: int | None = None
    delivered: int | None = None
    is_held: bool | None = None

    @classmethod
    def of(cls, answer: StatusAnswer) -> GrowdHealth:
        store, machine = answer.store, answer.machine
        return cls(
            machine.growd_version if machine else "",
            dict(answer.failures()),
            store.shipped + store.waiting if store else None,
            store.shipped if store else None,
            None if answer.holds is None else any(hold.holder == "upgrade" for hold in answer.holds),
        )

    def worse_than(self, before: GrowdHealth | None) -> Iterator[str]:
        """A sentence for each failure that was not there before; without `before`, none is new."""
        if before is not None:
            yield from (words for key, words in self.failures.items() if key not in before.failures)
