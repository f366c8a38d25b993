"""What the benchmarks share: processes to measure, pairs taken turn by turn, and the table.

The machines that this runs on are noisy, so a case and its reference are measured alternately and compared
round by round; the ratio is the median of the rounds'.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from growd.runtime.event_loop import allow_open_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

HERE = Path(__file__).resolve().parent
API = "/_svc/api/0.0.1"
CALL_S = 600.0  # a service that measures takes its time
GROWD = Path(sys.executable).with_name("growd")
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Row:
    """One line of a table. `target` in words; `met` is true where there is none.

    `spread` is how far the rounds lie apart, as a share of their median; 0 where it is not known.
    """

    case: str
    unit: str
    growd: float
    reference: float | None
    ratio: float | None
    target: str
    met: bool
    spread: float = 0.0


class Measured(NamedTuple):
    """The medians of growd and its reference, that of the ratios of a round, and half the range of those."""

    growd: float
    reference: float
    ratio: float
    spread: float = 0.0  # as a share of the ratio


@dataclass(frozen=True)
class Options:
    """What every benchmark is told: how many rounds, how many seconds a round takes, and all arguments."""

    rounds: int
    seconds: float
    arguments: argparse.Namespace


def pairs(ours: Callable[[], float], reference: Callable[[], float], rounds: int) -> Measured:
    """Measure both, turn by turn."""
    taken = [(ours(), reference()) for _ in range(rounds)]
    ratios = [mine / other for mine, other in taken]
    ratio = statistics.median(ratios)
    return Measured(
        statistics.median(mine for mine, _ in taken),
        statistics.median(other for _, other in taken),
        ratio,
        spread_of(ratios),
    )


def spread_of(values: Sequence[float]) -> float:
    """Half the range of what the rounds gave, as a share of their median."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / 2 / middle if middle else 0.0


def compared(
    case: str,
    unit: str,
    measured: Measured | tuple[float, float, float],
    *,
    at_least: float | None = None,
) -> Row:
    """A row of what `pairs` measured; `at_least` is the ratio asked for."""
    ours, reference, ratio, spread = Measured(*measured)
    target = "" if at_least is None else f"at least {at_least:g} of the reference"
    return Row(case, unit, ours, reference, ratio, target, at_least is None or ratio >= at_least, spread)


def limited(
    case: str, unit: str, ours: float, limit: float | None = None, reference: float | None = None
) -> Row:
    """A row whose value may be at most `limit`, where there is one."""
    ratio = ours / reference if reference else None
    target = "" if limit is None else f"at most {limit:g} {unit}"
    return Row(case, unit, ours, reference, ratio, target, limit is None or ours <= limit)


class Process:
    """A running program: where it listens, and what it takes."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def call(self, service: str, **arguments: object) -> dict[str, Any]:
        """What a service of the API answers."""
        body = json.dumps(arguments).encode()
        fields = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url(f"{API}/service/{service}"), body, fields)  # noqa: S310  ours
        with urllib.request.urlopen(request, timeout=CALL_S) as answer:  # noqa: S310  as above
            told: dict[str, Any] = json.load(answer)
        return told

    def cpu_s(self) -> float:
        """Seconds of CPU so far, of all threads, in user and kernel mode, to the nanosecond.

        The number is that of the process's CPU clock (Linux, include/linux/posix-timers.h), which
        clock_getcpuclockid(3) gives and Python does not have; /proc counts whole hundredths of a second.
        """
        return time.clock_gettime(~self.pid << 3 | 2)

    def rss_mb(self) -> float:
        """Resident memory in MB."""
        return self._status_mb("VmRSS")

    def peak_mb(self) -> float:
        """The most that was resident since `forget_peak`, in MB."""
        return self._status_mb("VmHWM")

    def forget_peak(self) -> None:
        """Let the peak begin anew with what is resident now (proc(5), /proc/pid/clear_refs)."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def written(self) -> int:
        """Bytes that the process has had written to the disk (proc(5), /proc/pid/io, write_bytes)."""
        found = re.search(
            r"^write_bytes: (\d+)", Path(f"/proc/{self.pid}/io").read_text("ascii"), re.MULTILINE
        )
        if found is None:
            raise RuntimeError(f"the system does not tell what process {self.pid} writes")
        return int(found[1])

    def wake_ups(self) -> int:
        """How often its threads began to run after they had waited (proc(5), voluntary_ctxt_switches).

        Of those threads that there are now.
        """
        number = 0
        for file in Path(f"/proc/{self.pid}/task").glob("*/status"):
            with suppress(OSError):  # it has ended meanwhile
                found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read_text("utf-8"), re.MULTILINE)
                number += int(found[1]) if found else 0
        return number

    def _status_mb(self, field: str) -> float:
        """A line of /proc/pid/status (proc(5)), which counts in KiB and says kB."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        if found is None:
            raise RuntimeError(f"the system does not tell {field} of process {self.pid}")
        return int(found[1]) * 1024 / 1e6


def listener(port: int) -> Process | None:
    """The process that listens on a port of this machine, None where that can't be told (proc(5))."""
    listening = re.compile(
        rf"^\s*\d+: [0-9A-F]+:{port:04X} [0-9A-F]+:0+ 0A (?:\S+ +){{5}}(\d+)", re.MULTILINE
    )
    tables = "".join(Path(f"/proc/net/{name}").read_text("ascii") for name in ("tcp", "tcp6"))
    sockets = {f"socket:[{inode}]" for inode in listening.findall(tables)}
    for file in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # it is gone, or another user's
            if str(file.readlink()) in sockets:
                return Process(int(file.parts[2]), port)
    return None


@contextmanager
def server(script: str, *arguments: object) -> Iterator[Process]:
    """`bench/<script>.py` in a process of its own, which prints its port."""
    command = [sys.executable, str(HERE / f"{script}.py"), *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None  # noqa: S101, PT018  asked for above
    try:
        yield Process(process.pid, int(process.stdout.readline()))
        process.stdin.close()
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def busy(number: int) -> Iterator[None]:
    """So many processes that compute all the time."""
    with ExitStack() as stack:
        for _ in range(number):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def until_answer(url: str, every_s: float = 0.005) -> float:
    """When `url` first answers 200, in monotonic time. `TimeoutError` after a minute."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with suppress(OSError):  # nobody listens yet, or the answer is an error (`HTTPError`)
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310  our own loopback server
            return time.monotonic()
        time.sleep(every_s)
    raise TimeoutError(url)


@dataclass(frozen=True)
class Answered:
    """How many requests were answered, and how many a second."""

    number: int
    rate: float


def wrk(url: str, seconds: float, *, connections: int = 16, script: str = "") -> Answered:
    """What wrk gets from `url`; `script` is Lua (https://github.com/wg/wrk).

    wrk counts in whole seconds; `seconds` is rounded up.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:  # wrk reads it once for each thread
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{math.ceil(seconds)}s", "-s", file.name, url]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.+)", said)
    if refused:
        raise RuntimeError(f"{url}: {refused[0]}")
    found = re.search(r"(\d+) requests in .+Requests/sec:\s+([\d.]+)", said, re.DOTALL)
    if found is None:
        raise RuntimeError(f"wrk said nothing of its requests: {said}")
    return Answered(int(found[1]), float(found[2]))


def post(body: str) -> str:
    """A wrk script that posts this JSON, with another number in the place of N each time."""
    before, _, after = (json.dumps(part) for part in body.partition("N"))
    return f"""
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local number = 0
function request()
    number = (number + 1) % 40000
    return wrk.format(nil, nil, nil, {before} .. number .. {after})
end
"""


def has(program: str) -> bool:
    """Whether a program is installed; says so on standard error if it is not."""
    found = shutil.which(program) is not None
    if not found:
        print(f"{program} is not installed: what needs it is left out", file=sys.stderr)
    return found


@contextmanager
def held_port() -> Iterator[int]:
    """A port of 127.0.0.1 that nobody else gets meanwhile; servers that ask for it with SO_REUSEADDR do."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


def machine() -> str:
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    name = model[1] if model else platform.machine()
    return f"{name}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"


def table(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| case | growd | reference | ratio | target | met |", "|---|---:|---:|---:|---|---|"]
    for row in rows:
        reference = "-" if row.reference is None else f"{figure(row.reference)} {row.unit}"
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        met = "-" if not row.target else "yes" if row.met else "no"
        cells = (row.case, f"{figure(row.growd)} {row.unit}", reference, ratio, row.target or "-", met)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def figure(value: float) -> str:
    """Three digits that tell something, and thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def end_at_signals() -> None:
    """Have signals end this process as an exception does, so that what it made is removed."""

    def end(number: int, _: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)  # a second one must not break off the removal
        sys.exit(128 + number)

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, end)


def main(
    measure: Callable[[Options], list[Row]],
    *,
    rounds: int = 5,
    seconds: float = 3.0,
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    """Read the arguments, measure, and print the rows as a table or as JSON.

    What `add_arguments` adds, `measure` finds in `Options.arguments`.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--rounds", type=int, default=rounds, help="pairs to take  [default: %(default)s]")
    parser.add_argument(
        "--seconds", type=float, default=seconds, help="how long each takes  [default: %(default)s]"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    if add_arguments is not None:
        add_arguments(parser)
    arguments = parser.parse_args()
    end_at_signals()
    allow_open_files()  # thousands of connections need them
    rows = measure(Options(arguments.rounds, arguments.seconds, arguments))
    if arguments.json:
        print(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}))
        return
    print(machine(), time.strftime("%Y-%m-%d"), sep=", ", end="\n\n")
    print(table(rows))
