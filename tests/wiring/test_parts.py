"""Optional parts of a running daemon."""

import contextlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

from growd.bus import Bus
from growd.config import Config, ConfigError, Simulator
from growd.host.data_folder import StartError
from growd.parts import PARTS, SIMULATION, Experiments, found, parts_opened
from growd.runtime.clock import RealClock
from growd.wiring.hardware import chosen_clock, loop_of, opened_hardware


@pytest.fixture
def around():
    return SimpleNamespace(bus=Bus(RealClock()), experiments=Experiments())


@pytest.fixture
def parts(monkeypatch):
    """A module with parts; their names end in "_part"."""
    module, seen = ModuleType("parts_of_a_test"), []

    def part(name, error=None):
        @contextlib.asynccontextmanager
        async def opened(around):
            if error is not None:
                raise error
            seen.append(f"{name} opened")
            yield
            seen.append(f"{name} closed")

        setattr(module, name, opened)

    part("sound")
    part("broken", OSError("no such file"))
    part("unusable", ConfigError("[mqtt] host: is missing"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    places = {name: f"{module.__name__}:{name}" for name in ("sound", "broken", "unusable")}
    return SimpleNamespace(seen=seen, **places)


def problems(around):
    return around.bus.find_node("parts").information()["problems"]


async def test_a_part_is_open_for_the_body(around, parts):
    async with parts_opened(around, {"a": parts.sound}):
        assert parts.seen == ["sound opened"]
        assert problems(around) == []
    assert parts.seen == ["sound opened", "sound closed"]


@pytest.mark.parametrize("place", ["broken", "no_such_module:opened", "parts_of_a_test:no_such_function"])
async def test_a_part_that_does_not_start_is_a_failed_component_and_the_others_go_on(around, parts, place):
    async with parts_opened(around, {"a": getattr(parts, place, place), "b": parts.sound}):
        assert parts.seen == ["sound opened"]
        (problem,) = problems(around)
        assert problem.get("is_failure", False)
        assert problem["text"].startswith("the part a did not start: ")


async def test_a_part_whose_experiments_cant_be_made_is_a_failed_component_and_the_others_go_on(
    around, parts
):
    sound, control = SimpleNamespace(), SimpleNamespace()
    async with parts_opened(around, {"a": parts.sound}):
        around.experiments.offer("a", lambda _: 1 / 0)
        around.experiments.offer("b", lambda given: [sound] if given is control else [])
        assert around.experiments.of(control) == [sound]
        (problem,) = problems(around)
        assert (problem["is_failure"], problem["code"], problem["name"]) == (True, "part_failed", "a")


async def test_options_of_a_part_that_cant_be_used_end_the_start(around, parts):
    with pytest.raises(ConfigError):
        async with parts_opened(around, {"a": parts.unusable}):
            pass


@pytest.mark.parametrize("place", [*PARTS.values(), *SIMULATION.values()])
def test_each_part_exists(place):
    assert callable(found(place))


REAL, SIMULATED = (Config(simulator=Simulator(enabled=enabled)) for enabled in (False, True))


async def test_without_the_simulator_simulated_hardware_cant_start_and_real_hardware_can(monkeypatch, around):
    for name in SIMULATION:
        monkeypatch.setitem(SIMULATION, name, "no_such_module:opened")
    with pytest.raises(StartError, match="no_such_module"):
        loop_of(SIMULATED)
    for opened in (
        lambda config: chosen_clock(config, None, None),
        lambda config: opened_hardware(config, around.bus, None),
    ):
        with pytest.raises(StartError, match="no_such_module"):
            async with opened(SIMULATED):
                pass
    assert loop_of(REAL) is None
    async with chosen_clock(REAL, None, None) as clock:
        assert isinstance(clock, RealClock)
