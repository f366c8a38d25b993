"""The status as changes on a stream."""

import json
from contextlib import asynccontextmanager

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from growd.api.many_topics import changes
from growd.bus import Bus
from growd.runtime.clock import RealClock
from growd.status.model import Counters, DeviceStatus
from growd.status.status_node import STATUS_TOPIC, StatusNode
from support.daemon import serving
from support.running import in_tasks
from support.waiting import until

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
)


def applied(old, found):
    """What docs/status.md asks a client to do."""
    if isinstance(found, list):
        return found[0]
    new = old.copy() if found else old
    for name, each in found.items():
        place = int(name) if isinstance(old, list) else name
        new[place] = applied(old[place], each)
    return new


@given(VALUES, VALUES)
def test_changes_make_the_new_value_of_the_old_one(old, new):
    assert json.dumps(applied(old, changes(old, new)), sort_keys=True) == json.dumps(new, sort_keys=True)
    assert changes({"a": [1, old]}, {"a": [1, old]}) == {}


@asynccontextmanager
async def following():
    async with serving() as daemon:
        status = StatusNode(daemon.bus, [])
        url = f"{daemon.origin}/_svc/api/0.0.1/stream?topic=status&changes=true"
        async with daemon.session.get(url, headers={"Accept": "application/x-ndjson"}) as response:

            async def heard():
                return json.loads(await response.content.readline())

            yield daemon, status.node.publisher(STATUS_TOPIC), heard


def device(name, successes):
    counters = Counters(successes, 0, 0, 0.0, "", 0.0)
    return msgspec.to_builtins(DeviceStatus(name, "ok", 1.0, "ok", counters))


async def test_the_status_is_published_only_for_subscribers_and_its_counters_change_seldom(monkeypatch):
    monkeypatch.setattr("growd.status.status_node.PUBLISHED_S", 0.0)
    monkeypatch.setattr("growd.status.status_node._LOOK_S", 0.001)
    found = device("e/a", 3)
    bus = Bus(RealClock())
    bus.node("sampler").describe("device", lambda: found)
    status = StatusNode(bus, [])
    topic = bus.topics.get(STATUS_TOPIC)
    async with in_tasks(status):
        with bus.node("client").subscribe(STATUS_TOPIC) as subscription:
            messages = aiter(subscription)
            first = (await anext(messages)).value
            found = device("e/a", 7) | {"message": "as before"}
            while (second := (await anext(messages)).value)["devices"][0]["message"] == "ok":
                pass
            assert second["devices"][0]["counters"] == first["devices"][0]["counters"]
            found = device("e/b", 90)  # another one in its place
            while (third := (await anext(messages)).value)["devices"][0]["name"] == "e/a":
                pass
            assert third["devices"][0]["counters"]["successes"] == 90
        await until(lambda: topic.last is not None and topic.last.value is None)


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
