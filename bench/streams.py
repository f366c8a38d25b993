"""The cost of open streams, and the age of messages on them, compared with asyncio alone.

The reference writes each message to each stream. growd does so up to 16 streams of a topic; above that a
topic takes at most a fifth of a core, and messages that come faster share a write and are up to 0.1 s old.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING

from measuring import API, Options, Process, Row, limited, main, server
from raw_client import Connection
from stream_client import Delivery, Listeners

if TYPE_CHECKING:
    from collections.abc import Callable

OTHERS = 16
TOPIC = "/topic/chamber/measured/variable_0"
STREAM = "/topic_stream/chamber/measured/variable_0?latest=false"


@dataclass(frozen=True)
class Load:
    """So many streams of a topic that has so many messages a second. CPU in percent of a core, age in ms."""

    streams: int
    rate: int
    cpu_limit: float | None = None
    age_limit: float | None = None

    @property
    def name(self) -> str:
        return f"{self.streams:,} streams at {self.rate} Hz"


LOADS = (Load(100, 50, 6, 5), Load(1000, 10))


@dataclass(frozen=True)
class Cost:
    """What one load took of one server."""

    delivery: Delivery
    cpu_percent: float
    rss_mb: float


@dataclass(frozen=True)
class Costs:
    """The rounds of one load."""

    growd: list[Cost]
    reference: list[Cost]

    def medians(self, of: Callable[[Cost], float]) -> tuple[float, float, float]:
        """growd's, the reference's, and of their ratios."""
        ours, reference = [of(each) for each in self.growd], [of(each) for each in self.reference]
        ratios = (mine / other for mine, other in zip(ours, reference, strict=True))
        return median(ours), median(reference), median(ratios)


def measure(options: Options) -> list[Row]:
    return [*_latency(options), *chain.from_iterable(_load(load, options) for load in LOADS)]


def _latency(options: Options) -> list[Row]:
    alone, among = "POST until the line is on the only stream", f"the same with {OTHERS} other streams"
    with server("core") as growd, server("bare_stream") as bare:
        return [
            *_latency_rows(alone, (0.5, 2.0), (growd, bare), 0, options),
            *_latency_rows(among, (2.0, None), (growd, bare), OTHERS, options),
        ]


def _latency_rows(
    case: str,
    limits: tuple[float | None, float | None],
    servers: tuple[Process, Process],
    others: int,
    options: Options,
) -> list[Row]:
    """A row for the median and one for the 99th percentile, with what each may be at most in ms."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(options.rounds):
        for each, process in zip(taken, servers, strict=True):
            each.extend(post_until_line(process, options.seconds, others))
    return [
        limited(
            f"{case}, {name}", "ms", share_of(taken[0], share) * 1000, limit, share_of(taken[1], share) * 1000
        )
        for name, share, limit in (("p50", 0.5, limits[0]), ("p99", 0.99, limits[1]))
    ]


def post_until_line(process: Process, seconds: float, others: int = 0) -> list[float]:
    """Seconds from before a message is posted until it was read from a stream, one message at a time.

    So many other streams of the topic are open and are read as well, between two messages.
    """
    taken: list[float] = []
    path = API + STREAM
    with (
        Listeners(process, path, others) as rest,
        Connection(process.port) as stream,
        Connection(process.port) as poster,
    ):
        stream.send("GET", path)
        stream.read_until(b"\r\n\r\n")
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            poster.send("POST", API + TOPIC, b"[%d]" % (len(taken) % 40_000))
            stream.read_until(b"}\n\r\n")
            taken.append(time.perf_counter() - began)
            poster.check_answer()
            rest.read()
    return taken


def _load(load: Load, options: Options) -> list[Row]:
    costs = Costs([], [])
    publish = ("--publish", load.rate)
    seconds = max(options.seconds, 5 / load.rate)  # for a few messages at least
    with server("core", *publish) as growd, server("bare_stream", *publish) as bare:
        for _ in range(options.rounds):
            costs.growd.append(cost(growd, load.streams, seconds))
            costs.reference.append(cost(bare, load.streams, seconds))
    return [
        _delivered(load, costs),
        _row(f"{load.name}: CPU", "%", costs, lambda each: each.cpu_percent, load.cpu_limit),
        _row(f"{load.name}: RSS", "MB", costs, lambda each: each.rss_mb),
        _row(f"{load.name}: age on arrival, p99", "ms", costs, _age_ms, load.age_limit),
    ]


def cost(process: Process, streams: int, seconds: float) -> Cost:
    """What it takes of a server that publishes to have so many streams open, listened to for so long."""
    with Listeners(process, API + STREAM, streams) as listeners:
        listeners.settle()
        begin, before = time.time(), process.cpu_s()
        listeners.listen(seconds)
        end, after = time.time(), process.cpu_s()
        rss = process.rss_mb()
        return Cost(listeners.delivered(begin, end), (after - before) / (end - begin) * 100, rss)


def _delivered(load: Load, costs: Costs) -> Row:
    """Met if no stream missed a message, and they were published as fast as asked for."""
    asked = load.streams * load.rate
    ours, reference, ratio = costs.medians(lambda each: each.delivery.rate)
    lost = sum(each.delivery.lost for each in costs.growd)
    met = lost == 0 and ours >= 0.98 * asked
    target = f"all of {asked:,} messages/s"
    return Row(f"{load.name}: delivered, {lost:,} lost", "messages/s", ours, reference, ratio, target, met)


def _row(case: str, unit: str, costs: Costs, of: Callable[[Cost], float], limit: float | None = None) -> Row:
    ours, reference, ratio = costs.medians(of)
    if limit is not None:
        return limited(case, unit, ours, limit, reference)
    return Row(case, unit, ours, reference, ratio, "", met=True)


def _age_ms(cost: Cost) -> float:
    return share_of(cost.delivery.ages_s, 0.99) * 1000


def share_of(values: list[float], share: float) -> float:
    """The value that this share (0..1) of all does not exceed."""
    return sorted(values)[int(share * (len(values) - 1))]


if __name__ == "__main__":
    main(measure, rounds=3)
