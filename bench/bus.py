"""Deliveries a second of growd's bus, and their latency, compared with bare asyncio queues.

growd checks each message against a range and adds time, quality, node and number; the reference puts a
bare number into one unbounded `asyncio.Queue` for each subscriber. Both publish as fast as they can and
yield after each 100 messages; latency is measured at one message each millisecond. rospy and mosquitto
(QoS 0) are yardsticks for one subscriber.
"""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from typing import Any

from brokers import has_mosquitto, has_rospy, mosquitto_rate, rospy_rate
from measuring import HERE, Options, Row, compared, limited, main, pairs

LEAST = 0.5  # of the bare queues' rate
MOST_MS = 0.2
ROS_QUEUE = 100


def measure(options: Options) -> list[Row]:
    rates = [_rate(subscribers, options) for subscribers in (1, 10, 100)]
    return [*rates, *_latency(options), *_yardsticks(rates[0].growd, options)]


def _rate(subscribers: int, options: Options) -> Row:
    measured = pairs(
        lambda: float(_side("growd", "rate", subscribers, options.seconds)),
        lambda: float(_side("bare", "rate", subscribers, options.seconds)),
        options.rounds,
    )
    case = f"{subscribers} subscriber" + ("" if subscribers == 1 else "s")
    return compared(case, "deliveries/s", measured, at_least=LEAST)


def _latency(options: Options) -> list[Row]:
    taken = [
        [_side(side, "latency", 1, options.seconds) for side in ("growd", "bare")]
        for _ in range(options.rounds)
    ]
    ours, bare = zip(*taken, strict=True)
    p50, p99 = ([1000 * median(one[place] for one in side) for side in (ours, bare)] for place in (0, 1))
    ratio = median(mine[0] / other[0] for mine, other in taken)
    return [
        compared("latency at 1 kHz, p50", "ms", (p50[0], p50[1], ratio)),
        limited("latency at 1 kHz, p99", "ms", p99[0], MOST_MS, p99[1]),
    ]


def _yardsticks(ours: float, options: Options) -> list[Row]:
    """The rate to one subscriber beside what else could carry messages."""
    others: dict[str, float] = {}
    if has_rospy():
        others["rospy without a queue"] = rospy_rate(options.seconds, 0)
        others[f"rospy with a queue of {ROS_QUEUE}"] = rospy_rate(options.seconds, ROS_QUEUE)
    if has_mosquitto():
        others["mosquitto"] = mosquitto_rate(options.seconds)
    return [
        compared(f"1 subscriber, beside {name}", "deliveries/s", (ours, rate, ours / rate))
        for name, rate in others.items()
    ]


def _side(*arguments: object) -> Any:
    command = [sys.executable, str(HERE / "delivery.py"), *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main(measure, seconds=1.0)
