"""What the page costs growd and the browser: bytes, time to the first values, heap, CPU.

To growd it costs one stream of 20 series at 1 Hz each, and the status every 5 s.

growd runs as `./run` starts it, with simulated hardware. The series are topics of their own, on which this
benchmark publishes one after another, also while nobody reads; the CPU without a client is subtracted. The
reference has the same series in 20 streams of one topic each. The browser is a Chromium without a window, of
the size of a phone; where there is none, its rows are left out.
"""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from in_browser import measure_in_browser
from measuring import API, GROWD, PATIENCE_S, Options, Process, Row, held_port, limited, main, until_answer
from raw_client import PIECE, Connection, head

from growd.config.profiles import profile_path

if TYPE_CHECKING:
    from collections.abc import Iterator

SERIES = 20
RATE_HZ = 1.0  # of each series
STATUS_S = 5.0
PAGES = 10
TOPICS = [f"series/number_{number}" for number in range(SERIES)]
TOGETHER = f"{API}/stream?throttle=1&heartbeat=5&" + "&".join(f"topic={topic}" for topic in TOPICS)
ALONE = [f"{API}/topic_stream/{topic}" for topic in TOPICS]
CASES = {"nobody": (0, []), "page": (1, [TOGETHER]), "alone": (1, ALONE), "pages": (PAGES, [TOGETHER])}
"""Number of clients, and the streams of each."""
PERCENT = "% of a core"


def measure(options: Options) -> list[Row]:
    with growd() as process:
        return [*_daemon(options, process), *measure_in_browser(options, process)]


def _daemon(options: Options, process: Process) -> list[Row]:
    """The CPU that clients take of growd."""
    rounds = [
        {name: cpu_percent(process, *case, options.seconds) for name, case in CASES.items()}
        for _ in range(options.rounds)
    ]
    taken = {name: median(each[name] for each in rounds) for name in CASES}
    added = {name: median(each[name] - each["nobody"] for each in rounds) for name in CASES}
    return [
        limited(
            "CPU of growd with a page (reference: nobody)", PERCENT, taken["page"], None, taken["nobody"]
        ),
        limited(f"CPU for a page (reference: {SERIES} streams)", PERCENT, added["page"], 1.0, added["alone"]),
        limited(f"CPU for each of {PAGES} pages", PERCENT, added["pages"] / PAGES, 1.0),
    ]


@contextmanager
def growd() -> Iterator[Process]:
    """A growd with the profile of `./run`, and the topics of the series."""
    topics = "".join(f'"{topic}" = "std_msgs/Float64"\n' for topic in TOPICS)
    nowhere = subprocess.DEVNULL
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder, held_port() as port:
        file = Path(folder) / "growd.toml"
        file.write_text(f"{profile_path('sim').read_text()}\n[topics]\n{topics}", encoding="utf-8")
        command = [str(GROWD), "run", "--port", str(port), "--data", f"{folder}/data", "--config", str(file)]
        with subprocess.Popen(command, stdout=nowhere, stderr=nowhere) as process:
            try:
                found = Process(process.pid, port)
                until_answer(found.url("/_svc/ready"))  # before that messages are refused
                yield found
                process.terminate()
                process.wait(PATIENCE_S)
            finally:
                process.kill()


def cpu_percent(process: Process, clients: int, streams: list[str], seconds: float) -> float:
    """What growd takes of a core while so many clients have these streams, and ask for the status."""
    with ExitStack() as stack:
        opened = [stack.enter_context(_stream(process, path)) for _ in range(clients) for path in streams]
        asking = [stack.enter_context(Connection(process.port)) for _ in range(clients)]
        publisher = stack.enter_context(Connection(process.port))
        driver = _Driver(publisher, opened, asking)
        driver.drive(1.0)  # they begin with the last messages
        began, before, driver.messages = time.monotonic(), process.cpu_s(), 0
        driver.drive(seconds)
        took, after = time.monotonic() - began, process.cpu_s()
    expected = clients * int(SERIES * RATE_HZ * (took - 1))  # a message may be a second old
    if driver.messages < expected:
        raise RuntimeError(f"{driver.messages} messages came, not {expected}")
    return 100 * (after - before) / took


def _stream(process: Process, path: str) -> Connection:
    connection = Connection(process.port)
    connection.socket.sendall(head("GET", path, "Accept: text/event-stream"))
    return connection


class _Driver:
    """Publishes on the series, reads the streams, and asks for the status, all in one thread."""

    def __init__(self, publisher: Connection, streams: list[Connection], asking: list[Connection]) -> None:
        self.messages = 0
        self._publisher = publisher
        self._streams = {stream.socket.fileno(): stream for stream in streams}
        self._asking = asking
        self._published = 0
        self._began = time.monotonic()
        self._poll = select.poll()
        for number in self._streams:
            self._poll.register(number, select.POLLIN)

    def drive(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        status_due = time.monotonic() + min(seconds, STATUS_S) / 2
        while (now := time.monotonic()) < end:
            due = self._began + self._published / (SERIES * RATE_HZ)
            if now >= due:
                self._publish()
            if now >= status_due:
                status_due += STATUS_S
                self._ask()
            self._read(min(due, end) - now)

    def _publish(self) -> None:
        topic = TOPICS[self._published % SERIES]
        self._published += 1
        self._publisher.send("POST", f"{API}/topic/{topic}", json.dumps([self._published]).encode())
        self._publisher.check_answer()

    def _ask(self) -> None:
        for each in self._asking:
            each.send("GET", f"{API}/node/status")
            each.check_answer()

    def _read(self, wait_s: float) -> None:
        for number, _ in self._poll.poll(max(0.0, wait_s) * 1000):
            data = self._streams[number].socket.recv(PIECE)
            if not data:
                raise ConnectionError("growd ended a stream")
            self.messages += data.count(b'"number":')


if __name__ == "__main__":
    main(measure, rounds=3, seconds=5.0)
