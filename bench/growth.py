"""How costs grow from 1 to 1,000 topics, parameters and streams, and from 1 to 64 sensors.

A row compares the cost with the most to the cost with one; --figure draws the values between. CPU is that
of all of growd's threads; the lowest round counts.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

from curves import Curve, Panel, draw
from measuring import API, Options, Process, Row, has, machine, main, post, server, wrk
from raw_client import Connection
from streams import cost

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

SIZES = (1, 3, 10, 30, 100, 300, 1000)
SENSORS = (1, 2, 4, 8, 16, 32, 64)
RATE_HZ = 10  # of the messages on streams
LEVEL = 1.25  # what does not depend on the number costs at most so many times what it costs with one
TOPIC = "chamber/measured/variable_0"


@dataclass(frozen=True)
class Costs:
    """One kind of cost, by the number of things. `at_most` says how many times the cost of one is right."""

    things: str
    name: str
    unit: str
    points: dict[int, float]
    at_most: float | None = None

    def row(self) -> Row:
        least, most = min(self.points), max(self.points)
        ratio = self.points[most] / self.points[least]
        return Row(
            f"{self.name}, {most:,} {self.things} (reference: {least})",
            self.unit,
            self.points[most],
            self.points[least],
            ratio,
            self._target(most / least),
            self.at_most is None or ratio <= self.at_most,
        )

    def _target(self, growth: float) -> str:
        if self.at_most is None:
            return ""
        return "no faster than linearly" if self.at_most == growth else f"at most {self.at_most:g} times it"


@dataclass(frozen=True)
class Request:
    """A kind of request. `body` is for `post`; `at_most` as in `Costs`."""

    name: str
    path: str
    body: str = ""
    at_most: float = LEVEL


REQUESTS = {
    "topics": (
        Request("GET one", f"/topic/{TOPIC}"),
        Request("POST to one", f"/topic/{TOPIC}", "[N]"),
        Request("GET the list", "/topic", at_most=SIZES[-1]),
        Request("GET a node", "/node/http", at_most=SIZES[-1]),
    ),
    "parameters": (
        Request("GET one", "/param/chamber/parameter_0"),
        Request("POST to one", "/param/chamber/parameter_0", '{"value": N}'),
        Request("GET the list", "/param", at_most=SIZES[-1]),
    ),
}


def measure(options: Options) -> list[Row]:
    file: Path | None = options.arguments.figure
    if file is not None and importlib.util.find_spec("matplotlib") is None:
        sys.exit("matplotlib, which draws the figure, is not installed: .venv/bin/pip install matplotlib")
    costs: list[Costs] = []
    if has("wrk"):
        for things in REQUESTS:
            costs += request_costs(things, options)
    costs += stream_costs(options)
    costs += sensor_costs(options)
    if file is not None:
        draw(file, panels(costs), f"{machine()}, {time.strftime('%Y-%m-%d')}")
    return [each.row() for each in costs]


def request_costs(things: str, options: Options) -> Iterable[Costs]:
    """What requests cost by the number of topics or parameters, and what those cost by themselves."""
    started: dict[int, float] = {}
    growd: dict[int, Process] = {}
    with ExitStack() as stack:
        for size in SIZES:
            began = time.perf_counter()
            growd[size] = stack.enter_context(server("core", f"--{things}", size))
            started[size] = time.perf_counter() - began
        yield Costs(things, "RSS", "MB", {size: process.rss_mb() for size, process in growd.items()})
        yield Costs(things, "start", "s", started)
        for request in REQUESTS[things]:
            measured = lowest(options.rounds, growd, partial(request_us, request, options.seconds))
            yield Costs(things, request.name, "µs", measured, request.at_most)


def request_us(request: Request, seconds: float, process: Process) -> float:
    """CPU for one request, with 16 connections, in microseconds."""
    before = process.cpu_s()
    script = post(request.body) if request.body else ""
    answered = wrk(process.url(API + request.path), seconds, script=script)
    return (process.cpu_s() - before) / answered.number * 1e6


def lowest(rounds: int, growd: dict[int, Process], measure: Callable[[Process], float]) -> dict[int, float]:
    """Measure each by turns, and take the lowest of its rounds."""
    taken = [{size: measure(process) for size, process in growd.items()} for _ in range(rounds)]
    return {size: min(turn[size] for turn in taken) for size in growd}


def stream_costs(options: Options) -> list[Costs]:
    """CPU and memory by the number of open streams of one topic."""
    message, delivery, memory = {}, {}, {}
    for size in SIZES:
        with server("core", "--publish", RATE_HZ) as growd:
            taken = [cost(growd, size, max(2 * options.seconds, 5 / RATE_HZ)) for _ in range(options.rounds)]
        message[size] = min(each.cpu_percent for each in taken) / 100 / RATE_HZ * 1e6
        delivery[size] = message[size] / size
        memory[size] = taken[0].rss_mb
    return [
        Costs("streams", "CPU for each message", "µs", message, SIZES[-1]),
        Costs("streams", "CPU for each delivery", "µs", delivery, 1.0),
        Costs("streams", "RSS", "MB", memory),
    ]


def sensor_costs(options: Options) -> list[Costs]:
    """CPU, memory and answer times by the number of sensors, simulated chips included."""
    cpu, reading, memory, middle, slow = {}, {}, {}, {}, {}
    for size in SENSORS:
        with server("many_sensors", "--sensors", size) as growd:
            cpu[size], reading[size] = reading_cost(growd, max(4 * options.seconds, 4.0))
            memory[size] = growd.rss_mb()
            answers = quantiles(answer_times_ms(growd, options.seconds), n=100)
            middle[size], slow[size] = answers[49], answers[98]
    return [
        Costs("sensors", "CPU", "%", cpu, SENSORS[-1]),
        Costs("sensors", "CPU for each reading", "µs", reading, LEVEL),
        Costs("sensors", "RSS", "MB", memory),
        Costs("sensors", "GET a parameter meanwhile, p50", "ms", middle),
        Costs("sensors", "GET a parameter meanwhile, p99", "ms", slow),
    ]


def reading_cost(process: Process, seconds: float, patience_s: float = 30.0) -> tuple[float, float]:
    """CPU at rest in percent of a core, and for each reading in microseconds.

    Over so many seconds, and as many again while none came.
    """
    readings, before, began = readings_of(process), process.cpu_s(), time.perf_counter()
    came, lasted = 0, 0.0
    while not came:
        if lasted > patience_s:
            raise RuntimeError(f"no sensor was read in {lasted:.2g} s")
        time.sleep(seconds)
        came = readings_of(process) - readings  # before the CPU is: none is counted that has cost nothing yet
        took, lasted = process.cpu_s() - before, time.perf_counter() - began
    return took / lasted * 100, took / came * 1e6


def readings_of(process: Process) -> int:
    """How often sensors were read so far."""
    readings: int = process.call("bench/sensors")["readings"]
    return readings


def answer_times_ms(process: Process, seconds: float) -> list[float]:
    """How long each of many requests took, one after another."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    with Connection(process.port) as connection:
        while (began := time.perf_counter()) < end:
            connection.send("GET", f"{API}/param/chamber/samplers/sensor_0/interval")
            connection.check_answer()
            times.append((time.perf_counter() - began) * 1000)
    return times


def panels(costs: Sequence[Costs]) -> list[Panel]:
    """What was measured, as small pictures."""

    def picked(things: str, unit: str) -> list[Curve]:
        return [Curve(each.name, each.points) for each in costs if (each.things, each.unit) == (things, unit)]

    memory = [Curve(each.things, each.points) for each in costs if each.name == "RSS"]
    every = [
        Panel("Topics: requests", "topics", "CPU for each, µs", picked("topics", "µs")),
        Panel("Parameters: requests", "parameters", "CPU for each, µs", picked("parameters", "µs")),
        Panel(f"Streams at {RATE_HZ} Hz", "open streams of one topic", "CPU, µs", picked("streams", "µs")),
        Panel("Sensors: CPU", "sensors", "% of one core", picked("sensors", "%")),
        Panel("Sensors: answers meanwhile", "sensors", "ms", picked("sensors", "ms")),
        Panel("Memory", "of each", "RSS, MB", memory),
    ]
    return [panel for panel in every if panel.curves]


def add_figure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the curves, as SVG")


if __name__ == "__main__":
    main(measure, rounds=2, seconds=1.0, add_arguments=add_figure)
