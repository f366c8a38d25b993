"""The composition root: builds every part, starts them in order, and ends them in order.

The only place that chooses between the hardware of a Raspberry Pi and the simulated one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from growd.bus import Bus
from growd.bus.errors import BusError
from growd.bus.params import Parameters
from growd.config import ConfigError, Finding, refuse
from growd.config.device_checks import device_inconsistencies
from growd.config.doubts import DOUBTS as DEVICE_DOUBTS
from growd.host.data_folder import StartError, own_folder, unusable
from growd.host.machine import MachineNode, model_of_this_machine
from growd.host.systemd import ServiceManager
from growd.runtime.clock import AcceleratedClock, Clock, RealClock
from growd.runtime.liveness import Liveness
from growd.runtime.supervisor import Supervisor
from growd.server.server import AddressError
from growd.server.tls import CertificateError
from growd.status.status_node import StatusNode
from growd.status.summary import service_line
from growd.store.database import Database
from growd.store.database_node import DatabaseNode
from growd.store.errors import LocalStoreError
from growd.store.interlock_memory import InterlockMemory
from growd.store.local import LocalStore
from growd.store.parameters import ParameterKeeper
from growd.store.replication import Replicator
from growd.wiring.alerts import alerting, unsound_alerts
from growd.wiring.chamber import AllChambers
from growd.wiring.files import couchdb_folder, read_credentials, read_trust
from growd.wiring.http import serving
from growd.wiring.outputs import check_lamps
from growd.wiring.recipes import recipe_runners, run_documents
from growd.wiring.reload import Reloader, has_terminal
from growd.wiring.safe_outputs import keep_run
from growd.wiring.store import RELOADABLE, Storage
from growd.wiring.topics import declare_topics, unfit_topics
from growd_drivers.errors import DriverError
from growd_drivers.hardware import Hardware, open_hardware
from growd_hwsim.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from growd.config import Config, Source
    from growd.config.findings import Doubt
    from growd.store.outbox import Outbox
    from growd_hwsim.hardware import SimulatedHardware

START_ERRORS: Final = (
    AddressError,
    BusError,
    CertificateError,
    DriverError,
    LocalStoreError,
    SimulationError,
)
READY_S: Final = 10.0  # how long the start waits for the database before it says so and goes on
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Running:
    """What runs where, for a person."""

    address: str
    database: str
    data: Path


class App:
    """One daemon: made from a configuration and a data folder, and run once.

    `reread` reads the configuration again when SIGHUP asks for that; blocking, may raise `ConfigError`.
    `warnings` are sentences about the configuration, for `growd status`.
    """

    def __init__(
        self,
        config: Config,
        data: Path,
        reread: Callable[[], Config] | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        check_config(config)
        self.config = config
        self.data = data.absolute()
        self.complaints: list[str] = []  # what did not go well on the way down, for a person
        self._problems = [{"text": warning, "is_failure": False} for warning in warnings]
        self.reloader = Reloader(config, reread or (lambda: config))
        self._stop = asyncio.Event()
        self._started = asyncio.Event()
        self._hung_up = asyncio.Event()
        self._clock: Clock = RealClock()
        self._liveness = Liveness(config.simulator.speed)
        self._manager = ServiceManager()

    def stop(self) -> None:
        """Ask `run` to end. Safe to call from a signal handler of the loop."""
        self._stop.set()

    async def run(self, on_ready: Callable[[Running], None]) -> None:
        """Run until `stop()`, a signal or the end of the terminal; outputs are safe and points kept then.

        Where that could not be, `complaints` says so. Raises `StartError` with one clear sentence if it
        can't start, and `ConfigError` where that is for what the configuration names.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
            loop.add_signal_handler(signal.SIGHUP, self._hung_up.set)
        manager = self._manager = ServiceManager.from_environment()
        try:
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(manager.attended(self._liveness))
                signals = await stack.enter_async_context(Supervisor(RealClock(), self._liveness))
                signals.start("SIGHUP", self._attend_hangups)
                running = await self._start(stack)
                self._started.set()
                if not self._stop.is_set():
                    manager.ready()
                    on_ready(running)
                await self._stop.wait()
                manager.stopping()
                _log.info("stopping")
        except START_ERRORS as error:
            if not self._started.is_set():
                raise StartError(str(error)) from error
            self._complain(str(error))

    async def _attend_hangups(self) -> None:
        """SIGHUP is the end of the terminal where there was one, and is gone; else to read the file again."""
        had_terminal = await asyncio.to_thread(has_terminal)
        while True:
            await self._hung_up.wait()
            self._hung_up.clear()
            if had_terminal and not await asyncio.to_thread(has_terminal):
                self.stop()
                return
            await self._started.wait()
            self._manager.reloading()
            try:
                await self.reloader.reload()
            finally:
                self._manager.ready()

    def _complain(self, sentence: str) -> None:
        _log.error("%s", sentence)
        self.complaints.append(sentence)

    async def _start(self, stack: contextlib.AsyncExitStack) -> Running:
        """Start all parts. They end in the opposite order: outputs are safe before anything else goes."""
        stack.enter_context(await asyncio.to_thread(self._own_folder))
        local = await LocalStore.open(self.data / "growd.sqlite3")
        stack.push_async_callback(local.close)
        self._clock = await self._chosen_clock(local)
        bus = Bus(self._clock, Parameters(await local.parameters(), ParameterKeeper(local)), self._liveness)
        stack.push_async_callback(bus.parameters.close)
        declare_topics(self.config, bus)
        bus.node("configuration").describe("problems", lambda: self._problems)
        status = StatusNode(bus, self.config.chambers())

        database = await stack.enter_async_context(await asyncio.to_thread(self._database))
        storage = await stack.enter_async_context(self._storing(bus, local, database))
        alerts = await stack.enter_async_context(alerting(self.config, bus, local, status))
        self.reloader.offer(*RELOADABLE, apply=storage.reconfigure)
        self.reloader.offer("alert", "notify", apply=alerts.reconfigure)
        machine = MachineNode(bus, self.data)
        stack.push_async_callback(machine.close)
        DatabaseNode(bus, database)
        server = await stack.enter_async_context(
            serving(
                self.config,
                bus,
                database=database,
                storage=storage,
                status=status,
                reloader=self.reloader,
            )
        )
        await stack.enter_async_context(self._controlling(bus, local, storage.outbox, database))
        stack.enter_context(status.running())
        await self._until_ready(database)
        self._manager.words = lambda: service_line(status.snapshot())
        return Running(server.url, self._described(database), self.data)

    def _own_folder(self) -> contextlib.AbstractContextManager[object]:
        """Lock the data folder, and write down there which outputs `growd safe` has to know. Blocking."""
        lock = own_folder(self.data)
        try:
            keep_run(self.data, self.config)
        except OSError as error:
            with lock:
                raise unusable(self.data, error) from None
        return lock

    async def _until_ready(self, database: Database) -> None:
        """Wait for the database to be set up, but not for ever, and not when asked to stop meanwhile."""
        waits = (database.prepared.wait(), self._stop.wait())
        tasks = [asyncio.create_task(wait, name="start: wait") for wait in waits]
        await asyncio.wait(tasks, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if not database.prepared.is_set() and not self._stop.is_set():
            _log.warning("the database is not ready yet; growd goes on and keeps trying")

    async def _chosen_clock(self, local: LocalStore) -> Clock:
        """The machine's clock; for simulated hardware one that may run fast and never goes back."""
        if not self.config.simulator.enabled:
            return RealClock()
        from growd.wiring.simulator import simulated_clock  # noqa: PLC0415  only a simulation needs it

        return await simulated_clock(self.config, local)

    # the store

    def _database(self) -> Database:
        """Blocking: looks for files, and reads one."""
        couchdb = self.config.couchdb
        return Database(
            files=couchdb_folder(),
            data=self.data / "couchdb",
            design_name=self.config.http.name,
            url=couchdb.url,
            credentials=read_credentials(couchdb.credentials_file),
            prefix=couchdb.prefix,
            node=couchdb.node,
            client_design_documents=couchdb.client_design_documents,
        )

    async def _replication(self, bus: Bus, local: LocalStore, database: Database) -> Replicator:
        wanted = self.config.replication
        file = wanted.credentials_file
        credentials = await asyncio.to_thread(read_credentials, file, "replication", is_secret=True)
        trust = await asyncio.to_thread(read_trust, wanted)
        return Replicator(bus, database, wanted, local.device, credentials=credentials, trust=trust)

    @contextlib.asynccontextmanager
    async def _storing(self, bus: Bus, local: LocalStore, database: Database) -> AsyncIterator[Storage]:
        """The database, and all between it and the bus. At the end the last points are kept and shipped."""
        storage = Storage(self.config, bus, local, database, self._complain)
        replication = await self._replication(bus, local, database)
        database.when_up(replication.look_now)
        async with Supervisor(self._clock, self._liveness) as outer:
            outer.start("database", database.run)
            async with storage.running(), Supervisor(self._clock, self._liveness) as parts:
                parts.start("replication", replication.run)
                if isinstance(self._clock, AcceleratedClock):
                    from growd.wiring.simulator import reserve_time  # noqa: PLC0415  as above

                    parts.start("simulated time", functools.partial(reserve_time, local, self._clock))
                yield storage
        if isinstance(self._clock, AcceleratedClock):
            from growd.wiring.simulator import release_time  # noqa: PLC0415  as above

            await release_time(local, self._clock)

    def _described(self, database: Database) -> str:
        kind = "embedded" if database.is_embedded else "Apache CouchDB"
        return f"{kind}, at {database.address or 'no address yet'}"

    # hardware and control

    @contextlib.asynccontextmanager
    async def _controlling(
        self, bus: Bus, local: LocalStore, outbox: Outbox, database: Database
    ) -> AsyncIterator[None]:
        """Hardware, the plants on it, and their recipes. At the end the outputs are safe."""
        hardware = await asyncio.to_thread(open_configured, self.config, self._clock)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, hardware.close)
            if self.config.simulator.enabled:
                from growd.wiring.fault_services import FaultServices  # noqa: PLC0415  as above

                FaultServices(bus, cast("SimulatedHardware", hardware).faults)
            zone = await asyncio.to_thread(self.config.environment.zone)
            chambers = AllChambers(
                self.config, bus, hardware, memory=InterlockMemory(local), report=self._complain, zone=zone
            )
            await stack.enter_async_context(chambers.running())
            documents = run_documents(bus, local, database)
            async with Supervisor(self._clock, self._liveness) as parts:
                parts.start("recipe_run documents", documents.run)
                for runner in recipe_runners(
                    self.config,
                    bus,
                    local=local,
                    outbox=outbox,
                    database=database,
                    zone=zone,
                    documents=documents,
                ):
                    parts.start(runner.node.name, runner.run)
                yield


def _unknown_time_zone(config: Config) -> Iterator[Finding]:
    try:
        config.environment.zone()
    except ConfigError:
        name = config.environment.time_zone
        yield Finding(("environment", "time_zone"), f'{name!r} is not known here; one is "Europe/Berlin"')


DEVICE_CHECKS: Final = (unfit_topics, unsound_alerts, _unknown_time_zone)
"""What only those who know the devices and this machine can tell of a configuration."""


def _simulated_unasked(config: Config, source: Source) -> Iterator[Finding]:
    """A file of one's own that does not say on which hardware growd runs."""
    if source.path is not None and config.simulator.enabled and "simulator" not in source.values:
        model = model_of_this_machine()
        here = f"this {model}" if model else "this machine"
        reason = f"is not set, so the hardware is SIMULATED; set it to false for the hardware of {here}"
        yield Finding(("simulator", "enabled"), f"{reason}, or to true for the simulation")


DOUBTS: Final[tuple[Doubt, ...]] = (_simulated_unasked, *DEVICE_DOUBTS)
"""They find what is valid but probably a mistake; `growd check`, the log and `growd status` show warnings."""


def check_config(config: Config) -> None:
    """Ask them all. Raises `ConfigError`; with a file, `load` does so with the lines."""
    refuse(finding for check in (device_inconsistencies, *DEVICE_CHECKS) for finding in check(config))


def open_configured(config: Config, clock: Clock) -> Hardware:
    """The hardware that the configuration chooses, real or simulated, on the time of `clock`. Blocking.

    Raises `HardwareUnavailableError`, `ConfigError` where this machine can't have the lamps as configured, or
    `SimulationError` for a file that the simulator can't use.
    """
    if config.simulator.enabled:
        from growd.wiring.simulator import simulated_hardware  # noqa: PLC0415  as above

        hardware: Hardware = simulated_hardware(config, clock)
    else:
        hardware = open_hardware(sleep=clock.sleep_blocking, monotonic=clock.monotonic)
    try:
        check_lamps(hardware, config)
    except ConfigError:
        hardware.close()
        raise
    return hardware
