import asyncio

import pytest
from parameter_store import HeldStore, MemoryStore, canonical

from growd.bus import parameter_rules, params
from growd.bus.errors import (
    BusyError,
    CapacityError,
    ConflictError,
    InvalidValueError,
    ReadOnlyError,
    UndeclaredError,
    UnknownNameError,
)
from growd.bus.fields import Field, Kind
from growd.bus.names import MAX_NAME
from growd.bus.params import Parameters

GAIN = Field("gain", Kind.FLOAT64, 0, 10, default=1.0)
RECIPE = Field("current_recipe", Kind.STRING, default="")
CURVE = Field("curve", Kind.JSON, default={})


def everything(tree):
    return {name: tree.get(name) for name in tree.names()}


# The tree


async def test_an_object_nested_deeper_than_names_are_long_is_returned():
    value = 1
    for _ in range(500):
        value = {"a": value}
    tree = Parameters()
    await tree.set("a", value)
    assert tree.get("a") == value
    (name,) = tree.names()
    assert len(name) <= MAX_NAME
    tree.names().clear()  # a copy
    assert tree.names() == [name]


async def test_the_number_of_parameters_is_limited(monkeypatch):
    monkeypatch.setattr(parameter_rules, "MAX_PARAMETERS", 4)
    store = MemoryStore()
    tree = Parameters({"a/b": 1, "a/c": 2, "d": 3}, store)
    with pytest.raises(CapacityError, match="parameters: 4"):
        await tree.set("e", {"f": 4, "g": 5})
    assert (len(tree.names()), store.saves) == (3, 0)
    await tree.set("e", 4)
    with pytest.raises(CapacityError):
        await tree.set("f", 5)
    await tree.set("e", 5)  # a present one can still be changed
    await tree.set("a", {"x": 1, "y": 2})
    await tree.set("a", {"z": 6})
    await tree.set("f", 7)
    assert everything(tree) == {"a/z": 6, "d": 3, "e": 5, "f": 7}
    with pytest.raises(CapacityError):
        await tree.set("many", {str(number): number for number in range(5)})


async def test_the_bytes_of_all_parameters_are_limited(monkeypatch, said):
    monkeypatch.setattr(parameter_rules, "MAX_BYTES", 40)
    store = MemoryStore()
    tree = Parameters({"a/b": "x" * 10}, store)
    assert tree.size == len('a/b"xxxxxxxxxx"')
    controller = tree.declare("gain", GAIN, "controller")
    with said.raises(CapacityError):
        await tree.set("c", ["x" * 20])
    assert (tree.names(), store.saves) == (["a/b", "gain"], 0)
    await tree.set("c", "ü" * 4)
    assert tree.size == len('a/b"xxxxxxxxxx"gain1.0c"üüüü"'.encode())
    with pytest.raises(CapacityError):
        await asyncio.gather(tree.set("d", 1), tree.set("e", "x" * 10))
    assert "d" in tree.names()  # the one that fits
    await tree.set("gain", 3.25)  # those of nodes can always be set
    assert controller.value == 3.25
    await tree.set("a", "x")
    await tree.delete("c")
    await tree.delete("d")
    assert tree.size == len('a"x"gain3.25')
    await tree.set("e", "x" * 10)


# Declared parameters


async def test_a_declared_parameter_has_a_type_a_range_and_a_default():
    tree = Parameters()
    gain = tree.declare("/control/gain", GAIN, "controller")
    assert gain.value == 1.0
    await tree.set("control/gain", 3)
    assert (gain.value, type(gain.value)) == (3.0, float)
    for value in (11, "3", None, {"a": 1}):
        with pytest.raises(InvalidValueError, match="control/gain must be a number from 0 to 10") as caught:
            await tree.set("control/gain", value)
        assert caught.value.field == "control/gain"
    assert gain.value == 3.0
    assert tree.declared("control/gain") is gain


def test_a_saved_value_holds_if_it_is_valid():
    for kept, value in ((3, 3.0), (11, 1.0), ("3", 1.0), (None, 1.0)):
        assert Parameters({"gain": kept}).declare("gain", GAIN, "controller").value == value


async def test_a_read_only_parameter_is_set_by_its_node_alone():
    tree = Parameters()
    recipe = tree.declare("environment_1/current_recipe", RECIPE, "recipes", read_only=True)
    for name, value in (("environment_1/current_recipe", "x"), ("environment_1", {"current_recipe": "x"})):
        for node in (None, "other"):
            with pytest.raises(ReadOnlyError, match="the node recipes sets it"):
                await tree.set(name, value, node=node)
    assert recipe.value == ""
    await recipe.set("basil")
    assert tree.get("environment_1") == {"current_recipe": "basil"}


async def test_a_declared_object_stays_whole_also_inside_a_replaced_branch():
    tree = Parameters()
    curve = tree.declare("light/curve", CURVE, "controller")
    await tree.set("light/curve", {"low": 1, "high": 2})
    assert tree.names() == ["light/curve"]
    await tree.set("light", {"curve": {"low": 3}, "note": {"a": 1}})
    assert everything(tree) == {"light/curve": {"low": 3}, "light/note/a": 1}
    assert curve.value == {"low": 3}
    with pytest.raises(ConflictError, match='declared "light/curve"'):
        await tree.set("light/curve/low", 4)


def test_a_declaration_without_a_default_that_fits_changes_nothing():
    tree = Parameters({"a/b": 1})
    for field in (Field("a", Kind.JSON), Field("a", Kind.FLOAT64, 0, 1, default=2)):
        with pytest.raises(ValueError, match="default|must be"):  # noqa: RUF043  either
            tree.declare("a", field, "node")
        assert everything(tree) == {"a/b": 1}
        assert tree.declared("a") is None


# Saving


async def test_a_shown_value_holds_at_once_and_is_never_saved(said):
    store = HeldStore()
    tree = Parameters(store=store)
    lag = tree.declare("replication/lag", GAIN, "replication", read_only=True)
    task = asyncio.create_task(tree.set("a", 1))
    await store.begun.wait()
    lag.show(7)
    assert tree.get("replication") == {"lag": 7.0}
    store.go_on.set()
    await task
    assert (lag.value, tree.get("a")) == (7.0, 1)
    assert store.kept() == {"a": 1}
    with said.raises(InvalidValueError):
        lag.show("much")
    tree.undeclare(lag)
    lag.show(8)
    assert tree.get("replication/lag") == 7.0


async def test_a_value_holds_only_once_it_is_saved_also_after_its_set_was_cancelled():
    store = HeldStore()
    tree = Parameters({"a": 1}, store)
    task = asyncio.create_task(tree.set("a", 2))
    await store.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tree.get("a") == 1
    store.go_on.set()
    await tree.close()
    assert (tree.get("a"), store.kept()) == (2, {"a": 2})


async def test_sets_at_the_same_time_are_made_one_after_the_other():
    store = MemoryStore()
    tree = Parameters(store=store)
    results = await asyncio.gather(
        *(tree.set("a", number) for number in range(10)),
        tree.set("a/b", "beneath a leaf"),
        tree.set("a", {"b": 11}),
        tree.set("a/c", 12),
    )
    assert results == [*range(10), "beneath a leaf", {"b": 11}, 12]
    assert everything(tree) == store.kept() == {"a/b": 11, "a/c": 12}


async def test_sets_that_come_while_the_store_writes_share_its_next_write():
    store = HeldStore()
    tree = Parameters(store=store)
    tree.declare("b", GAIN, "controller")
    first = asyncio.create_task(tree.set("a", 0))
    await store.begun.wait()
    sets = {"b": 2, "c": 3, "b/d": 4, "e": 5}
    others = [asyncio.create_task(tree.set(name, value)) for name, value in sets.items()]
    await asyncio.sleep(0)
    store.go_on.set()
    await first
    results = await asyncio.gather(*others, return_exceptions=True)
    assert isinstance(results[2], ConflictError)
    assert results[:2] + results[3:] == [2, 3, 5]
    assert store.saves == 2
    assert store.kept() == everything(tree) == {"a": 0, "b": 2, "c": 3, "e": 5}


async def test_sets_that_come_a_few_turns_of_the_loop_apart_share_a_write():
    store = MemoryStore()
    tree = Parameters(store=store)

    async def late(name, turns):
        for _ in range(turns):
            await asyncio.sleep(0)
        await tree.set(name, turns)

    await asyncio.gather(late("a", 0), late("b", 6), late("c", 12))
    assert (store.saves, store.kept()) == (1, {"a": 0, "b": 6, "c": 12})


def grouped():
    """A tree with some parameters of a node, and its store."""
    store = MemoryStore()
    tree = Parameters(store=store)
    for name in ("kp", "ki", "own"):
        tree.declare(name, GAIN, "n", read_only=name == "own")
    return tree, store


async def test_values_set_together_take_one_write():
    tree, store = grouped()
    await tree.set_together({"kp": 2, "ki": 3.0})
    assert everything(tree) == {"kp": 2.0, "ki": 3.0, "own": 1.0}
    assert (store.saves, store.kept()) == (1, {"kp": 2.0, "ki": 3.0})
    await tree.set_together({})
    assert store.saves == 1


async def test_values_set_together_are_saved_together_or_not_at_all():
    tree, store = grouped()
    before = everything(tree)
    for values, error in (
        ({"kp": 2.0, "ki": 11.0}, InvalidValueError),
        ({"kp": 2.0, "own": 3.0}, ReadOnlyError),
        ({"kp": 2.0, "nobody": 3.0}, UnknownNameError),
    ):
        with pytest.raises(error):
            await tree.set_together(values)
        assert (everything(tree), store.kept()) == (before, {})
    store.fails = True
    sets = (tree.set("x", 1), tree.set_together({"kp": 2.0, "ki": 3.0}))
    assert [type(each) for each in await asyncio.gather(*sets, return_exceptions=True)] == [OSError] * 2
    assert (everything(tree), store.kept()) == (before, {})


async def test_a_cancelled_set_may_fail_silently():
    store = HeldStore()
    store.fails = True
    tree = Parameters({"a": 1}, store)
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    task = asyncio.create_task(tree.set("a", 2))
    await store.begun.wait()
    task.cancel()
    store.go_on.set()
    await tree.close()
    assert (tree.get("a"), store.kept(), complaints) == (1, {}, [])


async def test_a_declaration_made_while_the_store_writes_holds(said):
    store = HeldStore()
    tree = Parameters({"gain": 2}, store)
    task = asyncio.create_task(tree.set("gain", "much"))
    await store.begun.wait()
    gain = tree.declare("gain", GAIN, "controller")
    store.go_on.set()
    with said.raises(InvalidValueError):
        await task
    assert gain.value == 2.0
    assert Parameters(store.kept()).declare("gain", GAIN, "controller").value == 2.0


@pytest.mark.parametrize(
    ("kept", "name", "value", "declared", "error"),
    [
        ({"gain": 2.0}, "gain", 99, "gain", ReadOnlyError),
        ({}, "gain", 99, "gain", ReadOnlyError),
        ({}, "gain/b", 5, "gain", ConflictError),
        ({"a/gain": 7.0}, "a", {"b": 5}, "a/gain", ConflictError),
    ],
)
async def test_a_set_that_a_declaration_meanwhile_forbids_is_not_saved(kept, name, value, declared, error):
    store = HeldStore()
    store.texts = {leaf: canonical(kept_value) for leaf, kept_value in kept.items()}
    tree = Parameters(store.kept(), store)
    task = asyncio.create_task(tree.set(name, value))
    await store.begun.wait()
    holds = tree.declare(declared, GAIN, "controller", read_only=True).value
    store.go_on.set()
    with pytest.raises(error):
        await task
    assert everything(tree) == {declared: holds}
    # not the default: a later growd may declare another one
    assert store.kept() == ({declared: holds} if kept else {})


async def test_a_branch_that_became_a_leaf_while_the_store_wrote_is_saved_as_a_leaf():
    store = HeldStore()
    tree = Parameters(store=store)
    task = asyncio.create_task(tree.set("curve", {"a": 1}))
    await store.begun.wait()
    tree.declare("curve", CURVE, "light")
    store.go_on.set()
    assert await task == {"a": 1}
    assert store.kept() == {"curve": {"a": 1}}
    assert Parameters(store.kept()).declare("curve", CURVE, "light").value == {"a": 1}


async def test_a_leaf_out_of_sync_is_deleted_with_the_next_write_that_succeeds():
    store = MemoryStore()
    store.texts = {"control": "5"}
    tree = Parameters(store.kept(), store)
    tree.declare("control/gain", GAIN, "controller")
    store.fails = True
    with pytest.raises(OSError, match="disk full"):
        await tree.set("other", 1)
    store.fails = False
    await tree.set("other", 1)
    assert store.kept() == {"other": 1}


async def test_a_value_that_is_no_json_fails_alone():
    store = MemoryStore()
    tree = Parameters(store=store)
    sets = (tree.set("good", 1), tree.set("bad", {1: 2}), tree.set("bad", {"a": {1: 2}}))
    results = await asyncio.gather(*sets, return_exceptions=True)
    assert results[0] == 1
    assert [type(each) for each in results[1:]] == [TypeError, TypeError]
    assert everything(tree) == store.kept() == {"good": 1}


async def test_sets_that_wait_for_the_store_are_limited(monkeypatch, said):
    monkeypatch.setattr(params, "MAX_SETS", 3)
    store = HeldStore()
    tree = Parameters(store=store)
    tasks = [asyncio.create_task(tree.set("a", number)) for number in range(3)]
    await store.begun.wait()
    with said.raises(BusyError):
        await tree.set("a", 4)
    store.go_on.set()
    await asyncio.gather(*tasks)
    assert tree.get("a") == 2
    await tree.set("a", 5)
    assert tree.get("a") == 5


async def test_endless_sets_are_written_before_the_limit():
    store = HeldStore()
    tree = Parameters(store=store)
    tasks = []
    while not store.begun.is_set():
        tasks.append(asyncio.create_task(tree.set("a", len(tasks))))
        await asyncio.sleep(0)
    store.go_on.set()
    assert await asyncio.gather(*tasks) == [*range(len(tasks))]


TRIM = Field("trim_time", Kind.FLOAT64, 1, 86_400, "s", default=60.0)


async def test_a_typo_in_the_branch_of_a_node_is_refused_with_a_suggestion(said):
    tree = Parameters()
    parameter = tree.declare("e/controllers/light/trim_time", TRIM, "e/controllers/light")
    for name in ("trim_tim", "zzz"):
        with said.raises(UndeclaredError):
            await tree.set(f"e/controllers/light/{name}", 61)
    with pytest.raises(UndeclaredError):
        await tree.set("e/controllers/light", {"trim_time": 61.0, "trim_tim": 61})
    assert parameter.value == 60.0
    assert await tree.set("e/controllers/light/trim_tim", 61, is_new=True) == 61
    assert await tree.set("e/controllers/light/trim_tim", 62) == 62  # it exists now
    assert await tree.set("e/controllers/my_own", 1, is_new=True) == 1
    for elsewhere in ("e/foo", "e/controler/light/trim_time", "light/trim_time", "f/foo"):
        assert await tree.set(elsewhere, 61) == 61
    tree.undeclare(parameter)
    assert await tree.set("e/controllers/light/x", 1) == 1


async def test_impossible_deletions_are_refused(said):
    store = MemoryStore()
    tree = Parameters({"my/own": 1}, store)
    tree.declare("light/left", Field("left", Kind.FLOAT64, default=0.0), "light", read_only=True)
    with pytest.raises(ReadOnlyError):
        await tree.delete("light/left")
    with said.raises(ConflictError):
        await tree.delete("light")
    with pytest.raises(UnknownNameError):
        await tree.delete("nothing")
    assert await tree.delete("my") is None
    assert tree.names() == ["light/left"]
