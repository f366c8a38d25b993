"""What outputs did during a run, from their counters at its start and at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from growd.variables import VALVE, VARIABLES
from growd_analysis.figures.figures import GRAMS_PER_LITRE, OutputFigures
from growd_analysis.figures.tally import short

if TYPE_CHECKING:
    from growd_analysis.figures.figures import RunFigures


class CountedUse(msgspec.Struct, frozen=True):
    """The counters of an output, which began at `since` (UNIX seconds); None for what is not counted."""

    variable: str
    since: float
    cycles: int
    on_s: float
    energy_kwh: float | None = None
    volume_l: float | None = None

    def after(self, start: CountedUse) -> CountedUse:
        """What was counted since `start`."""
        return self._combined(start, -1)

    def plus(self, other: CountedUse) -> CountedUse:
        """Together with another output of the same variable."""
        return self._combined(other, 1)

    def _combined(self, other: CountedUse, sign: int) -> CountedUse:
        return msgspec.structs.replace(
            self,
            cycles=self.cycles + sign * other.cycles,
            on_s=self.on_s + sign * other.on_s,
            energy_kwh=_add(self.energy_kwh, other.energy_kwh, sign),
            volume_l=_add(self.volume_l, other.volume_l, sign),
        )


def with_counted(figures: RunFigures, start: Any, end: Any) -> RunFigures:
    """The figures with times, starts and use of outputs from the counters at the start and end of the run.

    Both are the counters by output, as the record of the run has them. Outputs without counters at both,
    or whose counters began anew, keep what their commands say; so do the figures of single days.
    """
    outputs = {one.variable: one for one in figures.outputs}
    for variable, used in _used(start, end).items():
        if variable in outputs or used.on_s:
            outputs[variable] = _counted(outputs.get(variable) or _unknown(variable, len(figures.days)), used)
    return msgspec.structs.replace(figures, outputs=[one for _, one in sorted(outputs.items())])


def _used(start: Any, end: Any) -> dict[str, CountedUse]:
    """What was counted between both, by variable."""
    first, last = (msgspec.convert(each or {}, dict[str, CountedUse]) for each in (start, end))
    found: dict[str, CountedUse] = {}
    unknown = set()
    for name, counters in last.items():
        before = first.get(name)
        if before is None or before.since != counters.since or before.variable != counters.variable:
            unknown.add(counters.variable)
            continue
        used = counters.after(before)
        known = found.get(counters.variable)
        found[counters.variable] = used if known is None else known.plus(used)
    return {variable: used for variable, used in found.items() if variable not in unknown}


def _counted(one: OutputFigures, used: CountedUse) -> OutputFigures:
    litres = None if used.volume_l is None else short(used.volume_l)
    is_gas = litres is not None and one.variable == VALVE
    return msgspec.structs.replace(
        one,
        on_s=round(used.on_s, 3),
        starts=used.cycles,
        litres=litres,
        grams=short((litres or 0.0) * GRAMS_PER_LITRE) if is_gas else None,
        energy_kwh=None if used.energy_kwh is None else short(used.energy_kwh),
        is_counted=True,
    )


def _unknown(variable: str, days: int) -> OutputFigures:
    """An output without commands of its own, such as a channel of the lamp."""
    known = VARIABLES.get(variable)
    none = [0.0] * days
    return OutputFigures(variable, known.unit if known else "", 0.0, 0.0, None, None, none, none, None)


def _add(one: float | None, other: float | None, sign: int) -> float | None:
    """None if one is not known."""
    return None if one is None or other is None else one + sign * other
