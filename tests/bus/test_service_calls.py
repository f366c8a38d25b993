import pytest

from growd.bus import Bus
from growd.bus.errors import (
    InvalidAnswerError,
    InvalidArgumentsError,
    InvalidNameError,
    InvalidValueError,
    NameTakenError,
    UnknownNameError,
)
from growd.bus.fields import Field, Kind
from growd.bus.services import SUCCESS, Service
from growd.runtime.clock import RealClock

ARGUMENTS = (
    Field("recipe_id", Kind.STRING),
    Field("offset", Kind.FLOAT64, 0, 3600, "s", default=0.0),
    Field("hold", Kind.BOOL, default=False),
)


class Recorder:
    """A handler that records its calls."""

    def __init__(self, answer=None):
        self.calls = []
        self.answer = {"success": True, "message": "done"} if answer is None else answer

    async def __call__(self, **arguments):
        self.calls.append(arguments)
        return self.answer


def service(handler, **options):
    options.setdefault("arguments", ARGUMENTS)
    return Service("environment_1/start_recipe", "growd/StartRecipe", "recipes", handler, **options)


async def test_arguments_by_position_or_by_name():
    for given, *bound in (
        (["basil"], "basil", 0.0, False),
        (["basil", 60, True], "basil", 60.0, True),
        ({"recipe_id": "basil"}, "basil", 0.0, False),
        ({"hold": True, "recipe_id": "basil"}, "basil", 0.0, True),
    ):
        handler = Recorder()
        assert await service(handler).call(given) == {"success": True, "message": "done"}
        assert handler.calls == [dict(zip(("recipe_id", "offset", "hold"), bound, strict=True))]


@pytest.mark.parametrize("error", [InvalidArgumentsError, InvalidValueError])
async def test_invalid_arguments_never_reach_the_handler(error, said):
    handler = Recorder()
    form = (None, [], {"offset": 1}, {"recipe_id": "a", "of": 1}, ["a", 0, False, 1], "basil", 5, False)
    values = ([5], [None], ["a", 3601], ["a", 0, 1])
    for given in form if error is InvalidArgumentsError else values:
        with said.raises(error):
            await service(handler).call(given)
    assert handler.calls == []


async def test_one_argument_is_counted_as_one(said):
    with said.raises(InvalidArgumentsError):
        await service(Recorder(), arguments=ARGUMENTS[:1]).call(["a", "b"])
    with said.raises(InvalidArgumentsError):
        await service(Recorder(), arguments=()).call({"a": 1})


async def test_an_answer_is_checked_and_has_only_the_fields_of_the_reply():
    reply = (*SUCCESS, Field("elapsed", Kind.FLOAT64, default=0.0))
    handler = Recorder({"success": False, "message": "it is idle", "secret": 1})
    assert await service(handler, reply=reply).call(["a"]) == {
        "success": False,
        "message": "it is idle",
        "elapsed": 0.0,
    }
    handler.answer = {"success": True, "message": "", "elapsed": 3}
    assert type((await service(handler, reply=reply).call(["a"]))["elapsed"]) is float


async def test_a_wrong_answer_is_an_error_of_the_service(said):
    for answer in ({"success": True}, {"success": 1, "message": ""}, {"success": True, "message": None}):
        with pytest.raises(InvalidAnswerError) as caught:
            await service(Recorder(answer)).call(["a"])
        said(str(caught.value))
        assert caught.value.service == "environment_1/start_recipe"
        assert not isinstance(caught.value, ValueError)  # which would blame the caller


async def test_services_are_found_by_name_with_or_without_a_slash():
    bus = Bus(RealClock())
    node = bus.node("recipes")
    stop = node.serve("/environment_1/stop_recipe", "growd/StopRecipe", Recorder())
    start = node.serve("environment_1/start_recipe", "growd/StartRecipe", Recorder(), arguments=ARGUMENTS)
    assert bus.services.names() == ["environment_1/start_recipe", "environment_1/stop_recipe"]
    assert bus.services.get("/environment_1/start_recipe") is start
    assert bus.services.get("environment_1/stop_recipe") is stop
    with pytest.raises(NameTakenError, match="start_recipe"):
        bus.node("other").serve("environment_1/start_recipe", "x/Y", Recorder())
    with pytest.raises(UnknownNameError, match='no service named "environment_1"') as caught:
        bus.services.get("/environment_1")
    assert (caught.value.kind, caught.value.name) == ("service", "environment_1")
    with pytest.raises(InvalidNameError):
        bus.services.get("a//b")
