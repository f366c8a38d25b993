"""The status as changes on a stream."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from growd.api.changes import changes
from growd.status.status_node import STATUS_TOPIC, StatusNode
from support.daemon import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
)


def applied(old: Any, found: Any) -> Any:
    """What docs/status.md asks a client to do."""
    if isinstance(found, list):
        return found[0]
    new = old.copy() if found else old
    for name, each in found.items():
        place = int(name) if isinstance(old, list) else name
        new[place] = applied(old[place], each)
    return new


@given(VALUES, VALUES)
def test_changes_make_the_new_value_of_the_old_one(old: Any, new: Any):
    assert json.dumps(applied(old, changes(old, new)), sort_keys=True) == json.dumps(new, sort_keys=True)


def test_equal_values_have_no_changes():
    assert changes({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}) == {}


@asynccontextmanager
async def following() -> AsyncIterator[Any]:
    async with serving() as daemon:
        status = StatusNode(daemon.bus, [])
        url = f"{daemon.origin}/_svc/api/0.0.1/stream?topic=status&changes=true"
        async with daemon.session.get(url, headers={"Accept": "application/x-ndjson"}) as response:

            async def heard() -> Any:
                return json.loads(await response.content.readline())

            yield daemon, status.node.publisher(STATUS_TOPIC), heard


async def test_a_stream_has_the_whole_status_first_then_what_changed():
    async with following() as (_, publisher, heard):
        publisher.publish({"verdict": {"state": "well"}, "variables": [1, 2]})
        first = await heard()
        assert first["value"] == {"verdict": {"state": "well"}, "variables": [1, 2]}
        publisher.publish({"verdict": {"state": "held"}, "variables": [1, 3]})
        second = await heard()
        assert "value" not in second
        assert second["changes"] == {"verdict": {"state": ["held"]}, "variables": {"1": [3]}}
        assert applied(first["value"], second["changes"])["variables"] == [1, 3]
        publisher.publish(None)
        assert (await heard())["value"] is None
        publisher.publish({"variables": []})
        assert (await heard())["value"] == {"variables": []}
