"""All points as CSV through the front door, compared with reading the view and with CouchDB's list function.

The database is the embedded one, or the CouchDB that GROWD_TEST_COUCHDB=http://user:password@host:port
names. Client, growd and database share the cores. `--database` uses a database that already holds points,
and leaves it there.
"""

from __future__ import annotations

import http.client
import json
import statistics
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from frontdoor import COUCHDB, Way, database
from measuring import Options, Process, Row, compared, limited, main, pairs, server

from growd.store.bootstrap import read_design, supports_last

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

EVERY_POINT: Final = "_design/svc/_list/csv/by_variable?group_level=4"
ROWS_OF_THE_VIEW: Final = "_design/svc/_view/by_variable?reduce=false"
VARIABLES: Final = ("air_temperature", "air_humidity", "air_carbon_dioxide", "light_illuminance")
BATCH: Final = 2_000  # points stored in one request
BLOCK: Final = 256 * 1024  # bytes
GROWTH: Final = 10.0  # MB that the daemon may grow while all points pass
FIRST_BYTE: Final = 100.0  # ms
POINTS: Final = 100_000
EMBEDDED_POINTS: Final = 5_000


@dataclass(frozen=True)
class Taken:
    """What one reading took: seconds to the first byte and to the last, and how many lines came."""

    first_s: float
    whole_s: float
    lines: int


def measure(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder, database(Path(folder)) as direct:
        is_apache = supports_last(ask(direct, "GET", "/"))
        number = options.arguments.points or (POINTS if is_apache else EMBEDDED_POINTS)
        with (
            filled(direct, options.arguments.database, number, has_last=is_apache) as points,
            server("core", "--upstream", f"http://{direct.host}:{direct.port}", "--points", points) as daemon,
        ):
            door = replace(direct, host="127.0.0.1", port=daemon.port)
            wanted = 10 if is_apache else None
            return compare(door, direct, daemon, points, options.rounds, times_list=wanted)


def compare(
    door: Way, direct: Way, daemon: Process, points: str, rounds: int, *, times_list: float | None
) -> list[Row]:
    """All points of the database `points`, through the door and beside it.

    `times_list` is how many times as fast as the list function the door is to be.
    """
    export, view = f"/{points}/{EVERY_POINT}", f"/{points}/{ROWS_OF_THE_VIEW}"
    lines = read(door, export).lines - 1  # the index is warm after that, and the daemon has grown
    before = daemon.rss_mb()
    daemon.forget_peak()
    taken = []

    def ours() -> float:
        taken.append(read(door, export))
        return lines / taken[-1].whole_s

    beside_view = pairs(ours, lambda: lines / read(direct, view).whole_s, rounds)
    grown = daemon.peak_mb() - before
    beside_list = pairs(ours, lambda: lines / read(direct, export).whole_s, 1)
    first = statistics.median(each.first_s for each in taken) * 1e3
    return [
        compared(f"{lines:,} points; reference: rows of the view", "rows/s", beside_view, at_least=1 / 1.5),
        compared("the same; reference: the list function", "rows/s", beside_list, at_least=times_list),
        limited("first byte", "ms", first, FIRST_BYTE),
        limited("growth of the daemon meanwhile, at the peak", "MB", grown, GROWTH),
    ]


def read(way: Way, path: str) -> Taken:
    """Read an answer to its end."""
    connection = http.client.HTTPConnection(way.host, way.port, timeout=3_600)
    began = time.monotonic()
    connection.request("GET", path, headers=_login(way))
    with connection.getresponse() as answer:
        first = answer.read(1)
        first_s = time.monotonic() - began
        lines = 0
        while first and (block := answer.read1(BLOCK)):
            lines += block.count(b"\n")
    connection.close()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{path} was answered with {answer.status}")
    return Taken(first_s, time.monotonic() - began, lines)


def ask(way: Way, method: str, path: str, body: Any = None) -> Any:
    """The answer to a small request, JSON both ways."""
    connection = http.client.HTTPConnection(way.host, way.port, timeout=3_600)
    text = None if body is None else json.dumps(body).encode()
    connection.request(method, path, text, {"Content-Type": "application/json", **_login(way)})
    answer = connection.getresponse()
    told = json.loads(answer.read())
    connection.close()
    if answer.status >= http.client.BAD_REQUEST:
        raise RuntimeError(f"{method} {path} was answered with {answer.status}: {told}")
    return told


@contextmanager
def filled(way: Way, name: str | None, number: int, *, has_last: bool) -> Iterator[str]:
    """The name of a database with points: the one named, or a new one that is deleted in the end."""
    if name:
        yield name
        return
    name = f"growd_bench_{uuid4().hex}"
    try:
        ask(way, "PUT", f"/{name}")
        design = read_design(COUCHDB / "design" / "environmental_data_point", "svc", has_last)
        ask(way, "PUT", f"/{name}/_design/svc", design)
        for start in range(0, number, BATCH):
            docs = [point(n) for n in range(start, min(start + BATCH, number))]
            ask(way, "POST", f"/{name}/_bulk_docs", {"docs": docs})
        yield name
    finally:
        drop(way, name)


def drop(way: Way, name: str) -> None:
    """Delete a database, if it was made. After an interrupt an embedded server may be gone with its data."""
    with suppress(ConnectionError, RuntimeError):
        ask(way, "DELETE", f"/{name}")


def point(number: int) -> dict[str, Any]:
    """A point as growd stores it; each second has one of each variable."""
    timestamp = 1_700_000_000.25 + number // len(VARIABLES)
    return {
        "_id": f"0123456789ab:{round(timestamp * 1e3):013}-{number:010x}",
        "environment": "environment_1",
        "variable": VARIABLES[number % len(VARIABLES)],
        "is_desired": False,
        "is_manual": False,
        "value": round(20 + number % 977 / 100, 2),
        "timestamp": timestamp,
    }


def _login(way: Way) -> dict[str, str]:
    return {"Authorization": way.credentials} if way.credentials else {}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--points", type=int, help="how many to store  [default: 100000; embedded 5000]")
    parser.add_argument("--database", metavar="NAME", help="read this database instead")


if __name__ == "__main__":
    main(measure, rounds=3, add_arguments=_arguments)
