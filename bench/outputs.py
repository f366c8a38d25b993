"""Whether outputs end by themselves, whatever becomes of growd, and how exact doses are.

growd drives stand-ins for gpiod and for RPi.GPIO, whose levels outlive a process, with busy processes beside
it. A valve and a heater are on and the acid pump gives a dose of 3 s when growd or its pin keeper is stopped,
blocked or killed. "After its last renewal" counts from the last level that growd gave to the keeper. The
reference is the dose of the same library while nothing happens. Times of the keeper without real-time
priority, which growd's service gives it, are those of a process among the busy ones.

The last rows are doses on simulated pins at several speeds, beside the same busy processes.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from measuring import API, GROWD, HERE, PATIENCE_S, Options, Row, busy, held_port, limited, main, until_answer

from growd.bus import Bus
from growd.config import load
from growd.wiring.actuators import Common
from growd.wiring.chamber import AllChambers
from growd.wiring.chambers_node import declare_topics
from growd_simulation.recipes.points import ShortMemory
from growd_simulation.simulated_clock import SimulatedClock, run_simulated
from growd_simulation.simulated_hardware import simulated_hardware

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

SUPPORT: Final = HERE.parent / "tests" / "support"
LIBRARIES: Final = ("gpiod", "RPi.GPIO")
VALVE, HEATER, ACID = 23, 25, 22
ENVIRONMENT: Final = "environment_1"
DOSE_S: Final = 3.0  # 1.5 ml at 30 ml/min
LATER_S: Final = 0.5  # from the begin of a dose until something happens
SIMULATED: Final = {"10x": 10.0, "1000x": 1_000.0, "max": math.inf}
MOST_LONGER_S: Final = 1e-6
SETTLED_S: Final = 12.0  # from a dose until the next one may begin
OFF_S, DOSE_MS, WORST_DOSE_MS, KILLED_S = 2.5, 20.0, 100.0, 0.5
CONFIGURATION: Final = """
[simulator]
enabled = false

[gpio]
library = "{library}"

[[sensor]]
name = "co2"
kind = "topic"
variable = "air_carbon_dioxide"
stale_after_s = 86400

[[sensor]]
name = "air"
kind = "topic"
variable = "air_temperature"
stale_after_s = 86400

[[sensor]]
name = "ph"
kind = "topic"
variable = "water_potential_hydrogen"
stale_after_s = 86400

[[output]]
name = "valve"
pin = 23
variable = "air_carbon_dioxide_valve_on"

[[output]]
name = "heater"
pin = 25
drives = ["air_temperature"]

[[output]]
name = "acid"
pin = 22
drives = ["water_potential_hydrogen"]
direction = "lowers"
flow_ml_min = 30.0

[control.water_potential_hydrogen]
lowering_ml_per_unit_litre = 10.0
most_ml = 1.5

[interlock]
mixing_pause_s = 0
dosing_ml_per_hour = 10000
dosing_ml_per_day = 10000
no_rise_open_s = 86400
dose_s = 3600
"""


@dataclass(frozen=True)
class Case:
    """What happens to growd, or with `to_keeper` to the keeper: a signal, a stall (loop, lock), or nothing.

    It lasts `lasts_s`; 0 is for good. `by_hand`: the acid pump is commanded by hand, which is no dose.
    """

    name: str
    happens: signal.Signals | str = ""
    lasts_s: float = 0.0
    to_keeper: bool = False
    by_hand: bool = False

    @property
    def is_killed(self) -> bool:
        """Whether growd is killed."""
        return self.happens is signal.SIGKILL and not self.to_keeper

    @property
    def ends_dose(self) -> bool:
        """Whether the dose ends early."""
        return self.by_hand or self.to_keeper or self.is_killed


CASES: Final = (
    Case("undisturbed"),
    Case("SIGSTOP, CONT after 5 s", signal.SIGSTOP, 5),
    Case("SIGSTOP, CONT after 30 s", signal.SIGSTOP, 30),
    Case("loop blocked 5 s", "loop", 5),
    Case("loop blocked 30 s", "loop", 30),
    Case("interpreter lock held 5 s", "lock", 5),
    Case("SIGSTOP, acid on by hand", signal.SIGSTOP, 5, by_hand=True),
    Case("keeper killed", signal.SIGKILL, to_keeper=True),
    Case("keeper stopped", signal.SIGSTOP, to_keeper=True),
    Case("SIGSTOP for good", signal.SIGSTOP),
    Case("kill -9", signal.SIGKILL),
)


@dataclass(frozen=True)
class Taken:
    """What one run gave: how far the dose was from its length, and after how long outputs were off, in s."""

    dose_error_s: float | None
    off: list[float]
    """Since the last renewal of each, or since growd was killed."""


class Chamber:
    """A growd with stand-in pins in a folder."""

    def __init__(self, library: str, folder: Path, port: int) -> None:
        self.library = library
        self._pins = folder / "pins"
        self._stall = folder / "stall"
        self._folder = folder
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and turn the valve and the heater on."""
        self._pins.write_bytes(b"")
        self._stall.with_suffix(".writes").write_bytes(b"")
        configuration = self._folder / "growd.toml"
        configuration.write_text(CONFIGURATION.format(library=self.library), encoding="utf-8")
        data = tempfile.mkdtemp(dir=self._folder)  # a new one has no doses of the last hour
        program = [sys.executable, str(SUPPORT / "stalling.py"), str(GROWD), "run"]
        arguments = ["--config", str(configuration), "--port", str(self._port), "--data", data]
        found = {"PYTHONPATH": str(SUPPORT / "pins"), "PINS_FILE": str(self._pins), "STALL": str(self._stall)}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*program, *arguments], env=os.environ | found, stdout=log, stderr=log
            )
        until_answer(f"http://127.0.0.1:{self._port}{API}/param", 0.1)
        for topic, value in (("posted/co2", 600), ("posted/air", 22), ("posted/ph", 6.8)):
            self._post(topic, value)
        self._post("desired/water_potential_hydrogen", 6.8)
        self._post("desired/air_carbon_dioxide_valve_on", 1)
        self._post("desired/air_heater", 1)
        self._wait(lambda: self._is_on(VALVE) and self._is_on(HEATER))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def run(self, case: Case) -> Taken:
        """Give a dose, let it happen, and bring the outputs back to what they were."""
        self._wait(lambda: self._is_on(VALVE) and self._is_on(HEATER))
        began = time.monotonic()
        self._give_acid(case)
        self._wait(lambda: self._is_on(ACID))
        time.sleep(LATER_S)
        happened = time.monotonic()
        self._let_happen(case)
        pins = (VALVE, HEATER, ACID) if case.ends_dose else (VALVE, HEATER)
        if case.happens:
            self._wait(lambda: all(self._first(pin, 0, happened) for pin in pins))
        self._wait(lambda: self._first(ACID, 0, began))
        time.sleep(max(0.0, happened + case.lasts_s - time.monotonic()))
        taken = self._taken(case, pins if case.happens else (), began, happened)
        self._restore(case)
        return taken

    def _give_acid(self, case: Case) -> None:
        if case.by_hand:
            self._post("commanded/nutrient_ph_down", 1)
        else:
            self._post("desired/water_potential_hydrogen", 6.0)

    def _let_happen(self, case: Case) -> None:
        if isinstance(case.happens, signal.Signals):
            os.kill(self._keeper() if case.to_keeper else self._growd(), case.happens)
        elif case.happens:
            self._stall.write_text(f"{case.happens} {case.lasts_s:g}", encoding="ascii")
            os.kill(self._growd(), signal.SIGUSR1)

    def _restore(self, case: Case) -> None:
        if case.happens is signal.SIGSTOP and not case.to_keeper:
            os.kill(self._growd(), signal.SIGCONT)
        if case.is_killed:
            self.close()
            self.start()
        else:
            self._post("commanded/nutrient_ph_down", None)
            self._post("desired/water_potential_hydrogen", 6.8)
        time.sleep(SETTLED_S)

    def _taken(self, case: Case, pins: Sequence[int], began: float, happened: float) -> Taken:
        since = (lambda _pin, _off: happened) if case.is_killed else self._last_renewal
        ends = {pin: self._first(pin, 0, happened) for pin in pins}
        off = [end - since(pin, end) for pin, end in ends.items()]
        if case.ends_dose:
            return Taken(None, off)
        dose_s = self._first(ACID, 0, began) - self._first(ACID, 1, began)
        return Taken(abs(dose_s - DOSE_S), off)

    def _growd(self) -> int:
        assert self._process is not None  # noqa: S101  started before
        return self._process.pid

    def _keeper(self) -> int:
        """The process of the latest change."""
        return int(self._pins.read_text(encoding="ascii").splitlines()[-1].split()[0])

    def _changes(self, pin: int) -> list[tuple[float, int]]:
        """The times of the changes of a pin, and its levels."""
        lines = map(str.split, self._pins.read_text(encoding="ascii").splitlines())
        return [(float(at), int(level)) for _, _, name, level, at in lines if int(name) == pin]

    def _is_on(self, pin: int) -> bool:
        changes = self._changes(pin)
        return bool(changes) and changes[-1][1] == 1

    def _first(self, pin: int, level: int, since: float) -> float:
        """When a pin first had a level since then, 0 for not yet."""
        return next((at for at, each in self._changes(pin) if at >= since and each == level), 0.0)

    def _last_renewal(self, pin: int, before: float) -> float:
        writes = map(str.split, self._stall.with_suffix(".writes").read_text(encoding="ascii").splitlines())
        times = (float(at) for name, high, at in writes if (int(name), high) == (pin, "1"))
        return max(at for at in times if at < before)

    def _post(self, topic: str, value: float | None) -> None:
        """Publish, as soon as there is the topic: a new growd does not have it at once."""
        url = f"http://127.0.0.1:{self._port}{API}/topic/{ENVIRONMENT}/{topic}"
        body = json.dumps([value]).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})

        def is_posted() -> bool:
            with suppress(urllib.error.HTTPError):
                urllib.request.urlopen(request, timeout=PATIENCE_S).close()  # noqa: S310  ours
                return True
            return False

        self._wait(is_posted)

    def _wait(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + 2 * PATIENCE_S
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.library}: {self._folder / 'log'} may say why")
            time.sleep(0.02)


def measure(options: Options) -> list[Row]:
    with busy(options.arguments.busy), ThreadPoolExecutor(len(LIBRARIES)) as pool:
        found = list(pool.map(lambda library: _measured(library, options.rounds), LIBRARIES))
        found += [_simulated(name, speed, options.rounds) for name, speed in SIMULATED.items()]
    return [row for each in found for row in each]


def _simulated(name: str, speed: float, rounds: int) -> list[Row]:
    """Doses in simulated time, and the speed that is reached."""
    clock = SimulatedClock(speed)
    doses = run_simulated(_given(clock, 5 * rounds), clock)
    longer_s = max(doses) - DOSE_S
    return [
        limited(
            f"simulated at {name}: {len(doses)} doses longer than commanded by", "s", longer_s, MOST_LONGER_S
        ),
        Row(f"simulated at {name}: speed reached", "x", clock.reached, None, None, "", met=True),
    ]


async def _given(clock: SimulatedClock, count: int) -> list[float]:
    """How long each dose was, in seconds of the clock."""
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder:
        file = Path(folder) / "growd.toml"
        file.write_text(CONFIGURATION.format(library="gpiod"))
        config = load(file, ("simulator.enabled=true",))
    bus = Bus(clock)
    declare_topics(config, bus)
    machine = simulated_hardware(config, clock)
    chambers = AllChambers(config, Common(bus, machine, memory=ShortMemory(), report=print))
    client = bus.node("client")
    async with chambers.running():
        await clock.sleep(1.0)  # until receivers listen
        for sensor, value in (("co2", 600.0), ("air", 22.0), ("ph", 6.8)):
            client.publish_arguments(f"{ENVIRONMENT}/posted/{sensor}", [value])
        client.publish_arguments(f"{ENVIRONMENT}/desired/water_potential_hydrogen", [6.0])
        await clock.sleep(SETTLED_S * count)
        events = [(each.time, each.high) for each in machine.pins.history if each.pin == ACID]
    machine.close()
    return [after - at for (at, high), (after, _) in pairwise(events) if high]


def _measured(library: str, rounds: int) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder, held_port() as port:
        chamber = Chamber(library, Path(folder), port)
        try:
            chamber.start()
            taken = {case: [chamber.run(case) for _ in range(rounds)] for case in CASES}
        finally:
            chamber.close()
    usual = _errors(taken[CASES[0]])
    for case, each in taken.items():
        name = f"{library}, {case.name}"
        if errors := _errors(each):
            rows += _pair(f"{name}: dose off by", "ms", errors, (DOSE_MS, WORST_DOSE_MS), usual)
        if off := [seconds for one in each for seconds in one.off]:
            what = "all outputs" if case.ends_dose else "valve and heater"
            limit = KILLED_S if case.is_killed else OFF_S
            since = "kill" if case.is_killed else "last renewal"
            rows += _pair(f"{name}: {what} off after the {since}", "s", off, (limit, limit))
    return rows


def _errors(taken: Sequence[Taken]) -> list[float]:
    return [1_000 * each.dose_error_s for each in taken if each.dose_error_s is not None]


def _pair(
    name: str, unit: str, values: list[float], limits: tuple[float, float], usual: list[float] | None = None
) -> list[Row]:
    """The median and the worst."""
    return [
        limited(f"{name}, {word}", unit, of(values), limit, of(usual) if usual else None)
        for word, of, limit in (("median", median, limits[0]), ("worst", max, limits[1]))
    ]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--busy", type=int, default=8, help="busy processes  [default: %(default)s]")


if __name__ == "__main__":
    main(measure, add_arguments=_add_arguments)
