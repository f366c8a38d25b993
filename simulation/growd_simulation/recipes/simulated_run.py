"""Tries a recipe in a simulated chamber: composes its parts, and lets time jump until the end."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import partial
from importlib import import_module
from itertools import chain
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from growd.bus import Bus
from growd.device_kinds import SENSOR_KINDS
from growd.recipes.circumstances import counted_outputs
from growd.recipes.formats import RecipeRefusedError
from growd.runtime.liveness import Liveness
from growd.runtime.supervisor import Supervisor
from growd.store.history.history import History
from growd.store.points import DEVICE_ID_BYTES, PointMaker
from growd.store.recorder import Recorder
from growd.wiring.actuators import Common
from growd.wiring.chamber import AllChambers
from growd.wiring.chambers_node import declare_topics
from growd.wiring.database import known_variables
from growd.wiring.derived import derived_of
from growd.wiring.hardware import opened_hardware
from growd.wiring.recipes import recipe_runner
from growd_analysis.figures.run_figures import RunPoints, ratings_of, run_figures
from growd_analysis.points.export import COLUMNS, Export, ExportQuery
from growd_analysis.points.part_file import StreamFile
from growd_analysis.reports.language import Language
from growd_analysis.reports.reading import RunReading
from growd_analysis.reports.report import report
from growd_simulation.recipes.points import SOURCE, MemoryReader, OneRun, PointsInMemory, ShortMemory
from growd_simulation.simulated_clock import SimulatedClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo
    from typing import BinaryIO

    from growd.config import Chamber, Config
    from growd.recipes.runner import RecipeRunner
    from growd.wiring.derived import DerivedOfChamber
    from growd_analysis.figures.figures import RunFigures
    from growd_analysis.reports.reading import ReadPhoto
    from growd_camera.film import Film
    from growd_hwsim.faults import Fault
    from growd_hwsim.hardware import SimulatedHardware

FIRST_DAY: Final = date(2026, 1, 1)
BY: Final = "growd simulate"
DAY_S: Final = 86_400.0
STEPS: Final = 200
"""Reports of the progress of a simulation, at least: one in an hour of its time."""

_FILMED_S: Final = 3_600.0
_FILM_WIDTH: Final = 640
_LIT_PPFD: Final = 20.0  # umol/m2/s; daylight through the window is less
_READING_S: Final = 3_600.0  # real seconds for a plot; nothing else waits


class SimulationProgress(NamedTuple):
    """The share that is done, and how many times as fast as real time it ran."""

    done: float
    speed: float


@dataclass(frozen=True)
class Simulation:
    """What to try: a checked recipe in an environment, for at most so many seconds."""

    config: Config
    chamber: Chamber
    recipe_id: str
    recipe: dict[str, Any]
    seconds: float
    faults: Sequence[Fault] = ()
    film: Film | None = None
    """Gets a picture of the plants in each hour of light."""

    def new_clock(self) -> SimulatedClock:
        """The clock of the simulation, at the midnight at which it begins. Blocking."""
        midnight = datetime.combine(FIRST_DAY, time(), self.config.environment.zone())
        return SimulatedClock(start=midnight.timestamp())


class SimulatedRun:
    """What came of a simulation: figures of the run, the outputs with their counters, and all points."""

    def __init__(
        self,
        simulation: Simulation,
        bus: Bus,
        zone: tzinfo | None,
        *,
        points: PointsInMemory,
        record: dict[str, Any],
    ) -> None:
        self.record = record
        self.injected = simulation.faults
        self.outputs = counted_outputs(bus, simulation.chamber.environment)
        self.figures: RunFigures
        self._bus = bus
        self._simulation = simulation
        self._zone = zone
        self._reader = MemoryReader(points)
        self._ratings = ratings_of(simulation.chamber, bus)

    async def account(self) -> None:
        """Make the figures."""
        points = RunPoints(self._reader, self._simulation.config.store.holds_s)
        self.figures = await run_figures(
            self.record, points, now=self._bus.clock.time(), zone=self._zone, ratings=self._ratings
        )

    async def report(self, language: str) -> bytes:
        """The report of the run, as HTML."""
        config, figures, now = self._simulation.config, self.figures, self._bus.clock.time
        history = History(
            lambda: SOURCE,
            nullcontext,
            partial(known_variables, frozenset(config.chambers()), self._bus),
            holds_s=config.store.holds_s,
            now=now,
            limit_s=_READING_S,
            reader=self._reader,
        )
        async with history:
            reading = RunReading(self.record, figures, history)
            described: dict[str, Any] = {"notes": [], "measurements": []}
            described |= await history.events(reading.environment, figures.start, figures.end)
            return await report(reading, described, _no_photo, Language(language, self._zone), now=now())

    async def write_csv(self, stream: BinaryIO) -> int:
        """Write all points as `growd db export --category all` does; returns their number."""
        file = StreamFile(stream)
        query = ExportQuery("by_variable", COLUMNS, with_marks=True)
        await Export(self._reader, query).to_csv(file, lambda _: None)
        return file.mark.rows


class _InOrder(ThreadPoolExecutor):
    """Lets the loop wait for each call: nobody else needs it, and each run has the same order."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = super().submit(function, *args, **named)
        ended: SimpleQueue[Future[Any]] = SimpleQueue()
        future.add_done_callback(ended.put)
        return ended.get()


async def run_simulation(
    simulation: Simulation,
    clock: SimulatedClock,
    tell: Callable[[SimulationProgress], None],
    is_stopped: Callable[[], bool],
) -> SimulatedRun:
    """Try the recipe until its end, its time is up, or `is_stopped`. Needs a loop that moves the clock.

    Raises `RecipeRefusedError`; `ConfigError`, `DriverError` and `StartError` if the configuration does
    not work in this simulator.
    """
    asyncio.get_running_loop().set_default_executor(_InOrder())
    random.seed(simulation.config.simulator.seed)  # of the pauses between attempts
    zone = simulation.config.environment.zone()
    points = PointsInMemory()
    random_bytes = random.Random(simulation.config.simulator.seed).randbytes  # noqa: S311  ids, repeatable

    def new_hex(length: int) -> str:
        return random_bytes(length).hex()

    maker = PointMaker(new_hex(DEVICE_ID_BYTES), new_hex)
    run = OneRun(points, maker, simulation.chamber.environment)
    bus = Bus(clock, liveness=Liveness(monotonic=clock.monotonic))
    declare_topics(simulation.config, bus)
    async with AsyncExitStack() as stack:
        runner, hardware = await _start(simulation, bus, stack, zone, points=points, maker=maker, run=run)
        await _call(bus, runner, "start_recipe", recipe_id=simulation.recipe_id)
        if simulation.film is not None:
            filming = await stack.enter_async_context(Supervisor(clock, bus.liveness))
            filming.start("film", partial(_film, simulation, simulation.film, clock, hardware))
        await _pass_time(simulation, clock, run, tell, is_stopped)
        if run.document["ended"] is None:
            await _call(bus, runner, "stop_recipe")
        ran = SimulatedRun(simulation, bus, zone, points=points, record=run.document)
    await ran.account()
    return ran


async def _start(
    simulation: Simulation,
    bus: Bus,
    stack: AsyncExitStack,
    zone: tzinfo | None,
    *,
    points: PointsInMemory,
    maker: PointMaker,
    run: OneRun,
) -> tuple[RecipeRunner, SimulatedHardware]:
    """Start the parts in the order of the daemon; they end in the opposite order."""
    config, start, memory = simulation.config, stack.enter_async_context, ShortMemory()
    recorder = Recorder(bus, points, maker, [simulation.chamber.environment], config.store)
    recording = await start(Supervisor(bus.clock, bus.liveness))
    recording.start(recorder.node.name, recorder.run)
    for sensor in chain.from_iterable(each.sensor for each in config.chambers().values()):
        if module := SENSOR_KINDS[sensor.kind].slow_import:  # else the first run of a process differs
            await asyncio.to_thread(import_module, module)
    hardware = cast("SimulatedHardware", await start(opened_hardware(config, bus, None)))
    for fault in simulation.faults:
        hardware.faults.inject(fault)
    chambers = AllChambers(config, Common(bus, hardware, memory=memory, report=lambda _: None, zone=zone))
    await start(chambers.running())
    derived = derived_of(config, bus, memory, zone)
    runner = _runner(simulation, bus, zone, run, derived)
    rest = await start(Supervisor(bus.clock, bus.liveness))
    for node in (*(node for each in derived for node in each.nodes), runner):
        rest.start(node.node.name, node.run)
    return runner, hardware


def _runner(
    simulation: Simulation, bus: Bus, zone: tzinfo | None, run: OneRun, derived: Sequence[DerivedOfChamber]
) -> RecipeRunner:
    async def fetch(_: str) -> dict[str, Any]:
        return dict(simulation.recipe)

    runner = recipe_runner(
        simulation.chamber, lambda: simulation.config, bus, fetch=fetch, journal=run, zone=zone
    )
    for each in derived:
        if each.environment == runner.environment:
            each.outlook_by(runner.set_point_at)
    return runner


async def _call(bus: Bus, runner: RecipeRunner, name: str, **arguments: str) -> None:
    """Call a service of the runner, once it has loaded. Raises `RecipeRefusedError`."""
    while not runner.is_loaded:  # noqa: ASYNC110  in a few turns of the loop, in which no time passes
        await asyncio.sleep(0)
    answer = await bus.services.get(f"{runner.environment}/{name}").call(arguments, BY)
    if not answer["success"]:
        raise RecipeRefusedError(answer["message"])


async def _film(
    simulation: Simulation, film: Film, clock: SimulatedClock, hardware: SimulatedHardware
) -> None:
    """Add a picture in each hour of light, until cancelled or the film fails."""
    number = [*simulation.config.chambers()].index(simulation.chamber.environment)
    while film.problem is None:
        await clock.sleep(_FILMED_S)
        if hardware.chambers[number].ppfd_umol_m2_s() > _LIT_PPFD:
            picture = await asyncio.to_thread(hardware.picture, number, _FILM_WIDTH)
            await asyncio.to_thread(film.try_to_add, picture or b"")


async def _pass_time(
    simulation: Simulation,
    clock: SimulatedClock,
    run: OneRun,
    tell: Callable[[SimulationProgress], None],
    is_stopped: Callable[[], bool],
) -> None:
    """Let time pass, and tell the progress."""
    start, began, seconds = clock.monotonic(), monotonic(), simulation.seconds
    step, passed = min(seconds / STEPS, 3_600.0), 0.0
    while passed < seconds and run.document["ended"] is None and not is_stopped():
        await clock.sleep(min(step, seconds - passed))
        passed = clock.monotonic() - start
        tell(SimulationProgress(min(1.0, passed / seconds), passed / (monotonic() - began)))


async def _no_photo(_id: str, _name: str, _most: int) -> ReadPhoto | None:
    """There is no journal."""
    return None
