"""Messages through growd's bus, or through bare asyncio queues: one measurement of `bus`, in its own process.

`delivery.py growd rate 10 3` prints the deliveries per second to 10 subscribers, over 3 s. `delivery.py bare
latency 1 3` prints the median and the 99th percentile of the latency in seconds at 1 kHz. Both print JSON.
Each subscriber is a task. A message that does not arrive is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from serving import on_beat

from growd.bus import Bus
from growd.bus.messages import FLOAT64
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import run_on_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence

BURST = 100  # messages between two yields
DEPTH = 2 * BURST  # of growd's subscriptions, so that no message is dropped; a bare queue is unbounded
RATE_HZ = 1_000
VALUE = 410.25


class Carrier(Protocol):
    """Carries values from one publisher to its readers."""

    @property
    def readers(self) -> Sequence[AsyncIterable[float]]: ...

    def send(self, value: float, /) -> object: ...

    def close(self) -> None: ...


class GrowdBus:
    """One topic with a range; each message carries time, quality, node and number, and is counted."""

    def __init__(self, subscribers: int) -> None:
        bus = Bus(RealClock())
        topic = "chamber/measured/variable"
        self.send = bus.node("sensor").advertise(topic, FLOAT64.within(0, 1e9, "ppm")).publish
        nodes = [bus.node(f"reader_{number}") for number in range(subscribers)]
        self._subscriptions = [node.subscribe(topic, depth=DEPTH) for node in nodes]
        self.readers = [(message.value async for message in each) for each in self._subscriptions]

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()


class BareQueues:
    """One queue per subscriber, with the bare value in it."""

    def __init__(self, subscribers: int) -> None:
        self._queues: list[asyncio.Queue[float | None]] = [asyncio.Queue() for _ in range(subscribers)]
        self.readers = [self._read(queue) for queue in self._queues]

    def send(self, value: float | None) -> None:
        for queue in self._queues:
            queue.put_nowait(value)

    def close(self) -> None:
        self.send(None)

    async def _read(self, queue: asyncio.Queue[float | None]) -> AsyncIterator[float]:
        while (value := await queue.get()) is not None:
            yield value


CARRIERS: dict[str, Callable[[int], Carrier]] = {"growd": GrowdBus, "bare": BareQueues}


async def rate(carrier: Carrier, seconds: float) -> float:
    """Deliveries per second."""
    readers = [asyncio.create_task(_count(one), name="reader") for one in carrier.readers]
    await asyncio.sleep(0)
    sent, began = 0, perf_counter()
    while perf_counter() - began < seconds:
        for _ in range(BURST):
            carrier.send(VALUE)
        sent += BURST
        await asyncio.sleep(0)
    carrier.close()
    counts = await asyncio.gather(*readers)
    took = perf_counter() - began
    _check_all_arrived(counts, sent)
    return sum(counts) / took


async def latency(carrier: Carrier, seconds: float) -> list[float]:
    """Median and 99th percentile of the seconds between sending and reading a message."""
    readers = [asyncio.create_task(_ages(one), name="reader") for one in carrier.readers]
    sent = max(1, round(seconds * RATE_HZ))
    await on_beat(lambda: carrier.send(perf_counter()), RATE_HZ, sent)
    carrier.close()
    ages = await asyncio.gather(*readers)
    _check_all_arrived([len(one) for one in ages], sent)
    hundredths = statistics.quantiles(itertools.chain(*ages), n=100, method="inclusive")
    return [hundredths[49], hundredths[98]]


async def _count(values: AsyncIterable[float]) -> int:
    number = 0
    async for _ in values:
        number += 1
    return number


async def _ages(values: AsyncIterable[float]) -> list[float]:
    return [perf_counter() - sent async for sent in values]


def _check_all_arrived(counts: Sequence[int], sent: int) -> None:
    for count in counts:
        if count != sent:
            raise RuntimeError(f"{count} of {sent} messages arrived at one subscriber")


async def measure(arguments: argparse.Namespace) -> float | list[float]:
    carrier = CARRIERS[arguments.side](arguments.subscribers)
    if arguments.what == "rate":
        return await rate(carrier, arguments.seconds)
    return await latency(carrier, arguments.seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=CARRIERS)
    parser.add_argument("what", choices=["rate", "latency"])
    parser.add_argument("subscribers", type=int)
    parser.add_argument("seconds", type=float)
    print(json.dumps(run_on_loop(measure(parser.parse_args()))))
