import re
import tomllib
from pathlib import Path

import msgspec

from growd.config import Config, load
from growd.config.lines import toml
from growd_cli.config_options import groups
from growd_cli.config_sample import reference, sample

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
GROUPS = [group for outer in groups(Config) for group in outer.all()]
SAMPLE, REFERENCE = sample(), reference()
OF_ANY_SIZE = {"seed", "below", "above"}


def test_the_sample_changes_nothing(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(SAMPLE)
    assert load(file) == Config()


def test_the_uncommented_sample_has_the_defaults(tmp_path):
    # except lists that are empty by default: their entries are examples
    lines, is_default = [], True
    for line in SAMPLE.splitlines():
        if header := re.fullmatch(r"#(\[+)([\w.]+)\]+", line):
            place = header[2].split(".")
            of_a_list = header[1] == "[["
            is_default = "NAME" not in place and (not of_a_list or place[0] in {"sensor", "light"})
        if is_default and re.match(r"#(\[|\w+ = )", line):
            lines.append(line.removeprefix("#"))
    file = tmp_path / "growd.toml"
    file.write_text("\n".join(lines))
    assert load(file) == Config()
    assert len(tomllib.loads(file.read_text())) > 10


def test_every_option_has_a_description_a_range_and_a_unit():
    for name, option in ((f"{group.header} {each.name}", each) for group in GROUPS for each in group.options):
        assert len(option.doc) > 8, f"{name} says nothing"
        assert option.doc.endswith("."), name
        assert option.words not in {"", "a table"}, name
        is_number = option.words.startswith(("a number", "a whole number"))
        if option.words.startswith("a number") and option.name.endswith(
            ("_s", "_ppm", "_lux", "_hz", "_degc")
        ):
            assert option.unit, name
        if is_number and option.name not in OF_ANY_SIZE:
            assert re.search(r"from|above|to", option.words), f"{name} has no range"
        if not option.is_required and option.default is not None:
            written = tomllib.loads(f"value = {toml(msgspec.to_builtins(option.default))}")["value"]
            assert msgspec.convert(written, option.kind) == option.default, name


def test_every_section_and_option_is_in_the_sample_and_the_reference():
    for group in GROUPS:
        assert f"#{group.header}" in SAMPLE
        assert f"### `{group.header}`" in REFERENCE
        for option in group.options:
            assert f"| `{option.name}` |" in REFERENCE
            assert re.search(rf"^# ?{option.name} =", SAMPLE, re.MULTILINE), option.name


def test_there_are_at_most_200_options():
    """Each has a grower's or operator's reason; the rest are constants beside their classes."""
    rows = re.findall(r"^\| `\w+` \|", REFERENCE, re.MULTILINE)
    assert 100 < len(rows) <= 200


def test_the_documentation_ends_with_the_reference():
    text = DOCS.read_text(encoding="utf-8")
    assert text.endswith(REFERENCE), "growd config reference > the end of docs/configuration.md"
