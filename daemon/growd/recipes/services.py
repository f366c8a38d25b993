"""The services of the recipe runner: start, stop, change, pause, resume and skip."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import BusError
from growd.bus.fields import Field, Kind
from growd.recipes.formats import RecipeRefusedError
from growd.recipes.position import PLAUSIBLE
from growd.recipes.run import STOPPED, Order
from growd.recipes.status import phase_named, warning_text
from growd.runtime.sentence import Sentence
from growd.runtime.text import duration, moment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from datetime import tzinfo

    from growd.recipes.library import Library
    from growd.recipes.plan import Plan
    from growd.recipes.runner import RecipeRunner
    from growd.recipes.status import ActiveRun
    from growd.recipes.waiting import WaitingStart
    from growd.runtime.clock import Clock

logger = logging.getLogger(__name__)

PAST_S: Final = 10.0  # an earlier start is refused, a later one is now
AHEAD_S: Final = 366 * 86_400.0  # a later start is refused

_BY: Final = Field(
    "by",
    Kind.STRING,
    default="",
    max_length=200,
    doc="name of the caller, for the record, without a login; by default the address",
)
_RECIPE_ID: Final = Field("recipe_id", Kind.STRING, doc="the id of a document in the database recipes")
_OFFSET: Final = Field(
    "offset", Kind.FLOAT64, 0, default=0.0, unit="s", doc="begin at this time of the recipe"
)
_AT: Final = Field(
    "at", Kind.FLOAT64, 0, default=0.0, unit="s", doc="UNIX time of the start, within a year; 0: now"
)
_STUDY: Final = Field(
    "study", Kind.JSON, default={}, doc="an object: members of the recipe's study that hold for this run"
)
_NEW_ID: Final = Field("recipe_id", Kind.STRING, default="", doc="by default the running recipe")
_REVISION: Final = Field(
    "revision", Kind.STRING, default="", max_length=200, doc="refuse unless it is the newest one"
)
_PHASE: Final = Field("phase", Kind.JSON, doc="the name of a phase, or its number from 1")


class RecipeServices:
    """Services below `<environment>/`, which answer once the change is durable.

    `start_recipe` (recipe_id, offset, at, study), `stop_recipe`, `change_recipe` (recipe_id, revision),
    `pause_recipe`, `resume_recipe`, `skip_to_phase` (phase); each takes `by`. `why_held` returns why all
    outputs are held at their safe states, "" while they are not.
    """

    def __init__(
        self, runner: RecipeRunner, environment: str, library: Library, clock: Clock, zone: tzinfo | None,
        *, why_held: Callable[[], str] = lambda: "",
    ) -> None:  # fmt: skip
        self._runner = runner
        self._environment = environment
        self._library = library
        self._clock = clock
        self._zone = zone
        self._why_held = why_held
        self._serve(
            "start_recipe",
            "openag_brain/StartRecipe",
            self._start,
            (_RECIPE_ID, _OFFSET),
            (_AT, _STUDY),
            doc="Start a recipe, now or at a later time. Refused while one runs or waits, and if the recipe "
            "has errors.",
        )
        self._serve(
            "stop_recipe",
            "openag_brain/Empty",
            self._stop,
            doc="Stop the running recipe, or the one that waits for its time.",
        )
        self._serve(
            "change_recipe",
            "growd/ChangeRecipe",
            self._take_over,
            (_NEW_ID,),
            (_REVISION,),
            doc="Let the newest revision of a recipe take over at the present position of the run.",
        )
        self._serve("pause_recipe", "growd/By", self._pause, doc="Pause the recipe and hold its set points.")
        self._serve("resume_recipe", "growd/By", self._resume, doc="Resume a paused recipe.")
        self._serve(
            "skip_to_phase", "growd/SkipToPhase", self._skip, (_PHASE,), doc="Go to the beginning of a phase."
        )

    def _serve(
        self,
        name: str,
        request_type: str,
        work: Callable[..., Awaitable[str]],
        arguments: tuple[Field, ...] = (),
        more: tuple[Field, ...] = (),
        *,
        doc: str,
    ) -> None:
        """A service whose answer is the message of `work`, or why it refuses.

        `more` are the arguments after `by`, for clients that give arguments in order.
        """

        async def answer(who: str, **given: Any) -> dict[str, Any]:
            try:
                return {"success": True, "message": await work(by=who, **given)}
            except BusError:
                raise  # the request is in order
            except RecipeRefusedError as error:
                return {"success": False, "message": str(error)}

        service = f"{self._environment}/{name}"
        self._runner.node.serve(
            service, request_type, answer, arguments=(*arguments, _BY, *more), names_caller=True, doc=doc
        )

    async def _start(self, recipe_id: str, offset: float, by: str, at: float, study: Any) -> str:
        """Cancelling the caller cancels the start while the database is asked, but not afterwards."""
        self._runner.refuse_unless_idle()
        waits = self._refuse_impossible_time(at)
        # without the lock: a database that hangs must not delay a stop
        recipe = await self._library.read(recipe_id)
        plan, warnings = await self._library.interpret(recipe_id, recipe)
        self._refuse_unless_possible(plan, offset)
        from growd.recipes.grammar import study_of  # noqa: PLC0415  loaded with the plan

        now, clock = self._clock.time(), self._clock
        order = Order(
            recipe_id, recipe, at, ordered=now, revision=str(recipe.get("_rev", "")), offset=offset, by=by,
            boot=clock.boot, confirmed=clock.is_synchronised(), study=study_of(recipe, study),
        )  # fmt: skip
        remarks = f"{warning_text(warnings)}{self._clock_warning(plan, waits=waits)}"
        if waits:
            waiting: WaitingStart = await self._complete(self._runner.wait(order, plan))
            return f"the recipe {recipe_id} starts at {waiting.when}, in {duration(at - now)}{remarks}"
        await self._complete(self._runner.begin(order, plan))
        logger.info("%s: the recipe %s has started", self._environment, recipe_id)
        by_hand = self._runner.by_hand.outside(plan.variables)
        return f"the recipe {recipe_id} has started{remarks}{by_hand}{self._hold_warning()}"

    async def _stop(self, by: str) -> str:
        return await self._complete(self._runner.stop(STOPPED, by))  # type: ignore[no-any-return]

    async def _take_over(self, recipe_id: str, by: str, revision: str) -> str:
        run = self._runner.running()
        recipe_id = recipe_id or run.recipe_id
        recipe = await self._library.read(recipe_id)
        found = str(recipe.get("_rev", ""))
        if revision and revision != found:
            raise RecipeRefusedError(
                f"the recipe {recipe_id} has the revision {found} by now, not {revision}"
            )
        plan, warnings = await self._library.interpret(recipe_id, recipe)
        self._refuse_unless_possible(plan)
        sentence = await self._complete(self._runner.take_over(run, recipe_id, recipe, plan, by))
        return f"{sentence}{warning_text(warnings)}{self._clock_warning(plan)}"

    async def _pause(self, by: str) -> str:
        def pause(active: ActiveRun) -> str:
            if active.position.is_paused:
                raise RecipeRefusedError(f"the recipe {active.run.recipe_id} is paused already")
            active.position.pause()
            return Sentence("has been paused", "recipe_paused")

        return await self._change(pause, by)

    async def _resume(self, by: str) -> str:
        def resume(active: ActiveRun) -> str:
            if not active.position.is_paused:
                raise RecipeRefusedError(f"the recipe {active.run.recipe_id} is not paused")
            active.position.resume()
            return Sentence("has been resumed", "recipe_resumed")

        return await self._change(resume, by)

    async def _skip(self, phase: Any, by: str) -> str:
        def skip(active: ActiveRun) -> str:
            found = phase_named(active.plan, phase)
            active.position.skip_to(found.begin)
            name = str(found.name or 1)
            return Sentence(f"has skipped to the phase {name}", "recipe_skipped", phase=name)

        return await self._change(skip, by)

    async def _change(self, change: Callable[[ActiveRun], str], by: str) -> str:
        """Change the position durably, or not at all."""
        return await self._complete(self._runner.change(change, by))  # type: ignore[no-any-return]

    async def _complete(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Finish `work` even if the caller is cancelled, so that memory and disk agree."""
        task = asyncio.create_task(work, name=f"{self._runner.node.name}: service")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise

    def _refuse_impossible_time(self, at: float) -> bool:
        """Whether a start at this UNIX time has to wait."""
        if not at:
            return False
        now = self._clock.time()
        if now < PLAUSIBLE:
            raise RecipeRefusedError("at: this machine's clock was never set")
        if at < now - PAST_S:
            raise RecipeRefusedError(f"at: {moment(at, self._zone)} is in the past")
        if at > now + AHEAD_S:
            raise RecipeRefusedError(f"at: {at:.15g} is more than a year ahead; it is in UNIX seconds")
        return at > now

    def _refuse_unless_possible(self, plan: Plan, offset: float = 0.0) -> None:
        if offset and offset >= plan.duration:
            end = f"{plan.duration:g} s"
            raise RecipeRefusedError(f"offset: {offset:g} s is not before the end of the recipe, at {end}")
        if plan.goes_by_local_time and self._clock.time() < PLAUSIBLE:
            raise RecipeRefusedError(
                "the recipe uses the time of day, but this machine's clock was never set"
            )

    def _hold_warning(self) -> str:
        why = self._why_held()
        return f"; warning: no output follows it until the hold is released: {why}" if why else ""

    def _clock_warning(self, plan: Plan, *, waits: bool = False) -> str:
        if not (waits or plan.goes_by_local_time) or self._clock.is_synchronised():
            return ""
        what = "the start" if waits else "the recipe"
        return f"; warning: {what} uses the time of day, but the clock is not synchronised (NTP)"
