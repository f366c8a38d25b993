"""Builds the store from the configuration: everything between the bus and the database."""

from __future__ import annotations

import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import counted
from growd.runtime.clock import until_beat
from growd.runtime.sentence import Sentence, code_of, problem, reworded
from growd.runtime.supervisor import Supervisor
from growd.store.entries.journal import GrowersJournal
from growd.store.errors import LocalStoreError
from growd.store.losses import Losses
from growd.store.outbox import Outbox
from growd.store.points import PointMaker
from growd.store.recorder import EVENT, Recorder
from growd.store.retention.budget import SPARSE_S, Shortage
from growd.store.shipper import Shipper
from growd.store.storage_rule import sparser
from growd.store.store_node import StoreNode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from zoneinfo import ZoneInfo

    from growd.bus import Bus
    from growd.config import Config
    from growd.runtime.clock import Clock
    from growd.store.database import Database
    from growd.store.local import LocalStore

RELOADABLE: Final = (
    "store.max_age_s",
    "store.minimum_interval_s",
    "store.maximum_interval_s",
    "store.variable",
)
"""The options that can change at runtime."""

FREEZE_S: Final = 5.0  # a loop that is later than this has stood still
LOOK_S: Final = 5.0
DRAIN_S: Final = 0.5  # how long to send the last points at the end
_ENDED_WELL: Final = "ended_well"
_HAD_DATABASE: Final = "had_database"  # the database of points existed or was made
_log = logging.getLogger(__name__)


class Core(msgspec.Struct, frozen=True):
    """The configuration, the bus and the store. Days begin in `zone` (None: local)."""

    present: Callable[[], Config]
    """Returns the configuration as it is in force, also after a reload."""
    bus: Bus
    local: LocalStore
    database: Database
    storage: Storage
    zone: ZoneInfo | None

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.present()


class Storage:
    """Recorder, outbox and shipper, between a bus and a database that the caller opens and closes.

    `complain` gets a sentence for a person about points that are lost at shutdown.
    """

    def __init__(
        self, config: Config, bus: Bus, local: LocalStore, database: Database, complain: Callable[[str], None]
    ) -> None:
        self._config = config
        self._bus = bus
        self._local = local
        self._database = database
        self._complain = complain
        self._maker = PointMaker(local.device)
        self.outbox: Outbox
        self.shipper: Shipper
        self.losses: Losses
        self.journal: GrowersJournal
        self._recorder: Recorder
        self._lost: dict[str, Sentence] = {}  # why, by the name of the database
        self._shortage = Shortage.NONE

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all parts around the body. At the end, save the last points, and send them if possible."""
        settings, clock = self._config.store, self._bus.clock
        self.outbox = await Outbox.open(
            self._local, clock, liveness=self._bus.liveness, budget=settings.budget_mb
        )
        self.journal = self._new_journal()
        try:
            self.shipper = self._new_shipper(clock)
            environments = self._config.chambers()
            self._recorder = Recorder(self._bus, self.outbox, self._maker, environments, settings)
            self.losses = Losses(
                self.outbox, self._local, clock, lambda text: self.record("fault", f"growd: {text}")
            )
            await self.losses.load()
            await self.journal.load()
            notices = [*self._local.notices, *self.outbox.notices]
            store = StoreNode(
                self._bus,
                self.outbox,
                self.shipper,
                self.losses,
                notices,
                device=self._local.device,
                journal=self.journal,
            )
            store.node.describe("problems", self._problems, prepare=self._local.look)
            self._database.on_lost = self._note_lost
            await self._note_start(notices)
            try:
                async with Supervisor(clock, self._bus.liveness) as parts:
                    parts.start("outbox", self.outbox.run)
                    parts.start("shipper", self.shipper.run)
                    parts.start("recorder", self._recorder.run)
                    parts.start("losses", self.losses.run)
                    parts.start("journal", self.journal.delivery.work.run)
                    parts.start("freezes", partial(self._note_freezes, clock))
                    yield
            finally:
                self.record("stop", Sentence("growd stopped", "stopped"))
        finally:
            try:
                await self._save_last_points()
            finally:
                await self.journal.close()
                await self.outbox.close()

    async def reconfigure(self, config: Config) -> None:
        """Change rules and ages (`RELOADABLE`)."""
        self._config = config
        self.shipper.reconfigure(max_age=config.store.max_age_s)
        self.store_less(self._shortage)

    def store_less(self, shortage: Shortage) -> None:
        """Store as much as the room for the database permits."""
        self._shortage = shortage
        settings = self._config.store
        if shortage >= Shortage.STORING_LESS:
            settings = sparser(settings, SPARSE_S)
        self._recorder.reconfigure(settings, stores_values=shortage < Shortage.STORING_NOTHING)

    def holds_s(self, variable: str) -> float:
        """How long a stored measurement holds, by the rules in force."""
        return self._config.store.holds_s(variable)

    def _new_shipper(self, clock: Clock) -> Shipper:
        shipper = Shipper(
            self._database.couch,
            self.outbox,
            clock,
            database=self._database.names.points,
            events=self._database.names.events,
            prepare=self._prepare,
            liveness=self._bus.liveness,
            max_age=self._config.store.max_age_s,
        )
        self._database.when_up(shipper.retry_now)  # the pause after a failure may have a minute left
        return shipper

    def _new_journal(self) -> GrowersJournal:
        database = self._database
        journal = GrowersJournal(
            self._bus,
            self._local.path.parent,
            database.couch,
            self._maker,
            self._config.chambers(),
            names=database.names,
            design=self._config.http.name,
            prepare=self._prepare,
            ship=lambda: self.shipper.reading(),  # noqa: PLW0108  it is made later
        )
        database.when_up(journal.delivery.work.retry_now)
        return journal

    async def _prepare(self) -> None:
        """Set up the database, and detect that one with points is missing. Raises `CouchError`."""
        await self._database.prepare()
        had_one = await self._local.state(_HAD_DATABASE, default=False)
        for name in sorted(self._database.made) if had_one else ():
            self._note_lost(name)
        self._database.made.clear()
        if not had_one:
            with contextlib.suppress(LocalStoreError):  # the next start tries again
                await self._local.save_state(_HAD_DATABASE, value=True)

    def _note_lost(self, name: str) -> None:
        """A database was deleted. Its points that wait are written into the new one."""
        text = f"the database {name} was missing and was created again; it has only what came since"
        self._lost[name] = Sentence(text, "database_made_again", database=name)
        _log.warning("%s", text)
        self.record("fault", reworded(f"growd: {text}", self._lost[name]))

    def _problems(self) -> list[dict[str, Any]]:
        remedy = "Restore it from a backup or a replica."
        problems = [problem(text, name=name, remedy=remedy) for name, text in self._lost.items()]
        if self._local.is_gone:
            where = self._local.path.parent
            text = f"the data folder {where} was deleted or moved; nothing is saved until growd is restarted"
            problems.append(problem(Sentence(text, "data_folder_gone", folder=str(where)), is_failure=True))
        return problems

    async def _note_start(self, notices: list[str]) -> None:
        """Record that growd started, how it had ended, and damage that was found.

        Stored once per environment, since each may be replicated alone.
        """
        ended_well = await self._local.state(_ENDED_WELL)
        how = {None: "for the first time", True: "after a clean end", False: "without a clean end before"}
        code = {None: "started_first", True: "started", False: "started_unclean"}[ended_well]
        simulated = ", on simulated hardware" if self._config.simulator.enabled else ""
        happened: list[tuple[str, str]] = [
            ("restart", Sentence(f"growd started {how[ended_well]}{simulated}", code))
        ]
        happened += [("fault", f"growd: {notice}") for notice in notices]
        for kind, text in happened:
            self.record(kind, text)
        for notice in notices:
            _log.error("%s", notice)
        if ended_well is not False:
            await self._note_end(well=False)

    async def _note_freezes(self, clock: Clock) -> None:
        """Record that this process stood still: it explains a hole in the data, and outputs that rested."""
        while True:
            began, wait_s = clock.monotonic(), until_beat(clock, LOOK_S)
            await clock.sleep(wait_s)
            late_s = clock.monotonic() - began - wait_s
            if late_s > FREEZE_S:
                text = f"growd stood still for {late_s:.0f} s: it was stopped, or this machine was too busy"
                _log.warning("%s", text)
                self.record("fault", f"growd: {text}")

    def record(self, kind: str, text: str) -> None:
        """Record an event of growd itself in each environment."""
        said, now = code_of(text), self._bus.clock.time()
        details = {"code": said["code"], **said["fields"]} if said["code"] else None
        for environment in self._config.chambers():
            point = self._maker.make(environment, kind, str(text), now, category=EVENT, details=details)
            self.outbox.add(point)

    async def _save_last_points(self) -> None:
        """Write them to the disk, and send them: the database may work if the disk does not."""
        await self.losses.finish()
        try:
            await self.outbox.flush()
        except LocalStoreError as error:
            _log.warning("the last points can't be saved: %s", error)
        await self.shipper.drain(DRAIN_S)
        if self._recorder.lost:
            self._complain(f"{counted(self._recorder.lost, 'message')} could not be recorded")
        await self._note_end(well=not self.outbox.unsaved)
        if self.outbox.unsaved:
            lost = counted(self.outbox.unsaved, "point")
            self._complain(f"the last {lost} can't be saved and are lost: {self.outbox.fault}")
        if self._local.is_gone:
            where = self._local.path.parent
            self._complain(f"the data folder {where} was deleted or moved: its content may be lost")

    async def _note_end(self, *, well: bool) -> None:
        """A failing disk must not prevent startup or shutdown."""
        try:
            await self._local.save_state(_ENDED_WELL, well)
        except LocalStoreError as error:
            _log.warning("could not record the shutdown state: %s", error)
