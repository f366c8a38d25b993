"""What pumps give, by their calibrations, and which pump is calibrated now. No bus here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from growd.control.interlocks.on_times import OnTimes

    TimedFlow = tuple[OnTimes, Callable[[], float]]
    """The times of an output, and its flow in ml/s."""

SERVICE: Final = "calibrate_pump"
"""The service in the records of pump calibrations."""

UNREAD: Final = "calibrations that have not been read yet"


class PumpFlow:
    """A pump gives `ml_min` at full level, and nothing in the first `dead_s` after each start.

    Both are those of its calibration, else the `configured` flow and no dead time.
    """

    def __init__(self, configured: float) -> None:
        self.configured = self.ml_min = configured
        self.dead_s = 0.0

    @property
    def ml_s(self) -> float:
        """The flow in ml/s."""
        return self.ml_min / 60

    def share(self, ml_h: float, shortest_s: float) -> float:
        """The share of time, or the level, for a volume in an hour.

        The doses of a switched pump take `shortest_s / (1 - share)` (`growd.control.dosing`), and each has
        the dead time; a pump that is dimmed runs on, and has a `shortest_s` of 0.
        """
        wanted = min(1.0, ml_h / 60 / self.ml_min)
        dead = min(1.0, max(0.0, self.dead_s / shortest_s)) if shortest_s else 0.0
        if not dead:
            return wanted
        # share * (1 - dead * (1 - share)) = wanted
        return (math.sqrt((1 - dead) ** 2 + 4 * dead * wanted) - (1 - dead)) / (2 * dead)


class JointFlow:
    """What pumps that run together give; 1 ml/s without any."""

    def __init__(self, flows: Iterable[PumpFlow] = ()) -> None:
        self._flows = tuple(flows)

    @property
    def ml_s(self) -> float:
        """The flow of all in ml/s."""
        return sum(each.ml_s for each in self._flows) or 1.0

    def seconds(self, ml: float) -> float:
        """How long a dose of this volume takes."""
        return ml / self.ml_s + self._dead_s

    def ml(self, seconds: float) -> float:
        """The volume of a dose of this length."""
        return max(0.0, seconds - self._dead_s) * self.ml_s

    @property
    def _dead_s(self) -> float:
        return sum(each.ml_s * each.dead_s for each in self._flows) / self.ml_s


class GivenVolume:
    """Adds up what a pump gives, with the flow in force at the time."""

    def __init__(self, flow: PumpFlow) -> None:
        self._flow = flow
        self._on_s = 0.0  # since it was switched on, at full level

    def start(self) -> None:
        """The pump is switched on."""
        self._on_s = 0.0

    def ml(self, full_s: float) -> float:
        """The volume of the next seconds at full level; below 0 where too much was counted before."""
        before = self._since_start()
        self._on_s += full_s
        return self._since_start() - before

    def _since_start(self) -> float:
        return max(0.0, self._on_s - self._flow.dead_s) * self._flow.ml_s if self._on_s > 0 else 0.0


class Volumes:
    """What outputs give together, in ml, each with the flow in force at the time.

    For limits: it knows no dead time, so that no short dose counts as nothing.
    """

    def __init__(self, flows: Iterable[TimedFlow]) -> None:
        self._flows = tuple(flows)
        self._counted_s = [0.0] * len(self._flows)
        self._ml = 0.0

    @property
    def full_ml_s(self) -> float:
        """The flow of all of them at full level, in ml/s."""
        return sum(ml_s() for _, ml_s in self._flows)

    def total(self, now: float) -> float:
        """The volume since the start, in ml."""
        for number, (times, ml_s) in enumerate(self._flows):
            full_s = times.full_total(now)
            if full_s != self._counted_s[number]:  # usually the pump is off
                self._ml += (full_s - self._counted_s[number]) * ml_s()
                self._counted_s[number] = full_s
        return self._ml

    def ml_s(self, now: float) -> float:
        """The present flow, in ml/s."""
        return self.total(now + 1.0) - self.total(now)


class Pumps:
    """The pumps of an environment: what each gives, and the one whose hose is in a measuring cylinder now.

    `flows` has all outputs with a flow, by name; `dosing` those that dose. While a pump is calibrated, no
    other dosing pump runs, and this one only for its dose. `is_read` is false until the saved calibrations
    are known; no dosing pump runs before that.
    """

    def __init__(
        self,
        flows: Mapping[str, float] | None = None,
        dosing: Iterable[str] = (),
        monotonic: Callable[[], float] = lambda: 0.0,
        *,
        is_read: bool = True,
    ) -> None:
        self.flows = {name: PumpFlow(ml_min) for name, ml_min in (flows or {}).items()}
        self.dosing = frozenset(dosing)
        self.is_read = is_read
        self.calibrated = ""
        """The name of the pump that is calibrated now."""
        self._monotonic = monotonic
        self._until = -math.inf  # the end of its dose

    def joint(self, names: Sequence[str]) -> JointFlow:
        """What these outputs give together."""
        return JointFlow(self.flows[name] for name in names if name in self.flows)

    def take(self, record: Mapping[str, Any]) -> bool:
        """Use a saved calibration, if it is one of a pump. Returns whether it is in force.

        A flow in the configuration that differs from that at the calibration is of another pump or tube.
        """
        if record.get("service") != SERVICE:
            return True
        flow = self.flows.get(record["device"])
        if flow is None or flow.configured != record["configured"]:
            return False
        flow.ml_min, flow.dead_s = record["after"], record["dead_s"]
        return True

    def dose(self, seconds: float) -> None:
        """Let the pump that is calibrated run for so long from now on; 0 ends that."""
        self._until = self._monotonic() + seconds

    def is_beside_tank(self, name: str) -> bool:
        """Whether what this output gives now goes into a measuring cylinder, and not into the tank."""
        return name == self.calibrated and self._monotonic() < self._until

    def held_by(self, name: str) -> str:
        """What holds an output now, whoever commands it, or ""."""
        if name not in self.dosing:
            return ""
        if not self.is_read:
            return UNREAD
        is_held = self.calibrated and not self.is_beside_tank(name)
        return f"the calibration of {self.calibrated}" if is_held else ""
