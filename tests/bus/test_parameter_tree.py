"""The parameter tree and a model, a nested dict, under any order of operations."""

import asyncio
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from parameter_store import MemoryStore, canonical

from growd.bus.errors import ConflictError, InvalidValueError, UnknownNameError
from growd.bus.fields import Field, Kind
from growd.bus.names import is_segment
from growd.bus.params import Parameters
from growd.bus.tree import size_of

LONGEST = 255
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
keys = st.one_of(st.sampled_from(["a", "b", "", "a/b", "\n", "x" * 200]), st.text(max_size=4))
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
segments = st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1, max_size=8).filter(
    is_segment
)
names = st.lists(segments, min_size=1, max_size=4).map("/".join)


class Branch(dict[str, Any]):
    """A branch of the model. A dict that is no Branch is a leaf."""


def modelled(name, value):
    """The form of a value at `name` in the model."""
    if not isinstance(value, dict) or not value:
        return value
    for key in value:
        if not is_segment(key) or len(f"{name}/{key}") > LONGEST:
            return value
    return Branch({key: modelled(f"{name}/{key}", member) for key, member in value.items()})


def leaves(branch, prefix=""):
    found = {}
    for key, member in branch.items():
        if isinstance(member, Branch):
            found |= leaves(member, f"{prefix}{key}/")
        else:
            found[prefix + key] = member
    return found


def branches(branch, prefix=""):
    found = {}
    for key, member in branch.items():
        if isinstance(member, Branch):
            found |= {prefix + key: member} | branches(member, f"{prefix}{key}/")
    return found


@given(names, json_values, st.booleans())
async def test_any_json_value_set_at_any_name_is_returned_equal(name, value, slash):
    store = MemoryStore()
    tree = Parameters(store=store)
    await tree.set("/" + name if slash else name, copy.deepcopy(value))
    for read in (tree, Parameters(store.kept())):
        assert canonical(read.get(name)) == canonical(read.get("/" + name)) == canonical(value)
        assert read.names() == sorted(leaves(Branch({name: modelled(name, value)})))


FEW = [f"{a}{b}{c}" for a in ("a", "b", "a!") for b in ("", "/a", "/b") for c in ("", "/a", "/c")]
few_names = st.sampled_from(sorted(set(FEW)))
few_values = st.recursive(
    st.integers(0, 9) | st.sampled_from([True, 2.5, None, "text", [], {}, {"a/b": 1}, {"": 0}, [{"a": 1}]]),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, min_size=1, max_size=3),
    max_leaves=5,
)
GAIN = Field("gain", Kind.INT64, 0, 5, default=0)


class ParameterTree(RuleBasedStateMachine):
    """Sets, failing sets, declarations and restarts, on names that often conflict."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store = MemoryStore()
        self.tree = Parameters(store=self.store)
        self.model = Branch()
        self.kept = {}  # the expected state after a restart, without defaults
        self.declared = set()

    def teardown(self):
        self.loop.close()

    @rule(name=few_names, value=few_values, fails=st.booleans())
    def set(self, name, value, *, fails):
        after = self.model_after(name, value)
        self.store.fails = fails
        if after is None:
            with pytest.raises((ConflictError, InvalidValueError)):
                self.loop.run_until_complete(self.tree.set(name, value))
        elif fails:
            with pytest.raises(OSError, match="disk full"):
                self.loop.run_until_complete(self.tree.set(name, value))
        else:
            self.loop.run_until_complete(self.tree.set(name, value))
            self.model = after
            self.kept = {
                leaf: old
                for leaf, old in self.kept.items()
                if not (at_or_beneath(leaf, name) or at_or_beneath(name, leaf))
            }
            self.kept |= {leaf: new for leaf, new in leaves(after).items() if at_or_beneath(leaf, name)}

    @rule(name=few_names)
    def delete(self, name):
        self.store.fails = False
        flat = leaves(self.model)
        standing = {leaf for leaf in flat if at_or_beneath(leaf, name)}
        if not standing or (standing & self.declared and name not in self.declared):
            with pytest.raises((UnknownNameError, ConflictError)):
                self.loop.run_until_complete(self.tree.delete(name))
            return
        default = 0 if name in self.declared else None
        assert self.loop.run_until_complete(self.tree.delete(name)) == default
        self.model = nested({leaf: old for leaf, old in flat.items() if leaf not in standing})
        if default is not None:
            self.model = nested(leaves(self.model) | {name: default})
        self.kept = {leaf: old for leaf, old in self.kept.items() if leaf not in standing}

    @rule(name=few_names)
    def declare(self, name):
        """A node declares a parameter: undeclared ones in its way are removed."""
        flat = leaves(self.model)
        met = {leaf for leaf in flat if at_or_beneath(leaf, name) or at_or_beneath(name, leaf)}
        if met & self.declared:
            with pytest.raises(ValueError, match="declared|exists already"):  # noqa: RUF043  either
                self.tree.declare(name, GAIN, "node")
            return
        value = flat[name] if fits(flat.get(name)) else 0
        met.discard(name)
        self.model = nested({leaf: old for leaf, old in flat.items() if leaf not in met} | {name: value})
        self.kept = {leaf: old for leaf, old in self.kept.items() if leaf not in met}
        self.declared.add(name)
        assert self.tree.declare(name, GAIN, "node").value == value

    @rule(name=few_names)
    def undeclare(self, name):
        parameter = self.tree.declared(name)
        assert (parameter is not None) == (name in self.declared)
        if parameter is not None:
            self.tree.undeclare(parameter)
            self.declared.discard(name)

    @rule()
    def restart(self):
        self.set("z", 0, fails=False)  # removed leaves are deleted with the next save
        assert canonical(self.store.kept()) == canonical(self.kept)
        self.tree = Parameters(self.store.kept(), self.store)
        self.model = nested(self.kept)
        self.declared.clear()

    @invariant()
    def lists_the_leaves_and_gets_each(self):
        expected = leaves(self.model)
        assert self.tree.names() == sorted(expected)
        assert self.tree.size == sum(size_of(leaf, self.tree.get(leaf)) for leaf in expected)
        assert canonical({name: self.tree.get(name) for name in expected}) == canonical(expected)

    @invariant()
    def gets_each_branch_and_nothing_else(self):
        expected = branches(self.model)
        assert canonical({name: self.tree.get(name) for name in expected}) == canonical(expected)
        for name in set(FEW) - expected.keys() - leaves(self.model).keys():
            assert not is_there(self.tree, name)

    def model_after(self, name, value):
        """The model with `value` set at `name`; None if that is not allowed."""
        after = copy.deepcopy(self.model)
        *above, last = name.split("/")
        place = after
        for segment in above:
            if not isinstance(place.get(segment), Branch):
                place[segment] = Branch()
            place = place[segment]
        place[last] = modelled(name, value)
        flat = leaves(after)
        return after if all(fits(flat.get(declared)) for declared in self.declared) else None


def is_there(tree, name):
    try:
        tree.get(name)
    except UnknownNameError:
        return False
    return True


def fits(value):
    return type(value) is int and 0 <= value <= 5


def at_or_beneath(name, top):
    return (name + "/").startswith(top + "/")


def nested(flat):
    root = Branch()
    for name, value in flat.items():
        *above, last = name.split("/")
        place = root
        for segment in above:
            place = place.setdefault(segment, Branch())
        place[last] = value
    return root


TestParameterTree = ParameterTree.TestCase
TestParameterTree.settings = settings(max_examples=60, stateful_step_count=30)
