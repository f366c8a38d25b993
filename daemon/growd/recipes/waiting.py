"""A recipe that waits for the time of its start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from growd.recipes.position import CONFIRM_S
from growd.runtime.text import duration, moment

if TYPE_CHECKING:
    from datetime import tzinfo

    from growd.recipes.plan import Plan
    from growd.recipes.run import Order
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
