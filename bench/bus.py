"""Deliveries a second of growd's bus, and their latency, compared with bare asyncio queues.

growd checks each message against a range and adds time, quality, node and number; the reference puts a
bare number into one unbounded `asyncio.Queue` for each subscriber. Both publish as fast as they can and
yield after each 100 messages; latency is measured at one message each millisecond.
"""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from typing import Any

from measuring import HERE, Options, Row, compared, limited, main, pairs

LEAST = 0.5  # of the bare queues' rate
MOST_MS = 0.2


def measure(options: Options) -> list[Row]:
    return [*(_rate(subscribers, options) for subscribers in (1, 10, 100)), *_latency(options)]


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


def _side(*arguments: object) -> Any:
    command = [sys.executable, str(HERE / "delivery.py"), *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main(measure, seconds=1.0)
