"""Memory, CPU and wake-ups of an idle growd, and the time of a shutdown.

growd runs as `./run` starts it, with simulated hardware and the embedded database (a separate process), on
data of an earlier start. The reference is a bare aiohttp application on the same kind of event loop.
Memory is resident (RSS), CPU a mean after settling, wake-ups are voluntary context switches of all threads
(proc(5)). The embedded database has two collections of garbage some ten to forty seconds after its start,
of 20 to 50 ms each; its CPU is ten times as high if they fall into the seconds measured. In the rows
"food-computer" the CPU of the simulation is subtracted (`simulated.py`); a Raspberry Pi adds the kernel's
share for I2C, and software PWM.
"""

from __future__ import annotations

import compileall
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from measuring import (
    API,
    GROWD,
    HERE,
    Options,
    Process,
    Row,
    has,
    held_port,
    limited,
    main,
    server,
    until_answer,
)
from simulated import SUM

import growd
import growd_drivers
import growd_hwsim
import growd_simulation
from growd.config.profiles import profile_path

PATIENCE_S = 30.0
HOUR_S = 3_600.0
CASES = (  # case, unit, and what it may be at most
    ("gone after Ctrl-C", "s", 2.0),
    ("memory", "MB", 60.0),
    ("memory of the embedded database", "MB", None),
    ("CPU", "% of a core", None),
    ("CPU of the embedded database", "% of a core", None),
    ("CPU an hour", "s", None),
    ("wake-ups", "1/s", None),
)
PROFILE = "food-computer"
PROFILE_CASES = (
    ("memory", "MB", 60.0),
    ("CPU without the simulation", "% of a core", 1.0),
    ("CPU of the simulation", "% of a core", None),
    ("CPU an hour without the simulation", "s", 36.0),
    ("wake-ups", "1/s", None),
)


def measure(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as data:
        with_database = has("node")
        compile_growd()
        _growd(data, 0.0, with_database=with_database)  # makes the database; what counts is a later start
        whole, bare, profile = [], [], []
        for _ in range(options.rounds):
            whole.append(_growd(data, options.seconds, with_database=with_database))
            bare.append(_bare(options.seconds))
            profile.append(_with_profile(data, options.seconds))
    rows = [
        limited(case, unit, ours, limit, _median(bare, case))
        for case, unit, limit in CASES
        if (ours := _median(whole, case)) is not None
    ]
    return rows + [
        limited(f"{PROFILE}: {case}", unit, ours, limit)
        for case, unit, limit in PROFILE_CASES
        if (ours := _median(profile, case)) is not None
    ]


def compile_growd() -> None:
    """A checkout has no bytecode where Python was told to write none (PYTHONDONTWRITEBYTECODE)."""
    for package in (growd, growd_drivers, growd_hwsim, growd_simulation):
        for folder in package.__path__:
            compileall.compile_dir(folder, quiet=1)


def _median(taken: list[dict[str, float]], case: str) -> float | None:
    values = [each[case] for each in taken if case in each]
    return median(values) if values else None


def _growd(
    data: str, seconds: float, *, with_database: bool, simulation: Path | None = None
) -> dict[str, float]:
    """One run of growd: what it took, by case. With `simulation`, of the profile, whose CPU it counts."""
    nowhere = subprocess.DEVNULL
    with (
        held_port() as port,
        subprocess.Popen(_command(data, port, simulation), stdout=nowhere, stderr=nowhere) as process,
    ):
        try:
            growd = Process(process.pid, port)
            until_answer(growd.url(f"{API}/param"))
            if with_database:
                until_answer(growd.url("/recipes/_design/svc"))
            taken = _at_rest({"": growd} | _database_of(growd), seconds, simulation)
            asked = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)
            return taken | {"gone after Ctrl-C": time.monotonic() - asked}
        finally:
            process.kill()


def _command(data: str, port: int, simulation: Path | None) -> list[str]:
    arguments = ["run", "--port", str(port), "--data", data]
    if simulation is None:
        return [str(GROWD), *arguments, "--profile", "sim"]
    chosen = ["--config", str(profile_path(PROFILE)), "--set", "simulator.enabled=true"]
    return [sys.executable, str(HERE / "simulated.py"), str(simulation), *arguments, *chosen]


def _with_profile(data: str, seconds: float) -> dict[str, float]:
    """One run of growd with the profile: what it took, by case."""
    with tempfile.NamedTemporaryFile(prefix="growd-bench-") as simulation:
        taken = _growd(data, seconds, with_database=False, simulation=Path(simulation.name))
    alone = taken["CPU"] - taken["CPU of the simulation"]
    return taken | {
        "CPU without the simulation": alone,
        "CPU an hour without the simulation": alone / 100 * HOUR_S,
    }


def _bare(seconds: float) -> dict[str, float]:
    """One run of the bare aiohttp application: what it took, by case. It leaves when its input ends."""
    with server("bare") as bare:
        until_answer(bare.url("/"))
        taken = _at_rest({"": bare}, seconds)
        asked = time.monotonic()
    return taken | {"gone after Ctrl-C": time.monotonic() - asked}


def _at_rest(
    processes: dict[str, Process], seconds: float, simulation: Path | None = None
) -> dict[str, float]:
    """CPU, memory and wake-ups of each process by its suffix, over `seconds` after as long to settle."""
    time.sleep(seconds)
    began, before = time.monotonic(), {whose: each.cpu_s() for whose, each in processes.items()}
    woken, simulated = {whose: each.wake_ups() for whose, each in processes.items()}, _simulated_s(simulation)
    time.sleep(seconds)
    took = max(time.monotonic() - began, 0.001)
    taken = {}
    for whose, process in processes.items():
        taken[f"CPU{whose}"] = 100 * (process.cpu_s() - before[whose]) / took
        taken[f"memory{whose}"] = process.rss_mb()
        taken[f"wake-ups{whose}"] = max(0, process.wake_ups() - woken[whose]) / took
    taken["CPU an hour"] = taken["CPU"] / 100 * HOUR_S
    if simulation is not None:
        taken["CPU of the simulation"] = 100 * (_simulated_s(simulation) - simulated) / took
    return taken


def _simulated_s(file: Path | None) -> float:
    """Seconds of CPU that the simulated hardware has taken, as `simulated.py` counts them."""
    return 0.0 if file is None else float(SUM.unpack(file.read_bytes())[0]) / 1e9


def _database_of(growd: Process) -> dict[str, Process]:
    """The embedded database: the only child process that growd has (proc(5), /proc/pid/task/tid/children)."""
    lists = Path(f"/proc/{growd.pid}/task").glob("*/children")
    children = [int(child) for each in lists for child in each.read_text(encoding="ascii").split()]
    return {" of the embedded database": Process(children[0], 0)} if children else {}


if __name__ == "__main__":
    main(measure, seconds=4.0)
