"""`growd cloud export` of a fleet: points a second, memory, bytes of a point, and a query of DuckDB.

Needs the CouchDB that GROWD_TEST_COUCHDB=http://user:password@host:port names, and pyarrow; without DuckDB
the query is left out. The reference of bytes is what the documents take in CouchDB. CouchDB, growd and the
benchmark share the cores.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import aiohttp
from cloud_points import DAY_S, MEASURED, measured, month_database
from export import BATCH, ask, drop
from frontdoor import Way
from measuring import GROWD, Options, Row, limited, main

if TYPE_CHECKING:
    import argparse

PAGE = Path(__file__).parents[1] / "docs" / "data-analysis.md"
START = datetime(2026, 11, 2, tzinfo=UTC).timestamp()
MEMORY = 500.0  # MB


@dataclass
class CloudDatabase:
    """Monthly databases of one run."""

    way: Way
    prefix: str
    made: set[str] = field(default_factory=set)

    def fill(self, devices: int, days: float, every_s: float, start: float = START) -> int:
        """Store the points of all devices; how many they are."""
        number = 0
        for device in range(devices):
            parts: dict[str, list[dict[str, object]]] = {}
            for document in measured(device, start, days, every_s * len(MEASURED)):
                parts.setdefault(month_database("points", document["_id"]), []).append(document)
            for name, documents in parts.items():
                self._make(f"{self.prefix}{name}")
                for begin in range(0, len(documents), BATCH):
                    some = {"docs": documents[begin : begin + BATCH]}
                    ask(self.way, "POST", f"/{self.prefix}{name}/_bulk_docs", some)
                number += len(documents)
        return number

    def bytes_of_a_point(self) -> float:
        """What a document takes in the databases, without what a compaction would free."""
        infos = [ask(self.way, "GET", f"/{name}") for name in self.made]
        return float(
            sum(info["sizes"]["active"] for info in infos) / sum(info["doc_count"] for info in infos)
        )

    def drop(self) -> None:
        for name in self.made:
            drop(self.way, name)

    def _make(self, name: str) -> None:
        if name not in self.made:
            self.made.add(name)
            ask(self.way, "PUT", f"/{name}?partitioned=true&q=2")


def measure(options: Options) -> list[Row]:
    address = os.environ.get("GROWD_TEST_COUCHDB", "")
    if not address or importlib.util.find_spec("pyarrow") is None:
        print("left out: set GROWD_TEST_COUCHDB and install pyarrow", file=sys.stderr)
        return []
    parts = urlsplit(address)
    login = unquote(parts.username or ""), unquote(parts.password or "")
    way = Way(parts.hostname or "", parts.port or 5984, aiohttp.encode_basic_auth(*login), 0)
    database = CloudDatabase(way, f"growd_bench_{uuid4().hex[:12]}_")
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder:
        credentials = Path(folder) / "login"
        credentials.touch(0o600)
        credentials.write_text("\n".join(login), encoding="utf-8")
        command = [str(GROWD), "cloud", "export", "--couchdb", f"{parts.scheme}://{way.host}:{way.port}"]
        command += ["--credentials", str(credentials), "--prefix", database.prefix]
        command += ["-o", str(Path(folder) / "fleet"), "--since-month", "2026-10"]
        try:
            return _figures(database, command, Path(folder), options.arguments)
        finally:
            database.drop()


def _figures(
    database: CloudDatabase, command: list[str], folder: Path, arguments: argparse.Namespace
) -> list[Row]:
    devices, days, every_s = arguments.devices, arguments.days, arguments.every
    number = database.fill(devices, days, every_s)
    first_s = _timed(command)
    size = sum(path.stat().st_size for path in (folder / "fleet").rglob("*.parquet"))
    again_s = _timed(command)
    late = database.fill(devices, 0.1, every_s, START + days * DAY_S)
    late_s = _timed(command)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    name = f"{devices} devices, {number:,} points"
    rows = [
        Row(f"{name}: the first run", "points/s", number / first_s, None, None, "", met=True),
        limited(
            "  bytes of a point; reference: CouchDB", "B", size / number, None, database.bytes_of_a_point()
        ),
        limited("  a run with nothing new", "s", again_s),
        limited(f"  a run with {late:,} new points in {devices} devices", "s", late_s),
        limited("  memory at the peak", "MB", peak, MEMORY),
    ]
    if importlib.util.find_spec("duckdb") is not None:
        rows.append(limited("  CO2 of all devices by hour with DuckDB", "s", _query(folder)))
    return rows


def _timed(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def _query(folder: Path) -> float:
    """Run the first statements of docs/data-analysis.md; the seconds of the one for CO2."""
    text = PAGE.read_text(encoding="utf-8").partition("## A fleet in DuckDB")[2]
    views, co2, *_ = re.findall(r"^```sql\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    fault = re.compile(r"    UNION ALL.*?last_month\n(?=  \))", re.DOTALL)  # there are no events here
    events = re.compile(r"CREATE VIEW events.*?;", re.DOTALL)
    program = f"""
import duckdb, json, time
connection = duckdb.connect()
connection.execute({fault.sub("", events.sub("", views))!r})
began = time.monotonic()
connection.sql({co2!r}).to_arrow_table()
print(json.dumps(time.monotonic() - began))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(json.loads(done.stdout))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", type=int, default=50, help="how many chambers  [default: 50]")
    parser.add_argument("--days", type=float, default=2.0, help="how long they run  [default: 2]")
    parser.add_argument("--every", type=float, default=30.0, help="seconds between two points of a device")


if __name__ == "__main__":
    main(measure, rounds=1, add_arguments=_arguments)
