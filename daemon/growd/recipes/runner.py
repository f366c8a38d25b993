"""The recipe runner: one recipe at a time in an environment, through restarts and clock steps."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import BusError
from growd.bus.messages import STRING, Quality
from growd.recipes.by_hand import SetPointsByHand
from growd.recipes.formats import InvalidRecipeError, NotRecordedError, RecipeRefusedError
from growd.recipes.library import interpreted
from growd.recipes.plan import Phase, Plan
from growd.recipes.position import Position, time_of_day
from growd.recipes.run import FINISHED, MAX_RECORD, NOT_VALID, Order, Ran, Run, ended, record
from growd.recipes.status import ActiveRun, DocumentWatch, RunStatus
from growd.recipes.waiting import OrderKeeper
from growd.runtime.clock import until_beat, whole_microseconds
from growd.runtime.liveness import STORE_S
from growd.runtime.pauses import Pauses
from growd.runtime.sentence import Sentence, code_of, reworded
from growd.runtime.text import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.bus.topics import Publisher
    from growd.recipes.by_hand import SetPointStore
    from growd.recipes.library import Library
    from growd.recipes.plan import Written
    from growd.recipes.run import Journal
    from growd.recipes.waiting import WaitingStart
    from growd.runtime.liveness import Heartbeat

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
PROGRESS_S: Final = 60.0
_LOAD_PAUSES: Final = Pauses(PERIOD_S, 30.0, least=1.0)


class RecipeRunner:
    """Runs one recipe at a time and publishes its set points each second.

    After a restart the run continues where it would be now or, without `catches_up`, where it stopped (see
    `Position`). A paused run holds its set points. When a run ends, its set points are released: a message of
    quality stale without a value. Set points by hand are those of `SetPointsByHand`, saved in `set_points`.

    `zone` is the time zone of recipes that use the time of day, None that of the machine. `about` returns
    what the record of a run says about growd and the chamber (see `Run`).
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
        about: Callable[[], dict[str, Any]] = dict,
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
        self._about = about
        self._catches_up = catches_up
        self._period = period_s
        self._progress_every = progress_s
        self._lock = asyncio.Lock()  # held while the run is changed or saved
        self.is_loaded = False
        self._is_shown = True
        self._active: ActiveRun | None = None
        self._orders = OrderKeeper(journal, bus.clock, zone, library.reach)  # none waits while a recipe runs
        self._errors: dict[str, str] = {}  # of what failed last time, by operation
        self._is_revised = False  # another recipe is about to take over, so the run does not end
        self._start_points = self.node.advertise(f"{environment}/desired/recipe_start", STRING)
        self._end_points = self.node.advertise(f"{environment}/desired/recipe_end", STRING)
        self._events = self.node.publisher(f"{environment}/events")
        self._status = RunStatus(self.node, environment)
        self.node.describe("problems", self._problems)
        self.node.describe("run", lambda: self.run_id)
        self.by_hand = SetPointsByHand(
            bus, environment, self, self._report_by_hand, set_points, reach=library.reach
        )
        self._watch = DocumentWatch(library, bus.clock, environment, self._present)
        self.node.describe("recipe", self._watch.described, prepare=self._watch.look_up)

    @property
    def active(self) -> ActiveRun | WaitingStart | None:
        """The recipe that runs or waits, None without one."""
        return self._active or self._orders.waiting

    @property
    def run_id(self) -> str:
        """The id of the run, "" without one."""
        return "" if self._active is None else self._active.run.run_id

    async def run(self) -> None:
        """Resume the saved run, then publish set points until cancelled."""
        with self._liveness.heartbeat(self.node.name, STORE_S) as heart:
            await self._load(heart)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._save_progress_regularly(), name=f"{self.node.name}: progress")
                while True:
                    heart.beat()
                    with self._logged("tick", Exception):  # no error prevents the next tick
                        await self._tick()
                    await self._clock.sleep(until_beat(self._clock, self._period))

    # for `RecipeServices`

    def refuse_unless_idle(self) -> None:
        """Raises `RecipeRefusedError` while a recipe runs or waits."""
        self._refuse_unless_loaded()
        if self._active is not None:
            raise RecipeRefusedError(f"the recipe {self._active.run.recipe_id} is running; stop it first")
        if self._orders.waiting is not None:
            raise RecipeRefusedError(f"{self._orders.waiting}; stop it first")

    async def begin(self, order: Order, plan: Plan) -> None:
        """Record the start, and run the recipe now. Raises `RecipeRefusedError`."""
        async with self._lock:
            self.refuse_unless_idle()  # another one may have started meanwhile
            await self._begin(order, plan, order.offset, ordered=None)

    async def wait(self, order: Order, plan: Plan) -> WaitingStart:
        """Save the order, and start the recipe when its time has come. Raises `RecipeRefusedError`."""
        async with self._lock:
            self.refuse_unless_idle()
            waiting = await self._orders.place(order, plan)
            self._status.publish(waiting)
        said = Sentence(str(waiting), "recipe_waits", recipe=order.recipe_id, time=waiting.when)
        self._publish_event(said, order.by)
        return waiting

    async def stop(self, reason: str, by: str) -> str:
        """End the run, or delete the order that waits; returns what it did. Raises `RecipeRefusedError`."""
        async with self._lock:
            if self._orders.waiting is not None:
                return await self._cancel(self._orders.waiting, by)
            active = self._running()
            await self._end(active, reason, by)
        return f"the recipe {active.run.recipe_id} has been stopped"

    def running(self) -> Run:
        """The run. Raises `RecipeRefusedError` if there is none."""
        return self._running().run

    async def take_over(self, meant: Run, recipe_id: str, recipe: dict[str, Any], plan: Plan, by: str) -> str:
        """Let another recipe, or another revision, take over at the present position of a run, durably.

        Returns the message. Raises `RecipeRefusedError`, also if another run than `meant` is active by now.
        """
        async with self._lock:
            active = self._changeable()
            run, revision = active.run, str(recipe.get("_rev", ""))
            if run.run_id != meant.run_id:
                what = f"the run of {meant.recipe_id} has ended meanwhile, and {run.recipe_id} was started"
                raise RecipeRefusedError(f"{what}: nothing was changed")
            if revision and (recipe_id, revision) == (run.recipe_id, run.revision):
                raise RecipeRefusedError(f"the recipe {recipe_id} runs revision {_number(revision)} already")
            elapsed = active.elapsed()
            if elapsed >= plan.duration:
                end = f"the end of the new recipe, at {duration(plan.duration)}"
                raise RecipeRefusedError(f"the run is at {duration(elapsed)}, not before {end}")
            new = Ran(self._clock.time(), elapsed, recipe_id, revision, by, recipe)
            changed = active.changed_to(new, plan)
            self._is_revised = True
            try:
                await self._revise(changed.run)
            finally:
                self._is_revised = False
            changed.driven_variables = active.driven_variables
            self._active = changed
            self._publish_set_points(changed)
            await self._show()
        other = "" if recipe_id == run.recipe_id else f" of {recipe_id}"
        new_one = f"revision {_number(revision)}{other}"
        sentence = f"the recipe {run.recipe_id} has changed to {new_one} at {duration(elapsed)}"
        self._publish_event(Sentence(sentence, "recipe_changed", recipe=run.recipe_id), by)
        return sentence

    async def change(self, change: Callable[[ActiveRun], str], by: str) -> str:
        """Change the position of the run durably, or not at all; `change` returns what it did.

        Returns the message. Raises `RecipeRefusedError`.
        """
        async with self._lock:
            active = self._changeable()
            changed = active.copied()
            words = change(changed)
            try:
                await self._journal.progress(changed.run.saved())
            except OSError as error:
                raise NotRecordedError(f"the change could not be recorded: {error}") from error
            changed.driven_variables = active.driven_variables  # which may have changed meanwhile
            self._active = changed
            self._publish_set_points(changed)
            self._status.publish(changed)
        sentence = f"the recipe {changed.run.recipe_id} {words}"
        self._publish_event(reworded(sentence, words, recipe=changed.run.recipe_id), by)
        return sentence

    # for set points by hand

    def written(self, variable: str) -> Written | None:
        """The recipe's set point in force; None if no recipe runs or it has not set the variable yet."""
        active = self._active
        if active is None or active.ending or variable not in active.plan.variables:
            return None
        return active.written(variable, self._zone)

    def describe(self, variable: str) -> str:
        """The recipe, its value, and when it changes that: "the recipe demo_day (8000 lux) until ..."."""
        return "no recipe" if self._active is None else self._active.describe(variable, self._zone)

    def changes_at(self, variable: str) -> float:
        """When the recipe next changes a variable (UNIX seconds), 0 if that is not known."""
        return 0.0 if self._active is None else self._active.changes_at(variable, self._zone)

    def publish_again(self) -> None:
        """Publish the recipe's set points again, after one by hand was released."""
        if self._active is not None and not self._active.ending:
            self._publish_set_points(self._active)

    # start and end

    def _refuse_unless_loaded(self) -> None:
        if not self.is_loaded:
            raise NotRecordedError("the saved run has not been read yet; try again")

    def _running(self) -> ActiveRun:
        self._refuse_unless_loaded()
        if self._active is None:
            waiting = self._orders.waiting
            raise RecipeRefusedError(f"no recipe is running{f'; {waiting}' if waiting is not None else ''}")
        return self._active

    def _changeable(self) -> ActiveRun:
        active = self._running()
        if active.ending:
            sentence = f"the recipe {active.run.recipe_id} has ended, but its end is not recorded yet"
            raise RecipeRefusedError(sentence)
        return active

    async def _begin(self, order: Order, plan: Plan, offset: float, *, ordered: float | None) -> None:
        now = self._clock.time()
        run = Run(
            order.recipe_id,
            order.recipe,
            start=now,
            elapsed=offset,
            seen=now,
            run_id=self._journal.new_run_id(now),
            revision=order.revision,
            started_by=order.by,
            offset=offset,
            ordered=ordered,
            about=self._about() | ({"study": order.study} if order.study else {}),
        )
        position = Position.started(run, self._clock, catches_up=self._catches_up)
        await self._commit(run, "recipe_start", run, run.start, record(run, self._environment))
        self._active = ActiveRun(position, plan)
        self._orders.forget()
        self._start_points.publish(run.recipe_id, time=run.start)
        await self._show()
        self._publish_set_points(self._active)

    async def _begin_waiting(self, waiting: WaitingStart) -> None:
        """Start a recipe whose time has come, or drop it if it would have ended by now."""
        order, offset = waiting.order, waiting.begins_at(catches_up=self._catches_up)
        if offset >= waiting.plan.duration:
            sentence = f"does not start: it was to start at {waiting.when}, and would have ended by now"
            await self._drop(waiting, sentence)
            return
        await self._begin(order, waiting.plan, offset, ordered=order.ordered)
        place = f" at {duration(offset)}" if offset else ""
        sentence = f"the recipe {order.recipe_id} has started{place}, as ordered"
        self._publish_event(Sentence(sentence, "recipe_started", recipe=order.recipe_id), order.by)

    async def _cancel(self, waiting: WaitingStart, by: str) -> str:
        return await self._drop(waiting, f"does not start at {waiting.when}: it has been stopped", by)

    async def _drop(self, waiting: WaitingStart, what: str, by: str = "") -> str:
        """Delete the order, and publish what became of the recipe; returns the sentence."""
        await self._orders.drop()
        self._status.publish(None)
        recipe_id = waiting.order.recipe_id
        sentence = f"the recipe {recipe_id} {what}"
        self._publish_event(Sentence(sentence, "recipe_dropped", recipe=recipe_id), by, recipe_id)
        return sentence

    async def _revise(self, run: Run) -> None:
        document = record(run, self._environment)
        size = len(await asyncio.to_thread(json.dumps, document))
        if size > MAX_RECORD:
            raise RecipeRefusedError(
                f"the record of the run would be too large with another recipe: {size} bytes; the maximum is "
                f"{MAX_RECORD}; stop the recipe, and start the new one with an offset"
            )
        try:
            await self._journal.revise(run.saved(), document)
        except OSError as error:
            raise NotRecordedError(f"the change could not be recorded: {error}") from error

    async def record_again(self) -> None:
        """Save the record of the run that goes on once more: the database has lost it."""
        async with self._lock:
            if self._active is not None:
                with self._logged("recording the run again", RecipeRefusedError):
                    await self._revise(self._active.run)

    async def _end(self, active: ActiveRun, reason: str, by: str = "") -> None:
        """Record the end once, never earlier than the start."""
        run, elapsed = active.run, min(active.elapsed(), active.plan.duration)
        time = whole_microseconds(max(active.position.wall(), run.start + active.position.lasted()))
        counters = self._about().get("counters")
        document = ended(
            run, self._environment, time=time, by=by, reason=reason, elapsed=elapsed, counters=counters
        )
        await self._commit(None, "recipe_end", run, time, document)
        logger.info("%s: the recipe %s has ended: %s", self._environment, run.recipe_id, reason)
        self._active = None
        self._release(active)  # first: the rest may fail
        self._end_points.publish(run.first.recipe_id, time=time)
        await self._show()

    async def _commit(
        self, saved: Run | None, variable: str, run: Run, time: float, document: dict[str, Any]
    ) -> None:
        try:
            await self._journal.commit(
                None if saved is None else saved.saved(), variable, run.first.recipe_id, time, document
            )
        except OSError as error:
            sentence = f"{variable} of {run.first.recipe_id} could not be recorded: {error}"
            raise NotRecordedError(sentence) from error

    @property
    def environment(self) -> str:
        """The environment whose set points it publishes."""
        return self._environment

    def set_point_at(self, variable: str, wall: float) -> float | None:
        """The set point of a variable at a UNIX time from now on, if one by hand stays; None for none."""
        active = self._active
        if active is None or active.ending or active.position.is_paused or variable in self.by_hand:
            last = self._desired(variable).topic.last
            return None if last is None or last.quality is not Quality.OK else float(last.value)
        elapsed = active.elapsed() + wall - active.position.wall()
        if elapsed > active.plan.duration:
            return None
        return active.plan.value(variable, elapsed, time_of_day(wall, self._zone))

    # status

    def _report_by_hand(self, sentence: str, by: str, variable: str) -> None:
        self._publish_event(sentence, by, variable, "set_point")

    def _publish_event(self, sentence: str, by: str = "", source: str = "", kind: str = "recipe") -> None:
        """Log an event, and publish it for the database; its source is by default the present recipe."""
        whole = f"{sentence} (by {by})" if by else sentence
        about = {"environment": self._environment, "is_event": kind == "set_point"}
        logger.info("%s: %s", self._environment, whole, extra=about)
        present = self._present()
        source = source or ("" if present is None else present.recipe_id)
        self._events.publish({"kind": kind, "source": source, "message": str(whole), **code_of(sentence)})

    async def _show(self) -> None:
        """Set the parameters. If they can't be saved, the run continues."""
        self._status.publish(self._active or self._orders.waiting)
        self._is_shown = False
        with self._logged("saving the parameters", OSError, BusError):
            await self._status.save(self._active)
            self._is_shown = True

    def _present(self) -> Run | Order | None:
        if self._active is not None:
            return self._active.run
        return None if self._orders.waiting is None else self._orders.waiting.order

    # after a restart

    async def _load(self, heart: Heartbeat) -> None:
        failures = 0
        saved: list[dict[str, Any] | None] = []
        while not saved:
            heart.beat()
            with self._logged("reading the journal", OSError):
                saved = [await self._journal.load(), await self._journal.load_order()]
            if not saved:
                failures += 1
                await self._clock.sleep(_LOAD_PAUSES.after(failures))
        run, order = saved
        async with self._lock:
            await self._resume(run)
            await self._resume_order(order)
            await self._restore_set_points()
            self.is_loaded = True
            await self._show()

    async def _restore_set_points(self) -> None:
        try:
            await self.by_hand.restore()
        except OSError as error:
            logger.error("%s: could not restore the set points by hand: %s", self._environment, error)  # noqa: TRY400

    async def _resume(self, saved: dict[str, Any] | None) -> None:
        if saved is None:
            return
        try:
            run = msgspec.convert(saved, Run)
        except msgspec.ValidationError:
            logger.exception("%s: the saved run is invalid; no recipe is resumed", self._environment)
            return
        position = Position.resumed(run, self._clock, catches_up=self._catches_up)
        try:
            plan, _ = await asyncio.to_thread(interpreted, run.recipe, self._library.reach)
        except InvalidRecipeError:
            logger.exception(
                "%s: the recipe %s is not valid any more; it ends", self._environment, run.recipe_id
            )
            plan = Plan([Phase("", 0.0, 0.0)])
            self._active = ActiveRun(position, plan, ending=NOT_VALID)
            return
        self._active = ActiveRun(position, plan)
        if position.elapsed() >= plan.duration and position.is_certain:
            self._active.ending = FINISHED  # during the outage: do not publish its last set points
        words = "is still paused" if position.is_paused else "continues"
        logger.info("%s: the recipe %s %s at %.0f s", self._environment, run.recipe_id, words, run.elapsed)

    async def _resume_order(self, saved: dict[str, Any] | None) -> None:
        if saved is None:
            return
        try:
            waiting = await self._orders.resume(saved)
        except (msgspec.ValidationError, InvalidRecipeError) as error:
            name, words = str(saved.get("recipe_id")), "does not start, the order is dropped"
            logger.error("%s: the recipe %s %s: %s", self._environment, name, words, error)  # noqa: TRY400
            sentence = f"the recipe {name} {words}: it is not valid any more"
            self._publish_event(Sentence(sentence, "recipe_dropped", recipe=name), source=name)
            with contextlib.suppress(RecipeRefusedError):  # then the next start finds it again
                await self._orders.drop()
            return
        logger.info("%s: %s", self._environment, waiting)

    # each second

    @contextlib.contextmanager
    def _logged(self, operation: str, *errors: type[Exception]) -> Iterator[None]:
        """Log these errors once until the operation succeeds; an unexpected one with its traceback."""
        try:
            yield
        except errors as error:
            if self._errors.get(operation) != str(error):
                self._errors[operation] = str(error)
                words = f"{operation}: {type(error).__name__}: {error}"
                trace = None if isinstance(error, (OSError, RecipeRefusedError, BusError)) else error
                logger.error("%s: %s", self.node.name, words, exc_info=trace)  # noqa: TRY400
        else:
            self._errors.pop(operation, None)

    async def _tick(self) -> None:
        if self._orders.waiting is not None:
            await self._tick_waiting(self._orders.waiting)
        active = self._active
        if active is None:
            return
        active.position.poll()
        if not active.ending:
            self._publish_set_points(active)
            self._status.publish(active)
            is_over = active.elapsed() >= active.plan.duration and active.position.is_certain
            active.ending = FINISHED if is_over and not self._is_revised else ""
        if active.ending:
            self._release(active)
            async with self._lock:
                if self._active is active:
                    await self._end(active, active.ending)

    async def _tick_waiting(self, waiting: WaitingStart) -> None:
        waiting.poll()
        if not waiting.is_due:
            self._status.publish(waiting)
            return
        async with self._lock:
            if self._orders.waiting is not waiting:
                return
            try:
                await self._begin_waiting(waiting)
            except RecipeRefusedError as error:
                self._orders.refusal = str(error)
                raise

    def _publish_set_points(self, active: ActiveRun) -> None:
        points = active.set_points(self._zone)
        # with those of a recipe before this one, which are released
        for variable in sorted({*active.plan.variables, *active.driven_variables}):
            written = active.written(variable, self._zone)
            was_by_hand = variable in self.by_hand
            if self.by_hand.holds(variable, written):
                if written is not None:
                    active.driven_variables.add(variable)  # to release it with the recipe
                continue
            if variable in points:
                self._desired(variable).publish(points[variable])
                active.driven_variables.add(variable)
            elif was_by_hand or variable in active.driven_variables:
                self._desired(variable).publish(None, Quality.STALE)
                active.driven_variables.discard(variable)

    def _release(self, active: ActiveRun) -> None:
        for variable in sorted(active.driven_variables):
            self.by_hand.drop(variable)
            self._desired(variable).publish(None, Quality.STALE)
        active.driven_variables.clear()

    def _desired(self, variable: str) -> Publisher:
        return self.node.publisher(f"{self._environment}/desired/{variable}")

    async def _save_progress_regularly(self) -> None:
        with self._liveness.heartbeat(f"{self.node.name}: progress", STORE_S) as heart:
            while True:
                await self._clock.sleep(until_beat(self._clock, self._period))
                heart.beat()
                async with self._lock:
                    if not self._is_shown:
                        await self._show()
                    with self._logged("saving the set points by hand", OSError):
                        await self.by_hand.save()
                    with self._logged("saving the order", RecipeRefusedError):
                        await self._orders.save_confirmation()
                    active = self._active
                    if active is not None and self._is_progress_due(active):
                        await self._save_progress(active)

    def _problems(self) -> list[dict[str, Any]]:
        """For `growd status`."""
        found = []
        if why := self.by_hand.fault:
            text = f"set points by hand can't be saved and are lost if growd ends: {why}"
            found.append((text, True, "set_points_not_saved"))
        found += self._orders.problems()
        if conflict := self._watch.problem():
            found.append((conflict, False, "recipe_conflict"))
        return [
            {
                "text": f"{self._environment}: {text}",
                "is_failure": is_failure,
                "code": code,
                "fields": {"environment": self._environment, "text": text},
            }
            for text, is_failure, code in found
        ]

    def _is_progress_due(self, active: ActiveRun) -> bool:
        if active.ending:
            return False
        position = active.position
        is_old = not position.is_paused and position.since_checkpoint() >= self._progress_every
        return is_old or position.must_save

    async def _save_progress(self, active: ActiveRun) -> None:
        must_save = active.position.must_save
        active.position.checkpoint()
        is_saved = False
        with self._logged("saving the position", OSError):
            await self._journal.progress(active.run.saved())
            is_saved = True
        if not is_saved:
            active.position.must_save |= must_save  # which may be set meanwhile


def _number(revision: str) -> str:
    """The number of a revision of CouchDB, for people."""
    return revision.partition("-")[0]
