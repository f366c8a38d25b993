"""How long growd takes to answer after its start, to have its database ready, and to leave on Ctrl-C.

The reference is a bare aiohttp server with one handler, started and asked in the same way, turn by turn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
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
import urllib.error
import urllib.request
from pathlib import Path

BARE = """
import sys
from aiohttp import web
app = web.Application()
async def answer(request):
    return web.json_response({"result": 1})
app.router.add_get("/", answer)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""
GROWD = Path(sys.executable).with_name("growd")
TARGETS = {"first answer": 1.0, "database ready": 3.0, "Ctrl-C": 2.0}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def seconds_until(url: str, began: float) -> float:
    """When `url` first answered 200, in seconds after `began`."""
    while time.monotonic() - began < 30:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310  our own loopback server
            return time.monotonic() - began
        time.sleep(0.005)
    raise TimeoutError(url)


def run_once(command: list[str], urls: dict[str, str]) -> dict[str, float]:
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        times = {name: seconds_until(url, began) for name, url in urls.items()}
        asked = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(30)
        return times | {"Ctrl-C": time.monotonic() - asked}
    finally:
        process.kill()
        process.wait()


def measure(rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    growd: dict[str, list[float]] = {name: [] for name in TARGETS}
    bare: dict[str, list[float]] = {name: [] for name in TARGETS}
    data = Path(tempfile.mkdtemp(prefix="growd-bench-"))
    try:
        for turn in range(rounds + 1):
            port = free_port()
            ours = run_once(
                [str(GROWD), "run", "--port", str(port), "--data", str(data)],
                {
                    "first answer": f"http://127.0.0.1:{port}/_svc/api/0.0.1/param",
                    "database ready": f"http://127.0.0.1:{port}/recipes/_design/svc",
                },
            )
            port = free_port()
            theirs = run_once(
                [sys.executable, "-c", BARE, str(port)], {"first answer": f"http://127.0.0.1:{port}/"}
            )
            if turn == 0:
                continue  # the first start makes the database; what is asked about is the second
            for times, result in ((ours, growd), (theirs, bare)):
                for name, seconds in times.items():
                    result[name].append(seconds)
    finally:
        shutil.rmtree(data)
    return growd, bare


def rows(growd: dict[str, list[float]], bare: dict[str, list[float]]) -> list[dict[str, object]]:
    made = []
    for name, target in TARGETS.items():
        ours = statistics.median(growd[name])
        reference = statistics.median(bare[name]) if bare[name] else None
        made.append(
            {
                "case": name,
                "unit": "s",
                "growd": round(ours, 3),
                "reference": round(reference, 3) if reference else None,
                "ratio": round(ours / reference, 2) if reference else None,
                "target": target,
                "met": max(growd[name]) <= target,
            }
        )
    return made


def machine() -> str:
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return f"{model[1] if model else platform.machine()}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    table = rows(*measure(arguments.rounds))
    if arguments.json:
        print(json.dumps({"machine": machine(), "rows": table}))
        return
    print(f"{'case':<16}{'growd':>9}{'bare aiohttp':>14}{'ratio':>8}{'target':>9}  met (every round)")
    for row in table:
        reference, ratio = (row[name] if row[name] is not None else "-" for name in ("reference", "ratio"))
        met = "yes" if row["met"] else "no"
        print(f"{row['case']:<16}{row['growd']:>7} s{reference:>12} s{ratio:>8}{row['target']:>7} s  {met}")


if __name__ == "__main__":
    main()
