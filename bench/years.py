"""`history` of an hour, a day, a month, a year and ten years of a chamber with six variables, and retirement.

The database is the embedded one, or the CouchDB that GROWD_TEST_COUCHDB=http://user:password@host:port
names. It has the rollups of ten years of six measurements, four set points and two commands, the points of
the last two hours, one each 5 s, 3 000 events and 6 000 changes of quality. Cold is the first request after a
start of growd; warm is the same request again. The client reads the same rollups or points, and only counts
the bytes.

Before that, on a CouchDB, `--days` days pass in databases that growd's own retention keeps within a budget:
room and points of a 16 GB card, `--smaller` times smaller; one day in `--every` has the points of all. What a
row compares is the size that growd measures before each of its steps. What a retired point writes is measured
by `bench/run retention`. A rollup does not shrink with the number of points, so that the rollups of one
variable and the files of empty databases take more of the small budget than all do of the card.
"""

from __future__ import annotations

import http.client
import os
import random
import statistics
import tempfile
import time
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from uuid import uuid4

from export import ask, drop
from frontdoor import Way, database
from history import history, milliseconds
from measuring import API, Options, Row, limited, main, server
from retiring import Scale, simulate
from ten_years import DAY, ENVIRONMENT, MEASURED, YEARS, Past, all_series, rollup, store, ten_years

from growd.store.bootstrap import supports_last
from growd.store.rollups.document import WIDTHS, rollup_id, span_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

LIMIT_MS: Final = 300.0
RANGES: Final = {  # seconds, and the width of the rollups that the buckets are made of
    "an hour": (3_600, 0),
    "a day": (DAY, 300),
    "a month": (30 * DAY, 3_600),
    "a year": (365 * DAY, DAY),
    "ten years": (YEARS, DAY),
}


def measure(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder, database(Path(folder)) as direct:
        os.environ["GROWD_BENCH_LOGIN"] = b64decode(direct.credentials.partition(" ")[2]).decode()
        has_last = supports_last(ask(direct, "GET", "/"))
        arguments = options.arguments
        user, _, password = os.environ["GROWD_BENCH_LOGIN"].partition(":")
        scale = Scale(arguments.days, arguments.smaller, arguments.every)
        passed = simulate(direct, scale, (user, password)) if has_last and scale.days else []
        with ten_years(direct, int(time.time()), has_last=has_last) as past:
            cases = [Case(name, length, width) for name, (length, width) in RANGES.items()]
            passed += [rollups_of_ten_years(direct)] if has_last else []
            return passed + [row for case in cases for row in case.rows(direct, past, options.rounds)]


def rollups_of_ten_years(direct: Way) -> Row:
    """The bytes that the rollups of six variables take after a compaction, from those of 30 days of one."""
    name, chance, series = f"growd_bench_{uuid4().hex}", random.Random(1), all_series()[0]
    documents = [
        rollup(series, width, start, chance).document()
        for width, span in WIDTHS.items()
        for start in range(0, 30 * DAY, span)
    ]
    try:
        ask(direct, "PUT", f"/{name}")
        store(direct, name, iter(documents))
        size = ask(direct, "GET", f"/{name}")["sizes"]["active"]
    finally:
        drop(direct, name)
    return limited(
        "rollups of six variables in ten years", "GB", size * YEARS / (30 * DAY) * len(MEASURED) / 1e9, 0.31
    )


@dataclass(frozen=True)
class Case:
    """A range of so many seconds, by its name, and the width of its rollups."""

    name: str
    length: int
    width: int

    def rows(self, direct: Way, past: Past, rounds: int) -> Iterator[Row]:
        """Cold and warm."""
        query = "&".join(f"variable={variable}" for variable in MEASURED)
        path = f"{API}/history/{ENVIRONMENT}?{query}&start={past.now - self.length}&end={past.now}"
        cold, warm, reference = [], [], []
        for _ in range(rounds):
            reference.append(milliseconds(lambda: self.read(direct, past)))
            with growd(direct, past) as daemon:
                cold.append(milliseconds(lambda: history(daemon, path)))
                warm.append(milliseconds(lambda: history(daemon, path)))
        beside = statistics.median(reference)
        yield limited(f"{self.name}, cold", "ms", statistics.median(cold), LIMIT_MS, beside)
        yield limited(f"{self.name}, warm", "ms", statistics.median(warm), LIMIT_MS, beside)

    def read(self, direct: Way, past: Past) -> int:
        """Read the rollups of all series, or the points, one series after the other; the number of bytes."""
        connection = http.client.HTTPConnection(direct.host, direct.port, timeout=600)
        headers = {"Authorization": direct.credentials} if direct.credentials else {}
        size = 0
        for target in self.targets(past):
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            size += len(answer.read())
            if answer.status != http.client.OK:
                raise RuntimeError(f"{target} was answered with {answer.status}")
        connection.close()
        return size

    def targets(self, past: Past) -> Iterator[str]:
        """The requests that read them."""
        start = past.now - self.length
        for series in all_series():
            if self.width:
                ends = (rollup_id(series, self.width, at) for at in (span_of(self.width, start), past.now))
                first, last = (quote(f'"{each}"') for each in ends)
                yield f"/{past.rollups}/_all_docs?include_docs=true&startkey={first}&endkey={last}"
            else:
                name = past.events if series.category == "commanded" else past.points
                first, last = (quote(_key([*series, at])) for at in (start, past.now))
                yield f"/{name}/_design/svc/_view/by_variable?reduce=false&startkey={first}&endkey={last}"


def growd(direct: Way, past: Past) -> Any:
    """A core of growd, just started, in front of the databases."""
    upstream = f"http://{direct.host}:{direct.port}"
    names = ("--points", past.points, "--events", past.events, "--rollups", past.rollups)
    kind = ["--lists-series"] if direct.credentials else []
    return server("core", "--upstream", upstream, *names, *kind)


def _key(key: list[Any]) -> str:
    return str(key).replace("'", '"')


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=int, default=3_652, help="that pass  [default: %(default)s]")
    parser.add_argument("--smaller", type=int, default=4_000, help="than a card  [default: %(default)s]")
    parser.add_argument("--every", type=int, default=20, help="days with points  [default: %(default)s]")


if __name__ == "__main__":
    main(measure, rounds=3, add_arguments=_arguments)
