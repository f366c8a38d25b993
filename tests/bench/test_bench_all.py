"""`bench/run` and `bench/run all`, with small benchmarks of their own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import all as every
import measuring
import pytest
from measuring import Row

BENCH = measuring.HERE
BENCHMARK = '''"""Counts {name}."""

from measuring import Row, main


def measure(options):
    {body}


if __name__ == "__main__":
    main(measure)
'''

OLD = "### cows\n\nCounted cows."

pytestmark = pytest.mark.bench


@pytest.fixture
def folder(tmp_path):
    """A folder with `all` and the modules that it needs, without benchmarks."""
    for name in ("all.py", "measuring.py"):
        shutil.copy(BENCH / name, tmp_path)
    (tmp_path / "note.md").write_text(f"before\n\n{every.BEGIN}\n\n{OLD}\n\n{every.END}\n\nafter\n")
    return tmp_path


def add(folder, name, body):
    (folder / f"{name}.py").write_text(BENCHMARK.format(name=name, body=body))


def run_all(folder, *arguments):
    command = [sys.executable, folder / "all.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)


@pytest.mark.parametrize("name", ["", "nothing", "measuring"])
def test_an_unknown_name_is_refused_with_the_list(name):
    done = subprocess.run([BENCH / "run", name], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    names = sorted(["all", *(script.stem for script in every.scripts())])
    assert done.stderr == f"bench/run: name one of: {' '.join(names)} \n"


def test_each_table_is_printed_and_written_below_its_description(folder):
    add(folder, "hens", "return [Row('eggs', 'pieces', options.rounds, 4.0, 0.5, '', True)]")
    add(folder, "absent", "return []")
    done = run_all(folder, "--rounds", "2", "--write", str(folder / "note.md"))
    assert done.returncode == 0, done.stderr
    absent, hens = done.stdout.split("### ")[1:]
    assert absent.startswith("absent\n\nCounts absent.\n\n")
    assert hens.startswith("hens\n\nCounts hens.\n\nTaken on ")
    assert "| eggs | 2 pieces | 4 pieces | 0.50 | - | - |" in hens
    note = (folder / "note.md").read_text()
    assert note == f"before\n\n{every.BEGIN}\n\n{OLD}\n\n### {hens.rstrip()}\n\n{every.END}\n\nafter\n"


def test_a_target_that_is_not_met_is_named_and_fails_the_run(folder):
    add(folder, "hens", "return [Row('eggs', 'pieces', 3, None, None, 'at most 2 pieces', False)]")
    done = run_all(folder, "--json")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "hens: eggs: not at most 2 pieces"
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["case"], row["met"]) == ("hens: eggs", False)


def test_a_benchmark_that_fails_stops_no_other_and_keeps_its_old_table(folder):
    add(folder, "cows", "raise SystemExit(3)")
    add(folder, "hens", "return [Row('eggs', 'pieces', 3, None, None, '', True)]")
    done = run_all(folder, "--write", str(folder / "note.md"))
    assert done.returncode == 1
    assert "cows: failed" in done.stderr.splitlines()
    note = (folder / "note.md").read_text()
    assert OLD in note
    assert "| eggs | 3 pieces |" in note


@pytest.mark.parametrize("text", [None, "no marks", every.BEGIN * 2 + every.END])
def test_a_file_without_the_marks_is_refused_before_the_work(folder, text):
    add(folder, "hens", "raise SystemExit('it ran')")
    if text is not None:
        (folder / "other.md").write_text(text)
    done = run_all(folder, "--write", str(folder / "other.md"))
    assert done.returncode == 2
    assert f"--write {folder / 'other.md'}: " in done.stderr
    assert "Traceback" not in done.stderr
    assert "it ran" not in done.stderr


def test_chosen_benchmarks_are_compared_with_a_file(folder):
    add(folder, "hens", "return [Row('eggs', 'pieces', options.rounds, None, None, '', True)]")
    add(folder, "broken", "raise SystemExit(3)")
    note = folder / "note.md"
    note.write_text(run_all(folder, "hens", "--rounds", "2").stdout)
    same = run_all(folder, "hens", "--rounds", "2", "--compare", str(note))
    assert (same.returncode, "was" in same.stderr) == (0, False)
    more = run_all(folder, "hens", "--rounds", "3", "--compare", str(note))
    assert more.returncode == 1
    assert more.stderr.splitlines()[-1] == "hens: eggs: 3 pieces, was 2 (+50%, noise 10%)"
    unknown = run_all(folder, "cows")
    assert (unknown.returncode, "there is no benchmark cows" in unknown.stderr) == (2, True)


def row(value, ratio=None, unit="eggs/s", spread=0.0, case="a"):
    return Row(case, unit, value, None if ratio is None else 100, ratio, "at most 1 s", True, spread)


@pytest.mark.parametrize(
    ("now", "before", "worse"),
    [
        (row(50, 0.5), row(1_234, 0.8), ["hens: a: ratio 0.5, was 0.8 (-38%, noise 11%)"]),
        (row(90, 0.73), row(80, 0.8), []),
        (row(50, 0.5, spread=0.4), row(80, 0.8), []),
        (row(1, 1.2), row(1, 0.8), []),
        (row(0.6, unit="s"), row(0.5, unit="s"), ["hens: a: 0.6 s, was 0.5 (+20%, noise 10%)"]),
        (row(0.3, unit="s"), row(0.5, unit="s"), []),
        (row(9, 3.0, "ms", case="fox (worst round: 9 ms)"), row(3, 1.0, "ms", case="fox (worst round: 3 ms)"),
         ["hens: fox: ratio 3, was 1 (+200%, noise 11%)"]),
        (row(8, 0.079, "bytes"), row(7, 0.0749, "bytes"), []),  # a table has 0.07
        (row(9, case="new"), row(1, case="old"), []),
    ],
)  # fmt: skip
def test_a_row_is_worse_if_it_lost_more_than_noise(now, before, worse):
    earlier = every.read_figures(f"### hens\n\nCounts hens.\n\n{measuring.table([before])}\n")
    assert every.worse([every.Result(Path("hens.py"), [now])], earlier) == worse


def test_the_figures_of_the_documentation_are_read():
    figures = every.read_figures((BENCH / "RESULTS.md").read_text(encoding="utf-8"))
    assert {name.partition(":")[0] for name in figures} >= {"api", "bus", "hostile", "idle", "streams"}
