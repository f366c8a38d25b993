"""How growd is, in one line of plain words, for whoever asks the service manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.bus.errors import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from growd.bus import Bus

_WELL: Final = "ok"


def words(
    bus: Bus,
    environments: Iterable[str],
    waiting: Callable[[], int],
    failures: Callable[[], Sequence[str]],
) -> str:
    """Such as "2 of 3 devices well; recipe lettuce in phase 2; 0 points waiting".

    The first of the `failures` comes before that: "FAILED: the data folder is gone (and 1 more); ...".
    """
    states = list(_device_states(bus))
    devices = f"{sum(state == _WELL for state in states)} of {counted(len(states), 'device')} well"
    recipes = [_recipe(bus, environment) for environment in environments]
    return "; ".join(
        [*_failure(failures()), devices, *filter(None, recipes), f"{counted(waiting(), 'point')} waiting"]
    )


def _failure(failures: Sequence[str]) -> Iterator[str]:
    """The first failure, and how many more there are."""
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        yield f"FAILED: {failures[0]}{more}"


def _device_states(bus: Bus) -> Iterator[str]:
    """Of each device, as the node of its sampler or actuator has it."""
    for name in bus.node_names():
        if "/samplers/" in name or "/actuators/" in name:
            yield bus.find_node(name).details()["device"]["state"]


def _recipe(bus: Bus, environment: str) -> str:
    recipe, phase, state = (
        bus.parameters.get(f"{environment}/{name}")
        for name in ("current_recipe", "recipe_phase", "recipe_state")
    )
    if not recipe:
        return ""
    place = f" in phase {phase}" if phase else ""
    return f"recipe {recipe}{place}{' (paused)' if state == 'paused' else ''}"
