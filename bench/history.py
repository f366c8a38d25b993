"""`history` of an hour, a day and 30 days, compared with a client that reads the same rows of the view.

The database is the embedded one, or the CouchDB that GROWD_TEST_COUCHDB=http://user:password@host:port
names. Of each variable it has a point each 5 min of 30 days, each minute of the last day and each 5 s of the
last hour. Cold is the first request after a start of growd; warm is the same request again. The client only
counts the bytes. Client, growd and database share the cores.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import tempfile
import time
from base64 import b64decode
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from uuid import uuid4

from export import ask, drop
from frontdoor import COUCHDB, Way, database
from measuring import API, Options, Process, Row, limited, main, server

from growd.store.bootstrap import read_design, supports_last

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

ENVIRONMENT: Final = "chamber"
VARIABLES: Final = ("air_temperature", "air_humidity", "air_carbon_dioxide", "light_illuminance")
END: Final = 1_790_000_000
RANGES: Final = {"an hour": 3_600, "a day": 86_400, "30 days": 30 * 86_400}
INTERVALS: Final = {30 * 86_400: 300, 86_400: 60, 3_600: 5}  # seconds before the end, and between points
BATCH: Final = 2_000  # points stored in one request
HOUR_MS: Final = 200.0  # of four variables, cold


def measure(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder, database(Path(folder)) as direct:
        login = b64decode(direct.credentials.partition(" ")[2]).decode()
        os.environ["GROWD_BENCH_LOGIN"] = login
        has_last = supports_last(ask(direct, "GET", "/"))
        longest = 86_400 * (options.arguments.days or (30 if has_last else 1))
        with filled(direct, longest, has_last=has_last) as points:
            ranges = [(name, length) for name, length in RANGES.items() if length <= longest]
            return [
                row
                for name, length in ranges
                for number in (1, len(VARIABLES))
                for row in Case(name, length, VARIABLES[:number]).rows(direct, points, options.rounds)
            ]


@dataclass(frozen=True)
class Case:
    """A range of so many seconds, by its name, of some variables."""

    name: str
    length: int
    variables: tuple[str, ...]

    def rows(self, direct: Way, points: str, rounds: int) -> Iterator[Row]:
        """Cold and warm."""
        query = "&".join(f"variable={variable}" for variable in self.variables)
        path = f"{API}/history/{ENVIRONMENT}?{query}&start={END - self.length}&end={END}"
        cold, warm, reference = [], [], []
        for _ in range(rounds):
            reference.append(milliseconds(lambda: self.read(direct, points)))
            upstream = f"http://{direct.host}:{direct.port}"
            with server("core", "--upstream", upstream, "--points", points) as daemon:
                cold.append(milliseconds(lambda: history(daemon, path)))
                warm.append(milliseconds(lambda: history(daemon, path)))
        number = len(self.variables)
        said = (
            f"{self.name}, {number} variable{'s' if number > 1 else ''}, {self.read(direct, points):,} points"
        )
        limit = HOUR_MS if (self.name, number) == ("an hour", len(VARIABLES)) else None
        beside = statistics.median(reference)
        yield limited(f"{said}, cold", "ms", statistics.median(cold), limit, beside)
        yield limited(f"{said}, warm", "ms", statistics.median(warm), None, beside)

    def read(self, direct: Way, points: str) -> int:
        """Read the rows of the view, one variable after the other; how many."""
        return sum(view(direct, points, each, self.length) for each in self.variables)


def milliseconds(work: Any) -> float:
    began = time.monotonic()
    work()
    return (time.monotonic() - began) * 1e3


def history(daemon: Process, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=600)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{path} was answered with {answer.status}: {body[:200]!r}")


def view(way: Way, points: str, variable: str, length: int) -> int:
    """Read the rows of a range, and count them."""
    key = [ENVIRONMENT, "measured", variable]
    start, end = (quote(json.dumps([*key, at])) for at in (END - length, END))
    path = f"/{points}/_design/svc/_view/by_variable?reduce=false&startkey={start}&endkey={end}"
    connection = http.client.HTTPConnection(way.host, way.port, timeout=600)
    connection.request("GET", path, headers={"Authorization": way.credentials} if way.credentials else {})
    body = connection.getresponse().read()
    connection.close()
    return body.count(b'"timestamp"')


@contextmanager
def filled(way: Way, length: int, *, has_last: bool) -> Iterator[str]:
    """The name of a new database with points, indexed; it is deleted in the end."""
    name = f"growd_bench_{uuid4().hex}"
    try:
        ask(way, "PUT", f"/{name}")
        design = read_design(COUCHDB / "design" / "environmental_data_point", "svc", has_last)
        ask(way, "PUT", f"/{name}/_design/svc", design)
        documents = [point(each, n, at) for n, at in enumerate(times(length)) for each in VARIABLES]
        for start in range(0, len(documents), BATCH):
            ask(way, "POST", f"/{name}/_bulk_docs", {"docs": documents[start : start + BATCH]})
        ask(way, "GET", f"/{name}/_design/svc/_view/by_variable?reduce=false&limit=1")
        yield name
    finally:
        drop(way, name)


def times(length: int) -> list[int]:
    """The times of the points of a variable."""
    found: list[int] = []
    for (since, interval), until in zip(INTERVALS.items(), [*[*INTERVALS][1:], 0], strict=True):
        found += range(END - min(since, length), END - until, interval)
    return found


def point(variable: str, number: int, timestamp: int) -> dict[str, Any]:
    """A point as growd stores it."""
    place = VARIABLES.index(variable) if variable in VARIABLES else 9
    return {
        "_id": f"0123456789ab:{timestamp * 1000:013}-{number * 10 + place:010x}",
        "environment": ENVIRONMENT,
        "variable": variable,
        "is_desired": False,
        "is_manual": False,
        "value": round(20 + number % 977 / 100, 2),
        "timestamp": timestamp,
    }


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=int, help="how many to store  [default: 30; embedded 1]")


if __name__ == "__main__":
    main(measure, rounds=5, add_arguments=_arguments)
