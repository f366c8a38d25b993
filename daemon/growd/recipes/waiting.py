"""A recipe that waits for the time of its start."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.recipes.formats import NotRecordedError
from growd.recipes.library import interpreted
from growd.recipes.position import CONFIRM_S
from growd.recipes.run import Order
from growd.runtime.text import duration, moment

if TYPE_CHECKING:
    from datetime import tzinfo

    from growd.recipes.formats import Reach
    from growd.recipes.plan import Plan
    from growd.recipes.run import Journal
    from growd.runtime.clock import Clock

LATE_S: Final = 60.0
"""A start that is later than this begins where the recipe would be."""


class WaitingStart:
    """An order and its plan; no set point is published for it.

    The wall clock decides when it is due. After a reboot with a clock that is not synchronised (NTP), the
    start waits for the synchronisation, at most an hour, if the clock was synchronised before.
    """

    def __init__(self, order: Order, plan: Plan, clock: Clock, zone: tzinfo | None) -> None:
        self.order = order
        self.plan = plan
        self.must_save = False
        """Whether to save the order, since the clock was synchronised."""
        self._clock = clock
        self._zone = zone

    @property
    def when(self) -> str:
        """The time of the start, for people."""
        return moment(self.order.at, self._zone)

    @property
    def is_due(self) -> bool:
        return self._clock.time() >= self.order.at + (0.0 if self._is_certain else CONFIRM_S)

    @property
    def delay(self) -> str:
        """Why it has not started yet, although its time has come."""
        if self._is_certain or self._clock.time() < self.order.at:
            return ""
        left = self.order.at + CONFIRM_S - self._clock.time()
        return f"the clock is not synchronised (NTP); it starts in {duration(left)} at the latest"

    def poll(self) -> None:
        """Note whether the clock is synchronised. Call about once per second."""
        order = self.order
        if (order.boot, order.confirmed) != (self._clock.boot, True) and self._clock.is_synchronised():
            order.boot, order.confirmed = self._clock.boot, True
            self.must_save = True

    def begins_at(self, *, catches_up: bool) -> float:
        """Where the recipe begins now, in seconds of the recipe; with `catches_up` where it would be."""
        late = self._clock.time() - self.order.at
        return self.order.offset + (late if catches_up and late > LATE_S else 0.0)

    def state(self) -> dict[str, Any]:
        """The fields of `RECIPE_STATE`."""
        order = self.order
        return {
            "state": "waiting",
            "recipe_id": order.recipe_id,
            "phase": self.plan.phases[self.plan.phase_at(order.offset)].name,
            "elapsed": order.offset,
            "remaining": self.plan.duration - order.offset,
            "starts_at": order.at,
        }

    def __str__(self) -> str:
        return f"the recipe {self.order.recipe_id} waits until {self.when}"

    @property
    def _is_certain(self) -> bool:
        return self.order.boot == self._clock.boot or not self.order.confirmed


class OrderKeeper:
    """The order that waits in an environment, one at most, saved in the journal.

    Hold the runner's lock around the methods that save.
    """

    def __init__(
        self, journal: Journal, clock: Clock, zone: tzinfo | None, reach: Reach | None = None
    ) -> None:
        self.waiting: WaitingStart | None = None
        self.refusal = ""
        """Why a recipe whose time has come has not started."""
        self._journal = journal
        self._clock = clock
        self._zone = zone
        self._reach = reach

    async def place(self, order: Order, plan: Plan) -> WaitingStart:
        """Save an order, and wait. Raises `RecipeRefusedError`."""
        await self._save(order)
        return self._wait(order, plan)

    async def resume(self, saved: dict[str, Any]) -> WaitingStart:
        """Wait for an order of the journal. Raises `InvalidRecipeError` and `msgspec.ValidationError`."""
        order = msgspec.convert(saved, Order)
        plan, _ = await asyncio.to_thread(interpreted, order.recipe, self._reach)
        return self._wait(order, plan)

    async def drop(self) -> None:
        """Delete the order. Raises `RecipeRefusedError`, and waits on then."""
        await self._save(None)
        self.waiting = None

    def forget(self) -> None:
        """Wait no longer: the journal deletes the order with the start of a run."""
        self.waiting = None

    async def save_confirmation(self) -> None:
        """Save what is known of the clock, if that has changed. Raises `RecipeRefusedError`."""
        waiting = self.waiting
        if waiting is not None and waiting.must_save:
            await self._save(waiting.order)
            waiting.must_save = False

    def problems(self) -> list[tuple[str, bool, str]]:
        """Why a recipe has not started though its time has come, whether that is a failure, and the code."""
        if self.waiting is None:
            return []
        if self.refusal:
            recipe = self.waiting.order.recipe_id
            return [(f"the recipe {recipe} could not be started: {self.refusal}", True, "recipe_not_started")]
        delay = self.waiting.delay
        return [(f"{self.waiting}, but {delay}", False, "recipe_late")] if delay else []

    def _wait(self, order: Order, plan: Plan) -> WaitingStart:
        self.waiting, self.refusal = WaitingStart(order, plan, self._clock, self._zone), ""
        return self.waiting

    async def _save(self, order: Order | None) -> None:
        try:
            await self._journal.save_order(None if order is None else msgspec.structs.asdict(order))
        except OSError as error:
            raise NotRecordedError(f"the order could not be saved: {error}") from error
