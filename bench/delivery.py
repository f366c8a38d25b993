"""Messages through growd's bus, or through bare asyncio queues, in a process of its own for `bus`.

`delivery.py growd rate 10 3` prints the deliveries a second to 10 subscribers over 3 s, `delivery.py bare
latency 1 3` the median and the 99th percentile of the seconds that a message takes at 1 kHz; both as
JSON. Each side does the same in the same order on growd's event loop. A subscriber is a task of its own.
A message that does not arrive is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
from time import perf_counter
from typing import TYPE_CHECKING

from beat import on_beat

from growd.bus import Bus
from growd.bus.messages import FLOAT64
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import run_on_loop

if TYPE_CHECKING:
    from growd.bus.topics import Publisher, Subscription

    Queue = asyncio.Queue[float | None]  # None ends it

BURST = 100  # messages between two yields
DEPTH = 2 * BURST  # of growd's subscriptions, so that none is dropped; a bare queue has no bound
RATE_HZ = 1_000
VALUE = 410.25


class Growd:
    """One topic with a range; each message carries time, quality, node and number, and is counted."""

    async def rate(self, subscribers: int, seconds: float) -> float:
        """Deliveries a second."""
        publisher, subscriptions = self._topic(subscribers)
        readers = [asyncio.create_task(self._count(one), name="reader") for one in subscriptions]
        await asyncio.sleep(0)
        sent, began = 0, perf_counter()
        while perf_counter() - began < seconds:
            for _ in range(BURST):
                publisher.publish(VALUE)
            sent += BURST
            await asyncio.sleep(0)
        for one in subscriptions:
            one.close()
        counts = await asyncio.gather(*readers)
        took = perf_counter() - began
        check_all_arrived(counts, sent)
        return sum(counts) / took

    async def latency(self, subscribers: int, seconds: float) -> list[float]:
        """Median and 99th percentile of the seconds from the publishing of a message until it is read."""
        publisher, subscriptions = self._topic(subscribers)
        readers = [asyncio.create_task(self._clock(one), name="reader") for one in subscriptions]
        await on_beat(lambda: publisher.publish(perf_counter()), RATE_HZ, beats(seconds))
        for one in subscriptions:
            one.close()
        return percentiles(await asyncio.gather(*readers), beats(seconds))

    def _topic(self, subscribers: int) -> tuple[Publisher, list[Subscription]]:
        bus = Bus(RealClock())
        topic = "chamber/measured/variable"
        publisher = bus.node("sensor").advertise(topic, FLOAT64.within(0, 1e9, "ppm"))
        nodes = [bus.node(f"reader_{number}") for number in range(subscribers)]
        return publisher, [node.subscribe(topic, depth=DEPTH) for node in nodes]

    async def _count(self, subscription: Subscription) -> int:
        number = 0
        async for _ in subscription:
            number += 1
        return number

    async def _clock(self, subscription: Subscription) -> list[float]:
        return [perf_counter() - message.value async for message in subscription]


class Bare:
    """A queue for each subscriber, into which goes the bare value."""

    async def rate(self, subscribers: int, seconds: float) -> float:
        """Deliveries a second."""
        queues: list[Queue] = [asyncio.Queue() for _ in range(subscribers)]
        readers = [asyncio.create_task(self._count(one), name="reader") for one in queues]
        await asyncio.sleep(0)
        sent, began = 0, perf_counter()
        while perf_counter() - began < seconds:
            for _ in range(BURST):
                for queue in queues:
                    queue.put_nowait(VALUE)
            sent += BURST
            await asyncio.sleep(0)
        for queue in queues:
            queue.put_nowait(None)
        counts = await asyncio.gather(*readers)
        took = perf_counter() - began
        check_all_arrived(counts, sent)
        return sum(counts) / took

    async def latency(self, subscribers: int, seconds: float) -> list[float]:
        """Median and 99th percentile of the seconds from the putting of a value until it is read."""
        queues: list[Queue] = [asyncio.Queue() for _ in range(subscribers)]
        readers = [asyncio.create_task(self._clock(one), name="reader") for one in queues]

        def put() -> None:
            for queue in queues:
                queue.put_nowait(perf_counter())

        await on_beat(put, RATE_HZ, beats(seconds))
        for queue in queues:
            queue.put_nowait(None)
        return percentiles(await asyncio.gather(*readers), beats(seconds))

    async def _count(self, queue: Queue) -> int:
        number = 0
        while await queue.get() is not None:
            number += 1
        return number

    async def _clock(self, queue: Queue) -> list[float]:
        taken = []
        while (put := await queue.get()) is not None:
            taken.append(perf_counter() - put)
        return taken


SIDES: dict[str, Growd | Bare] = {"growd": Growd(), "bare": Bare()}


def beats(seconds: float) -> int:
    """How many messages that is at `RATE_HZ`."""
    return max(1, round(seconds * RATE_HZ))


def percentiles(taken: list[list[float]], sent: int) -> list[float]:
    """The median and the 99th percentile of what all subscribers saw."""
    check_all_arrived([len(one) for one in taken], sent)
    hundredths = statistics.quantiles(itertools.chain(*taken), n=100, method="inclusive")
    return [hundredths[49], hundredths[98]]


def check_all_arrived(counts: list[int], sent: int) -> None:
    for count in counts:
        if count != sent:
            raise RuntimeError(f"{count} of {sent} messages arrived at one subscriber")


def measure() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("what", choices=["rate", "latency"])
    parser.add_argument("subscribers", type=int)
    parser.add_argument("seconds", type=float)
    arguments = parser.parse_args()
    side = SIDES[arguments.side]
    if arguments.what == "rate":
        print(json.dumps(run_on_loop(side.rate(arguments.subscribers, arguments.seconds))))
    else:
        print(json.dumps(run_on_loop(side.latency(arguments.subscribers, arguments.seconds))))


if __name__ == "__main__":
    measure()
