"""Optional parts of a running daemon."""

import asyncio
import contextlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

from growd.api.api import Api
from growd.api.operation import Operation
from growd.api.operations import operations_of
from growd.bus import Bus
from growd.config import Config, ConfigError, Simulator
from growd.host.data_folder import StartError
from growd.parts import PARTS, SIMULATION, Experiments, found, parts_opened
from growd.runtime.clock import RealClock
from growd.server.errors import ApiError
from growd.wiring.hardware import chosen_clock, loop_of, opened_hardware
from support.waiting import until


@pytest.fixture
def around():
    bus = Bus(RealClock())
    return SimpleNamespace(
        bus=bus, experiments=Experiments(), api=Api(bus, bus.node("http"), "/_svc", operations_of())
    )


@pytest.fixture
def parts(monkeypatch):
    """A module with parts; their names end in "_part"."""
    module, seen = ModuleType("parts_of_a_test"), []

    async def hang():
        await asyncio.Event().wait()

    async def fail():
        raise OSError("no such file")

    async def answered(api, call):
        return "answered"

    def part(name, error=None, *, hangs=(), later=None):
        @contextlib.asynccontextmanager
        async def opened(around):
            around.api.offer([Operation("GET", name, "", name, answered)])
            if error is not None:
                raise error
            if "opening" in hangs:
                await hang()
            async with asyncio.TaskGroup() as tasks:
                if later is not None:
                    tasks.create_task(later())
                seen.append(f"{name} opened")
                yield
                if "closing" in hangs:
                    await hang()
            seen.append(f"{name} closed")

        setattr(module, name, opened)

    part("sound")
    part("broken", OSError("no such file"))
    part("cancelled", asyncio.CancelledError())
    part("exits", SystemExit(3))
    part("unusable", ConfigError("[mqtt] host: is missing"))
    part("hangs", hangs=["opening"])
    part("stays", hangs=["closing"])
    part("fails_later", later=fail)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    places = {name: f"{module.__name__}:{name}" for name in vars(module) if not name.startswith("_")}
    return SimpleNamespace(seen=seen, **places)


async def asked(around, name):
    (operation,) = (each for each in around.api.operations if each.resource == name)
    return await operation.handler(around.api, None)


def problems(around):
    return around.bus.find_node("parts").information()["problems"]


async def test_a_part_is_open_for_the_body(around, parts):
    async with parts_opened(around, {"a": parts.sound}):
        assert parts.seen == ["sound opened"]
        assert problems(around) == []
    assert parts.seen == ["sound opened", "sound closed"]


@pytest.mark.parametrize(
    "place", ["broken", "cancelled", "exits", "no_such_module:opened", "parts_of_a_test:no_such_function"]
)
async def test_a_part_that_does_not_start_is_a_failed_component_and_the_others_go_on(around, parts, place):
    async with parts_opened(around, {"a": getattr(parts, place, place), "b": parts.sound}):
        assert parts.seen == ["sound opened"]
        (problem,) = problems(around)
        assert problem.get("is_failure", False)
        assert problem["text"].startswith("the part a failed: ")


async def test_a_part_that_hangs_at_its_opening_is_a_failed_component_and_the_others_go_on(
    around, parts, monkeypatch
):
    monkeypatch.setattr("growd.parts.OPENS_S", 0.01)
    async with parts_opened(around, {"a": parts.hangs, "b": parts.sound}):
        assert parts.seen == ["sound opened"]
        assert [each["name"] for each in problems(around)] == ["a"]


async def test_the_end_of_growd_waits_for_no_part_that_hangs_at_its_opening(around, parts):
    stopped = asyncio.Event()
    asyncio.get_running_loop().call_soon(stopped.set)
    async with parts_opened(around, {"a": parts.hangs, "b": parts.sound}, stopped=stopped):
        assert parts.seen == []


async def test_the_end_of_growd_waits_for_no_part_that_hangs_at_its_end(around, parts, monkeypatch, caplog):
    monkeypatch.setattr("growd.parts.CLOSES_S", 0.01)
    async with parts_opened(around, {"a": parts.sound, "b": parts.stays}):
        pass
    assert parts.seen == ["sound opened", "stays opened", "sound closed"]
    assert "the part b did not end" in caplog.text


async def test_a_part_that_fails_later_ends_nothing_but_itself(around, parts):
    async with parts_opened(around, {"a": parts.fails_later, "b": parts.sound}):
        await until(lambda: problems(around))
        assert [each["name"] for each in problems(around)] == ["a"]
    assert parts.seen[-1] == "sound closed"


@pytest.mark.parametrize("place", ["broken", "hangs", "fails_later"])
async def test_the_calls_of_a_part_that_failed_say_so_and_those_of_others_answer(
    around, parts, monkeypatch, place
):
    monkeypatch.setattr("growd.parts.OPENS_S", 0.1)
    async with parts_opened(around, {"a": getattr(parts, place), "b": parts.sound}):
        await until(lambda: problems(around))
        with pytest.raises(ApiError) as refused:
            await asked(around, place)
        (problem,) = problems(around)
        assert (refused.value.status, refused.value.code) == (503, "part_failed")
        assert refused.value.sentence == problem["text"]
        assert await asked(around, "sound") == "answered"


async def test_a_part_whose_experiments_cant_be_made_is_a_failed_component_and_the_others_go_on(
    around, parts
):
    sound, control = (SimpleNamespace(node=around.bus.node(name)) for name in ("sound", "control"))
    half = SimpleNamespace(node=around.bus.node("half"))

    def broken(_):
        yield half
        yield object()

    async with parts_opened(around, {"a": parts.sound}):
        around.experiments.offer("a", broken)
        around.experiments.offer("b", lambda given: [sound] if given is control else [])
        assert around.experiments.of(control) == [sound]
        (problem,) = problems(around)
        assert (problem["is_failure"], problem["code"], problem["name"]) == (True, "part_failed", "a")
        assert "half" not in around.bus.node_names()


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
