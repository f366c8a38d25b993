"""How long a start takes until all outputs are safe, and until the first answer.

growd runs as `./run` starts it, with simulated hardware and the embedded database, on data of an earlier
start. The reference is a bare aiohttp application on the same kind of event loop. "Process start to
outputs safe" is the CPU time until the last pin of the profile "food-computer" is driven, on a stand-in
for gpiod.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from idle import PATIENCE_S, PROFILE, compile_growd
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

from growd.config.profiles import profile_path

CASES = (  # case, unit, and what it may be at most
    ("process start to outputs safe", "s of CPU", 1.0),
    ("first answer", "s", 0.5),
    ("CPU to the first answer", "s", 0.5),  # what it would take where nothing else runs
    ("database ready", "s", 3.0),
)
PINS = HERE.parent / "tests" / "support" / "pins"


def measure(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as data:
        compile_growd()
        _growd(data)  # makes the database; what counts is a later start
        growd, bare = [], []
        for _ in range(options.rounds):
            growd.append(_growd(data) | {CASES[0][0]: _cpu_to_safe()})
            bare.append(_bare())
    return [
        limited(case, unit, _median(growd, case), limit, _median(bare, case) if case in bare[0] else None)
        for case, unit, limit in CASES
        if case in growd[0]
    ]


def _median(taken: list[dict[str, float]], case: str) -> float:
    return median(each[case] for each in taken)


def _growd(data: str) -> dict[str, float]:
    """One start of growd: what it took, by case."""
    began = time.monotonic()
    with held_port() as port:
        command = [str(GROWD), "run", "--port", str(port), "--data", data, "--profile", "sim"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            growd = Process(process.pid, port)
            taken = {"first answer": until_answer(growd.url(f"{API}/param")) - began}
            taken["CPU to the first answer"] = growd.cpu_s()
            if has("node"):
                taken["database ready"] = until_answer(growd.url("/recipes/_design/svc")) - began
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)
            return taken
        finally:
            process.kill()
            process.wait()


def _bare() -> dict[str, float]:
    """One start of the bare aiohttp application."""
    began = time.monotonic()
    with server("bare") as bare:
        answered = until_answer(bare.url("/")) - began
        return {"first answer": answered, "CPU to the first answer": bare.cpu_s()}


def _cpu_to_safe() -> float:
    """Seconds of CPU until all outputs are safe, of a start that then fails for want of a data folder."""
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder:
        pins = Path(folder) / "pins"
        pins.touch()
        command = [str(GROWD), "run", "--config", str(profile_path(PROFILE)), "--data", "/proc/growd"]
        environment = {**os.environ, "PYTHONPATH": str(PINS), "PINS_FILE": str(pins)}
        subprocess.run(command, check=False, capture_output=True, env=environment)
        _process, cpu_s, _pin, _level, _at = pins.read_text(encoding="ascii").splitlines()[-1].split()
        return float(cpu_s)


if __name__ == "__main__":
    main(measure, seconds=1.0)
