"""Counters of outputs: how often and how long they were on, and what they consumed. Kept over restarts."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.control.interlocks.saved_states import SAVE_ERRORS
from growd.control.pumps import GivenVolume, PumpFlow
from growd.runtime.sentence import Sentence, problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from growd.bus import Bus
    from growd.control.interlocks.saved_states import Memory

logger = logging.getLogger(__name__)

SAVE_S: Final = 300.0
"""How often changed counters are saved. A kill of growd loses at most the counts of this time."""

RETRY_S: Final = 10.0
WORN: Final = 0.9
"""Share of the rated starts from which on a problem is reported."""

DAY_S: Final = 86_400.0
MOST_FORMER: Final = 64
"""How many outputs that are no longer configured keep their counters."""


class Rated(msgspec.Struct, frozen=True):
    """What is known of an output whose work is counted."""

    name: str
    part: str
    variable: str
    output_class: str
    kind: str
    power_w: float | None = None
    flow_ml_min: float | None = None
    rated_starts: int | None = None


class Counted(msgspec.Struct, forbid_unknown_fields=True):
    """The counters of an output, from `since` (UNIX seconds) on. `full_s` are seconds at full level."""

    since: float
    cycles: int = 0
    on_s: float = 0.0
    full_s: float = 0.0
    energy_wh: float = 0.0
    volume_ml: float = 0.0


@dataclass
class _Running:
    rated: Rated
    counted: Counted
    flow: PumpFlow
    given: GivenVolume
    level: float | None = None
    since: float = 0.0
    early_s: float = 0.0
    """What was counted since the last write, before the real time was known."""


class OutputCounters:
    """Counts what is written to the outputs of an environment; nothing while the level is not known.

    `memory` keeps the counters: what was counted since the last save is lost when growd is killed, and
    nothing is counted twice. An output whose rated starts are nearly used up is a problem. `flows` has what
    pumps really give, else it is the rated flow.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        outputs: Iterable[Rated],
        memory: Memory,
        flows: Mapping[str, PumpFlow] | None = None,
    ) -> None:
        self.node = bus.node(f"{environment}/outputs")
        self._environment = environment
        self._clock = bus.clock
        self._memory = memory
        self._outputs: dict[str, _Running] = {}
        for rated in outputs:
            flow = (flows or {}).get(rated.name) or PumpFlow(rated.flow_ml_min or 0.0)
            counted, given = Counted(since=bus.clock.time()), GivenVolume(flow)
            self._outputs[rated.name] = _Running(rated, counted, flow, given, since=bus.clock.monotonic())
        self._former: dict[str, Counted] = {}
        self._is_loaded = False
        self._saved: dict[str, Any] = {}
        self.node.describe("outputs", lambda: [self._status(each) for each in self._outputs.values()])
        self.node.describe("problems", self._problems)

    def wrote(
        self, name: str, level: float | None, lasted_s: float = 0.0, was_on_s: float | None = None
    ) -> None:
        """An output has this level from now on, None if it is not known.

        One that is switched on was so since the begin of the write, `lasted_s` ago. `was_on_s` is for how
        long it really was not safe since the write before, None if that is not known.
        """
        output = self._outputs[name]
        self._count(output, was_on_s)
        output.early_s = 0.0
        if level and not output.level:
            output.counted.cycles += 1
            output.given.start()
            output.since -= lasted_s
        output.level = level

    def litres(self, name: str) -> float | None:
        """The volume that an output gave, None until the counters of earlier runs are read."""
        self._count(self._outputs[name])
        return self._outputs[name].counted.volume_ml / 1000 if self._is_loaded else None

    async def run(self) -> None:
        """Read the saved counters and save them from time to time, until cancelled."""
        while not self._is_loaded:
            try:
                self._restore(await self._memory.state(self.node.name))
            except SAVE_ERRORS as error:
                logger.warning("%s: cannot read the counters: %s", self.node.name, error)
                await self._clock.sleep(RETRY_S)
            except ValueError as error:
                logger.error("%s: the counters begin anew: %s", self.node.name, error)  # noqa: TRY400  no bug
                self._is_loaded = True
        while True:
            await self._clock.sleep(SAVE_S)
            await self._save()

    async def close(self) -> None:
        """Save at the end, when the outputs are safe."""
        if self._is_loaded:
            await self._save()

    def _count(self, output: _Running, was_on_s: float | None = None) -> None:
        """Count the time since the last call with the level in force, or its known part."""
        now = self._clock.monotonic()
        seconds, output.since = now - output.since, now
        if was_on_s is not None and output.level:
            seconds = was_on_s - output.early_s
        output.early_s += seconds
        if not output.level:
            return
        counted, rated = output.counted, output.rated
        full_s = seconds * output.level
        counted.on_s += seconds
        counted.full_s += full_s
        counted.energy_wh += full_s / 3600 * (rated.power_w or 0.0)
        counted.volume_ml += output.given.ml(full_s)

    def _restore(self, saved: Any) -> None:
        """Add what earlier runs counted. Raises ValueError."""
        try:
            found = msgspec.convert(saved or {}, dict[str, Counted])
        except msgspec.ValidationError as error:
            raise ValueError(f"the saved counters are damaged: {error}") from None
        for name, before in found.items():
            if name in self._outputs:
                now = self._outputs[name].counted
                for counter in ("cycles", "on_s", "full_s", "energy_wh", "volume_ml"):
                    setattr(now, counter, getattr(now, counter) + getattr(before, counter))
                now.since = before.since
            elif len(self._former) < MOST_FORMER:
                self._former[name] = before
        self._is_loaded = True

    async def _save(self) -> None:
        for output in self._outputs.values():
            self._count(output)
        counted = {name: output.counted for name, output in self._outputs.items()}
        state = msgspec.to_builtins(self._former | counted)
        if state == self._saved:
            return
        try:
            await self._memory.save_state(self.node.name, state)
        except SAVE_ERRORS as error:
            logger.warning("%s: cannot save the counters: %s", self.node.name, error)
        else:
            self._saved = state

    def _problems(self) -> list[dict[str, Any]]:
        found = []
        for each in self._outputs.values():
            starts, cycles = each.rated.rated_starts, each.counted.cycles
            if self._is_loaded and starts is not None and cycles >= WORN * starts:
                name = f"{self._environment}/{each.rated.name}"
                text = (
                    f"{name} has used {cycles / starts:.0%} of the {starts} starts that it is rated for: "
                    "replace its relay, and give the output another name"
                )
                about = {"environment": self._environment, "device": each.rated.name}
                found.append(problem(Sentence(text, "output_worn", **about), name=name))
        return found

    def _life_left(self, output: _Running) -> float | None:
        """The share of the rated starts that is left, None if it is not known."""
        rated = output.rated.rated_starts
        if rated is None or not self._is_loaded:
            return None
        return max(0.0, 1.0 - output.counted.cycles / rated)

    def _days_left(self, output: _Running) -> float | None:
        """The days until the rated starts are used up at the mean rate so far; None in the first day."""
        counted, left = output.counted, self._life_left(output)
        days = (self._clock.time() - counted.since) / DAY_S
        if left is None or days < 1 or not counted.cycles:
            return None
        return left * (output.rated.rated_starts or 0) * days / counted.cycles

    def _status(self, output: _Running) -> dict[str, Any]:
        self._count(output)
        rated, counted = output.rated, output.counted
        # Until the saved counts are read, a meter would seem to begin anew.
        has_energy = self._is_loaded and (rated.power_w is not None or counted.energy_wh > 0)
        has_volume = self._is_loaded and (rated.flow_ml_min is not None or counted.volume_ml > 0)
        life, days = self._life_left(output), self._days_left(output)
        return {
            "environment": self._environment,
            **msgspec.structs.asdict(rated),
            "flow_ml_min": rated.flow_ml_min and output.flow.ml_min,
            "level": output.level,
            "since": counted.since,
            "cycles": counted.cycles,
            "on_s": round(counted.on_s, 1),
            "energy_kwh": round(counted.energy_wh / 1000, 4) if has_energy else None,
            "volume_l": round(counted.volume_ml / 1000, 4) if has_volume else None,
            "life_left": None if life is None else round(life, 4),
            "days_left": None if days is None else round(days, 1),
        }
