"""The composition root: builds all components, starts them in order, and ends them in the opposite order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from typing import TYPE_CHECKING, Final

import msgspec

from growd.bus import Bus
from growd.bus.errors import BusError
from growd.bus.params import Parameters
from growd.config import chambers_of
from growd.control.hold import OutputHold
from growd.host.data_folder import StartError, own_folder, unusable
from growd.host.machine import MachineNode
from growd.host.recent_log import recent_log
from growd.host.systemd import ServiceManager
from growd.parts import ConfigurationFile, Devices, Experiments, Surroundings, parts_opened
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import return_free_memory
from growd.runtime.liveness import Liveness
from growd.runtime.supervisor import Supervisor
from growd.server.errors import CertificateError
from growd.server.listener import AddressError, refuse_taken
from growd.status.status_node import StatusNode
from growd.status.summary import service_line
from growd.store.database_node import DatabaseNode
from growd.store.errors import LocalStoreError
from growd.store.local import LocalStore
from growd.store.memories import CalibrationRecords, InterlockMemory, ParameterKeeper
from growd.store.points import PointMaker
from growd.wiring.actuators import Common
from growd.wiring.chamber import AllChambers
from growd.wiring.chambers_node import declare_topics, describe_chambers, time_zone_name
from growd.wiring.database import configured_database
from growd.wiring.hardware import chosen_clock, opened_hardware, slow_down, speed_of
from growd.wiring.http import serving
from growd.wiring.mqtt import check_broker, mqtt_link
from growd.wiring.recipes import recipe_runners, run_documents
from growd.wiring.reload import Reloader, has_terminal
from growd.wiring.rest import keep_run
from growd.wiring.retention import configured_retention, configured_rollups
from growd.wiring.store import RELOADABLE, Core, Storage
from growd_drivers.errors import DriverError
from growd_drivers.pins import kept_pins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from growd.config import Config
    from growd.host.mqtt import MqttLink
    from growd.recipes.runner import RecipeRunner
    from growd.store.database import Database
    from growd.store.run_documents import RunDocuments
    from growd.wiring.derived import DerivedOfChamber
    from growd.wiring.http import Served
    from growd_drivers.hardware import Hardware

START_ERRORS: Final = (AddressError, BusError, CertificateError, DriverError, LocalStoreError)
READY_S: Final = 10.0  # how long the start waits for the database
_log = logging.getLogger(__name__)


class Running(msgspec.Struct, frozen=True):
    """The address, the database and the data folder of a running daemon, to be shown to a person."""

    address: str
    database: str
    data: Path
    speed: float
    """How many times as fast as real time it runs."""


class App:
    """One daemon: made from a configuration and a data folder, and run once.

    `reread` reads the configuration again for SIGHUP, or another text in place of that in `file`; blocking,
    may raise `ConfigError`. `warnings` are sentences about the configuration, for `growd status`. The start
    waits for the database for at most `database_wait_s`.
    """

    def __init__(
        self,
        config: Config,
        data: Path,
        reread: Callable[..., Config] | None = None,
        warnings: Sequence[str] = (),
        *,
        file: Path | None = None,
        database_wait_s: float = READY_S,
    ) -> None:
        self.config = config
        self._database_wait_s = database_wait_s
        self.data = data.absolute()
        self.shutdown_errors: list[str] = []  # sentences for a person
        self.restarts = False
        """Whether it was ended to be started again."""
        self._problems = [{"text": each, "code": "configuration_doubtful", "name": each} for each in warnings]
        self._reloader = Reloader(config, reread or (lambda: config))
        self._file = ConfigurationFile(file, lambda text: config if reread is None else reread(text=text))
        self._devices: Devices | None = None
        self._experiments = Experiments()
        self._stop = asyncio.Event()
        self._started = asyncio.Event()
        self._hung_up = asyncio.Event()
        self._liveness = Liveness(config.simulator.speed)
        self._manager = ServiceManager()
        self._hold: OutputHold
        self._derived: Sequence[DerivedOfChamber] = ()
        self._runners: dict[str, RecipeRunner] = {}

    def stop(self) -> None:
        """Ask `run` to end. Safe to call from a signal handler of the loop."""
        self._stop.set()

    def restart(self) -> None:
        """Ask `run` to end, and whoever called it to start another one."""
        self.restarts = True
        self.stop()

    @property
    def is_service(self) -> bool:
        """Whether systemd runs it."""
        return self._manager.is_there

    async def run(self, on_ready: Callable[[Running], None]) -> None:
        """Run until `stop()`, a signal or the end of the terminal; then outputs are safe and points saved.

        What fails on the way down is in `shutdown_errors`. Raises `StartError` with one sentence if growd
        can't start, and `ConfigError` if the configuration is the cause.
        """
        self._handle_signals()
        manager = self._manager = ServiceManager.from_environment()
        try:
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(manager.attended(self._liveness))
                signals = await stack.enter_async_context(Supervisor(RealClock(), self._liveness))
                signals.start("SIGHUP", self._handle_hangups)
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
            self._report(str(error))

    async def _start(self, stack: contextlib.AsyncExitStack) -> Running:
        """Start all components. They end in the opposite order: first of all the outputs are made safe."""
        config, start = self.config, stack.enter_async_context
        local, bus = await self._open_bus(stack)
        status = StatusNode(bus, config.chambers(), lambda: speed_of(bus.clock))
        tasks = await start(Supervisor(RealClock(), bus.liveness))
        tasks.start("status", status.run)
        database = await start(await asyncio.to_thread(configured_database, config, self.data))
        zone = await asyncio.to_thread(config.environment.zone)
        storage = Storage(config, bus, local, database, self._report)
        core = Core(lambda: self._reloader.config, bus, local, database, storage, zone)
        await self._start_storage(stack, core)
        mqtt = await start(mqtt_link(config, bus, local.device))
        served = await start(serving(core, status, self._reloader))
        documents = run_documents(core, self._runners)
        around = self._surroundings(core, status, served, documents, mqtt=mqtt)
        # before the chambers, so that no part delays the end of outputs
        await start(parts_opened(around, stopped=self._stop))
        hardware = await start(opened_hardware(config, bus, mqtt))
        await self._start_chambers(stack, core, hardware)
        await self._start_recipes(stack, core, documents)
        served.api.is_starting = False
        stack.enter_context(status.running())
        await self._until_ready(database)
        self._manager.status_line = lambda: service_line(status.snapshot())
        return_free_memory()
        stack.callback(slow_down, bus.clock)
        return Running(served.door.url, _described(database), self.data, speed_of(bus.clock))

    def _surroundings(
        self,
        core: Core,
        status: StatusNode,
        served: Served,
        documents: RunDocuments,
        *,
        mqtt: MqttLink | None,
    ) -> Surroundings:
        return Surroundings(
            core.present,
            core.bus,
            data=self.data,
            local=core.local,
            device=core.local.device,
            api=served.api,
            address=lambda: served.door.url,
            status=status,
            gateway=served.gateway,
            database=core.database,
            history=served.history,
            run_documents=documents,
            shipper=core.storage.shipper,
            runners=self._runners,
            mqtt=mqtt,
            file=self._file,
            offer_reload=self._reloader.offer,
            devices=lambda: self._devices,
            experiments=self._experiments,
            restart=self.restart,
        )

    async def _open_bus(self, stack: contextlib.AsyncExitStack) -> tuple[LocalStore, Bus]:
        """Lock the data folder, and open its local file and the bus, with the nodes of this machine."""
        config = self.config
        await check_broker(config)
        if not await asyncio.to_thread(self.data.exists) and "LISTEN_FDS" not in os.environ:
            await refuse_taken(config.http.host, config.http.port)  # before a folder is made in vain
        stack.enter_context(await asyncio.to_thread(self._own_folder))
        local = await LocalStore.open(self.data / "growd.sqlite3")
        stack.push_async_callback(local.close)
        clock = await stack.enter_async_context(chosen_clock(config, local, self._liveness))
        bus = Bus(clock, Parameters(await local.parameters(), ParameterKeeper(local)), self._liveness)
        stack.push_async_callback(bus.parameters.close)
        stack.enter_context(recent_log(bus))
        declare_topics(config, bus)
        describe_chambers(config, bus, await asyncio.to_thread(time_zone_name, config))
        bus.node("configuration").describe("problems", lambda: self._problems)
        self._hold = OutputHold(bus, self.data, config.chambers())
        await self._hold.read()
        machine = MachineNode(bus, self.data)
        stack.push_async_callback(machine.close)
        return local, bus

    async def _start_storage(self, stack: contextlib.AsyncExitStack, core: Core) -> None:
        """Start the database, the storage of points, rollups and retention."""
        bus, storage, start = core.bus, core.storage, stack.enter_async_context
        DatabaseNode(bus, core.database)
        await start(_running(bus, {"database": core.database.run}))
        await start(storage.running())
        rollups = configured_rollups(core)
        retention = configured_retention(core, rollups.feed)
        keeping = {"rollups": rollups.work.run, "retention": retention.run}
        await start(_running(bus, keeping))
        self._reloader.offer(*RELOADABLE, apply=storage.reconfigure)
        self._reloader.offer("retention", apply=retention.reconfigure)

    async def _start_chambers(self, stack: contextlib.AsyncExitStack, core: Core, hardware: Hardware) -> None:
        """Start control and calculated values."""
        config, bus, local, start = self.config, core.bus, core.local, stack.enter_async_context
        common = Common(
            bus,
            hardware,
            InterlockMemory(local),
            self._report,
            self._experiments,
            CalibrationRecords(local, core.storage.outbox, PointMaker(local.device)),
            core.zone,
            self._hold,
        )
        await start(AllChambers(config, common).running())
        self._devices = Devices(hardware, common.workers, lambda: self._hold.reason)
        if any(chamber.derived for chamber in chambers_of(config)):
            from growd.wiring.derived import derived_of  # noqa: PLC0415

            self._derived = derived_of(config, bus, local, core.zone)
        for each in self._derived:
            stack.push_async_callback(each.derivations.close)
        nodes = [node for each in self._derived for node in each.nodes]
        await start(_running(bus, {node.node.name: node.run for node in nodes}))

    async def _start_recipes(
        self, stack: contextlib.AsyncExitStack, core: Core, documents: RunDocuments
    ) -> None:
        """Start recipes, and the records of their runs."""
        tasks = {"recipe_run documents": documents.work.run}
        for runner in recipe_runners(core, documents, lambda: self._hold.reason):
            tasks[runner.node.name] = runner.run
            self._runners[runner.environment] = runner
            for each in self._derived:
                if each.environment == runner.environment:
                    each.outlook_by(runner.set_point_at)
        await stack.enter_async_context(_running(core.bus, tasks))

    def _own_folder(self) -> contextlib.AbstractContextManager[object]:
        """Lock the data folder, and write the outputs that `growd safe` has to know into it. Blocking."""
        lock = own_folder(self.data)
        try:
            self._keep_pins()
        except OSError as error:
            with lock:
                raise unusable(self.data, error) from None
        return lock

    def _keep_pins(self) -> None:
        """Save which pins are driven, and those claimed later before they are. Blocking. Raises OSError."""
        pins = None if self.config.simulator.enabled else kept_pins(self.config.gpio.library)
        keep_run(self.data, self.config, pins.claimed if pins else ())
        if pins:
            pins.on_claim = lambda pin: keep_run(self.data, self.config, {*pins.claimed, pin})

    async def _until_ready(self, database: Database) -> None:
        """Wait until the database is set up, until the time limit, or until `stop()`."""
        waits = (database.prepared.wait(), self._stop.wait())
        tasks = [asyncio.create_task(wait, name="start: wait") for wait in waits]
        await asyncio.wait(tasks, timeout=self._database_wait_s, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if not database.prepared.is_set() and not self._stop.is_set():
            _log.warning("the database is not ready yet; growd starts without it and keeps trying")

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
            loop.add_signal_handler(signal.SIGHUP, self._hung_up.set)

    async def _handle_hangups(self) -> None:
        """Stop at a SIGHUP that ends the terminal of this process; otherwise read the configuration again."""
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
                await self._hold.read()
                await self._reloader.reload()
            finally:
                self._manager.ready()

    def _report(self, sentence: str) -> None:
        _log.error("%s", sentence)
        self.shutdown_errors.append(sentence)


@contextlib.asynccontextmanager
async def _running(bus: Bus, components: Mapping[str, Callable[[], Awaitable[None]]]) -> AsyncIterator[None]:
    """Run components under these names for the body."""
    async with Supervisor(bus.clock, bus.liveness) as supervisor:
        for name, run in components.items():
            supervisor.start(name, run)
        yield


def _described(database: Database) -> str:
    kind = "embedded" if database.is_embedded else "Apache CouchDB"
    return f"{kind}, at {database.address or 'no address yet'}"
