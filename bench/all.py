"""Every benchmark of this folder, one after the other, and their tables as one Markdown document.

Each table stands below what its benchmark says of itself. `--write docs/performance.md` puts the tables
between that file's two marks and leaves the rest of it alone. The exit status is 1 if a benchmark failed
or a target was not met; standard error says which.
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

from measuring import HERE, Row, machine, table

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
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"{script.stem} failed with status {done.returncode}", file=sys.stderr)
        return Result(script, None)
    print(f"{script.stem} took {time.monotonic() - began:.0f} s", file=sys.stderr)
    return Result(script, [Row(**row) for row in json.loads(done.stdout)["rows"]])


def problems(results: list[Result]) -> list[str]:
    """A line for each benchmark that failed and each target that was not met."""
    failed = [f"{result.name}: failed" for result in results if result.rows is None]
    return failed + [
        f"{result.name}: {row.case}: not {row.target}"
        for result in results
        for row in result.rows or ()
        if not row.met
    ]


def document(results: list[Result]) -> str:
    """All tables, each below its benchmark's docstring."""
    parts = [f"Taken on {time.strftime('%Y-%m-%d')} on {machine()}."]
    for result in results:
        parts += [f"### {result.name}", _about(result.script), _table(result.rows)]
    return "\n\n".join(parts) + "\n"


def as_json(results: list[Result]) -> str:
    rows = [
        asdict(row) | {"case": f"{result.name}: {row.case}"}
        for result in results
        for row in result.rows or ()
    ]
    return json.dumps({"machine": machine(), "rows": rows})


def put(figures: str, text: str) -> str:
    """`text` with `figures` between its two marks; `ValueError` if it does not have them, once each."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end or BEGIN in rest or END in before + after:
        raise ValueError(f"it needs one line {BEGIN} and, below it, one line {END}")
    return f"{before}{BEGIN}\n\n{figures}\n{END}{after}"


def main() -> None:
    arguments = _arguments()
    options = [
        f"--{name}={value}"
        for name in ("rounds", "seconds")
        if (value := getattr(arguments, name)) is not None
    ]
    results = [run(script, options) for script in scripts()]
    print(as_json(results) if arguments.json else document(results))
    if arguments.write:
        _write(results, arguments.write)
    found = problems(results)
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, help="pairs to take, in place of each benchmark's own number")
    parser.add_argument("--seconds", type=float, help="how long each takes, in place of each one's own")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this file as well")
    arguments = parser.parse_args()
    if arguments.write:
        try:
            put("", arguments.write.read_text(encoding="utf-8"))  # now, and not after half an hour
        except (OSError, ValueError) as error:
            parser.error(f"--write {arguments.write}: {error}")
    return arguments


def _write(results: list[Result], file: Path) -> None:
    if any(result.rows is None for result in results):
        print(f"{file} stays as it was: not every benchmark ended", file=sys.stderr)
        return
    file.write_text(put(document(results), file.read_text(encoding="utf-8")), encoding="utf-8")


def _about(script: Path) -> str:
    return ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""


def _table(rows: list[Row] | None) -> str:
    if rows is None:
        return "It failed in this run."
    return table(rows) if rows else "Left out: what it needs is not installed."


if __name__ == "__main__":
    main()
