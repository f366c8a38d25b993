"""A recording drives the whole chamber: growd measures what was recorded, and nothing during gaps.

The real recording of 260 days has 580 gaps and three readings of 0 ppm. A small one has the same by hand.
"""

import asyncio
import csv
import logging
import math
import os
from bisect import bisect_right
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from growd.bus.messages import Quality
from growd.config import Config, FilterOptions, Light, Sensor, Simulator, chambers_of
from growd.variables import VARIABLES
from growd_hwsim.replay import GAP_S
from support.rig import rigged

RECORDING = os.environ.get("GROWD_TEST_RECORDING", "")  # museum-food-computer-2019.csv
INTERVAL_S = 300.0
LOOK_S = 3.0  # from a chip's measurement to its message, with a second try
LUX_PER_PPFD = 66.7  # of the white lamp, which converts recorded photons
BACK_S = 2 * INTERVAL_S + 60.0
"""After a gap: a retry within an interval, and one more reading to confirm a jump."""

SCD30 = Sensor(name="scd30_1", kind="scd30", interval_s=INTERVAL_S)
MHZ19 = Sensor(name="mhz19_1", kind="mhz19", port="/dev/serial0", interval_s=INTERVAL_S)
BH1750 = Sensor(name="bh1750_1", kind="bh1750", interval_s=INTERVAL_S)

TOLERANCE = {  # noise and rounding of the simulated chips
    "air_carbon_dioxide": lambda _: 10.01,
    "air_temperature": lambda _: 0.101,
    "light_illuminance": lambda lux: 1.0 + 0.015 * lux,
}


class Replayed:
    """A recording, read independently of the simulator, and what growd measured.

    Times are seconds from the first reading of the recording.
    """

    def __init__(self, recorded, said, rig):
        self.recorded = recorded
        self.said = said
        self.rig = rig

    def length_s(self):
        return max(rows[-1][0] for rows in self.recorded.values())

    def held(self, variable, time):
        """The last recorded value; None in a gap."""
        rows = self.recorded[variable]
        index = bisect_right(rows, time, key=lambda row: row[0]) - 1
        return rows[index][1] if index >= 0 and time - rows[index][0] <= GAP_S else None

    def is_recorded(self, begin, end):
        """Whether all variables are recorded throughout: a chip that lacks one of its variables is silent."""
        times = range(int(begin) + 1, int(end), 60)
        return all(self.held(variable, time) is not None for variable in self.recorded for time in times)

    def is_steady(self, variable, begin, end):
        """Whether the value does not jump by more than the filter accepts at once."""
        values = [self.held(variable, time) or 0.0 for time in range(int(begin) + 1, int(end), 60)]
        known = VARIABLES[variable]
        return max(values) - min(values) <= max(known.jump, known.relative_jump * min(values))

    def gaps(self, variable):
        """The gaps, each from the end of the last value to the next value."""
        times = [time for time, _ in self.recorded[variable]]
        return [(before + GAP_S, after) for before, after in pairwise(times) if after - before > GAP_S]

    def recorded_s(self, variable):
        """How long the variable has a value, in seconds."""
        times = [time for time, _ in self.recorded[variable]]
        return sum(min(after - before, GAP_S) for before, after in pairwise(times))

    def numbers(self, variable, begin=0.0, end=math.inf):
        """The measured values from `begin` to `end`."""
        return [value for value in self.measured(variable, begin, end) if value is not None]

    def device(self, name):
        """The state of a device, as its sampler reports it."""
        return self.rig.device(f"samplers/{name}")

    def measured(self, variable, begin, end):
        """The measured values from `begin` to `end`; None for messages without a value."""
        said = self.said[variable]
        first = bisect_right(said, begin, key=lambda message: message[0])
        return [value for _, value in said[first : bisect_right(said, end, key=lambda message: message[0])]]


@asynccontextmanager
async def replaying(path, *sensors):
    """A chamber with these sensors, before the first second of the recording."""
    config = Config(
        sensor=sensors,
        simulator=Simulator(replay=str(path)),
        light=Light(enabled=False),
        filter=FilterOptions(weight=1.0, stale_after_s=GAP_S),
    )
    recorded = _recorded(path)
    async with rigged(config) as rig:
        start = rig.clock.monotonic()
        said = {variable: [] for variable in recorded if variable in chambers_of(config)[0].measured}
        node = rig.bus.node("reader")

        async def listen():
            topics = {f"environment_1/measured/{variable}": variable for variable in said}
            with node.subscribe(*topics) as messages:
                async for message in messages:
                    value = message.value if message.quality is Quality.OK else None
                    said[topics[message.topic]].append((rig.clock.monotonic() - start, value))

        listening = asyncio.create_task(listen(), name="reader")
        try:
            yield Replayed(recorded, said, rig)
        finally:
            listening.cancel()
            await asyncio.wait([listening])
        assert listening.cancelled()


def _recorded(path):
    with path.open() as file:
        rows = list(csv.reader(file))[1:]
    times = [_seconds(row[0]) for row in rows]
    first = min(times)
    series = {}
    for (_, variable, value), time in zip(rows, times, strict=True):
        lux = variable == "light_ppfd"
        name, factor = ("light_illuminance", LUX_PER_PPFD) if lux else (variable, 1.0)
        series.setdefault(name, []).append((time - first, float(value) * factor))
    return series


def _seconds(timestamp):
    return float(timestamp) if timestamp.isdigit() else datetime.fromisoformat(timestamp).timestamp()


@pytest.fixture(autouse=True)
def quiet_loop():
    """Without the check for leftover tasks."""


@pytest.fixture(autouse=True)
def by_the_interval(tick_rarely):
    """No loop runs much more often than sensors are read."""
    tick_rarely(
        {
            "growd.control.sampling.SLICE_S": GAP_S,
            "growd.control.filters.SLICE_S": GAP_S,
            "growd.control.sampling.NOT_READY_RETRY_S": 10.0,
            "growd_hwsim.chamber.STEP_S": INTERVAL_S,
        }
    )


def check_what_was_measured(replayed):
    """Each number was recorded at its time, outside gaps, and is not a reading of 0."""
    for variable, said in replayed.said.items():
        for time, value in said:
            if value is None:
                continue
            met = {replayed.held(variable, time), replayed.held(variable, time - LOOK_S)} - {None}
            near = [true for true in met if abs(value - true) <= TOLERANCE[variable](true)]
            assert near, (variable, time, value, met)
            assert variable != "air_carbon_dioxide" or any(near), "0 ppm is not a reading"


def check_gaps(replayed, variable):
    """The variable is unknown in each long gap, and known again after it. Returns the number of long gaps."""
    gaps = replayed.gaps(variable)
    long = [(begin, end) for begin, end in gaps if end - begin > BACK_S + GAP_S]
    for begin, end in long:
        assert replayed.measured(variable, 0.0, end)[-1] is None, (variable, begin, end)
        if replayed.is_recorded(end, end + BACK_S) and replayed.is_steady(variable, end, end + BACK_S):
            assert set(replayed.measured(variable, end, end + BACK_S)) - {None}, (variable, begin, end)
    return len(long)


@pytest.mark.replay
@pytest.mark.timeout(480)
@pytest.mark.skipif(not RECORDING, reason="GROWD_TEST_RECORDING names no recording")
async def test_the_real_recording_is_replayed_whole(caplog):
    caplog.set_level(logging.ERROR)
    async with replaying(Path(RECORDING), SCD30, BH1750) as replayed:
        await replayed.rig.clock.advance(replayed.length_s())
        assert {replayed.device(name)["state"] for name in ("scd30_1", "bh1750_1")} == {"ok"}
    assert not caplog.records
    check_what_was_measured(replayed)
    assert sum(len(rows) for rows in replayed.recorded.values()) == 83_868
    assert 0.0 in [ppm for _, ppm in replayed.recorded["air_carbon_dioxide"]]
    for variable in TOLERANCE:
        assert check_gaps(replayed, variable) > 500
        possible = replayed.recorded_s(variable) / INTERVAL_S
        assert 0.95 * possible < len(replayed.numbers(variable)) < 1.01 * possible


ROWS = {  # second: CO2, temperature, light; a zero, a gap of two hours, and a step of the light after it
    0: (500, 20.0, 4_000),
    300: (505, 20.2, 4_000),
    600: (0, 20.4, 4_000),
    900: (510, 20.6, 4_000),
    1_200: (515, 20.8, 4_000),
    8_400: (530, 22.0, 0),
    8_700: (535, 22.2, 0),
    9_000: (540, 22.4, 0),
    9_300: (545, 22.6, 0),
    9_600: (550, 22.8, 0),
}
GAP = (1_200 + GAP_S, 8_400)


@pytest.fixture
def small(tmp_path):
    names = ("air_carbon_dioxide", "air_temperature", "light_illuminance")
    rows = [
        f"{second},{name},{value}"
        for second, values in ROWS.items()
        for name, value in zip(names, values, strict=True)
    ]
    path = tmp_path / "small.csv"
    path.write_text("\n".join(["timestamp,variable,value", *rows]))
    return path


@pytest.mark.parametrize("sensor", [SCD30, MHZ19], ids=lambda sensor: sensor.kind)
async def test_sensors_fail_in_gaps_and_skip_zeros(small, sensor):
    async with replaying(small, sensor, BH1750) as replayed:
        await replayed.rig.clock.advance(1_200)
        assert replayed.device(sensor.name)["state"] == "ok"
        await replayed.rig.clock.advance(GAP[1] - 1_210)
        for name in (sensor.name, "bh1750_1"):
            device = replayed.device(name)
            assert device["state"] == "failed"
            assert "does not answer" in device["message"]
        await replayed.rig.clock.advance(10 + 1_200)
        assert replayed.device(sensor.name)["state"] == replayed.device("bh1750_1")["state"] == "ok"
    check_what_was_measured(replayed)
    for variable in ("air_carbon_dioxide", "light_illuminance"):
        assert check_gaps(replayed, variable) == 1
        begin, end = GAP
        assert len(replayed.numbers(variable, 0, begin)) >= 3
        assert len(replayed.numbers(variable, begin + INTERVAL_S, end)) == 0
        assert len(replayed.numbers(variable, end, end + 1_200)) >= 2
