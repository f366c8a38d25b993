"""`growd simulate`: what a recipe would do in a chamber."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd.bus.errors import counted
from growd.config import Chamber, load
from growd.config.profiles import profile_path
from growd.host.data_folder import StartError
from growd.host.logs import timed_by
from growd.recipes.findings import errors
from growd.recipes.formats import RecipeRefusedError
from growd.recipes.interpreter import check, interpret
from growd.recipes.runner import PERIOD_S
from growd.runtime.text import duration
from growd.store.errors import StoreError
from growd.wiring.files import shipped_folder
from growd_camera.film import Film, FilmError
from growd_cli import logs
from growd_cli.config_checks import DEVICE_CHECKS
from growd_cli.names import did_you_mean
from growd_cli.options import (
    config_option,
    environment_option,
    plain_errors,
    refuse,
    refuse_existing,
    replace_option,
    set_option,
    write_page,
)
from growd_cli.output import echo_lines, output_options, print_json
from growd_cli.recipe import echo_findings, read_file
from growd_cli.run_reports import lang_option
from growd_cli.simulate_table import table_of
from growd_cli.terminal import echo_text
from growd_drivers.errors import DriverError
from growd_simulation.fault_services import FORM, fault_of
from growd_simulation.recipes.configuration import with_camera
from growd_simulation.recipes.simulated_run import DAY_S, SimulatedRun, Simulation, run_simulation
from growd_simulation.recipes.summary import summary_of
from growd_simulation.simulated_clock import SimulatedClock, run_simulated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from growd.config import Config
    from growd_simulation.recipes.simulated_run import SimulationProgress

MOST_DAYS: Final = 1_000.0
DEFAULT: Final = "climate"
"""The profile without --config and --profile, as that of `./run`."""

_FPS: Final = 24.0  # pictures in a second of a film: a day of them
_STEPS: Final = 1_000  # of the progress bar
_file = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("recipe", metavar="RECIPE")
@click.option(
    "--days",
    type=click.FloatRange(0, MOST_DAYS, min_open=True),
    metavar="N",
    help="Stop after N days.  [default: at the end of the recipe]",
)
@config_option
@set_option
@environment_option
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="S",
    help="Seed of the random numbers: the same seed gives the same run.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar=FORM,
    help="A fault, TIME after the start, such as absent:scd30@2d6h+30min; repeatable.",
)
@click.option("-o", "--output", "page", type=_file, metavar="FILE", help="Write the report of the run.")
@click.option(
    "--film", "film", type=_file, metavar="FILE", help="Write a film (MP4) of the plants, which grow."
)
@click.option("--csv", "table", type=_file, metavar="FILE", help="Write all points.")
@replace_option
@lang_option
@click.option("--verbose", is_flag=True, help="Log what the daemon would log, with the time of the chamber.")
@output_options
def simulate(
    *,
    recipe: str,
    days: float | None,
    config: Path | None,
    settings: tuple[str, ...],
    environment: str | None,
    seed: int,
    faults: tuple[str, ...],
    page: Path | None,
    table: Path | None,
    film: Path | None,
    replace: bool,
    lang: str,
    verbose: bool,
    as_json: bool,
) -> None:
    """Try a recipe in a simulated chamber, and print what it did.

    RECIPE is a file (a path that exists or ends in .json), or the name of a recipe that ships with growd.
    Without --config and --profile the chamber is that of the profile climate. The hardware of a configuration
    is simulated, whatever [simulator] enabled says.

    The real drivers, loops, interlocks and recipe runner work on simulated chips, as fast as the machine can:
    no daemon, no port, no database. It is 1 January 2026, 00:00, at the start. Ctrl-C ends the run, with the
    summary so far. With --json, each line is a JSON object: {"done": 0.12, "speed": 3100} while it runs, at
    the end {"summary": {...}}.

    Exit status: 0; 1 if the recipe has errors, the chamber can't be simulated or FILE can't be written; 2 for
    a usage error.
    """
    with plain_errors():
        for path in (page, table, film):
            _refuse_unwritable(path, replace=replace)
        simulation = _simulation(recipe, _configuration(config, settings, seed), environment, days, faults)
        ran = _filmed(simulation, film, as_json=as_json, verbose=verbose)
        if table is not None:
            _write_table(ran, table)
        if page is not None:
            write_page(page, asyncio.run(ran.report(lang)))
        summary = summary_of(ran)
        if as_json:
            print_json({"summary": msgspec.to_builtins(summary)}, on_one_line=True)
        else:
            echo_lines(table_of(summary, simulation.config.environment.zone()))


def _filmed(simulation: Simulation, path: Path | None, *, as_json: bool, verbose: bool) -> SimulatedRun:
    """Run it, with a film if there is to be one."""
    if path is None:
        return _simulated(simulation, simulation.new_clock(), as_json=as_json, verbose=verbose)
    environment = simulation.chamber.environment
    config = with_camera(simulation.config, environment)
    try:
        with Film(path, _FPS) as film:
            filmed = changed(simulation, config=config, chamber=Chamber(config, environment), film=film)
            ran = _simulated(filmed, filmed.new_clock(), as_json=as_json, verbose=verbose)
    except FilmError as error:
        refuse(error)
    echo_text(f"growd: {path} has {counted(film.frames, 'picture')}, {film.frames / _FPS:.1f} s", err=True)
    return ran


def _refuse_unwritable(path: Path | None, *, replace: bool) -> None:
    """Before the run, which may take minutes."""
    refuse_existing(path, replace=replace)
    if path is not None and not path.parent.is_dir():
        refuse(f"{path} can't be written: there is no folder {path.parent}")


def _configuration(config: Path | None, settings: tuple[str, ...], seed: int) -> Config:
    """Raises `ConfigError`."""
    simulated = (*settings, "simulator.enabled=true", f"simulator.seed={seed}")
    return load(config or profile_path(DEFAULT), simulated, checks=DEVICE_CHECKS, with_drivers=True)


def _simulation(
    recipe: str, config: Config, environment: str | None, days: float | None, faults: Sequence[str]
) -> Simulation:
    """Ends the program for what can't be tried."""
    chambers = config.chambers()
    name = environment or config.environment.id
    if name not in chambers:
        refuse(f"there is no environment {name}; expected one of {', '.join(chambers)}")
    chamber = Chamber(config, name)
    recipe_id, document = _read(recipe, chamber)
    lasts = interpret(document)[0].duration
    seconds = lasts if days is None else days * DAY_S
    if seconds >= lasts:
        seconds = lasts + 2 * PERIOD_S  # the runner looks at the time once in a period
    if seconds > MOST_DAYS * DAY_S:
        refuse(f"{recipe} lasts {lasts / DAY_S:g} days; use --days with at most {MOST_DAYS:g}")
    try:
        struck = tuple(fault_of(each, config) for each in faults)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--fault'") from None
    return Simulation(config, chamber, recipe_id, document, seconds, struck)


def _read(recipe: str, chamber: Chamber) -> tuple[str, dict[str, Any]]:
    """The id and the document of a recipe; ends the program if it cannot run in this chamber."""
    path = Path(recipe)
    if not (path.suffix == ".json" or path.exists()):
        folder = shipped_folder("couchdb")[0] / "recipes"
        names = sorted(each.stem for each in folder.glob("*.json"))
        if recipe not in names:
            similar = did_you_mean(recipe, names) or f"; {', '.join(names)} ship with growd"
            refuse(f"there is no recipe {recipe}{similar}")
        path = folder / f"{recipe}.json"
    document, findings = read_file(path)
    findings = [*findings, *check(document, chamber.reach_of_recipes())]
    if wrong := errors(findings):
        lines = "\n".join(f"  {finding}" for finding in wrong)
        refuse(f"{recipe} cannot run: it has {counted(len(wrong), 'error')}:\n{lines}")
    echo_findings(findings, err=True)
    name = document.get("_id")
    return name if isinstance(name, str) else path.stem, document


def _simulated(
    simulation: Simulation, clock: SimulatedClock, *, as_json: bool, verbose: bool
) -> SimulatedRun:
    """Run it with its progress; ends the program if it can't be simulated."""
    logs.set_up(verbose=False) if verbose else logs.be_quiet()
    shown = _json_lines() if as_json else _bar(simulation)
    try:
        with shown as tell, timed_by(clock.time):
            return run_simulated(_interruptible(simulation, clock, tell), clock)
    except (RecipeRefusedError, DriverError, StartError, StoreError) as error:
        refuse(str(error))


async def _interruptible(
    simulation: Simulation, clock: SimulatedClock, tell: Callable[[SimulationProgress], None]
) -> SimulatedRun:
    """Until Ctrl-C at the latest."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return await run_simulation(simulation, clock, tell, stopped.is_set)


@contextmanager
def _bar(simulation: Simulation) -> Iterator[Callable[[SimulationProgress], None]]:
    """A progress bar on standard error, or a line each 10 % if that is no terminal."""
    is_terminal, lines = sys.stderr.isatty(), 0
    length = duration(simulation.seconds)

    def tell_in_lines(progress: SimulationProgress) -> None:
        nonlocal lines
        if progress.done * 10 >= lines + 1:
            lines = int(progress.done * 10)
            done = f"{progress.done:.0%} of {length}"
            echo_text(f"growd: {done}, at {progress.speed:.3g} times real time", err=True)

    if not is_terminal:
        yield tell_in_lines
        return
    with click.progressbar(
        length=_STEPS,
        label=length,
        file=sys.stderr,
        item_show_func=lambda speed: speed,
    ) as bar:

        def tell(progress: SimulationProgress) -> None:
            bar.update(
                max(0, round(progress.done * _STEPS) - bar.pos), f"{progress.speed:.0f} times real time"
            )

        yield tell


@contextmanager
def _json_lines() -> Iterator[Callable[[SimulationProgress], None]]:
    """A line of JSON for each step."""

    def tell(progress: SimulationProgress) -> None:
        print_json({"done": round(progress.done, 4), "speed": round(progress.speed)}, on_one_line=True)

    yield tell


def _write_table(ran: SimulatedRun, path: Path) -> None:
    try:
        with path.open("wb") as stream:
            number = asyncio.run(ran.write_csv(stream))
    except (OSError, StoreError) as error:
        refuse(f"{path} can't be written: {error.strerror if isinstance(error, OSError) else error}")
    echo_text(f"growd: {counted(number, 'point')} in {path}", err=True)
