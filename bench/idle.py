"""What growd takes before and while nobody asks anything of it: start, memory, CPU, and the way down.

growd runs as `./run` starts it, with simulated hardware and the embedded database, on data of an earlier
start. The reference is a bare aiohttp application on the same kind of event loop, started and asked in
the same way, turn by turn. Memory is resident (RSS) and CPU a mean, both after the process has settled
for as long as is measured; the embedded database is a process of its own.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from statistics import median

from measuring import API, Options, Process, Row, free_port, has, limited, main, server

GROWD = Path(sys.executable).with_name("growd")
PATIENCE_S = 30.0
CASES = (  # case, unit, and what it may be at most
    ("first answer", "s", 0.8),
    ("database ready", "s", 3.0),
    ("gone after Ctrl-C", "s", 2.0),
    ("memory", "MB", 60.0),
    ("memory of the embedded database", "MB", None),
    ("CPU", "% of a core", None),
    ("CPU of the embedded database", "% of a core", None),
)


def measure(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as data:
        with_database = has("node")
        _growd(data, 0.0, with_database=with_database)  # makes the database; what counts is a later start
        growd, bare = [], []
        for _ in range(options.rounds):
            growd.append(_growd(data, options.seconds, with_database=with_database))
            bare.append(_bare(options.seconds))
    return [
        limited(case, unit, ours, limit, _median(bare, case))
        for case, unit, limit in CASES
        if (ours := _median(growd, case)) is not None
    ]


def _median(taken: list[dict[str, float]], case: str) -> float | None:
    values = [each[case] for each in taken if case in each]
    return median(values) if values else None


def _growd(data: str, seconds: float, *, with_database: bool) -> dict[str, float]:
    """One run of growd: what it took, by case."""
    began = time.monotonic()
    port = free_port()
    command = [str(GROWD), "run", "--port", str(port), "--data", data]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            growd = Process(process.pid, port)
            taken = {"first answer": _until_answer(growd.url(f"{API}/param")) - began}
            if with_database:
                taken["database ready"] = _until_answer(growd.url("/recipes/_design/svc")) - began
            taken |= _at_rest({"": growd} | _database_of(growd), seconds)
            asked = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)
            return taken | {"gone after Ctrl-C": time.monotonic() - asked}
        finally:
            process.kill()


def _bare(seconds: float) -> dict[str, float]:
    """One run of the bare aiohttp application: what it took, by case. It leaves when its input ends."""
    began = time.monotonic()
    with server("bare") as bare:
        taken = {"first answer": _until_answer(bare.url("/")) - began}
        taken |= _at_rest({"": bare}, seconds)
        asked = time.monotonic()
    return taken | {"gone after Ctrl-C": time.monotonic() - asked}


def _until_answer(url: str) -> float:
    """When `url` first answers 200, in monotonic time."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError):  # nobody listens yet, or the answer is an error (`HTTPError`)
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310  our own loopback server
            return time.monotonic()
        time.sleep(0.005)
    raise TimeoutError(url)


def _at_rest(processes: dict[str, Process], seconds: float) -> dict[str, float]:
    """CPU and memory of each process by its suffix, over `seconds` after as long a time to settle."""
    time.sleep(seconds)
    began, before = time.monotonic(), {whose: each.cpu_s() for whose, each in processes.items()}
    time.sleep(seconds)
    took = time.monotonic() - began
    taken = {}
    for whose, process in processes.items():
        taken[f"CPU{whose}"] = 100 * (process.cpu_s() - before[whose]) / max(took, 0.001)
        taken[f"memory{whose}"] = process.rss_mb()
    return taken


def _database_of(growd: Process) -> dict[str, Process]:
    """The embedded database: the only child process that growd has (proc(5), /proc/pid/task/tid/children)."""
    lists = Path(f"/proc/{growd.pid}/task").glob("*/children")
    children = [int(child) for each in lists for child in each.read_text(encoding="ascii").split()]
    return {" of the embedded database": Process(children[0], 0)} if children else {}


if __name__ == "__main__":
    main(measure, seconds=4.0)
