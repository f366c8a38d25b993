"""The cost of many sensors, and the delay of the event loop while their buses are busy, hang or time out.

growd without database and lamp reads simulated chips through the real drivers, smbus2 and pyserial. On a
hanging bus no call returns, so its thread is abandoned after 10 s; on one that times out each transfer
fails after 1 s.

- Loop delay is that of a 1 kHz timer, including asyncio's resolution of up to 1 ms. The reference is the
  same daemon without sensors. p99.9 is the median of the rounds, "worst" the largest of all.
- CPU for each reading includes the simulated chip, the filter, the points and growd's idle cost. The
  reference is the bare driver in a thread for each line at the same rate; for rows of growth it is growd
  with the fewest sensors.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from growth import LEVEL, reading_cost
from measuring import Options, Process, Row, compared, limited, main, server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")

LATE_MS = 5.0
SENSORS, BUSES = 16, 4
ON_I2C = ("scd30", "bh1750", "tsl2591", "bh1750")  # what one bus can hold
BUSY_S = 0.1  # less than the sensors of one bus take, so that it never rests
KINDS = ("scd30", "bh1750", "tsl2591", "mhz19")
SIZES = ((2, 1), (8, 1), (8, 8), (16, 4), (32, 8), (64, 8))  # sensors and buses


@dataclass(frozen=True)
class Case:
    """A state of the buses: what `many_sensors` is told, and how many times as long it is measured."""

    name: str
    arguments: tuple[object, ...] = ()
    longer: int = 1
    failing: int = 0


CASES = (
    Case(f"all {BUSES} buses busy"),
    Case(f"1 of {BUSES} busy buses hangs", ("--fault", "hang"), 4, SENSORS // BUSES),
    Case(f"1 of {BUSES} busy buses times out", ("--fault", "timeout"), 1, SENSORS // BUSES),
)


@dataclass(frozen=True)
class Delay:
    """How late a beat on an event loop was, in ms."""

    p999_ms: float
    worst_ms: float


def measure(options: Options) -> list[Row]:
    with server("many_sensors", "--sensors", 0) as rest:
        rows = [row for case in CASES for row in delay_rows(case, rest, options)]
        rows += [sample_row(kind, options) for kind in KINDS]
        return rows + growth_rows(SIZES, rest, options)


def delay_rows(case: Case, rest: Process, options: Options) -> Iterable[Row]:
    """How late the loop is, and what becomes of the sensors."""
    load = ("--sensors", SENSORS, "--buses", BUSES, "--kinds", *ON_I2C, "--interval", BUSY_S)
    with server("many_sensors", *load, *case.arguments) as growd:
        taken = [delays((growd, rest), case.longer * options.seconds) for _ in range(options.rounds)]
        sensors = growd.call("bench/sensors")
    yield from late_rows(case.name, taken)
    failed = f"{case.name}: sensors without readings, of {SENSORS}"
    yield limited(failed, "sensors", sensors["failed"], case.failing)
    if case.failing:
        yield limited(f"{case.name}: threads left behind", "threads", sensors["left_behind"])


def late_rows(name: str, taken: Sequence[Sequence[Delay]]) -> Iterable[Row]:
    """Of rounds that have growd's delay and that of the daemon at rest."""
    sides = [*zip(*taken, strict=True)]
    p999, quiet = (median(delay.p999_ms for delay in side) for side in sides)
    yield limited(f"{name}: loop delay, p99.9", "ms", p999, LATE_MS, quiet)
    worst, quiet = (max(delay.worst_ms for delay in side) for side in sides)
    yield limited(f"{name}: loop delay, worst", "ms", worst, None, quiet)


def sample_row(kind: str, options: Options) -> Row:
    """CPU for each reading of sensors of one kind."""
    load = ("--sensors", SENSORS, "--buses", BUSES, "--kinds", kind)

    def cost_us(process: Process) -> float:
        return reading_cost(process, 2 * options.seconds)[1]  # no kind is read less often than that

    with server("many_sensors", *load) as growd, server("many_sensors", *load, "--bare") as bare:
        taken = [at_once(cost_us, (growd, bare)) for _ in range(options.rounds)]
    ours, reference = (median(side) for side in zip(*taken, strict=True))
    ratio = median(mine / other for mine, other in taken)
    return compared(f"CPU for each reading, {kind}", "µs", (ours, reference, ratio))


def growth_rows(sizes: Sequence[tuple[int, int]], rest: Process, options: Options) -> list[Row]:
    """CPU and loop delay by the number of sensors and buses; the first size is the reference."""
    rows: list[Row] = []
    least: tuple[float, float] | None = None
    for sensors, buses in sizes:
        with server("many_sensors", "--sensors", sensors, "--buses", buses, "--kinds", *ON_I2C) as growd:
            cpu, reading = reading_cost(growd, 2 * options.seconds)
            taken = [delays((growd, rest), options.seconds) for _ in range(options.rounds)]
        name = f"{sensors} sensors on " + ("1 bus" if buses == 1 else f"{buses} buses")
        rows.append(grown(f"{name}: CPU", "%", cpu, least and least[0], sensors / sizes[0][0]))
        rows.append(grown(f"{name}: CPU for each reading", "µs", reading, least and least[1], LEVEL))
        least = least or (cpu, reading)
        rows += late_rows(name, taken)
    return rows


def grown(case: str, unit: str, ours: float, least: float | None, at_most: float) -> Row:
    """A row whose value may be `at_most` times that of the fewest sensors, or is that of them."""
    if least is None:
        return limited(case, unit, ours)
    ratio = ours / least
    return Row(case, unit, ours, least, ratio, f"at most {at_most:g} times it", ratio <= at_most)


def delays(processes: Sequence[Process], seconds: float) -> list[Delay]:
    """How late the loop of each is meanwhile."""

    def delay(process: Process) -> Delay:
        told = process.call("bench/loop_delay", seconds=seconds)
        return Delay(told["p999_ms"], told["worst_ms"])

    return at_once(delay, processes)


def at_once(measure: Callable[[Process], T], processes: Sequence[Process]) -> list[T]:
    """What is measured of each, all at the same time."""
    with ThreadPoolExecutor(len(processes)) as pool:
        return list(pool.map(measure, processes))


if __name__ == "__main__":
    main(measure, rounds=3, seconds=1.0)
