import asyncio
import gc
import weakref

import pytest

from growd.bus import Bus
from growd.bus.errors import ClosedError, InvalidNameError, NameTakenError, UnknownNameError
from growd.bus.fields import Field, Kind
from growd.bus.messages import FLOAT64
from support.clock import ManualClock


@pytest.fixture
def bus():
    return Bus(ManualClock())


async def answer(**_):
    return {"success": True, "message": ""}


def busy_node(bus, name="runner"):
    """A node that uses all features."""
    node = bus.node(name)
    node.advertise("b/out", FLOAT64)
    node.advertise("/a/out", FLOAT64)
    node.subscribe("a/out")
    node.serve("/stop", "x/Stop", answer)
    node.serve("start", "x/Start", answer)
    node.declare("/runner/gain", Field("gain", Kind.FLOAT64, 0, 10, default=1.0))
    return node


async def test_information_names_what_a_node_has(bus):
    node = busy_node(bus)
    bus.node("other").advertise("c/out", FLOAT64)
    assert node.information() == {
        "node_name": "runner",
        "pubs": ["a/out", "b/out"],
        "subs": ["a/out"],
        "srvs": ["start", "stop"],
        "params": ["runner/gain"],
    }
    assert bus.find_node("other").information()["pubs"] == ["c/out"]
    again, other = node.subscribe("a/out"), node.subscribe("b/out", "a/out")
    assert node.information()["subs"] == ["a/out", "b/out"]
    other.close()
    again.close()
    assert node.information()["subs"] == ["a/out"]


async def test_nodes_are_listed_sorted_and_found_with_or_without_a_slash(bus):
    second, first = bus.node("/drivers/scd30"), bus.node("control")
    assert bus.node_names() == ["control", "drivers/scd30"]
    assert bus.find_node("drivers/scd30") is bus.find_node("/drivers/scd30") is second
    assert first.name == "control"
    with pytest.raises(NameTakenError, match="control"):
        bus.node("/control")
    with pytest.raises(UnknownNameError, match='no node named "drivers"') as caught:
        bus.find_node("/drivers")
    assert (caught.value.kind, caught.value.name) == ("node", "drivers")
    with pytest.raises(InvalidNameError):
        bus.node("a//b")


async def test_a_node_has_one_publisher_for_a_topic(bus):
    node = bus.node("http")
    publisher = node.advertise("a/out", FLOAT64)
    assert (
        node.publisher("a/out") is node.publisher("/a/out") is node.advertise("/a/out", FLOAT64) is publisher
    )
    with pytest.raises(UnknownNameError):
        node.publisher("b/out")
    assert bus.topics.names() == ["a/out"]  # a lookup makes no topic


async def test_a_closed_node_leaves_only_its_last_messages_and_values(bus):
    node = busy_node(bus)
    last = node.publisher("a/out").publish(5)
    await bus.parameters.set("runner/gain", 2)
    node.close()
    assert bus.node_names() == []
    assert bus.services.names() == []
    topic = bus.topics.get("a/out")
    assert (topic.publishers, topic.subscribers, topic.last) == ([], [], last)
    assert bus.parameters.declared("runner/gain") is None
    await bus.parameters.set("runner/gain", "as you like")
    assert bus.parameters.get("runner/gain") == "as you like"


async def test_a_node_that_closes_ends_its_readers_and_no_others(bus):
    node, other = bus.node("filter"), bus.node("other")
    publisher = other.advertise("a/out", FLOAT64)
    kept = other.subscribe("a/out")
    task = asyncio.create_task(node.subscribe("a/out").get(), name="reader")
    await asyncio.sleep(0)
    node.close()
    with pytest.raises(ClosedError):
        await task
    publisher.publish(1)
    assert (await kept.get()).value == 1


async def test_a_name_of_a_closed_node_can_be_used_again(bus):
    old = busy_node(bus)
    old.close()
    new = busy_node(bus)
    old.close()  # closed again, after the new one
    assert bus.find_node("runner") is new
    assert bus.services.names() == ["start", "stop"]
    assert new.information()["pubs"] == ["a/out", "b/out"]


async def test_a_node_holds_no_subscription_that_was_closed(bus):
    node = bus.node("http")
    node.advertise("a/out", FLOAT64)
    with node.subscribe("a/out") as subscription:
        gone = weakref.ref(subscription)
    del subscription
    gc.collect()
    assert gone() is None
