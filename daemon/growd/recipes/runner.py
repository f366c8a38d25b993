"""The recipe runner: one recipe at a time in an environment, through restarts and clock steps."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from growd.bus.errors import BusError
from growd.bus.fields import Field, Kind
from growd.bus.messages import STRING, Quality
from growd.recipes.by_hand import SetPointsByHand
from growd.recipes.errors import InvalidRecipeError, RecipeRefusedError
from growd.recipes.interpreter import interpret
from growd.recipes.plan import Phase, Plan
from growd.recipes.position import PLAUSIBLE, Position
from growd.recipes.run import FINISHED, NOT_VALID, STOPPED, Run, ended, record
from growd.recipes.status import ActiveRun, RunStatus, phase_named, told
from growd.runtime.liveness import STORE_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.bus.topics import Publisher
    from growd.recipes.by_hand import SetPointStore
    from growd.recipes.library import Library
    from growd.recipes.plan import Written
    from growd.runtime.liveness import Heartbeat

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
PROGRESS_S: Final = 60.0
LOAD_RETRY_S: Final = 30.0
LOOK_UP_S: Final = 5.0  # between two looks at the running recipe's document
LOOK_UP_TIMEOUT_S: Final = 1.0
_BY: Final = Field("by", Kind.STRING, default="", max_length=200, doc="who wants it, for the record")


class Journal(Protocol):
    """Where the run is kept. Each call raises OSError if it can't be done, and then nothing is changed."""

    def new_run_id(self, time: float) -> str:
        """An id for a run that starts at this UNIX time; no other has it."""

    async def load(self) -> dict[str, Any] | None:
        """The run that was kept last, None if there is none."""

    async def commit(
        self, run: dict[str, Any] | None, variable: str, value: str, time: float, document: dict[str, Any]
    ) -> None:
        """In one durable transaction: keep the run (None clears it), and add a data point and a document.

        The point is of `variable` (recipe_start or recipe_end), desired, with `value` (the recipe's id) and
        `time` (UNIX seconds). The document is the run's `recipe_run`, for the database as soon as that takes
        it.
        """

    async def progress(self, run: dict[str, Any]) -> None:
        """Keep all of the run but its recipe, durably unless only time has moved it.

        Must not overtake a commit.
        """


class RecipeRunner:
    """Runs one recipe at a time and publishes its set points each second.

    Services beneath `<environment>/`: `start_recipe` (recipe_id, offset), `stop_recipe`, `pause_recipe`,
    `resume_recipe`, `skip_to_phase` (phase); those of `library`; parameters and the topic of `RunStatus`.
    Each answers once what it did is durable.

    The position is that of `Position`: after a restart the run goes on where it would be now or, without
    `catches_up`, where it stopped. While it is paused its set points are kept up as they are. At its end,
    and when it is stopped, every set point it gave is released: a message of quality stale without a value.

    Set points by hand are those of `SetPointsByHand`, kept in `set_points`.

    `zone` is the time zone of recipes that go by the time of day, None that of the machine.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        *,
        library: Library,
        journal: Journal,
        set_points: SetPointStore | None = None,
        zone: tzinfo | None = None,
        catches_up: bool = True,
        period_s: float = PERIOD_S,
        progress_s: float = PROGRESS_S,
    ) -> None:
        self.node = bus.node(f"{environment}/recipe_runner")
        self._clock = bus.clock
        self._liveness = bus.liveness
        self._environment = environment
        self._library = library
        self._journal = journal
        self._zone = zone
        self._catches_up = catches_up
        self._period = period_s
        self._progress_every = progress_s
        self._lock = asyncio.Lock()  # held by whoever changes the run or keeps it
        self._loaded = False
        self._is_shown = True
        self._active: ActiveRun | None = None
        self._trouble: dict[str, str] = {}
        self._in_database = ""  # the revision of the running recipe's document
        self._look_up_at = 0.0
        self._start_points = self.node.advertise(f"{environment}/desired/recipe_start", STRING)
        self._end_points = self.node.advertise(f"{environment}/desired/recipe_end", STRING)
        self._events = self.node.publisher(f"{environment}/events")
        self._status = RunStatus(self.node, environment)
        self._by_hand = SetPointsByHand(
            bus, environment, self, self._happened_by_hand, set_points, reach=library.reach
        )
        self._serve()

    async def run(self) -> None:
        """Resume what ran before, then keep the set points up until cancelled."""
        with self._liveness.heartbeat(self.node.name, STORE_S) as heart:
            await self._load(heart)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_progress(), name=f"{self.node.name}: progress")
                while True:
                    heart.beat()
                    await self._guarded_tick()
                    await self._clock.sleep(self._period)

    def _serve(self) -> None:
        offset = Field("offset", Kind.FLOAT64, 0, default=0.0, unit="s", doc="where in the recipe to begin")
        recipe_id = Field("recipe_id", Kind.STRING, doc="the id of a document in the database recipes")
        phase = Field("phase", Kind.JSON, doc="the name of a phase, or its number from 1")
        self._offer(
            "start_recipe",
            "openag_brain/StartRecipe",
            self._start,
            (recipe_id, offset, _BY),
            doc="Start a recipe. Refused while one runs, and when the recipe has errors.",
        )
        self._offer(
            "stop_recipe",
            "openag_brain/Empty",
            self._stop,
            (_BY,),
            doc="Stop the recipe that runs. Refused when none runs.",
        )
        self._offer("pause_recipe", "growd/By", self._pause, (_BY,), doc="Hold everything as it is now.")
        self._offer("resume_recipe", "growd/By", self._go_on, (_BY,), doc="Go on after a pause.")
        self._offer(
            "skip_to_phase", "growd/SkipToPhase", self._skip, (phase, _BY), doc="Go to where a phase begins."
        )
        self.node.describe("recipe", self._described, prepare=self._look_up)
        self._library.serve(self.node, self._environment, self._clock, lambda: self._active)

    def _offer(
        self,
        name: str,
        request_type: str,
        work: Callable[..., Awaitable[str]],
        arguments: tuple[Field, ...],
        *,
        doc: str,
    ) -> None:
        """A service whose answer is what `work` says, or why it refuses."""

        async def answer(**given: Any) -> dict[str, Any]:
            try:
                return {"success": True, "message": await work(**given)}
            except RecipeRefusedError as error:
                return {"success": False, "message": str(error)}

        service = f"{self._environment}/{name}"
        self.node.serve(service, request_type, answer, arguments=arguments, doc=doc)

    async def _to_the_end(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Finish `work` even if the caller is cancelled: what is durable and what is in memory stay one."""
        task = asyncio.create_task(work, name=f"{self.node.name}: service")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise

    # start and stop

    async def _start(self, recipe_id: str, offset: float, by: str) -> str:
        """A caller who goes away ends it as long as the database is asked, but no more from `_begin` on."""
        self._refuse_unless_idle()
        # Without the lock: a database that hangs must not hold up whoever wants to stop.
        recipe = await self._library.read(recipe_id)
        plan, warnings = await self._library.interpret(recipe_id, recipe)
        self._refuse_unless_it_fits(plan, offset)
        await self._to_the_end(self._begin(recipe_id, recipe, plan, offset, by))
        logger.info("%s: the recipe %s has started", self._environment, recipe_id)
        doubts = f"{told(warnings)}{self._doubt(plan)}{self._by_hand.beside(plan.variables)}"
        return f"the recipe {recipe_id} has started{doubts}"

    async def _begin(
        self, recipe_id: str, recipe: dict[str, Any], plan: Plan, offset: float, by: str
    ) -> None:
        """Record the start, and run from then on."""
        async with self._lock:
            self._refuse_unless_idle()  # somebody else may have started one meanwhile
            now = self._clock.time()
            run = Run(
                recipe_id,
                recipe,
                start=now,
                elapsed=offset,
                seen=now,
                run_id=self._journal.new_run_id(now),
                revision=str(recipe.get("_rev", "")),
                started_by=by,
                offset=offset,
            )
            position = Position.begun(run, self._clock, catches_up=self._catches_up)
            await self._commit(run, "recipe_start", run, run.start, record(run, self._environment))
            self._in_database, self._look_up_at = run.revision, 0.0
            self._active = ActiveRun(position, plan)
            self._start_points.publish(run.recipe_id, time=run.start)
            await self._show()
            self._publish_set_points(self._active)

    async def _stop(self, by: str) -> str:
        """To its end also when the caller goes away."""
        return await self._to_the_end(self._stop_now(by))  # type: ignore[no-any-return]

    async def _stop_now(self, by: str) -> str:
        async with self._lock:
            active = self._refuse_unless_running()
            await self._end(active, STOPPED, by)
        return f"the recipe {active.run.recipe_id} has been stopped"

    async def _end(self, active: ActiveRun, reason: str, by: str = "") -> None:
        """Record the end, once. It is never earlier than the start, however the wall clock was set."""
        run, elapsed = active.run, min(active.elapsed(), active.plan.duration)
        time = max(active.position.wall(), run.start + active.position.lasted())
        document = ended(run, self._environment, time=time, by=by, reason=reason, elapsed=elapsed)
        await self._commit(None, "recipe_end", run, time, document)
        logger.info("%s: the recipe %s has ended: %s", self._environment, run.recipe_id, reason)
        self._active = None
        self._release(active)  # and nothing before it that may fail
        self._end_points.publish(run.recipe_id, time=time)
        await self._show()

    async def _commit(
        self, kept: Run | None, variable: str, run: Run, time: float, document: dict[str, Any]
    ) -> None:
        try:
            await self._journal.commit(
                None if kept is None else kept.kept(), variable, run.recipe_id, time, document
            )
        except OSError as error:
            raise RecipeRefusedError(
                f"{variable} of {run.recipe_id} could not be recorded: {error}"
            ) from error

    # pause and skip

    async def _pause(self, by: str) -> str:
        def pause(active: ActiveRun) -> str:
            if active.position.is_paused:
                raise RecipeRefusedError(f"the recipe {active.run.recipe_id} is paused already")
            active.position.pause()
            return "has been paused"

        return await self._change(pause, by)

    async def _go_on(self, by: str) -> str:
        def go_on(active: ActiveRun) -> str:
            if not active.position.is_paused:
                raise RecipeRefusedError(f"the recipe {active.run.recipe_id} is not paused")
            active.position.go_on()
            return "goes on"

        return await self._change(go_on, by)

    async def _skip(self, phase: Any, by: str) -> str:
        def skip(active: ActiveRun) -> str:
            found = phase_named(active.plan, phase)
            active.position.skip_to(found.begin)
            return f"goes on with the phase {found.name or 1}"

        return await self._change(skip, by)

    async def _change(self, change: Callable[[ActiveRun], str], by: str) -> str:
        """Change where the run is, durably, or leave it as it was."""
        return await self._to_the_end(self._change_now(change, by))  # type: ignore[no-any-return]

    async def _change_now(self, change: Callable[[ActiveRun], str], by: str) -> str:
        async with self._lock:
            active = self._refuse_unless_running()
            if active.ending:
                raise RecipeRefusedError(
                    f"the recipe {active.run.recipe_id} has ended, which is not recorded yet"
                )
            changed = active.copied()
            words = change(changed)
            try:
                await self._journal.progress(changed.run.kept())
            except OSError as error:
                raise RecipeRefusedError(f"it could not be recorded: {error}") from error
            changed.given = active.given  # it went on meanwhile, maybe into another phase
            self._active = changed
            self._publish_set_points(changed)
            self._status.show(changed)
        sentence = f"the recipe {changed.run.recipe_id} {words}"
        self._happened(sentence, changed.run.recipe_id, by)
        return sentence

    # refusals

    def _refuse_unless_loaded(self) -> None:
        if not self._loaded:
            raise RecipeRefusedError("it is not known yet which recipe ran before the restart; try again")

    def _refuse_unless_idle(self) -> None:
        self._refuse_unless_loaded()
        if self._active is not None:
            raise RecipeRefusedError(f"the recipe {self._active.run.recipe_id} is running; stop it first")

    def _refuse_unless_running(self) -> ActiveRun:
        self._refuse_unless_loaded()
        if self._active is None:
            raise RecipeRefusedError("no recipe is running")
        return self._active

    def _refuse_unless_it_fits(self, plan: Plan, offset: float) -> None:
        if offset and offset >= plan.duration:
            raise RecipeRefusedError(
                f"offset: {offset:g} s is not before the recipe's end, at {plan.duration:g} s"
            )
        if plan.goes_by_local_time and self._clock.time() < PLAUSIBLE:
            raise RecipeRefusedError("it goes by the time of day, and this machine's clock was never set")

    def _doubt(self, plan: Plan) -> str:
        is_doubtful = plan.goes_by_local_time and not self._clock.is_synchronised()
        return (
            "; warning: it goes by the time of day, which no time server has confirmed" if is_doubtful else ""
        )

    # what is told

    def _happened(self, sentence: str, recipe_id: str, by: str) -> None:
        """In the log, and with the data."""
        whole = f"{sentence} (by {by})" if by else sentence
        logger.info("%s: %s", self._environment, whole, extra={"environment": self._environment})
        self._events.publish({"kind": "recipe", "source": recipe_id, "message": whole})

    async def _show(self) -> None:
        """Set the parameters. What they say is for people: if it can't be kept, the run goes on."""
        self._status.show(self._active)
        try:
            await self._status.keep(self._active)
        except (OSError, BusError) as error:
            self._log_trouble("keeping the parameters", error)
            self._is_shown = False
        else:
            self._trouble.pop("keeping the parameters", None)
            self._is_shown = True

    async def _look_up(self) -> None:
        """Look up the revision of the running recipe's document, for whoever asks for the status."""
        active = self._active
        if active is None or self._clock.monotonic() < self._look_up_at:
            return
        self._look_up_at = self._clock.monotonic() + LOOK_UP_S
        with contextlib.suppress(RecipeRefusedError, TimeoutError):
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                document = await self._library.read(active.run.recipe_id)
            self._in_database = str(document.get("_rev", ""))

    def _described(self) -> dict[str, str]:
        """For `growd status`; `changed` is the revision in the database where it is not the one that runs."""
        revision = self._active.run.revision if self._active is not None else ""
        is_changed = revision and self._in_database not in {"", revision}
        changed = self._in_database if is_changed else ""
        return {"environment": self._environment, "revision": revision, "changed": changed}

    # after a restart

    async def _load(self, heart: Heartbeat) -> None:
        delay = PERIOD_S
        while not self._loaded:
            heart.beat()
            try:
                kept = await self._journal.load()
            except OSError as error:
                self._log_trouble("reading the journal", error)
                await self._clock.sleep(delay)
                delay = min(2 * delay, LOAD_RETRY_S)
            else:
                async with self._lock:
                    await self._resume(kept)
                    await self._restore_set_points()
                    self._loaded = True
                    await self._show()

    async def _restore_set_points(self) -> None:
        try:
            await self._by_hand.restore()
        except OSError as error:
            logger.error("%s: the set points by hand can't be restored: %s", self._environment, error)  # noqa: TRY400

    async def _resume(self, kept: dict[str, Any] | None) -> None:
        if kept is None:
            return
        try:
            run = msgspec.convert(kept, Run)
        except msgspec.ValidationError:
            logger.exception("%s: the kept run can't be read; no recipe is resumed", self._environment)
            return
        position = Position.resumed(run, self._clock, catches_up=self._catches_up)
        try:
            plan, _ = await asyncio.to_thread(interpret, run.recipe)
        except InvalidRecipeError:
            logger.exception(
                "%s: the recipe %s is not valid any more; it ends", self._environment, run.recipe_id
            )
            plan = Plan([Phase("", 0.0, 0.0)])
            self._active = ActiveRun(position, plan, ending=NOT_VALID)
            return
        self._active = ActiveRun(position, plan)
        if position.elapsed() >= plan.duration and position.is_sure:
            self._active.ending = FINISHED  # it ended while nobody looked: its last set points are past
        words = "is still paused" if position.is_paused else "goes on"
        logger.info("%s: the recipe %s %s at %.0f s", self._environment, run.recipe_id, words, run.elapsed)

    # each second

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
            expected = isinstance(error, (OSError, RecipeRefusedError, BusError))
            logger.error("%s: %s", self.node.name, words, exc_info=None if expected else error)

    async def _tick(self) -> None:
        active = self._active
        if active is None:
            return
        active.position.look()
        if not active.ending:
            self._publish_set_points(active)
            self._status.show(active)
            is_over = active.elapsed() >= active.plan.duration and active.position.is_sure
            active.ending = FINISHED if is_over else ""
        if active.ending:
            self._release(active)
            async with self._lock:
                if self._active is active:
                    await self._end(active, active.ending)

    def _publish_set_points(self, active: ActiveRun) -> None:
        points = active.set_points(self._zone)
        for variable in active.plan.variables:
            written = active.written(variable, self._zone)
            was_by_hand = variable in self._by_hand
            if self._by_hand.stands(variable, written):
                if written is not None:
                    active.given.add(variable)  # to be released with the recipe
                continue
            if variable in points:
                self._desired(variable).publish(points[variable])
                active.given.add(variable)
            elif was_by_hand or variable in active.given:
                self._desired(variable).publish(None, Quality.STALE)
                active.given.discard(variable)

    def _release(self, active: ActiveRun) -> None:
        for variable in sorted(active.given):
            self._by_hand.drop(variable)
            self._desired(variable).publish(None, Quality.STALE)
        active.given.clear()

    # for set points by hand

    def written(self, variable: str) -> Written | None:
        """The recipe's set point in force; see `Driver`."""
        active = self._active
        if active is None or active.ending or variable not in active.plan.variables:
            return None
        return active.written(variable, self._zone)

    def in_words(self, variable: str) -> str:
        """The recipe, its value, and until when it is; see `Driver`."""
        return "no recipe" if self._active is None else self._active.in_words(variable, self._zone)

    def take_back(self, variable: str) -> None:  # noqa: ARG002  all are published together
        """Publish the recipe's set point again; see `Driver`."""
        if self._active is not None and not self._active.ending:
            self._publish_set_points(self._active)

    def _happened_by_hand(self, sentence: str) -> None:
        self._happened(sentence, self._active.run.recipe_id if self._active else "", "")

    def _desired(self, variable: str) -> Publisher:
        return self.node.publisher(f"{self._environment}/desired/{variable}")

    async def _keep_progress(self) -> None:
        with self._liveness.heartbeat(f"{self.node.name}: progress", STORE_S) as heart:
            while True:
                await self._clock.sleep(self._period)
                heart.beat()
                async with self._lock:
                    if not self._is_shown:
                        await self._show()
                    await self._save_set_points()
                    active = self._active
                    if active is not None and self._progress_is_due(active):
                        await self._save_progress(active)

    async def _save_set_points(self) -> None:
        try:
            await self._by_hand.save()
        except OSError as error:
            self._log_trouble("keeping the set points by hand", error)
        else:
            self._trouble.pop("keeping the set points by hand", None)

    def _progress_is_due(self, active: ActiveRun) -> bool:
        if active.ending:
            return False
        position = active.position
        is_old = not position.is_paused and position.unkept() >= self._progress_every
        return is_old or position.has_news

    async def _save_progress(self, active: ActiveRun) -> None:
        had_news = active.position.has_news
        active.position.note()
        try:
            await self._journal.progress(active.run.kept())
        except OSError as error:
            active.position.has_news |= had_news  # some may have come meanwhile
            self._log_trouble("keeping the position", error)
        else:
            self._trouble.pop("keeping the position", None)
