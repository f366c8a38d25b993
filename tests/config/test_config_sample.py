from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from growd.config import Config, load
from growd.config.options import groups
from growd.config.sample import reference, sample, toml

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
GROUPS = [group for outer in groups(Config) for group in outer.all()]
SAMPLE, REFERENCE = sample(), reference()
OF_ANY_SIZE = {"seed", "below", "above"}
OPTIONS = [(group, option) for group in GROUPS for option in group.options]


def test_the_sample_is_a_configuration_that_changes_nothing(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text(SAMPLE)
    assert load(file) == Config()


def test_without_its_comment_signs_the_sample_says_what_the_defaults_are(tmp_path: Path):
    # but for what is there several times and by default not at all, whose entries are examples
    lines, is_kept = [], True
    for line in SAMPLE.splitlines():
        if header := re.fullmatch(r"#(\[+)([\w.]+)\]+", line):
            place = header[2].split(".")
            of_a_list = header[1] == "[["
            is_kept = "NAME" not in place and (not of_a_list or place[0] in {"sensor", "light"})
        if is_kept and re.match(r"#(\[|\w+ = )", line):
            lines.append(line.removeprefix("#"))
    file = tmp_path / "growd.toml"
    file.write_text("\n".join(lines))
    assert load(file) == Config()
    assert len(tomllib.loads(file.read_text())) > 10


@pytest.mark.parametrize(("group", "option"), OPTIONS, ids=[f"{g.header}{o.name}" for g, o in OPTIONS])
def test_every_option_says_what_it_is_and_what_it_does(group, option):
    assert len(option.doc) > 8, f"{group.header} {option.name} says nothing"
    assert option.doc.endswith(".")
    assert option.words not in {"", "a table"}
    if option.words.startswith("a number") and option.name.endswith(("_s", "_ppm", "_lux", "_hz", "_degc")):
        assert option.unit
    if option.words.startswith(("a number", "a whole number")) and option.name not in OF_ANY_SIZE:
        assert re.search(r"from|above|to", option.words), f"{option.name} has no range"
    if not option.is_required and option.default is not None:
        written = tomllib.loads(f"value = {toml(msgspec.to_builtins(option.default))}")["value"]
        assert msgspec.convert(written, option.kind) == option.default


@pytest.mark.parametrize("group", GROUPS, ids=[group.header for group in GROUPS])
def test_every_section_and_option_stands_in_the_sample_and_in_the_reference(group):
    assert f"#{group.header}" in SAMPLE
    assert f"### `{group.header}`" in REFERENCE
    for option in group.options:
        assert f"| `{option.name}` |" in REFERENCE
        assert option.default is None or f"#{option.name} = " in SAMPLE


def test_the_documentation_has_the_reference_as_it_is():
    told = DOCS.read_text(encoding="utf-8")
    assert told.endswith(REFERENCE), "growd config reference > the end of docs/configuration.md"
