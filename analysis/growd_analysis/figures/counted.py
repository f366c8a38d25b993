"""What outputs did during a run, from their counters at its start and at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from growd.variables import VALVE, VARIABLES
from growd_analysis.figures.figures import GRAMS_PER_LITRE, OutputFigures
from growd_analysis.figures.tally import short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd_analysis.figures.figures import RunFigures


class CountedUse(msgspec.Struct, frozen=True):
    """The counters of an output, which began at `since` (UNIX seconds); None for what is not counted."""

    variable: str
    since: float
    cycles: int
    on_s: float
    energy_kwh: float | None = None
    volume_l: float | None = None


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
    """What was counted between both, by variable, of all its outputs."""
    first, last = (msgspec.convert(each or {}, dict[str, CountedUse]) for each in (start, end))
    pairs = [(first.get(name), counters) for name, counters in last.items()]
    found: dict[str, list[tuple[CountedUse, CountedUse]]] = {one.variable: [] for one in last.values()}
    for before, after in pairs:
        if before is None or (before.since, before.variable) != (after.since, after.variable):
            found.pop(after.variable, None)
        elif after.variable in found:
            found[after.variable].append((before, after))
    return {variable: _difference(both) for variable, both in found.items()}


def _difference(pairs: Sequence[tuple[CountedUse, CountedUse]]) -> CountedUse:
    def of(member: str) -> Any:
        """None if it is not known of one."""
        values = [(getattr(before, member), getattr(after, member)) for before, after in pairs]
        known = [after - before for before, after in values if before is not None and after is not None]
        return sum(known) if len(known) == len(values) else None

    counted = {member: of(member) for member in ("cycles", "on_s", "energy_kwh", "volume_l")}
    return msgspec.structs.replace(pairs[0][1], **counted)


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
