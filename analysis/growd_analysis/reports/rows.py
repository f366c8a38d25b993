"""The figures of several runs as rows, for pages and terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from growd.variables import VALVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from growd_analysis.figures.figures import RunFigures
    from growd_analysis.reports.language import Language

    Pick = Callable[[RunFigures], float | None]


MOST_RUNS: Final = 6
"""Of one comparison."""


class FigureRow(NamedTuple):
    """One figure of all runs, as shown, and its differences from the first run."""

    name: str
    values: list[str]
    differences: list[str]


def figure_rows(runs: Sequence[RunFigures], language: Language) -> list[FigureRow]:
    """The figures that at least one run has."""
    rows = [*_of_runs(runs, language)]
    for name in sorted({one.variable for run in runs for one in run.variables}):
        rows += _of_variable(name, runs, language)
    for name in sorted({one.variable for run in runs for one in run.outputs}):
        rows += _of_output(name, runs, language)
    return [row for row in rows if row is not None]


def _of_runs(runs: Sequence[RunFigures], language: Language) -> Iterator[FigureRow | None]:
    say = language.say
    yield _row(say("lasted"), runs, lambda run: run.end - run.start, language.duration)
    yield _row(
        f"{say('light_integral')}, mol/m²",
        runs,
        lambda run: run.light.total if run.light else None,
        lambda value: language.number(value, 2),
    )
    for kind in ("fault", "interlock"):
        yield _row(
            say(f"{kind}s"),
            runs,
            lambda run, kind=kind: float(sum(one.count for one in run.events if one.kind == kind)),  # type: ignore[misc]
            lambda value: language.number(value, 0),
        )
    yield _row(say("gap"), runs, lambda run: sum(gap.end - gap.begin for gap in run.gaps), language.duration)


def _of_variable(name: str, runs: Sequence[RunFigures], language: Language) -> Iterator[FigureRow | None]:
    unit = next(found.unit for run in runs if (found := run.variable(name)))
    title = language.variable(name) + (f", {language.unit(unit)}" if language.unit(unit) else "")

    def shown(value: float) -> str:
        return language.value(value, name)

    def row(
        key: str,
        pick: Callable[..., float | None],
        show: Callable[[float], str],
        differ: Callable[[float], str] | None = None,
    ) -> FigureRow | None:
        def of(run: RunFigures) -> float | None:
            found = run.variable(name)
            return None if found is None else pick(found)

        return _row(f"{title}: {language.inside(key)}", runs, of, show, differ)

    yield row("min", lambda found: found.whole.min, shown)
    yield row("mean", lambda found: found.whole.mean, shown)
    yield row("max", lambda found: found.whole.max, shown)
    yield row("day_mean", lambda found: found.day.mean if found.day else None, shown)
    yield row("night_mean", lambda found: found.night.mean if found.night else None, shown)
    yield row("deviation", lambda found: found.deviation.mean_absolute if found.deviation else None, shown)
    yield row(
        "within",
        lambda found: found.deviation.within if found.deviation else None,
        language.share,
        language.points,
    )


def _of_output(name: str, runs: Sequence[RunFigures], language: Language) -> Iterator[FigureRow | None]:
    def of(run: RunFigures, member: str) -> float | None:
        found = next((one for one in run.outputs if one.variable == name), None)
        return None if found is None else getattr(found, member)

    title = language.variable(name)
    on = language.inside("on_time")
    yield _row(f"{title}: {on}", runs, lambda run: of(run, "on_s"), language.duration)
    energy = language.inside("energy")
    yield _row(f"{title}: {energy}", runs, lambda run: of(run, "energy_kwh"), language.amount)
    if name == VALVE:
        yield _row(language.say("litres"), runs, lambda run: of(run, "litres"), language.amount)


def _row(
    name: str,
    runs: Sequence[RunFigures],
    pick: Pick,
    show: Callable[[float], str],
    differ: Callable[[float], str] | None = None,
) -> FigureRow | None:
    """A row; `differ` shows a difference, by default as `show` does."""
    values = [pick(run) for run in runs]
    if not any(value for value in values):
        return None
    first = values[0]
    differences = [
        "" if n == 0 else "–" if value is None or first is None else _signed(value - first, differ or show)  # noqa: RUF001
        for n, value in enumerate(values)
    ]
    return FigureRow(name, ["–" if value is None else show(value) for value in values], differences)  # noqa: RUF001


def _signed(difference: float, show: Callable[[float], str]) -> str:
    if show(abs(difference)) == show(0.0):
        return f"±{show(0.0)}"
    sign = "+" if difference > 0 else "−" if difference < 0 else "±"  # noqa: RUF001
    return f"{sign}{show(abs(difference))}"
