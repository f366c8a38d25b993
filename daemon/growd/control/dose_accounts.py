"""Doses of pumps: what was commanded, and what was really given."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.control.topics import EVENT, event, events
from growd.runtime.sentence import Sentence, problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus import Bus
    from growd.control.actuation import GivenDose

logger = logging.getLogger(__name__)

OVER_SHARE: Final = 0.2
OVER_S: Final = 0.5
"""A dose that is longer by this share of it, or by this time, has failed."""
EXACT_S: Final = 0.1
"""No dose is exact to less."""


class DoseAccounts:
    """Judges the doses of the pumps of an environment.

    A dose that was too long is an event, and a failure in the status until the next dose of its pump is
    right. The limits of volumes and the pause for mixing count what was really given, also of doses that
    were too short.
    """

    def __init__(self, bus: Bus, environment: str) -> None:
        self.node = bus.node(f"{environment}/doses")
        self._events = self.node.advertise(events(environment), EVENT)
        self._failures: dict[str, Sentence] = {}
        self._last: dict[str, dict[str, float | bool]] = {}
        self.node.describe("problems", self._problems)
        self.node.describe("doses", lambda: self._last)

    def account_of(
        self, name: str, part: str, flow_ml_min: Callable[[], float | None]
    ) -> Callable[[GivenDose], None]:
        """What gets the doses of an output. `part` names the pump."""
        return partial(self._gave, name, part, flow_ml_min)

    def _gave(self, name: str, part: str, flow_ml_min: Callable[[], float | None], dose: GivenDose) -> None:
        self._last[name] = {
            "commanded_s": round(dose.length_s, 3),
            "given_s": round(dose.given_s, 3),
            "is_estimate": dose.is_estimate,
        }
        over_s = dose.given_s - dose.length_s
        if over_s <= max(EXACT_S, min(OVER_S, OVER_SHARE * dose.length_s)):
            self._failures.pop(name, None)
            return
        flow = flow_ml_min()
        ml_s = None if flow is None else flow / 60 * dose.level
        given, wanted = (_amount(seconds, ml_s) for seconds in (dose.given_s, dose.length_s))
        text = (
            f"{name}, the {part}, gave {given} instead of {wanted}: measure the tank, dilute it with water "
            "if it has too much, and check the pump and its relay"
        )
        logger.error("%s: %s", self.node.name, text)
        self._failures[name] = Sentence(text, "dose_differs", device=name)
        self._events.publish(event("fault", name, self._failures[name]))

    def _problems(self) -> list[dict[str, Any]]:
        return [problem(said, name=name, is_failure=True) for name, said in self._failures.items()]


def _amount(seconds: float, ml_s: float | None) -> str:
    return f"{seconds:.1f} s" if ml_s is None else f"{ml_s * seconds:.2f} ml in {seconds:.1f} s"
