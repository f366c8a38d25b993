"""Requests a second of the API, compared with a bare aiohttp application on the same event loop.

16 connections, 200 topics, 10 subscribers for each message; each parameter is on disk when it is answered.
The whole program is `growd run` with the profile "sim", the simulator and the embedded database; there the
posted message has no subscriber, and the set point is that of the lamp, on disk when it is answered.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import (
    API,
    GROWD,
    Options,
    Process,
    Row,
    compared,
    has,
    held_port,
    main,
    pairs,
    post,
    server,
    until_answer,
    wrk,
)

from growd.config.profiles import profile_path

if TYPE_CHECKING:
    from collections.abc import Iterator

PARAMETER = "/param/chamber/parameter_0"
TOPIC = "chamber/measured/variable_0"


@dataclass(frozen=True)
class Case:
    """One kind of request; in `body`, JSON to post, N is another number each time."""

    name: str
    path: str
    least: float | None  # of the reference's rate
    body: str = ""


CASES = (
    Case("GET a parameter", PARAMETER, 0.8),
    Case("POST a parameter", PARAMETER, 0.7, '{"value": N}'),
    Case("POST a message to 10 subscribers", f"/topic/{TOPIC}", 0.75, "[N]"),
    Case("GET the list of 200 topics", "/topic", 0.7),
    Case("GET the list of 20 services", "/service", 0.7),
    Case("GET the list of nodes", "/node", 0.7),
)
OF_WHOLE_PROGRAM = (  # nine tenths of the above
    Case("whole program: GET a parameter", PARAMETER, 0.72),
    Case("whole program: POST a parameter", PARAMETER, 0.63, '{"value": N}'),
    Case("whole program: POST a message", f"/topic/{TOPIC}", 0.675, "[N]"),
    Case("whole program: POST a set point", "/topic/environment_1/desired/light_illuminance", None, "[N]"),
    Case("whole program: GET the list of topics", "/topic", 0.63),
    Case("whole program: GET the list of services", "/service", 0.63),
    Case("whole program: GET the list of nodes", "/node", 0.63),
)


def measure(options: Options) -> list[Row]:
    if not has("wrk"):
        return []
    core = server("core", "--topics", 200, "--subscribers", 10, "--parameters", 100, "--services", 20)
    with server("bare") as bare:
        with core as ours:
            rows = [_row(ours, bare, options, case) for case in CASES]
        if has("node"):
            with whole_program() as ours:
                rows += [_row(ours, bare, options, case) for case in OF_WHOLE_PROGRAM]
    return rows


def _row(ours: Process, bare: Process, options: Options, case: Case) -> Row:
    script = post(case.body) if case.body else ""
    measured = pairs(
        lambda: wrk(ours.url(API + case.path), options.seconds, script=script).rate,
        lambda: wrk(bare.url("/"), options.seconds, script=script).rate,
        options.rounds,
    )
    return compared(case.name, "requests/s", measured, at_least=case.least)


@contextmanager
def whole_program() -> Iterator[Process]:
    """`growd run` with simulated hardware, the embedded database, and what the cases name."""
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder, held_port() as port:
        file = Path(folder) / "growd.toml"
        profile = profile_path("sim").read_text(encoding="utf-8")
        file.write_text(f'{profile}\n[topics]\n"{TOPIC}" = "std_msgs/Float64"\n', encoding="utf-8")
        command = [str(GROWD), "run", "--port", str(port), "--data", f"{folder}/data", "--config", str(file)]
        nowhere = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=nowhere, stderr=nowhere) as program:
            try:
                growd = Process(program.pid, port)
                until_answer(growd.url("/recipes/_design/svc"))
                _set_parameter(growd)
                yield growd
            finally:
                program.terminate()


def _set_parameter(growd: Process) -> None:
    body, headers = json.dumps({"value": 0}).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(growd.url(API + PARAMETER), body, headers)  # noqa: S310  our own server
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310  as above


if __name__ == "__main__":
    main(measure, seconds=2.0)
