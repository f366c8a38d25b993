"""The documentation: its links, its index, and the parts that must agree with the program."""

import contextlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import click
import pytest

from growd.api.operations import OPERATIONS
from growd.config import chambers_of, load
from growd.config.profiles import profile_path
from growd.device_kinds import SENSOR_KINDS
from growd.recipes.interpreter import FORMATS
from growd.variables import VARIABLES
from growd_cli.main import COMMANDS
from growd_cli.main import main as growd
from growd_hwsim.chip import SENSORS
from growd_hwsim.fault_files import load_faults
from growd_hwsim.fault_kinds import KINDS
from support.checkout import ROOT
from support.program import PATIENCE_S

DOCS = ROOT / "docs"
PAGES = sorted(
    chain(
        ROOT.glob("*.md"), DOCS.glob("*.md"), *(ROOT.glob(f"couchdb/{each}README.md") for each in ("", "*/"))
    )
)


def _prose(page):
    """The text of a page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def _anchors(page):
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _broken(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            yield target


def test_every_relative_link_points_to_a_file_and_a_heading():
    assert {page.name: broken for page in PAGES if (broken := [*_broken(page)])} == {}


def test_the_index_lists_every_page():
    linked = set(re.findall(r"\]\(([\w.-]+\.md)", (DOCS / "README.md").read_text(encoding="utf-8")))
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} == linked


def test_every_example_of_a_configuration_is_valid(tmp_path):
    file = tmp_path / "growd.toml"
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for example in re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        file.write_text(example, encoding="utf-8")
        if "[[fault]]" in example:
            load_faults(file)
        else:
            load(file)


def test_what_the_pages_measure_by_hand_is_open_in_the_chamber_of_run():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    posted = set(re.findall(r"curl [^\n]*-d [^\n]*/topic/environment_1/measured/(\w+)", text))
    (chamber,) = chambers_of(load(profile_path("climate")))
    assert posted
    assert not posted & set(chamber.known)


def test_every_command_in_the_documentation_exists():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page.name != "CHANGELOG.md")
    blocks = "".join(re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    command = r"growd (?!is )([a-z][a-z-]*)(?: ([a-z]+))?(?![,:])"
    used = {
        *re.findall(rf"`{command}", text),
        *re.findall(rf"^(?:\$ )?(?:\S+bin/)?{command}", blocks, re.MULTILINE),
    }
    assert [names for names in used if not _exists(names)] == []
    assert len(used) > 30


def _exists(names):
    command = growd.get_command(click.Context(growd), names[0])
    if isinstance(command, click.Group) and names[1]:
        command = command.get_command(click.Context(command), names[1])
    return command is not None


def _commands(page):
    """The words of each command in the blocks of a page, without `sudo` and settings of the environment."""
    blocks = "".join(
        re.findall(r"^ *```\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    )
    for line in blocks.replace("\\\n", " ").splitlines():
        with contextlib.suppress(ValueError):  # a line of output
            words = shlex.split(line.strip().removeprefix("$ "), comments=True)
            while words and (words[0] == "sudo" or re.match(r"[A-Z_]+=", words[0])):
                words = words[1:]
            yield words


def test_every_documented_command_has_its_program_and_its_options():
    missing = [
        f"{page.name}: {' '.join(words)}"
        for page in PAGES
        for words in _commands(page)
        if words and list(_faults(words))
    ]
    assert missing == []


def _faults(words):
    """What is missing of a command: files of the checkout, packages that a script of it needs, options."""
    first = words[0]
    own = [word for word in words[:2] if re.match(r"(\./|tools/|bench/)[\w./-]+$", word)]
    yield from (word for word in own if not (ROOT / word).exists())
    if own == [first] and (ROOT / first).exists():
        text = (ROOT / first).read_text(encoding="utf-8")
        if not os.access(ROOT / first, os.X_OK) or ("python" in text[:40] and _needs_packages(text)):
            yield f"{first} needs .venv/bin/python in front of it"
    if Path(first).name == "growd":
        yield from _unknown_options(growd, words[1:])
    if first == "./run":
        yield from _unknown_options(growd, ["run", *words[1:]])


def _needs_packages(text):
    """Whether a Python program imports growd, or other packages, without a path of its own."""
    return bool(re.search(r"^(from|import) (growd|packaging|playwright)\b", text, re.MULTILINE)) and (
        'str(ROOT / "daemon")' not in text
    )


def _unknown_options(command, words):
    """The options among `words`, the arguments of a command of growd, that it does not have."""
    known = {"--help", "-h", "--version"}
    while isinstance(command, click.Group):
        known |= {name for each in command.params for name in each.opts}
        inner = next((word for word in words if command.get_command(click.Context(command), word)), None)
        if inner is None:
            break
        found = command.get_command(click.Context(command), inner)
        assert found is not None
        command = found
    known |= {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    end = words.index("|") if "|" in words else len(words)
    yield from (word for word in words[:end] if re.match("--[a-z]", word) and word.split("=")[0] not in known)


@pytest.mark.long
def test_growd_is_installed_as_the_page_about_the_raspberry_pi_says(tmp_path):
    """The commands as they are, with this checkout as the address; apt and root are left out."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this is no clone")
    section = (DOCS / "raspberry-pi.md").read_text(encoding="utf-8").partition("**3. Install.**")[2]
    _, clone, install = section.partition("```\n")[2].partition("```")[0].splitlines()
    commands = [clone.replace("ADDRESS", f"file://{ROOT}"), f"{install.removeprefix('sudo ')} --dry-run"]
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "would make /opt/growd/versions/" in done.stdout


def test_every_named_module_exists():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    folders = [
        ROOT,
        ROOT / "daemon" / "growd",
        *ROOT.glob("*/growd_*"),
        *(each.parent for each in ROOT.glob("*/growd_*")),
    ]
    missing = [
        name for name in named if "aht20" not in name and not any((each / name).exists() for each in folders)
    ]
    assert missing == []


def test_the_readme_fits_on_one_page():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def test_the_messages_that_troubleshooting_quotes_exist():
    rows = re.findall(
        r"^\| `([^`]+)`", (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    parts = {part.strip(" :") for row in rows for part in row.split("...")} - {""}
    sources = chain(*(ROOT.glob(each) for each in ("*/growd*/**/*.py", "couchdb/embedded/*.mjs")))
    text = "".join(file.read_text(encoding="utf-8") for file in sources)
    assert [part for part in sorted(parts) if part not in text] == []
    assert len(parts) > 10


def test_the_table_of_variables_agrees_with_the_program():
    page = (DOCS / "variables.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (\S+) to (\S+) \|", page, re.MULTILINE)
    assert rows == [(v.name, v.unit, f"{v.minimum:g}", f"{v.maximum:g}") for v in VARIABLES.values()]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("faults.md", KINDS),
        ("faults.md", [f"`{name}`" for name in SENSORS]),
        ("wiring.md", [kind.part for kind in SENSOR_KINDS.values()]),
        ("recipes.md", FORMATS),
        ("terminal.md", [f"growd {name}" for name in COMMANDS]),
        ("clients.md", [f" {each.resource}" for each in OPERATIONS]),
    ],
    ids=["faults", "places of faults", "sensors", "recipe formats", "commands", "calls"],
)
def test_every_kind_is_documented(page, names):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [name for name in names if name not in text] == []


def test_a_day_is_drawn_from_an_export(tmp_path):
    export, picture = tmp_path / "points.csv", tmp_path / "day.svg"
    rows = [
        "time,environment,category,variable,value,unit,is_manual",
        "2026-11-22T06:00:00.000Z,environment_1,desired,air_carbon_dioxide,900,ppm,false",
        "2026-11-22T06:00:02.000Z,environment_1,quality,air_carbon_dioxide,warm-up,,",
        "2026-11-22T06:00:05.000Z,environment_1,measured,air_carbon_dioxide,420,ppm,false",
        "2026-11-22T07:00:00.000Z,environment_1,desired,air_carbon_dioxide,,ppm,false",
    ]
    export.write_text("\n".join(rows), encoding="utf-8")
    command = [sys.executable, ROOT / "tools" / "plot_day.py", export, "-o", picture, "--date", "2026-11-22"]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    assert "CO₂ (ppm)" in picture.read_text(encoding="utf-8")
    assert "time (UTC)" in picture.read_text(encoding="utf-8")


LONG = (
    b"time,environment,category,variable,value\n"
    b"2026-11-22T06:00:05.000Z,environment_1,measured,air_humidity,60\n"
)


@pytest.fixture(scope="module")
def plot_day():
    return importlib.import_module("plot_day")  # which takes a while


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (None, (), "points.csv: No such file or directory"),
        (b"time,air_humidity\n2026-11-22T06:00:05.000Z,60\n", (), "db export --category all"),
        (b"PAR1\x15\xff\xfe", (), "db export --category all"),
        (LONG, ("--environment", "shelf_2"), "environments in it: environment_1 (--environment)"),
        (LONG, ("--date", "2026-11-23"), "its days are 2026-11-22 to 2026-11-22 (UTC)"),
        (LONG, ("--date", "bla"), "expected a date such as 2026-11-22, got 'bla'"),
        (LONG, ("-o", "missing/day.svg"), "missing/day.svg: No such file or directory"),
    ],
    ids=["missing", "wide", "Parquet", "environment", "day", "date", "output"],
)
def test_a_day_that_cannot_be_drawn_is_refused_with_the_remedy(
    tmp_path, plot_day, monkeypatch, capsys, *, content, arguments, message
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["plot_day.py", "points.csv", "-o", "day.svg", *arguments])
    if content is not None:
        Path("points.csv").write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        plot_day.main()
    assert message in f"{ended.value} {capsys.readouterr().err}"
    assert not Path("day.svg").exists()


def test_the_files_to_read_in_a_day_are_as_many_as_the_page_says():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    part = text.partition("## To read in a day\n")[2].partition("\n## ")[0]
    files = [DOCS / target for target in re.findall(r"\]\(([^)]+\.py)\)", part)]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    said = re.search(r"(\d+) files, ([\d ]+) lines", part)
    assert int(said[1]) == len(files)
    assert abs(int(said[2].replace(" ", "")) - lines) < 200
    assert lines <= 9_000
