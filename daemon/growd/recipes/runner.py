"""The recipe runner: one recipe at a time in an environment, through restarts and clock steps."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from growd.bus.fields import Field, Kind
from growd.bus.messages import STRING, Quality
from growd.recipes.errors import InvalidRecipeError, RefusedError
from growd.recipes.interpreter import PLANS, Plan, interpret

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from growd.bus import Bus
    from growd.bus.params import Parameter
    from growd.bus.topics import Publisher
    from growd.clock import Clock
    from growd.recipes.schema import Finding

logger = logging.getLogger(__name__)

MAX_ID: Final = 200  # characters, so that it fits in names and in a file of any kind
PERIOD_S: Final = 1.0
PROGRESS_S: Final = 60.0
WALL_STEP_S: Final = 1.0  # a wall clock that moved by more than this against the monotonic one was set
LOAD_RETRY_S: Final = 30.0
FETCH_S: Final = 5.0  # real seconds, for the far side is real: who asks for a start waits for the answer
PLAUSIBLE: Final = 1_577_836_800.0  # 2020-01-01: a wall clock before it was never set


class Journal(Protocol):
    """Where the run is kept. Each call raises OSError if it can't be done, and then nothing is changed."""

    async def load(self) -> dict[str, Any] | None:
        """The run that was kept last, None if there is none."""

    async def commit(self, run: dict[str, Any] | None, variable: str, value: str, time: float) -> None:
        """In one durable transaction: keep the run (None clears it) and add a data point.

        The point is of `variable` (recipe_start or recipe_end), desired, with `value` (the recipe's id) and
        `time` (UNIX seconds).
        """

    async def progress(self, run: dict[str, Any]) -> None:
        """Keep how far the run has come. Need not be durable at once, must not overtake a commit."""


class Run(msgspec.Struct, forbid_unknown_fields=True):
    """A run as it is kept: the whole recipe is pinned, so that an edit of the document changes nothing.

    `start` is the UNIX time of the start. The run had come to `elapsed` seconds at the UNIX time `seen`,
    which never goes back and never stands still while the run goes on, whatever the wall clock does.
    """

    recipe_id: str
    recipe: dict[str, Any]
    start: float
    elapsed: float
    seen: float


class RecipeRunner:
    """Runs one recipe at a time and publishes its set points each second.

    Services `<environment>/start_recipe` (recipe_id) and `<environment>/stop_recipe`. Parameters, for clients
    to read: `<environment>/current_recipe` ("" when idle), `/current_recipe_start` (UNIX seconds, 0 when
    idle), `/supported_recipe_formats` (separated by commas).

    `fetch(recipe_id)` returns the recipe document; it raises LookupError if there is none, and OSError or
    RuntimeError if the database does not give it. The position is kept on monotonic time. After a restart it
    goes on where it would be now, or, if the wall clock is behind the last known position (no battery clock),
    at that position. At its end, and when it is stopped, every set point it gave is released: a message of
    quality stale without a value.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        *,
        fetch: Callable[[str], Awaitable[dict[str, Any]]],
        journal: Journal,
        progress_s: float = PROGRESS_S,
    ) -> None:
        self.node = bus.node(f"{environment}/recipe_runner")
        self._clock = bus.clock
        self._environment = environment
        self._fetch = fetch
        self._journal = journal
        self._progress_every = progress_s
        self._lock = asyncio.Lock()  # held by whoever changes the run or keeps it
        self._loaded = False
        self._active: _Active | None = None
        self._trouble: dict[str, str] = {}
        self._start_points = self.node.advertise(f"{environment}/desired/recipe_start", STRING)
        self._end_points = self.node.advertise(f"{environment}/desired/recipe_end", STRING)
        self._declare_parameters()
        self._serve()

    async def run(self) -> None:
        """Resume what ran before, then keep the set points up until cancelled."""
        await self._load()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_progress(), name=f"{self.node.name}: progress")
            while True:
                await self._guarded_tick()
                await self._clock.sleep(PERIOD_S)

    async def start(self, recipe_id: str) -> dict[str, Any]:
        """The service `start_recipe`: answers once the start is durable."""
        try:
            warnings = await self._start(recipe_id)
        except RefusedError as error:
            return {"success": False, "message": str(error)}
        words = "".join(f"; warning: {finding}" for finding in warnings)
        return {"success": True, "message": f"the recipe {recipe_id} has started{words}"}

    async def stop(self) -> dict[str, Any]:
        """The service `stop_recipe`: answers once the end is durable."""
        try:
            recipe_id = await self._to_the_end(self._stop())
        except RefusedError as error:
            return {"success": False, "message": str(error)}
        return {"success": True, "message": f"the recipe {recipe_id} has been stopped"}

    def _declare_parameters(self) -> None:
        def parameter(name: str, kind: Kind, default: Any) -> Parameter:
            field = Field(name, kind, default=default)
            return self.node.declare(f"{self._environment}/{name}", field, read_only=True)

        self._current = parameter("current_recipe", Kind.STRING, "")
        self._current_start = parameter("current_recipe_start", Kind.FLOAT64, 0.0)
        self._formats = parameter("supported_recipe_formats", Kind.STRING, "")

    def _serve(self) -> None:
        self.node.serve(
            f"{self._environment}/start_recipe",
            "openag_brain/StartRecipe",
            self.start,
            arguments=(Field("recipe_id", Kind.STRING, doc="the id of a document in the database recipes"),),
            doc="Start a recipe. Refused while one runs, and when the recipe has errors.",
        )
        self.node.serve(
            f"{self._environment}/stop_recipe",
            "openag_brain/Empty",
            self.stop,
            doc="Stop the recipe that runs. Refused when none runs.",
        )

    async def _to_the_end(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Finish `work` even if the caller is cancelled: what is durable and what is in memory stay one."""
        task = asyncio.create_task(work, name=f"{self.node.name}: service")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise

    async def _start(self, recipe_id: str) -> list[Finding]:
        """A caller who goes away ends it as long as the database is asked, but no more from `_begin` on."""
        _check_id(recipe_id)
        self._refuse_unless_idle()
        # Without the lock: a database that hangs must not hold up whoever wants to stop.
        recipe = await self._fetched(recipe_id)
        try:
            # in a thread: a hundred thousand operations take too long for the event loop
            plan, warnings = await asyncio.to_thread(interpret, recipe)
        except InvalidRecipeError as error:
            raise RefusedError(f"the recipe {recipe_id} is not valid: {error}") from error
        async with self._lock:
            self._refuse_unless_idle()  # somebody else may have started one meanwhile
            now = self._clock.time()
            run = Run(recipe_id, recipe, start=now, elapsed=0.0, seen=now)
            await self._to_the_end(self._begin(run, plan))
        logger.info("%s: the recipe %s has started", self._environment, recipe_id)
        return warnings

    async def _begin(self, run: Run, plan: Plan) -> None:
        """Record the start, and run from then on."""
        await self._commit(run, "recipe_start", run.recipe_id, run.start)
        self._active = _Active(run, plan, self._clock)
        self._start_points.publish(run.recipe_id, time=run.start)
        await self._show()
        self._publish_set_points(self._active)

    async def _stop(self) -> str:
        async with self._lock:
            self._refuse_unless_loaded()
            active = self._active
            if active is None:
                raise RefusedError("no recipe is running")
            await self._end(active)
            self._release(active)
        logger.info("%s: the recipe %s has been stopped", self._environment, active.run.recipe_id)
        return active.run.recipe_id

    def _refuse_unless_loaded(self) -> None:
        if not self._loaded:
            raise RefusedError("it is not known yet which recipe ran before the restart; try again")

    def _refuse_unless_idle(self) -> None:
        self._refuse_unless_loaded()
        if self._active is not None:
            raise RefusedError(f"the recipe {self._active.run.recipe_id} is running; stop it first")

    async def _fetched(self, recipe_id: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(FETCH_S) as limit:
                return await self._fetch(recipe_id)
        except LookupError:
            raise RefusedError(f"there is no recipe {recipe_id}") from None
        except (OSError, RuntimeError) as error:  # a TimeoutError is an OSError
            why = f"no answer within {FETCH_S:g} s" if limit.expired() else str(error)
            raise RefusedError(f"the recipe {recipe_id} can't be read from the database: {why}") from error

    async def _commit(self, run: Run | None, variable: str, recipe_id: str, time: float) -> None:
        kept = None if run is None else msgspec.structs.asdict(run)
        try:
            await self._journal.commit(kept, variable, recipe_id, time)
        except OSError as error:
            raise RefusedError(f"{variable} of {recipe_id} could not be recorded: {error}") from error

    async def _end(self, active: _Active) -> None:
        """Record the end, once. It is never earlier than the start, however the wall clock was set."""
        time = max(self._clock.time(), active.run.start + active.elapsed())
        await self._commit(None, "recipe_end", active.run.recipe_id, time)
        self._active = None
        self._end_points.publish(active.run.recipe_id, time=time)
        await self._show()

    async def _show(self) -> None:
        """Set the parameters. What they say is for people: if it can't be kept, the run goes on."""
        run = None if self._active is None else self._active.run
        try:
            await _set(self._current, "" if run is None else run.recipe_id)
            await _set(self._current_start, 0.0 if run is None else run.start)
            await _set(self._formats, ",".join(sorted(PLANS)))
        except OSError as error:
            logger.warning("%s: the parameters of the recipe were not kept: %s", self._environment, error)

    async def _load(self) -> None:
        delay = PERIOD_S
        while not self._loaded:
            try:
                kept = await self._journal.load()
            except OSError as error:
                self._log_trouble("reading the journal", error)
                await self._clock.sleep(delay)
                delay = min(2 * delay, LOAD_RETRY_S)
            else:
                async with self._lock:
                    await self._resume(kept)
                    self._loaded = True
                    await self._show()

    async def _resume(self, kept: dict[str, Any] | None) -> None:
        if kept is None:
            return
        try:
            run = msgspec.convert(kept, Run)
        except msgspec.ValidationError:
            logger.exception("%s: the kept run can't be read; no recipe is resumed", self._environment)
            return
        if run.seen >= PLAUSIBLE:
            # the wall clock counts the time without power, unless it is behind what was seen already
            run.elapsed += max(0.0, self._clock.time() - run.seen)
        run.seen = max(run.seen, self._clock.time())
        try:
            plan, _ = await asyncio.to_thread(interpret, run.recipe)
        except InvalidRecipeError:
            logger.exception(
                "%s: the recipe %s is not valid any more; it ends", self._environment, run.recipe_id
            )
            plan = _NoPlan()
        self._active = _Active(run, plan, self._clock)
        if run.elapsed >= plan.duration:
            self._active.ending = True  # it ended while nobody looked: its last set points are past
        logger.info("%s: the recipe %s goes on at %.0f s", self._environment, run.recipe_id, run.elapsed)

    async def _guarded_tick(self) -> None:
        try:
            await self._tick()
        except Exception as error:  # noqa: BLE001  whatever it is, the next second is tried again
            self._log_trouble("tick", error)
        else:
            self._trouble.pop("tick", None)

    def _log_trouble(self, what: str, error: Exception) -> None:
        """Once for each outage, not each second. A mistake in the program with its traceback."""
        words = f"{what}: {type(error).__name__}: {error}"
        if self._trouble.get(what) != words:
            self._trouble[what] = words
            expected = isinstance(error, (OSError, RefusedError))
            logger.error("%s: %s", self.node.name, words, exc_info=None if expected else error)

    async def _tick(self) -> None:
        active = self._active
        if active is None:
            return
        if not active.ending:
            self._publish_set_points(active)
            active.ending = active.elapsed() >= active.plan.duration
        if active.ending:
            self._release(active)
            async with self._lock:
                if self._active is active:
                    await self._end(active)
                    logger.info("%s: the recipe %s has ended", self._environment, active.run.recipe_id)

    def _publish_set_points(self, active: _Active) -> None:
        for variable, value in active.plan.set_points(active.elapsed()).items():
            active.given.add(variable)
            self._desired(variable).publish(value)

    def _release(self, active: _Active) -> None:
        for variable in sorted(active.given):
            self._desired(variable).publish(None, Quality.STALE)
        active.given.clear()

    def _desired(self, variable: str) -> Publisher:
        return self.node.publisher(f"{self._environment}/desired/{variable}")

    async def _keep_progress(self) -> None:
        while True:
            await self._clock.sleep(PERIOD_S)
            async with self._lock:
                active = self._active
                if active is not None and self._progress_is_due(active):
                    await self._save_progress(active)

    def _progress_is_due(self, active: _Active) -> bool:
        return not active.ending and (
            active.unkept() >= self._progress_every or active.wall_step() > WALL_STEP_S
        )

    async def _save_progress(self, active: _Active) -> None:
        active.note_progress()
        try:
            await self._journal.progress(msgspec.structs.asdict(active.run))
        except OSError as error:
            self._log_trouble("keeping the position", error)
        else:
            self._trouble.pop("keeping the position", None)


class _Active:
    """The run that goes on: it had come to `run.elapsed` at the monotonic time `_since`."""

    def __init__(self, run: Run, plan: Plan, clock: Clock) -> None:
        self.run = run
        self.plan = plan
        self.given: set[str] = set()
        self.ending = False
        self._clock = clock
        self._since = clock.monotonic()
        self._wall = clock.time()

    def elapsed(self) -> float:
        return self.run.elapsed + self.unkept()

    def unkept(self) -> float:
        """Seconds since the position was noted last."""
        return self._clock.monotonic() - self._since

    def wall_step(self) -> float:
        """By how many seconds the wall clock was set since then."""
        return abs(self._clock.time() - self._wall - self.unkept())

    def note_progress(self) -> None:
        unkept = self.unkept()
        self.run.elapsed += unkept
        self.run.seen = max(self.run.seen + unkept, self._clock.time())
        self._since += unkept
        self._wall = self._clock.time()


class _NoPlan:
    """Stands in for a pinned recipe that this version can't run: it has ended."""

    duration = 0.0

    def set_points(self, elapsed: float) -> dict[str, float]:  # noqa: ARG002  the shape of a plan
        return {}


async def _set(parameter: Parameter, value: Any) -> None:
    if parameter.value != value:
        await parameter.set(value)


def _check_id(recipe_id: str) -> None:
    if not recipe_id or len(recipe_id) > MAX_ID or not recipe_id.isprintable() or recipe_id.startswith("_"):
        raise RefusedError(
            f"recipe_id: expected a text of 1 to {MAX_ID} printable characters that does not begin with _, "
            f"got {recipe_id[:MAX_ID]!r}"
        )
