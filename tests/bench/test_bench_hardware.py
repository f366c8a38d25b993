"""`bench/hardware.py` and the process that it measures say and do what they promise. No time is looked at."""

from __future__ import annotations

import argparse
import asyncio
import json
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import hardware
import many_sensors
import pytest
from growth import reading_cost
from hardware import BUSY_S, Case, Delay
from measuring import API, Options, Row, server

from support.machine import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measuring import Process

pytestmark = [pytest.mark.bench, pytest.mark.timeout(120)]

SHORT = Options(1, 0.05, argparse.Namespace())


@pytest.fixture(scope="module")
def rest() -> Iterator[Process]:
    with server("many_sensors", "--sensors", 0) as process:
        yield process


def configured(sensors: int, buses: int, *kinds: str) -> list[Any]:
    given = argparse.Namespace(sensors=sensors, buses=buses, kinds=kinds, interval=1.0)
    return list(many_sensors.configured(given).sensor)


def counters(process: Process, sensor: int) -> dict[str, int]:
    url = process.url(f"{API}/node/chamber/samplers/sensor_{sensor}")
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  our own server
        counted: dict[str, int] = json.load(answer)["device"]["counters"]
    return counted


# --- The process with the sensors


@pytest.mark.parametrize(("sensors", "buses"), hardware.SIZES)
def test_sensors_of_all_kinds_are_spread_over_the_buses(sensors: int, buses: int):
    described = configured(sensors, buses, *hardware.ON_I2C)
    on_line = Counter(sensor.line for sensor in described)
    assert on_line == {f"i2c-{number + 1}": sensors // buses for number in range(buses)}
    assert [sensor.kind for sensor in described[:4]] == [*hardware.ON_I2C][:sensors]


def test_what_one_bus_can_hold_is_where_it_is_on_a_real_one():
    described = configured(16, 4, *hardware.ON_I2C)
    assert {(sensor.kind, sensor.address) for sensor in described} == {
        ("scd30", 0x61), ("bh1750", 0x23), ("tsl2591", 0x29), ("bh1750", 0x5C),
    }  # fmt: skip


def test_each_sensor_on_a_serial_line_has_its_own():
    assert len({sensor.line for sensor in configured(16, 4, "mhz19")}) == 16


@pytest.mark.parametrize("fault", many_sensors.FAULTS)
def test_a_bus_that_has_a_fault_gives_no_reading_and_the_other_goes_on(fault: str):
    load = ("--sensors", 2, "--buses", 2, "--kinds", "bh1750", "--interval", BUSY_S)
    with server("many_sensors", *load, "--fault", fault) as growd:
        dead, alive = (counters(growd, sensor)["successes"] for sensor in (0, 1))
        until(lambda: counters(growd, 1)["successes"] >= alive + 3)
        assert counters(growd, 0)["successes"] == dead
        until(lambda: growd.call("bench/sensors")["failed"] == 1)  # the other may fail where it is read late


@pytest.mark.parametrize("bare", [(), ("--bare",)])
def test_each_kind_is_read_and_counted(bare: tuple[str, ...]):
    load = ("--sensors", 3, "--kinds", "bh1750", "mhz19", "tsl2591", "--interval", BUSY_S)
    with server("many_sensors", *load, *bare) as process:
        before = process.call("bench/sensors")
        until(lambda: process.call("bench/sensors")["readings"] >= before["readings"] + 6)
        until(lambda: process.call("bench/sensors")["failed"] == 0)  # one may fail where it is read late


async def test_a_loop_that_is_held_up_is_late_for_each_beat_meanwhile():
    loop = asyncio.get_running_loop()

    def hold_up() -> None:
        end = loop.time() + 0.05
        while loop.time() < end:
            pass

    loop.call_soon(hold_up)
    told = await many_sensors.loop_delay(0.1)
    assert told["worst_ms"] >= told["p999_ms"] >= 40


# --- The rows


def test_how_late_the_loop_is_stands_beside_the_daemon_at_rest(rest: Process):
    case = Case("1 of 4 busy buses hangs", ("--fault", "hang"), failing=4)
    rows = {row.case: row for row in hardware.delay_rows(case, rest, SHORT)}
    assert list(rows) == [
        "1 of 4 busy buses hangs: loop delay, p99.9",
        "1 of 4 busy buses hangs: loop delay, worst",
        "1 of 4 busy buses hangs: sensors without readings, of 16",
        "1 of 4 busy buses hangs: threads left behind",
    ]
    p999, worst, failed, _ = rows.values()
    assert (p999.unit, p999.target, worst.target) == ("ms", "at most 5 ms", "")
    assert p999.growd <= worst.growd
    assert p999.reference is not None
    assert worst.reference is not None
    assert p999.reference <= worst.reference
    assert (failed.growd, failed.target, failed.met) == (4, "at most 4 sensors", True)


def test_of_the_rounds_the_middle_and_the_worst_count():
    taken = [
        [Delay(1.0, 10.0), Delay(3.0, 4.0)],
        [Delay(6.0, 8.0), Delay(1.0, 1.0)],
        [Delay(7.0, 9.0), Delay(2.0, 5.0)],
    ]
    assert [*hardware.late_rows("busy", taken)] == [
        Row("busy: loop delay, p99.9", "ms", 6.0, 2.0, 3.0, "at most 5 ms", met=False),
        Row("busy: loop delay, worst", "ms", 10.0, 5.0, 2.0, "", met=True),
    ]


def test_what_a_reading_costs_stands_beside_the_bare_driver():
    row = hardware.sample_row("tsl2591", SHORT)
    assert (row.case, row.unit, row.target) == ("CPU for each reading, tsl2591", "µs", "")
    assert row.reference is not None
    assert row.ratio == pytest.approx(row.growd / row.reference)


class Asleep:
    """A process that reads a sensor only when it is asked how often it did."""

    readings = 0

    def call(self, _: str) -> dict[str, int]:
        self.readings += 1
        return {"readings": self.readings}

    def cpu_s(self) -> float:
        return self.readings * 0.001


def test_no_reading_is_counted_that_has_cost_nothing_yet():
    assert reading_cost(cast("Process", Asleep()), 0.0)[1] == pytest.approx(1_000.0)


def test_growth_stands_beside_the_fewest_sensors(rest: Process):
    rows = hardware.growth_rows(((2, 1), (4, 2)), rest, SHORT)
    assert [row.case for row in rows] == [
        f"{name}: {what}"
        for name in ("2 sensors on 1 bus", "4 sensors on 2 buses")
        for what in ("CPU", "CPU for each reading", "loop delay, p99.9", "loop delay, worst")
    ]
    assert [row.target for row in rows[:2]] == ["", ""]
    assert [row.target for row in rows[4:6]] == ["at most 2 times it", "at most 1.25 times it"]
    assert [row.reference for row in rows[4:6]] == [row.growd for row in rows[:2]]


def test_a_value_may_grow_so_far():
    assert hardware.grown("CPU", "%", 5.0, 2.0, 2.0) == Row(
        "CPU", "%", 5.0, 2.0, 2.5, "at most 2 times it", met=False
    )


def test_without_a_reading_there_is_no_cost_of_one(rest: Process):
    with pytest.raises(RuntimeError, match="no sensor was read"):
        reading_cost(rest, 0.01, patience_s=0.01)
