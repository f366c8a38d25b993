"""The composition root: builds every part, starts them in order, and ends them in order.

The only place that chooses between the hardware of a Raspberry Pi and the simulated one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from growd.bus import Bus
from growd.bus.errors import BusError
from growd.bus.messages import MESSAGE_TYPES
from growd.bus.params import Parameters
from growd.clock import AcceleratedClock, Clock, RealClock
from growd.control.actuation import LightActuator, SwitchActuator
from growd.control.controllers import DirectController, LightController
from growd.control.filters import Filter
from growd.control.sampling import NOT_READY_LIMIT_S, Sampler
from growd.control.topics import declare_environment
from growd.devices import SENSOR_KINDS, SensorDevice, check_addresses, line_of
from growd.folders import StartError, couchdb_folder, own_folder, read_credentials
from growd.http.api import Api, Limits
from growd.http.connections import ConnectionLimits
from growd.http.gateway import Gateway
from growd.http.server import AddressError, Server
from growd.outputs import light_device, relay_device
from growd.recipes.runner import RecipeRunner
from growd.store.database import Database
from growd.store.errors import LocalStoreError
from growd.store.journal import RunJournal
from growd.store.local import LocalStore
from growd.store.outbox import Outbox
from growd.store.parameters import ParameterKeeper
from growd.store.points import PointMaker
from growd.store.recorder import Recorder
from growd.store.shipper import Shipper
from growd.supervisor import Supervisor
from growd.worker import Worker, WorkerError
from growd_drivers.errors import DriverError, NotReadyError
from growd_drivers.hardware import Hardware, open_hardware
from growd_hwsim.chamber import Chamber, ChamberParameters
from growd_hwsim.errors import SimulationError
from growd_hwsim.faults import load_faults
from growd_hwsim.hardware import WiredRelay, Wiring, open_simulated
from growd_hwsim.replay import ReplayedChamber, load_recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from growd.config import Config
    from growd.outputs import OutputDevice
    from growd_drivers.relay import Relay

READY_S: Final = 10.0  # how long the start waits for the database before it says so and goes on
DRAIN_S: Final = 0.5  # how long the daemon tries to ship the last points when it leaves
DEVICE_TIMEOUT_S: Final = 2.0
DEVICE_CLOSE_S: Final = 0.5  # a device that hangs holds up the way down for no longer
SAVE_TIME_S: Final = 10.0
_MOVES: Final[dict[str, Literal["valve", "fan"]]] = {
    "air_carbon_dioxide_valve_on": "valve",
    "air_flush_on": "fan",
}  # what a relay for a variable moves in the simulated chamber
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Running:
    """What runs where, for a person."""

    address: str
    database: str
    data: Path


class App:
    """One daemon: made from a configuration and a data folder, and run once."""

    def __init__(self, config: Config, data: Path) -> None:
        check_addresses(config.sensor)
        self.config = config
        self.data = data.absolute()
        self.complaints: list[str] = []  # what did not go well on the way down, for a person
        self._stop = asyncio.Event()
        self._clock: Clock = RealClock()

    def stop(self) -> None:
        """Ask `run` to end. Safe to call from a signal handler of the loop."""
        self._stop.set()

    async def run(self, on_ready: Callable[[Running], None]) -> None:
        """Run until `stop()` or a signal; outputs are safe and points kept before it returns.

        Where that could not be, `complaints` says so. Raises `StartError` with one clear sentence if it
        can't start.
        """
        loop = asyncio.get_running_loop()
        for number in _signals():
            loop.add_signal_handler(number, self.stop)
        try:
            async with contextlib.AsyncExitStack() as stack:
                running = await self._start(stack)
                if not self._stop.is_set():
                    on_ready(running)
                await self._stop.wait()
                _log.info("stopping")
        except (AddressError, BusError, DriverError, LocalStoreError, SimulationError) as error:
            raise StartError(str(error)) from error

    def _complain(self, sentence: str) -> None:
        _log.error("%s", sentence)
        self.complaints.append(sentence)

    async def _start(self, stack: contextlib.AsyncExitStack) -> Running:
        """Start all parts. They end in the opposite order: outputs are safe before anything else goes."""
        stack.enter_context(await asyncio.to_thread(own_folder, self.data))
        local = await LocalStore.open(self.data / "growd.sqlite3")
        stack.push_async_callback(local.close)
        self._clock = await self._chosen_clock(local)
        bus = Bus(self._clock, Parameters(await local.parameters(), ParameterKeeper(local)))
        stack.push_async_callback(bus.parameters.close)
        self._declare_topics(bus)

        database = await stack.enter_async_context(await asyncio.to_thread(self._database))
        outbox = await stack.enter_async_context(self._storing(bus, local, database))
        server = await stack.enter_async_context(self._serving(bus, database))
        await stack.enter_async_context(self._controlling(bus, local, outbox, database))
        await self._until_ready(database)
        return Running(_url(server), self._described(database), self.data)

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
        """The machine's clock; for simulated hardware one that may run fast and never goes back.

        A simulation that ran fast is ahead of the machine's clock. The next one goes on from where it was.
        """
        simulator = self.config.simulator
        if not simulator.enabled:
            return RealClock()
        kept = await local.state("simulated_time", 0.0)
        now = time.time()
        if simulator.speed == 1 and kept <= now:
            return RealClock()
        return AcceleratedClock(simulator.speed, max(now, kept))

    def _declare_topics(self, bus: Bus) -> None:
        declare_environment(bus, self.config.environment.id, self._sensed())
        for name, message_type in self.config.topics.items():
            bus.topics.declare(name, MESSAGE_TYPES[message_type])

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
        )

    @contextlib.asynccontextmanager
    async def _storing(self, bus: Bus, local: LocalStore, database: Database) -> AsyncIterator[Outbox]:
        """The database, and all between it and the bus. At the end the last points are kept and shipped."""
        store = self.config.store
        outbox = await Outbox.open(local, self._clock, commit_interval=store.commit_interval_s)
        shipper = Shipper(
            database.couch,
            outbox,
            self._clock,
            database=database.names.points,
            prepare=database.prepare,
            batch=store.batch,
            max_batch=store.max_batch,
            max_age=store.max_age_s,
        )
        database.when_up(shipper.retry_now)  # a back-off may have a minute to go
        recorder = Recorder(
            bus,
            outbox,
            PointMaker(local.device),
            [self.config.environment.id],
            minimum_interval=store.minimum_interval_s,
            maximum_interval=store.maximum_interval_s,
        )
        async with Supervisor(self._clock) as outer:
            outer.start("database", database.run)
            try:
                async with Supervisor(self._clock) as parts:
                    parts.start("outbox", outbox.run)
                    parts.start("shipper", shipper.run)
                    parts.start("recorder", recorder.run)
                    if isinstance(self._clock, AcceleratedClock):
                        parts.start("simulated time", functools.partial(self._save_time, local))
                    yield outbox
            finally:
                await self._keep_last_points(outbox)
                await shipper.drain(DRAIN_S)
        if isinstance(self._clock, AcceleratedClock):
            await local.save_state("simulated_time", self._clock.time())

    async def _keep_last_points(self, outbox: Outbox) -> None:
        try:
            await outbox.flush()
        except LocalStoreError as error:
            self._complain(f"the last {outbox.depth() - outbox.waiting} points are lost: {error}")

    async def _save_time(self, local: LocalStore) -> None:
        while True:
            await local.save_state("simulated_time", self._clock.time())
            await asyncio.sleep(SAVE_TIME_S)  # real: it is for a kill of this process

    # the front door

    @contextlib.asynccontextmanager
    async def _serving(self, bus: Bus, database: Database) -> AsyncIterator[Server]:
        http = self.config.http
        limits = Limits(
            body_bytes=http.max_body_bytes,
            streams=http.max_streams,
            stream_queue=http.stream_queue,
            heartbeat_s=http.heartbeat_s,
            topic_data_s=http.topic_data_s,
        )
        connections = ConnectionLimits(http.max_connections, http.header_timeout_s, http.keep_alive_s)
        gateway = Gateway(lambda: database.address)
        server = Server(Api(bus, bus.node("http"), f"_{http.name}", limits), gateway, connections)
        try:
            await server.open(http.host, http.port)
            yield server
        finally:
            await server.close()
            await gateway.close()

    def _described(self, database: Database) -> str:
        kind = "embedded" if database.is_embedded else "Apache CouchDB"
        return f"{kind}, at {database.address or 'no address yet'}"

    # hardware and control

    @contextlib.asynccontextmanager
    async def _controlling(
        self, bus: Bus, local: LocalStore, outbox: Outbox, database: Database
    ) -> AsyncIterator[None]:
        """Hardware, and all between it and the bus. At the end the outputs are safe."""
        hardware = await asyncio.to_thread(self._open_hardware)
        environment = self.config.environment.id
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, hardware.close)
            actuators = [*self._lamps(stack, bus, hardware), *self._relays(stack, bus, hardware)]
            async with Supervisor(self._clock) as parts:
                runner = RecipeRunner(
                    bus,
                    environment,
                    fetch=database.recipe,
                    journal=RunJournal(local, outbox, PointMaker(local.device), environment),
                )
                parts.start(runner.node.name, runner.run)
                for part in (
                    *actuators,
                    *self._controllers(bus),
                    *self._sensors(stack, bus, hardware),
                ):
                    parts.start(part.node.name, part.run)
                yield
            await asyncio.gather(*(actuator.make_safe() for actuator in actuators))

    def _open_hardware(self) -> Hardware:
        simulator = self.config.simulator
        sleep, monotonic = self._clock.sleep_blocking, self._clock.monotonic
        if not simulator.enabled:
            return open_hardware(sleep=sleep, monotonic=monotonic)
        faults = load_faults(Path(simulator.faults)) if simulator.faults else []
        return open_simulated(
            self._simulated_chamber(),
            sleep=sleep,
            monotonic=monotonic,
            faults=faults,
            wiring=self._simulated_wiring(),
            seed=simulator.seed,
        )

    def _simulated_chamber(self) -> Chamber:
        """The model, or what was recorded."""
        simulator, monotonic = self.config.simulator, self._clock.monotonic
        parameters = ChamberParameters(door_hours=simulator.door_hours)
        local_time = time.localtime(self._clock.time())
        since_midnight = local_time.tm_hour * 3600 + local_time.tm_min * 60 + local_time.tm_sec
        if not simulator.replay:
            return Chamber(monotonic, parameters, seed=simulator.seed, time_of_day_s=since_midnight)
        return ReplayedChamber(
            load_recording(Path(simulator.replay)),
            monotonic,
            parameters,
            seed=simulator.seed,
            time_of_day_s=since_midnight,
            gap_s=simulator.replay_gap_s,
            loop=simulator.replay_loop,
        )

    def _simulated_wiring(self) -> Wiring:
        """The simulated machine is wired as the configuration says."""
        wired: dict[str, Any] = {}
        ports = {}
        for sensor in self.config.sensor:
            if sensor.port is not None:
                ports[sensor.port.replace("*", "0")] = sensor.kind
                continue
            wired[f"{sensor.kind}_address"] = sensor.address or SENSOR_KINDS[sensor.kind].address
            wired["i2c_bus"] = sensor.bus
        light = self.config.light
        return Wiring(
            **wired,
            serial=ports,
            lamp_pins={channel.name: channel.pin for channel in light.channel},
            inverted_lamps=light.inverted,
            relays={
                relay.pin: WiredRelay(_MOVES[relay.variable], active_high=relay.active == "high")
                for relay in self.config.relay
            },
        )

    def _lamps(
        self, stack: contextlib.AsyncExitStack, bus: Bus, hardware: Hardware
    ) -> Iterator[LightActuator]:
        light = self.config.light
        if not light.enabled:
            return
        lamp = light_device(hardware, light)
        yield LightActuator(
            bus,
            self.config.environment.id,
            write=lambda channel, level: lamp.use().set(channel, level),
            worker=self._output_worker(stack, "gpio", lamp),
            mix={channel.name: channel.mix for channel in light.channel},
            ramp_s=light.ramp_s,
            stale_after_s=self._patient(light.stale_after_s),
            write_timeout_s=self._patient(DEVICE_TIMEOUT_S),
        )

    def _relays(
        self, stack: contextlib.AsyncExitStack, bus: Bus, hardware: Hardware
    ) -> Iterator[SwitchActuator]:
        for settings in self.config.relay:
            relay = relay_device(hardware, settings)
            yield SwitchActuator(
                bus,
                self.config.environment.id,
                settings.name,
                settings.variable,
                write=functools.partial(_switch, relay),
                worker=self._output_worker(stack, f"gpio-{settings.name}", relay),
                safe_on=settings.safe == "on",
                stale_after_s=self._patient(settings.stale_after_s),
                write_timeout_s=self._patient(DEVICE_TIMEOUT_S),
            )

    def _output_worker(
        self, stack: contextlib.AsyncExitStack, name: str, device: OutputDevice[Any]
    ) -> Worker:
        """The thread of one output: one that hangs keeps no other. At the end the output is closed."""
        worker = Worker(name)
        stack.push_async_callback(worker.close, DEVICE_CLOSE_S)
        stack.push_async_callback(self._close_output, worker, device)
        return worker

    async def _close_output(self, worker: Worker, device: OutputDevice[Any]) -> None:
        try:
            async with asyncio.timeout(DEVICE_CLOSE_S):
                await worker.run(device.close)
        except TimeoutError:
            self._complain(f"{device.name} does not answer: its outputs may not be safe")
        except (DriverError, WorkerError) as error:
            self._complain(f"{device.name}'s outputs may not be safe: {error}")

    def _controllers(self, bus: Bus) -> Iterator[LightController | DirectController | Filter]:
        environment, light = self.config.environment.id, self.config.light
        for variable in self._sensed():
            yield Filter(
                bus,
                environment,
                variable,
                weight=self.config.filter.weight,
                stale_after_s=self._stale_after(variable),
            )
        if light.enabled:
            yield LightController(
                bus,
                environment,
                full_scale_lux=light.full_scale_lux,
                measured_stale_after_s=self._stale_after("light_illuminance"),
                override_s=light.override_s,
            )
            for channel in light.channel:
                variable = f"light_intensity_{channel.name}"
                yield DirectController(bus, environment, variable, override_s=light.override_s)
        for variable, override_s in {relay.variable: relay.override_s for relay in self.config.relay}.items():
            yield DirectController(bus, environment, variable, override_s=override_s)

    def _sensors(self, stack: contextlib.AsyncExitStack, bus: Bus, hardware: Hardware) -> Iterator[Sampler]:
        """One sampler for each sensor, and one worker thread for each bus and serial line."""
        workers: dict[str, Worker] = {}
        for sensor in self.config.sensor:
            line = line_of(sensor)
            if line not in workers:
                worker = workers[line] = Worker(line)
                stack.push_async_callback(worker.close, DEVICE_CLOSE_S)
            device = SensorDevice(hardware, sensor)
            yield Sampler(
                bus,
                self.config.environment.id,
                device.name,
                read=device.read,
                variables=device.variables,
                worker=workers[line],
                interval_s=sensor.interval_s,
                read_timeout_s=self._patient(DEVICE_TIMEOUT_S),
                not_ready=NotReadyError,
                not_ready_limit_s=max(
                    NOT_READY_LIMIT_S + SENSOR_KINDS[sensor.kind].warm_up_s, sensor.interval_s
                ),
                services=device.services,
            )

    def _stale_after(self, variable: str) -> float:
        """Seconds of the clock after which a variable is stale: never before two readings are missed."""
        missed = [
            2 * sensor.interval_s
            for sensor in self.config.sensor
            if variable in SENSOR_KINDS[sensor.kind].variables.values()
        ]
        return max([self._patient(self.config.filter.stale_after_s), *missed])

    def _sensed(self) -> list[str]:
        """The variables that some sensor measures."""
        kinds = [SENSOR_KINDS[sensor.kind] for sensor in self.config.sensor]
        return sorted({variable for kind in kinds for variable in kind.variables.values()})

    def _patient(self, seconds: float) -> float:
        """A time limit on this machine's work, in seconds of the clock: simulated time runs faster."""
        return seconds * max(1.0, self.config.simulator.speed)


def _switch(relay: OutputDevice[Relay], on: bool) -> None:  # noqa: FBT001  what an actuator writes
    relay.use().set(on)


def _signals() -> list[signal.Signals]:
    """What asks the daemon to end. SIGHUP, the end of its terminal, only where nobody chose to ignore it."""
    is_heard = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # as nohup does
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if is_heard else [])]


def _url(server: Server) -> str:
    host, port = server.address or ("", 0)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
