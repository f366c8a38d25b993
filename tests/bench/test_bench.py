"""The benchmarks say what they promise to say. What they measure is never looked at here."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import all as every
import brokers
import export
import frontdoor
import measuring
import pytest
import simulated
from measuring import Process, Row

BENCH = measuring.HERE
SCRIPTS = every.scripts()
TINY = ("--rounds", "1", "--seconds", "0.05")
FORM = {"case", "unit", "growd", "reference", "ratio", "target", "met", "spread"}
COUNTING = '''"""Counts {what}."""

from measuring import Row, main


def measure(options):
    {body}


if __name__ == "__main__":
    main(measure)
'''

pytestmark = [pytest.mark.bench, pytest.mark.timeout(120)]


def ran(script: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """A script that has ended; `path` is where it finds programs, in place of PATH."""
    environment = os.environ if path is None else os.environ | {"PATH": path}
    return subprocess.run(
        [sys.executable, script, *arguments],
        env=environment, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


def told(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """The rows of a benchmark's JSON by case, each of the form that is declared."""
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer.keys() == {"machine", "rows"}
    assert answer["machine"] == measuring.machine()
    for row in answer["rows"]:
        assert row.keys() == FORM
        assert row["case"]
        assert row["growd"] >= 0
        assert isinstance(row["met"], bool)
        assert row["met"] or row["target"]
    return {row["case"]: row for row in answer["rows"]}


# --- Each benchmark


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_each_says_what_it_measures(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    first_words = " ".join(script.read_text().removeprefix('"""').split()[:3])
    assert first_words in " ".join(capsys.readouterr().out.split())


def test_the_bus_stands_beside_bare_queues(tmp_path: Path):
    done = ran(BENCH / "bus.py", *TINY, "--json", path=str(tmp_path))
    rows = told(done)
    assert list(rows) == [
        "1 subscriber", "10 subscribers", "100 subscribers", "latency at 1 kHz, p50", "latency at 1 kHz, p99",
    ]  # fmt: skip
    for row in rows.values():
        assert row["ratio"] == pytest.approx(row["growd"] / row["reference"])
    assert rows["latency at 1 kHz, p50"]["growd"] <= rows["latency at 1 kHz, p99"]["growd"]
    assert "rosmaster is not installed" in done.stderr
    assert "mosquitto is not installed" in done.stderr


def test_idle_tells_of_growd_and_of_its_database():
    rows = told(ran(BENCH / "idle.py", *TINY, "--json"))
    alone = {"gone after Ctrl-C", "memory", "CPU", "CPU an hour", "wake-ups"}
    database = {"memory of the embedded database", "CPU of the embedded database"}
    with_profile = {case for case in rows if case.startswith("food-computer: ")}
    assert rows.keys() - with_profile == (alone | database if shutil.which("node") else alone)
    assert {case.removeprefix("food-computer: ") for case in with_profile} == {
        "memory", "CPU without the simulation", "CPU of the simulation",
        "CPU an hour without the simulation", "wake-ups",
    }  # fmt: skip
    assert all(rows[case]["growd"] > 10 for case in rows if case.startswith("memory"))
    assert rows["CPU an hour"]["growd"] == pytest.approx(36 * rows["CPU"]["growd"])
    assert rows["memory"]["reference"] < rows["memory"]["growd"]  # growd is that application and more


def test_start_tells_when_outputs_are_safe_and_when_growd_answers():
    rows = told(ran(BENCH / "start.py", *TINY, "--json"))
    cases = {"process start to outputs safe", "first answer", "CPU to the first answer"}
    assert rows.keys() == (cases | {"database ready"} if shutil.which("node") else cases)
    assert rows["process start to outputs safe"]["growd"] < rows["CPU to the first answer"]["growd"]


def test_a_recipe_is_run_whole_and_a_large_one_beside_a_look_at_all_of_it():
    rows = told(ran(BENCH / "recipe_run.py", *TINY, "--json"))
    assert list(rows) == ["2 days whole", "set points at one moment", "all checks"]
    assert rows["set points at one moment"]["ratio"] < 1  # a look at each of 100 000 operations is more


def test_without_wrk_its_rows_are_left_out(tmp_path: Path):
    done = ran(BENCH / "api.py", *TINY, "--json", path=str(tmp_path))
    assert told(done) == {}
    assert done.stderr == "wrk is not installed: what needs it is left out\n"


@pytest.mark.skipif(not brokers.has_mosquitto(), reason="mosquitto is not installed")
def test_mosquitto_carries_messages_and_is_gone():
    assert brokers.mosquitto_rate(0.02) > 0


@pytest.mark.skipif(not brokers.has_rospy(), reason="ROS is not installed")
@pytest.mark.parametrize("queue", [0, 100])
def test_rospy_carries_messages_and_is_gone(queue: int):
    assert brokers.rospy_rate(0.05, queue) > 0


def test_the_cpu_of_the_simulation_is_that_of_its_calls_each_counted_once(tmp_path: Path):
    meter = simulated.Meter(tmp_path / "sum")

    def work() -> None:
        sum(range(200_000))

    inner = meter.counted(work)
    outer = meter.counted(lambda: [inner() for _ in range(5)])
    began = time.thread_time_ns()
    outer()
    took = time.thread_time_ns() - began
    (total,) = simulated.SUM.unpack((tmp_path / "sum").read_bytes())
    assert 0 < total <= took
    work()
    assert simulated.SUM.unpack((tmp_path / "sum").read_bytes()) == (total,)


# --- bench/run


@pytest.mark.parametrize("name", ["", "nothing", "measuring", "../tests/conftest"])
def test_an_unknown_name_is_refused_with_the_list(name: str):
    done = subprocess.run([BENCH / "run", name], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    said, names = done.stderr.split(":")[1:]
    assert said == " name one of"
    assert names.split() == sorted(["all", *(script.stem for script in SCRIPTS)])
    assert {"api", "bus", "idle"} <= {*names.split()}


# --- bench/run all


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `all`, what it stands on, and no benchmark yet."""
    for name in ("all.py", "measuring.py"):
        shutil.copy(BENCH / name, tmp_path)
    (tmp_path / "note.md").write_text(f"before\n\n{every.BEGIN}\n\nold figures\n\n{every.END}\n\nafter\n")
    return tmp_path


def add(folder: Path, name: str, body: str) -> None:
    (folder / f"{name}.py").write_text(COUNTING.format(what=name, body=body))


def test_all_puts_each_table_below_what_its_benchmark_says(folder: Path):
    add(folder, "hens", "return [Row('eggs', 'pieces', options.rounds, 4.0, 0.5, '', True)]")
    add(folder, "absent", "return []")
    done = ran(folder / "all.py", "--rounds", "2", "--write", str(folder / "note.md"))
    assert done.returncode == 0, done.stderr
    absent, hens = done.stdout.split("### ")[1:]
    assert absent.split("\n\n")[:3] == [
        "absent",
        "Counts absent.",
        "Left out: what it needs is not installed.",
    ]
    assert hens.startswith("hens\n\nCounts hens.\n\n| case ")
    assert "| eggs | 2 pieces | 4 pieces | 0.50 | - | - |" in hens
    note = (folder / "note.md").read_text()
    assert note == f"before\n\n{every.BEGIN}\n\n{done.stdout.rstrip()}\n\n{every.END}\n\nafter\n"


def test_all_tells_what_was_not_met_and_fails(folder: Path):
    add(folder, "hens", "return [Row('eggs', 'pieces', 3, None, None, 'at most 2 pieces', False)]")
    done = ran(folder / "all.py", "--json")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "hens: eggs: not at most 2 pieces"
    assert json.loads(done.stdout)["rows"] == [
        {"case": "hens: eggs", "unit": "pieces", "growd": 3, "reference": None, "ratio": None,
         "target": "at most 2 pieces", "met": False, "spread": 0.0}
    ]  # fmt: skip


def test_a_benchmark_that_fails_keeps_nobody_back_but_nothing_is_written(folder: Path):
    add(folder, "broken", "raise SystemExit(3)")
    add(folder, "hens", "return [Row('eggs', 'pieces', 3, None, None, '', True)]")
    before = (folder / "note.md").read_text()
    done = ran(folder / "all.py", "--write", str(folder / "note.md"))
    assert done.returncode == 1
    assert "### broken\n\nCounts broken.\n\nIt failed in this run." in done.stdout
    assert "| eggs | 3 pieces |" in done.stdout
    assert "broken: failed" in done.stderr.splitlines()
    assert (folder / "note.md").read_text() == before


def earlier(*rows: Row) -> dict[str, every.Figures]:
    """Figures of these rows of `hens`, by way of a table."""
    return every.read_figures(f"### hens\n\nCounts hens.\n\n{measuring.table(rows)}\n")


def compared_with(now: Row, before: Row) -> list[str]:
    return every.worse([every.Result(Path("hens.py"), [now])], earlier(before))


def row(
    value: float, ratio: float | None = None, unit: str = "eggs/s", spread: float = 0.0, case: str = "a"
) -> Row:
    return Row(case, unit, value, None if ratio is None else 100, ratio, "at most 1 s", True, spread)


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        (row(50, 0.5), row(1_234, 0.8), ["hens: a: ratio 0.5, was 0.8 (-38%, noise 11%)"]),
        (row(90, 0.73), row(80, 0.8), []),
        (row(50, 0.5, spread=0.4), row(80, 0.8), []),
        (row(1, 1.2), row(1, 0.8), []),
        (row(0.6, unit="s"), row(0.5, unit="s"), ["hens: a: 0.6 s, was 0.5 (+20%, noise 10%)"]),
        (row(0.3, unit="s"), row(0.5, unit="s"), []),
        (row(12, unit="1/s"), row(10, unit="1/s"), ["hens: a: 12 1/s, was 10 (+20%, noise 10%)"]),
        (row(9, 3.0, "ms", case="fox (worst round: 9 ms)"), row(3, 1.0, "ms", case="fox (worst round: 3 ms)"),
         ["hens: fox: ratio 3, was 1 (+200%, noise 11%)"]),
        (row(8, 0.079, "bytes"), row(7, 0.0749, "bytes"), []),  # a table has 0.07
        (row(9, case="new"), row(1, case="old"), []),
    ],
)  # fmt: skip
def test_a_row_is_worse_where_it_lost_more_than_noise(now: Row, before: Row, said: list[str]):
    assert compared_with(now, before) == said


def test_the_figures_of_the_documentation_are_read():
    figures = every.read_figures((BENCH.parent / "docs" / "performance.md").read_text(encoding="utf-8"))
    assert {name.partition(":")[0] for name in figures} >= {"api", "bus", "hostile", "idle", "streams"}
    assert figures["idle: memory"].growd == pytest.approx(55, rel=0.2)


def test_all_compares_those_that_are_named_with_a_file(folder: Path):
    add(folder, "hens", "return [Row('eggs', 'pieces', options.rounds, None, None, '', True)]")
    add(folder, "broken", "raise SystemExit(3)")
    note = folder / "note.md"
    before = ran(folder / "all.py", "hens", "--rounds", "2")
    note.write_text(before.stdout)
    same = ran(folder / "all.py", "hens", "--rounds", "2", "--compare", str(note))
    assert (same.returncode, "was" in same.stderr) == (0, False)
    more = ran(folder / "all.py", "hens", "--rounds", "3", "--compare", str(note))
    assert more.returncode == 1
    assert more.stderr.splitlines()[-1] == "hens: eggs: 3 pieces, was 2 (+50%, noise 10%)"
    unknown = ran(folder / "all.py", "cows")
    assert (unknown.returncode, "there is no benchmark cows" in unknown.stderr) == (2, True)


@pytest.mark.parametrize("name", ["export", "frontdoor"])
def test_an_interrupted_benchmark_removes_its_database(name: str, tmp_path: Path):
    with frontdoor.database(tmp_path) as way:
        environment = os.environ | {"GROWD_TEST_COUCHDB": f"http://{way.host}:{way.port}"}
        running = subprocess.Popen(
            [sys.executable, BENCH / f"{name}.py", "--rounds", "1000"], env=environment
        )
        try:
            until = time.monotonic() + 60
            while not made_by_benchmarks(way) and time.monotonic() < until:
                time.sleep(0.01)
            assert made_by_benchmarks(way)
            running.terminate()
            assert running.wait(60) == 128 + signal.SIGTERM
        finally:
            running.kill()
            running.wait()
        assert made_by_benchmarks(way) == []


def made_by_benchmarks(way: frontdoor.Way) -> list[str]:
    return [name for name in export.ask(way, "GET", "/_all_dbs") if name.startswith("growd_bench_")]


@pytest.mark.parametrize(
    "text", [None, "no marks", f"{every.END} {every.BEGIN}", every.BEGIN * 2 + every.END]
)
def test_a_file_that_can_not_take_the_tables_is_refused_before_the_work(folder: Path, text: str | None):
    add(folder, "hens", "raise SystemExit('it ran')")
    if text is not None:
        (folder / "other.md").write_text(text)
    done = ran(folder / "all.py", "--write", str(folder / "other.md"))
    assert done.returncode == 2
    assert f"--write {folder / 'other.md'}: " in done.stderr
    assert "Traceback" not in done.stderr
    assert "it ran" not in done.stderr


# --- The harness


def test_pairs_are_taken_turn_by_turn_and_compared_round_by_round():
    order = []
    ours, others = iter([1.0, 10.0, 3.0]), iter([2.0, 5.0, 6.0])

    def mine() -> float:
        order.append("ours")
        return next(ours)

    def reference() -> float:
        order.append("reference")
        return next(others)

    assert measuring.pairs(mine, reference, 3) == (3.0, 5.0, 0.5, 1.5)  # ratios of 0.5, 2 and 0.5
    assert order == ["ours", "reference"] * 3


@pytest.mark.parametrize(("ratio", "met"), [(0.5, True), (0.49, False)])
def test_a_ratio_is_held_against_its_target(ratio, met):
    row = measuring.compared("case", "requests/s", (1.0, 2.0, ratio), at_least=0.5)
    assert row == Row("case", "requests/s", 1.0, 2.0, ratio, "at least 0.5 of the reference", met)


def test_a_ratio_without_a_target_is_only_told():
    assert measuring.compared("case", "s", (1.0, 2.0, 0.5)) == Row("case", "s", 1.0, 2.0, 0.5, "", met=True)


@pytest.mark.parametrize(("value", "met"), [(60.0, True), (60.1, False)])
def test_a_value_is_held_against_its_limit(value, met):
    row = measuring.limited("memory", "MB", value, 60, 30.0)
    assert row == Row("memory", "MB", value, 30.0, value / 30.0, "at most 60 MB", met)


def test_a_reference_of_nothing_has_no_ratio():
    assert measuring.limited("CPU", "%", 1.0, None, 0.0) == Row("CPU", "%", 1.0, 0.0, None, "", met=True)


def test_a_table_has_a_line_for_each_row():
    rows = [
        Row("fast", "requests/s", 12_345.6, 6_000.0, 2.0576, "at least 1 of the reference", met=True),
        Row("large", "MB", 61.234, None, None, "at most 60 MB", met=False),
        Row("told", "s", 0.001234, 0.1, 0.01234, "", met=True),
    ]
    assert measuring.table(rows).splitlines()[2:] == [
        "| fast | 12,346 requests/s | 6,000 requests/s | 2.06 | at least 1 of the reference | yes |",
        "| large | 61.2 MB | - | - | at most 60 MB | no |",
        "| told | 0.00123 s | 0.1 s | 0.01 | - | - |",
    ]


def test_a_server_serves_until_it_is_left():
    with measuring.server("bare") as bare:
        with urllib.request.urlopen(bare.url("/"), timeout=30) as answer:  # noqa: S310  our own server
            assert json.load(answer) == {"result": 1}
        assert bare.rss_mb() > 10
        assert bare.cpu_s() > 0
        folder = Path(f"/proc/{bare.pid}")
        assert folder.exists()
    assert not folder.exists()


def test_a_peak_is_seen_again_after_it_was_forgotten():
    me = Process(os.getpid(), 0)
    for _ in range(2):
        before = me.rss_mb()
        me.forget_peak()
        held = bytearray(60_000_000)
        held[::1024] = b"x" * len(held[::1024])  # what is not touched is not resident
        del held
        assert me.peak_mb() - before > 55


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_wrk_posts_what_it_is_given_and_tells_of_a_refusal():
    with measuring.server("bare") as bare:
        answered = measuring.wrk(bare.url("/"), 0.1, connections=1, script=measuring.post('{"value": N}'))
        assert answered.number > 0
        assert answered.rate > 0
        with pytest.raises(RuntimeError, match="Non-2xx"):
            measuring.wrk(bare.url("/nothing"), 0.1, connections=1)
