import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.bus import Bus
from growd.bus.errors import (
    ClosedError,
    InvalidArgumentsError,
    InvalidNameError,
    InvalidValueError,
    NameTakenError,
    NotOpenError,
    UnknownNameError,
)
from growd.bus.messages import FLOAT64, INT64, STRING, Message, Quality
from support.clock import ManualClock

CO2 = "environment_1/raw/air_carbon_dioxide"
LIGHT = "environment_1/raw/light_illuminance"
WANTED = "environment_1/desired/air_carbon_dioxide"


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def bus(clock):
    return Bus(clock)


@pytest.fixture
def co2(bus):
    return bus.node("scd30").advertise(CO2, FLOAT64.within(0, 40_000, "ppm"))


@pytest.fixture
def wanted(bus):
    """A topic that is open to clients."""
    return bus.topics.declare(WANTED, FLOAT64.within(0, 40_000, "ppm"), is_open=True).name


@pytest.fixture
def light(bus):
    return bus.node("bh1750").advertise(LIGHT, FLOAT64)


def values(subscription):
    """All waiting messages."""
    waiting = []
    while (message := subscription.get_nowait()) is not None:
        waiting.append(message.value)
    return waiting


async def reader(subscription):
    """A task that waits in `get()`."""
    task = asyncio.create_task(subscription.get(), name="reader")
    await asyncio.sleep(0)
    assert not task.done()
    return task


# Publishing


async def test_a_message_carries_time_quality_node_and_number(bus, clock, co2):
    first = co2.publish(400)
    clock.step(5)
    second = co2.publish(410.5, Quality.WARM_UP)
    third = co2.publish(420, time=7.5)
    assert first == Message(CO2, 400.0, clock.time() - 5, Quality.OK, "scd30", 1)
    assert second == Message(CO2, 410.5, clock.time(), Quality.WARM_UP, "scd30", 2)
    assert (third.time, third.number) == (7.5, 3)
    assert bus.topics.get(CO2).last is third
    assert type(first.value) is float
    for quality in (Quality.FAULT, Quality.STALE, Quality.WARM_UP):
        assert co2.publish(None, quality).value is None


async def test_messages_of_several_publishers_are_counted_together(bus, wanted):
    with bus.node("controller").subscribe(wanted) as subscription:
        bus.node("recipe_runner").publisher(wanted).publish(400)
        bus.node("http").publish_arguments(wanted, [401])
        seen = [await subscription.get() for _ in range(2)]
    assert [(message.number, message.node) for message in seen] == [(1, "recipe_runner"), (2, "http")]


def test_a_client_can_not_publish_on_a_topic_that_a_node_owns(bus, co2, said):
    with said.raises(NotOpenError):
        bus.node("http").publish_arguments(CO2, [400])
    assert bus.topics.get(CO2).last is None
    assert bus.topics.get(CO2).publishers == ["scd30"]


def test_a_topic_is_open_or_owned_and_not_both(bus, co2, wanted):
    with pytest.raises(NameTakenError):
        bus.topics.declare(CO2, co2.topic.type, is_open=True)
    with pytest.raises(NameTakenError):
        bus.node("co2").advertise(wanted, bus.topics.get(wanted).type)


def test_a_node_can_open_a_topic(bus, said):
    bus.topics.declare("commanded/fan", FLOAT64, note="there is no fan")
    with said.raises(NotOpenError):
        bus.node("http").publish_arguments("commanded/fan", [1])
    changes = bus.topics.changes
    bus.node("fan").open("commanded/fan")
    assert bus.topics.changes > changes
    assert bus.find_node("http").publish_arguments("commanded/fan", [1]).value == 1.0
    assert not bus.topics.get("commanded/fan").note


async def test_an_invalid_value_changes_nothing(bus, co2):
    kept = co2.publish(400)
    with bus.node("filter").subscribe(CO2) as subscription:
        for value, quality in (
            (None, Quality.OK),
            (math.nan, Quality.FAULT),
            (40_001, Quality.OK),
            ("400", Quality.OK),
        ):
            with pytest.raises(InvalidValueError, match="data must be a number from 0 to 40000 ppm"):
                co2.publish(value, quality)
        assert values(subscription) == []
    assert bus.topics.get(CO2).last is kept
    assert co2.publish(401).number == 2


async def test_invalid_arguments_change_nothing_and_make_no_publisher(bus, wanted, said):
    client = bus.node("http")
    with bus.node("controller").subscribe(wanted) as subscription:
        with said.raises(InvalidArgumentsError):
            client.publish_arguments(wanted, [1, 2])
        with pytest.raises(InvalidValueError, match="not 40001"):
            client.publish_arguments(wanted, [40_001])
        assert values(subscription) == []
    assert bus.topics.get(wanted).last is None
    assert bus.topics.get(wanted).publishers == []
    client.publish_arguments(wanted, [400])
    assert bus.topics.get(wanted).publishers == ["http"]


# Names and types of topics


async def test_a_topic_has_one_type(bus, co2):
    again = bus.node("replay").advertise("/" + CO2, FLOAT64.within(0, 40_000, "ppm"))
    assert again.topic is co2.topic
    for number, other in enumerate((INT64, FLOAT64, FLOAT64.within(0, 5_000, "ppm"), STRING)):
        with pytest.raises(NameTakenError, match=CO2):
            bus.node(f"other {number}").advertise(CO2, other)
    assert co2.topic.publishers == ["replay", "scd30"]


async def test_topics_are_listed_sorted_and_found_with_or_without_a_slash(bus, co2, light):
    assert bus.topics.names() == [CO2, LIGHT]
    assert bus.topics.get("/" + LIGHT) is light.topic
    with pytest.raises(UnknownNameError, match='no topic named "environment_1"') as caught:
        bus.topics.get("/environment_1")
    assert (caught.value.kind, caught.value.name) == ("topic", "environment_1")
    with pytest.raises(InvalidNameError):
        bus.topics.get("a//b")


# Subscriptions


async def test_a_slow_subscriber_delays_no_other(bus, co2):
    with bus.node("slow").subscribe(CO2, depth=3) as slow, bus.node("quick").subscribe(CO2, depth=3) as quick:
        for value in range(10):
            co2.publish(value)
            assert (await quick.get()).value == value
        assert (quick.dropped, slow.dropped) == (0, 7)


@given(st.integers(1, 4), st.lists(st.booleans(), max_size=30))
def test_a_queue_has_the_newest_messages_and_counts_the_dropped_ones(depth, steps):
    """Compared with a list: True publishes, False reads."""
    bus = Bus(ManualClock())
    publisher = bus.node("a").advertise("topic", INT64)
    subscription = bus.node("b").subscribe("topic", depth=depth)
    model = []
    dropped = 0
    for number, publishes in enumerate(steps):
        if publishes:
            publisher.publish(number)
            model.append(number)
            dropped += len(model) > depth
            model = model[-depth:]
        else:
            message = subscription.get_nowait()
            assert (message.value if message else None) == (model.pop(0) if model else None)
        assert len(subscription) == len(model)
        assert subscription.dropped == dropped
    assert values(subscription) == model


async def test_two_topics_in_one_subscription_keep_their_order(bus, co2, light):
    with bus.node("controller").subscribe(CO2, LIGHT, "/" + CO2) as both:  # one of them named twice
        assert both  # although it is empty
        co2.publish(400)
        light.publish(9000)
        co2.publish(401)
        assert values(both) == [400, 9000, 401]
    assert co2.topic.subscribers == light.topic.subscribers == []


async def test_a_refused_subscription_leaves_none_on_other_topics(bus, co2):
    node = bus.node("filter")
    with pytest.raises(UnknownNameError, match="nowhere"):
        node.subscribe(CO2, "nowhere")
    for depth in (0, -1):
        with pytest.raises(ValueError, match=f"not {depth}"):
            node.subscribe(CO2, depth=depth)
    assert co2.topic.subscribers == []


async def test_one_node_may_read_a_topic_many_times_and_is_listed_once(bus, co2):
    node = bus.node("http")
    with node.subscribe(CO2) as one:
        with node.subscribe(CO2) as two:
            co2.publish(1)
            assert co2.topic.subscribers == ["http"]
            assert values(two) == [1]
        co2.publish(2)
        assert co2.topic.subscribers == ["http"]
        assert values(one) == [1, 2]
    assert co2.topic.subscribers == []


# Readers


async def test_a_reader_cancelled_as_a_message_comes_loses_nothing(bus, co2):
    with bus.node("filter").subscribe(CO2) as subscription:
        task = await reader(subscription)
        co2.publish(400)
        task.cancel()  # after the wake-up was set, before the reader ran
        with pytest.raises(asyncio.CancelledError):
            await task
        co2.publish(401)
        assert [(await subscription.get()).value for _ in range(2)] == [400, 401]


async def test_the_reader_after_a_cancelled_one_is_woken(bus, co2):
    with bus.node("filter").subscribe(CO2) as subscription:
        for value in range(3):
            cancelled = await reader(subscription)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            task = await reader(subscription)
            co2.publish(value)
            assert (await task).value == value


async def test_a_second_reader_is_refused(bus, co2):
    with bus.node("filter").subscribe(CO2) as subscription:
        task = await reader(subscription)
        with pytest.raises(RuntimeError, match="two readers"):
            await subscription.get()
        co2.publish(400)
        assert (await task).value == 400


# Closing


async def test_closing_ends_an_iteration_that_waits(bus, co2):
    subscription = bus.node("filter").subscribe(CO2)

    async def read():
        return [message.value async for message in subscription]

    task = asyncio.create_task(read(), name="reader")
    await asyncio.sleep(0)
    co2.publish(400)
    subscription.close()
    assert await task == [400]


async def test_waiting_messages_can_be_read_after_closing(bus, co2):
    subscription = bus.node("filter").subscribe(CO2)
    co2.publish(400)
    subscription.close()
    subscription.close()
    co2.publish(401)
    assert (await subscription.get()).value == 400
    assert subscription.get_nowait() is None
    with pytest.raises(ClosedError, match="filter"):
        await subscription.get()
    assert [message async for message in subscription] == []


async def test_a_subscription_of_others_has_no_messages_of_its_own_node(bus, wanted):
    node = bus.node("controller")
    subscription = node.subscribe(wanted, of_others=True)
    node.publisher(wanted).publish(1.0)
    bus.node("client").publish_arguments(wanted, [2.0])
    assert values(subscription) == [2.0]


async def test_a_turn_of_a_reader_comes_with_a_message_or_a_nudge(bus, co2):
    subscription = bus.node("filter").subscribe(CO2)
    subscription.nudge()
    assert await subscription.turn()
    task = asyncio.create_task(subscription.turn())
    await asyncio.sleep(0)
    assert not task.done()
    co2.publish(400)
    assert not await task
    assert values(subscription) == [400]
    subscription.close()
    with pytest.raises(ClosedError):
        await subscription.turn()
