"""Points into the database and out of it, and the bytes written to the card.

The database is the embedded one, or the CouchDB that GROWD_TEST_COUCHDB=http://user:password@host:port
names. Points that waited are sent in batches of 500; the reference posts the same batches to `_bulk_docs`.
Bytes are `write_bytes` of /proc/<pid>/io of growd and the database, with default settings and each
variable stored each 5 seconds; the reference is one PUT a point. With a recipe running it is the outbox
and the journal alone: a point each 15 s, each in its own commit, for ten hours. The index is that of all
views; the reference has the reduce in JavaScript. The export is that of `bench/run export`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import aiohttp
from export import EMBEDDED_POINTS, POINTS, ask, compare, drop, filled, point
from frontdoor import COUCHDB, Way, database
from measuring import (
    API,
    GROWD,
    Options,
    Process,
    Row,
    compared,
    held_port,
    limited,
    listener,
    main,
    pairs,
    server,
    until_answer,
)

from growd.recipes.run import Run
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import run_on_loop
from growd.store.bootstrap import read_design, supports_last
from growd.store.couch import Couch
from growd.store.journal import RunJournal
from growd.store.local import LocalStore
from growd.store.outbox import Outbox
from growd.store.points import PointMaker
from growd.store.shipper import Shipper

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

BATCH: Final = 500
SHIPPED: Final = 10_000  # points that piled up
PUTS: Final = 100  # points, one at a time
SPEED: Final = 60  # of the chamber's time, while bytes are counted
SETTLED_S: Final = 5.0  # until the views are indexed too
PATIENCE_S: Final = 60.0
MOST_BYTES: Final = 1_000
POINT_EACH_S: Final = 15  # of the default rules, about
RECIPE_S: Final = 36_000
EACH_FIVE_SECONDS: Final = ("--set", "store.maximum_interval_s=5")


def measure(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder, database(Path(folder)) as way:
        is_apache = supports_last(ask(way, "GET", "/"))
        return [
            _catching_up(way, options.rounds, has_last=is_apache),
            *_written(way, Path(folder) / "growd", options.seconds, has_last=is_apache),
            *_index(way, options.rounds, has_last=is_apache),
            *_export(way, options, has_last=is_apache),
        ]


# points into the database


def _catching_up(way: Way, rounds: int, *, has_last: bool) -> Row:
    measured = pairs(
        lambda: run_on_loop(_ship(way, has_last=has_last)),
        lambda: run_on_loop(_post(way, has_last=has_last)),
        rounds,
    )
    case = f"{SHIPPED:,} points that waited; reference: bare _bulk_docs"
    return compared(case, "points/s", measured, at_least=0.8)


async def _ship(way: Way, *, has_last: bool) -> float:
    """Points a second, out of an outbox that had to move them into its file."""
    maker = PointMaker(PointMaker.new_device())
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder, _empty(way, has_last=has_last) as name:
        local = await LocalStore.open(Path(folder) / "growd.sqlite3")
        outbox = await Outbox.open(local, RealClock())
        for number in range(SHIPPED):
            made = point(number)
            outbox.add(maker.make("environment_1", made["variable"], made["value"], made["timestamp"]))
            if number % BATCH == 0:
                await outbox.flush()
        await outbox.flush()
        async with aiohttp.ClientSession() as session:
            shipper = Shipper(_couch(session, way), outbox, RealClock(), database=name, max_batch=BATCH)
            began = time.monotonic()
            left = await shipper.drain(PATIENCE_S)
            seconds = time.monotonic() - began
        await outbox.close()
        await local.close()
    if left:
        raise RuntimeError(f"{left} points were not taken: {shipper.fault}")
    return SHIPPED / seconds


async def _post(way: Way, *, has_last: bool) -> float:
    """Points a second, of a program that has them all at hand."""
    with _empty(way, has_last=has_last) as name:
        url = f"http://{way.host}:{way.port}/{name}/_bulk_docs"
        headers = {"Content-Type": "application/json", "Authorization": way.credentials}
        async with aiohttp.ClientSession(headers={k: v for k, v in headers.items() if v}) as session:
            began = time.monotonic()
            for start in range(0, SHIPPED, BATCH):
                body = json.dumps({"docs": [point(number) for number in range(start, start + BATCH)]})
                async with session.post(url, data=body) as answer:
                    await answer.read()
            return SHIPPED / (time.monotonic() - began)


# what it costs the card


def _written(way: Way, folder: Path, seconds: float, *, has_last: bool) -> list[Row]:
    server_process = listener(way.port)
    if server_process is None:
        print("the database is not on this machine: what it writes is left out", file=sys.stderr)
        return []
    one_by_one = _bytes_of_puts(way, server_process, has_last=has_last)
    in_all, ours, memory = _bytes_of_growd(way, server_process, folder, seconds, EACH_FIVE_SECONDS)
    folder.with_name("recipe").mkdir()
    with_recipe = run_on_loop(_bytes_with_a_recipe(folder.with_name("recipe")))
    return [
        limited("written for a point; reference: one PUT a point", "bytes", in_all, MOST_BYTES, one_by_one),
        limited("of that by growd", "bytes", ours),
        limited("by growd with a recipe running, default rules", "bytes", with_recipe, MOST_BYTES),
        limited("memory of growd after that", "MB", memory),
    ]


def _bytes_of_puts(way: Way, process: Process, *, has_last: bool) -> float:
    with _empty(way, has_last=has_last) as name:
        before = process.written()
        for number in range(PUTS):
            made = point(number)
            ask(way, "PUT", f"/{name}/{made['_id']}", made)
        time.sleep(SETTLED_S)
        return (process.written() - before) / PUTS


def _bytes_of_growd(
    way: Way, process: Process, folder: Path, seconds: float, options: Sequence[str]
) -> tuple[float, float, float]:
    """Bytes for a point in all and of growd alone, and growd's memory in MB, over that many real seconds."""
    prefix = f"growd_bench_{uuid4().hex[:8]}_"
    credentials = folder.with_suffix(".login")
    command = [str(GROWD), "run", "--profile", "sim", "--data", str(folder), "--speed", str(SPEED)]
    command += [*options, "--set", f"couchdb.url=http://{way.host}:{way.port}"]
    command += ["--set", f"couchdb.prefix={prefix}"]
    if way.credentials:
        credentials.write_text(_login_of(way), encoding="utf-8")
        command += ["--set", f"couchdb.credentials_file={credentials}"]
    series = [f"{prefix}{name}" for name in ("environmental_data_point", "environmental_event")]
    with (
        held_port() as port,
        subprocess.Popen(
            [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as program,
    ):
        try:
            growd = Process(program.pid, port)
            until_answer(growd.url(f"{API}/param"))
            _until_batch(way, series, 1)
            first = (_number_of(way, series), growd.written(), process.written())
            time.sleep(seconds)
            _until_batch(way, series, _number_of(way, series) + 1)
            time.sleep(SETTLED_S)
            last = (_number_of(way, series), growd.written(), process.written())
            memory = growd.rss_mb()
        finally:
            program.terminate()
            program.wait()
            for name in ask(way, "GET", "/_all_dbs"):
                if name.startswith(prefix):
                    drop(way, name)
    number, ours, theirs = (after - before for before, after in zip(first, last, strict=True))
    return (ours + theirs) / number, ours / number, memory


async def _bytes_with_a_recipe(folder: Path) -> float:
    """Bytes that outbox and journal write for a point, and the database takes all."""
    local = await LocalStore.open(folder / "growd.sqlite3")
    outbox = await Outbox.open(local, RealClock())
    maker = PointMaker(local.device)
    journal = RunJournal(local, outbox, maker, "environment_1")
    run = Run("lettuce_basic", {}, start=0.0, elapsed=0.0, seen=0.0, run_id=maker.new_id(0.0))
    await journal.commit(run.saved(), "recipe_start", "lettuce_basic", 0.0, {"_id": run.run_id})
    process = Process(os.getpid(), 0)
    before, number = process.written(), 0
    for moment in range(0, RECIPE_S, POINT_EACH_S):
        run.elapsed = run.seen = run.lasted = run.monotonic = float(moment)
        if moment % 60 == 0:
            await journal.progress(run.saved())
        made = point(moment)
        outbox.add(maker.make("environment_1", made["variable"], made["value"], made["timestamp"]))
        await outbox.flush()
        number += 1
        if number % BATCH == 0:
            await outbox.mark_delivered(await outbox.next_batch(BATCH))
    written = process.written() - before
    await outbox.close()
    await local.close()
    return written / number


def _until_batch(way: Way, names: Sequence[str], number: int) -> None:
    """Until so many points are there, so that whole batches are counted."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            if _number_of(way, names) >= number:
                return
        except RuntimeError:
            pass  # the database is not made yet
        time.sleep(0.2)
    raise RuntimeError(f"no points came into {names[0]} within {PATIENCE_S:g} s")


# out of the database


def _index(way: Way, rounds: int, *, has_last: bool) -> list[Row]:
    number = SHIPPED if has_last else EMBEDDED_POINTS
    case = f"{number:,} points indexed"
    if not has_last:
        return [limited(case, "points/s", _indexed(way, number, has_last=False))]
    measured = pairs(
        lambda: _indexed(way, number, has_last=True), lambda: _indexed(way, number, has_last=False), rounds
    )
    return [compared(f"{case}; reference: reduced in JavaScript", "points/s", measured)]


def _indexed(way: Way, number: int, *, has_last: bool) -> float:
    name = f"growd_bench_{uuid4().hex}"
    try:
        ask(way, "PUT", f"/{name}")
        for start in range(0, number, BATCH):
            ask(way, "POST", f"/{name}/_bulk_docs", {"docs": [point(n) for n in range(start, start + BATCH)]})
        began = time.monotonic()
        ask(way, "PUT", f"/{name}/_design/svc", _design(has_last=has_last))
        ask(way, "GET", f"/{name}/_design/svc/_view/by_variable?reduce=false&limit=1")
        return number / (time.monotonic() - began)
    finally:
        drop(way, name)


def _export(way: Way, options: Options, *, has_last: bool) -> list[Row]:
    number = options.arguments.points or (POINTS if has_last else EMBEDDED_POINTS)
    upstream = f"http://{way.host}:{way.port}"
    with (
        filled(way, None, number, has_last=has_last) as points,
        server("core", "--upstream", upstream, "--points", points) as daemon,
    ):
        door = replace(way, host="127.0.0.1", port=daemon.port)
        return compare(door, way, daemon, points, options.rounds, times_list=10 if has_last else None)


# the database


@contextmanager
def _empty(way: Way, *, has_last: bool) -> Iterator[str]:
    with filled(way, None, 0, has_last=has_last) as name:
        yield name


def _design(*, has_last: bool) -> dict[str, Any]:
    design = read_design(COUCHDB / "design" / "environmental_data_point", "svc", has_last)
    assert design is not None  # noqa: S101  the folder is there
    return design


def _number_of(way: Way, names: Sequence[str]) -> int:
    """The points in these databases; a design document is in each of them too."""
    return sum(ask(way, "GET", f"/{name}")["doc_count"] - 1 for name in names)


def _couch(session: aiohttp.ClientSession, way: Way) -> Couch:
    user, _, password = _login_of(way).partition("\n")
    credentials = (user, password) if way.credentials else None
    return Couch(session, f"http://{way.host}:{way.port}", credentials=credentials)


def _login_of(way: Way) -> str:
    """User and password, in a line each."""
    encoded = way.credentials.removeprefix("Basic ")
    return b64decode(encoded).decode().replace(":", "\n", 1)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--points", type=int, help="how many to export  [default: 100000; embedded 5000]")


if __name__ == "__main__":
    main(measure, rounds=3, seconds=40.0, add_arguments=_arguments)
