"""Run all benchmarks of this folder, or the named ones, and print their tables as one Markdown document.

`--write bench/RESULTS.md` replaces the tables of the benchmarks that ended, between the two marks of that
file. Other tables stay. `--compare` with this file prints a line for each row that became worse by more than
noise: a tenth, or the spread of the rounds if that is larger. It compares ratios, or values if a row has no
ratio, which needs the same machine. The exit status is 1 if a benchmark failed, a target was not met or a row
became worse; standard error says which.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from measuring import HERE, Row, end_at_signals, figure, machine, table

NOISE = 0.1  # as a share of the earlier figure
HALF_DIGIT = 0.005  # to which a table rounds a ratio
# what a case tells of one run, as in "p99: 500 heads (worst round: 54 ms)" and "delivered, 0 lost"
OF_ONE_RUN = re.compile(r" \(worst round: [^)]*\)|, [\d,]+ lost")
LINE = re.compile(r"^\| (?P<case>.+?) \| (?P<growd>[\d.,]+) \S.*? \| .+? \| (?P<ratio>[\d.]+|-) \| .+ \|$")
BEGIN = "<!-- figures: written by bench/run all -->"
END = "<!-- end of figures -->"


@dataclass(frozen=True)
class Result:
    """What one benchmark measured: no rows if what it needs is not installed, None if it failed."""

    script: Path
    rows: list[Row] | None

    @property
    def name(self) -> str:
        return self.script.stem


def scripts(folder: Path = HERE) -> list[Path]:
    """The benchmarks: the scripts that end with a call of `measuring.main`."""
    own = re.compile(r"^    main\(measure\b", re.MULTILINE)
    return sorted(file for file in folder.glob("*.py") if own.search(file.read_text(encoding="utf-8")))


def run(script: Path, options: list[str]) -> Result:
    print(f"{script.stem} ...", file=sys.stderr)
    began = time.monotonic()
    command = [sys.executable, str(script), "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said, _ = process.communicate()
        except BaseException:
            process.terminate()  # and wait, as it removes what it made
            raise
    if process.returncode:
        print(f"{script.stem} failed with status {process.returncode}", file=sys.stderr)
        return Result(script, None)
    print(f"{script.stem} took {time.monotonic() - began:.0f} s", file=sys.stderr)
    return Result(script, [Row(**row) for row in json.loads(said)["rows"]])


def problems(results: list[Result]) -> list[str]:
    """A line for each benchmark that failed and each target that was not met."""
    failed = [f"{result.name}: failed" for result in results if result.rows is None]
    return failed + [
        f"{result.name}: {row.case}: not {row.target}"
        for result in results
        for row in result.rows or ()
        if not row.met
    ]


@dataclass(frozen=True)
class Figures:
    """What a row of an earlier run says: growd's value, and the ratio where there is one."""

    growd: float
    ratio: float | None


def read_figures(text: str) -> dict[str, Figures]:
    """The rows of all tables in `text`, by benchmark and case: "api: GET a parameter"."""
    found, name = {}, ""
    for line in text.splitlines():
        if line.startswith("### "):
            name = line.removeprefix("### ")
        elif row := LINE.match(line):
            ratio = None if row["ratio"] == "-" else float(row["ratio"])
            found[_key(name, row["case"])] = Figures(float(row["growd"].replace(",", "")), ratio)
    return found


def worse(results: list[Result], before: dict[str, Figures]) -> list[str]:
    """A line for each row that is worse than before by more than noise."""
    lines = []
    for result in results:
        for row in result.rows or ():
            key = _key(result.name, row.case)
            if key in before and (line := _loss(row, before[key])):
                lines.append(f"{key}: {line}")
    return lines


def _key(name: str, case: str) -> str:
    return f"{name}: {OF_ONE_RUN.sub('', case)}"


def _loss(row: Row, before: Figures) -> str:
    """How much worse a row is than before, "" if that is no more than noise."""
    by_ratio = row.ratio is not None and before.ratio is not None
    now, then = (row.ratio, before.ratio) if by_ratio else (row.growd, before.growd)
    assert now is not None and then is not None  # noqa: S101, PT018  as asked above
    is_rate = row.unit.endswith("/s") and row.unit != "1/s"
    change = (now - then) / then if then else float(now > then)
    noise = max(NOISE, row.spread) + (HALF_DIGIT / then if by_ratio and then else 0.0)
    if (-change if is_rate else change) <= noise:
        return ""
    what = "ratio " if by_ratio else ""
    unit = "" if by_ratio else f" {row.unit}"
    return f"{what}{figure(now)}{unit}, was {figure(then)} ({change:+.0%}, noise {noise:.0%})"


def document(results: list[Result]) -> str:
    """All tables, each below its benchmark's docstring."""
    return "\n\n".join(map(_section, results)) + "\n"


def _section(result: Result) -> str:
    taken = f"Taken on {time.strftime('%Y-%m-%d')} on {machine()}."
    return "\n\n".join([f"### {result.name}", _about(result.script), taken, _table(result.rows)])


def as_json(results: list[Result]) -> str:
    rows = [
        asdict(row) | {"case": f"{result.name}: {row.case}"}
        for result in results
        for row in result.rows or ()
    ]
    return json.dumps({"machine": machine(), "rows": rows})


def put(figures: str, text: str) -> str:
    """`text` with the tables of `figures` between its two marks, beside those of other benchmarks.

    Raises `ValueError` if it does not have the marks, once each.
    """
    before, _, rest = text.partition(BEGIN)
    between, end, after = rest.partition(END)
    if not end or BEGIN in rest or END in before + after:
        raise ValueError(f"it needs one line {BEGIN} and, below it, one line {END}")
    sections = {
        each.partition("\n")[0]: each.strip()
        for part in (between, figures)
        for each in f"\n{part}".split("\n### ")[1:]
    }
    tables = "".join(f"### {sections[name]}\n\n" for name in sorted(sections))
    return f"{before}{BEGIN}\n\n{tables}{END}{after}"


def main() -> None:
    arguments = _arguments()
    end_at_signals()
    options = [
        f"--{name}={value}"
        for name in ("rounds", "seconds")
        if (value := getattr(arguments, name)) is not None
    ]
    before = read_figures(arguments.compare.read_text(encoding="utf-8")) if arguments.compare else {}
    results = [run(script, options) for script in arguments.scripts]
    print(as_json(results) if arguments.json else document(results))
    if arguments.write:
        _write(results, arguments.write)
    found = [*problems(results), *worse(results, before)]
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run, in place of all")
    parser.add_argument("--rounds", type=int, help="pairs to take, in place of each benchmark's own number")
    parser.add_argument("--seconds", type=float, help="how long each takes, in place of each one's own")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this file as well")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="say what is worse than in this file")
    arguments = parser.parse_args()
    known = {script.stem: script for script in scripts()}
    for name in arguments.names:
        if name not in known:
            parser.error(f"there is no benchmark {name}; there are {', '.join(known)}")
    arguments.scripts = [known[name] for name in arguments.names] or [*known.values()]
    if arguments.compare:
        try:
            arguments.compare.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            parser.error(f"--compare {arguments.compare}: {error}")
    if arguments.write:
        try:
            put("", arguments.write.read_text(encoding="utf-8"))  # now, and not after half an hour
        except (OSError, ValueError) as error:
            parser.error(f"--write {arguments.write}: {error}")
    return arguments


def _write(results: list[Result], file: Path) -> None:
    ended = document([result for result in results if result.rows])
    file.write_text(put(ended, file.read_text(encoding="utf-8")), encoding="utf-8")


def _about(script: Path) -> str:
    return ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""


def _table(rows: list[Row] | None) -> str:
    if rows is None:
        return "It failed in this run."
    return table(rows) if rows else "Left out: what it needs is not installed."


if __name__ == "__main__":
    main()
