"""Records of calibrations: what was calibrated when and by whom, and what is due again."""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from growd.bus.errors import NotKeptError, counted
from growd.control.interlocks.saved_states import RETRY_S, SAVE_ERRORS
from growd.runtime.sentence import Sentence, problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd.bus import Bus

_DAY_S: Final = 86_400.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CalibrationRecord:
    """A calibration that was done, of a `variable` in `unit`.

    `before` is the reading before it, `after` the first reading after it, both None if they are not known.
    `reference` is the true value, None for a calibration without one. `time` is
    in UNIX seconds. `by` is the user, else the address, of who asked for it.
    """

    device: str
    service: str
    variable: str
    unit: str
    before: float | None
    after: float | None
    reference: float | None
    by: str
    time: float

    def __str__(self) -> str:
        given = {"before": self.before, "after": self.after, "reference": self.reference}
        shown = ", ".join(f"{name} {value:g}" for name, value in given.items() if value is not None)
        return f"{self.service} of {self.variable}: {shown} {self.unit}" if shown else f"{self.service} done"


@dataclass(frozen=True)
class Reminders:
    """When devices are to be calibrated again: after so many days, and after so many litres.

    `litres` returns the volume that a device has given, None while it is not known.
    """

    days: Mapping[str, float]
    after_litres: Mapping[str, float] = field(default_factory=dict)
    litres: Callable[[str], float | None] = lambda _: None


class RecordKeeper(Protocol):
    """Storage of records. Each method raises OSError or RuntimeError on failure."""

    async def saved(self, environment: str) -> dict[str, Any]:
        """The saved state of an environment, empty if there never was one."""

    async def save(self, environment: str, state: dict[str, Any]) -> None:
        """Save the state; it is on the disk when this returns."""

    async def keep(self, environment: str, record: CalibrationRecord, state: dict[str, Any]) -> None:
        """Store the record for the database and save the state; both are on the disk when this returns."""


class CalibrationLog:
    """Keeps a record of each calibration of an environment, and says which are due.

    The days of a device that was never calibrated count from the first start with this option. The last
    record of each device outlasts a restart, if `takes` still does not refuse it. The node information
    `calibrations` has them, `problems` what is due. `when_read` is called when the saved ones are known.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        keeper: RecordKeeper,
        reminders: Reminders,
        *,
        takes: Callable[[Mapping[str, Any]], bool] = lambda _: True,
        when_read: Callable[[], None] = lambda: None,
    ) -> None:
        self.node = bus.node(f"{environment}/calibrations")
        self._clock = bus.clock
        self._environment = environment
        self._keeper = keeper
        self._reminders = reminders
        self._takes = takes
        self._when_read = when_read
        self._records: dict[str, dict[str, Any]] = {}  # the last one of each device
        self._since: dict[str, float] = {}  # when a device was first expected to be calibrated
        self._is_read = False
        self._saving = asyncio.Lock()
        self.node.describe("calibrations", lambda: [*self._records.values()])
        self.node.describe("calibrations_due", self._due)
        self.node.describe("problems", self._problems)

    async def run(self) -> None:
        """Read what was saved, and try again until it can be read. It never ends by itself."""
        while not self._is_read:
            try:
                await self._read()
            except SAVE_ERRORS as error:
                _log.warning("the calibrations of %s can't be read: %s", self._environment, error)
                await self._clock.sleep(RETRY_S)
        await asyncio.Event().wait()

    def require_read(self) -> None:
        """Raise `NotKeptError` while no calibration can be recorded."""
        if not self._is_read:
            raise NotKeptError("the records of calibrations could not be read yet; try again")

    async def keep(self, record: CalibrationRecord) -> None:
        """Keep a record; it is on the disk when this returns. Raises as `RecordKeeper.keep`."""
        async with self._saving:
            kept = asdict(record)
            records = {**self._records, record.device: kept}
            await self._keeper.keep(self._environment, record, {"records": records, "since": self._since})
            self._records = records
            self._takes(kept)

    def last(self, device: str) -> dict[str, Any] | None:
        """The last record of a device."""
        return self._records.get(device)

    def due(self, device: str) -> dict[str, Any] | None:
        """Whether a device should be calibrated again, in words; None without a reminder."""
        if not self._is_read or device not in self._reminders.days:
            return None
        return self._state(device, self._reminders.days[device])

    async def _read(self) -> None:
        saved = await self._keeper.saved(self._environment)
        async with self._saving:
            known: dict[str, float] = saved.get("since", {})
            now = self._clock.time()
            records: dict[str, dict[str, Any]] = saved.get("records", {})
            self._records = {device: each for device, each in records.items() if self._takes(each)}
            self._since = {device: known.get(device, now) for device in self._reminders.days}
            if self._since != known:
                await self._keeper.save(self._environment, {"records": self._records, "since": self._since})
        self._is_read = True
        self._when_read()

    def _due(self) -> list[dict[str, Any]]:
        return [state for device in self._reminders.days if (state := self.due(device)) is not None]

    def _state(self, device: str, every_days: float) -> dict[str, Any]:
        last = self._records.get(device)
        days = (self._clock.time() - (last["time"] if last else self._since[device])) / _DAY_S
        passed = counted(round(days), "day")
        words = f"was calibrated {passed} ago" if last else f"has not been calibrated for {passed}"
        given, most = self._given_l(device, last), self._reminders.after_litres.get(device, math.inf)
        if given >= most:
            words = f"has given {given:.3g} l {'since its calibration' if last else 'without a calibration'}"
        every = _in_days(every_days) if math.isinf(most) else f"{_in_days(every_days)} and {most:g} l"
        return {
            "environment": self._environment,
            "device": device,
            "is_due": days > every_days or given >= most,
            "text": f"{self._environment}/{device} {words}; calibrate it every {every}",
        }

    def _given_l(self, device: str, last: Mapping[str, Any] | None) -> float:
        """The volume since the last calibration; counters that began anew since then count from there."""
        if device not in self._reminders.after_litres:
            return 0.0
        given, before = self._reminders.litres(device) or 0.0, last["litres"] if last else 0.0
        return given - before if given >= before else given

    def _problems(self) -> list[dict[str, Any]]:
        found = []
        for each in self._due():
            if each["is_due"]:
                about = {"environment": self._environment, "device": each["device"]}
                said = Sentence(each["text"], "calibration_due", **about)
                found.append(problem(said, name="/".join(about.values())))
        return found


def _in_days(days: float) -> str:
    return "day" if days == 1 else f"{days:g} days"
