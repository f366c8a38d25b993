"""The sample configuration and the reference of all options, generated from their declarations."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import msgspec

from growd.config.lines import toml
from growd.config.root import ChamberOptions, Config
from growd_cli.config_options import Option, example, groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd_cli.config_options import Group

_WIDTH = 100
_HEAD = """\
# Configuration of growd, in TOML. Every option is listed with its default. To change one, remove the # before
# it and before the header of its section. `growd check --config FILE` checks the file.
#
# Environment variables override the file, such as GROWD_HTTP__PORT=8080 for [http] port, and
# `--set http.port=8080` overrides both. A file with a secret may be a systemd credential: give its bare name.
#
# A further environment has the sections of devices and control below its id: [[chamber.shelf_2.sensor]],
# [chamber.shelf_2.light], [chamber.shelf_2.interlock] and so on.
"""


def sample() -> str:
    """A configuration in TOML in which every option is a comment with its default. Blocking."""
    return "\n".join([_HEAD, *(line for group in _all() for line in _sampled(group))])


def reference() -> str:
    """All sections and options as Markdown. Blocking."""
    return "\n".join(line for group in _all() for line in _described(group))


def _all() -> Iterator[Group]:
    """The sections of the daemon, then those of an environment."""
    of_a_chamber = {field.name for field in msgspec.structs.fields(ChamberOptions)}
    for group in sorted(groups(Config), key=lambda group: _section(group.header) in of_a_chamber):
        yield from group.all()


def _section(header: str) -> str:
    """The name of the outermost section of a header."""
    return header.strip("[]").partition(".")[0]


def _sampled(group: Group) -> Iterator[str]:
    yield from _comment(group.doc)
    if group.header.startswith("[["):
        yield "# Repeatable" + ("." if group.entries else "; default: none.")
    for entry in group.entries or (None,):
        yield f"#{group.header}"
        for option in group.options:
            yield from _sampled_option(option, entry, is_first=entry in (None, *group.entries[:1]))
        yield ""


def _sampled_option(option: Option, entry: Any, *, is_first: bool) -> Iterator[str]:
    if is_first:
        yield from _comment(f"{option.doc} {_kind(option)}")
    value = getattr(entry, option.name) if entry is not None else option.default
    if option.is_required and entry is None:
        value = example(option)
    if value is not None and (is_first or value != option.default):
        yield f"#{option.name} = {toml(value)}"
    elif is_first:
        yield f"# {option.name} ="


def _kind(option: Option) -> str:
    unit = f", in {option.unit}" if option.unit else ""
    end = "must be given" if option.is_required else "not set by default" if option.default is None else ""
    return f"({option.words}{unit}{'; ' if end else ''}{end})"


def _comment(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from (f"# {line}" for line in textwrap.wrap(" ".join(paragraph.split()), _WIDTH))


def _described(group: Group) -> Iterator[str]:
    yield f"### `{group.header}`"
    yield ""
    yield from (" ".join(paragraph.split()) + "\n" for paragraph in group.doc.split("\n\n"))
    if not group.options:
        return
    yield "| option | value | default | |"
    yield "|---|---|---|---|"
    for option in group.options:
        unit = f" ({option.unit})" if option.unit else ""
        default = "must be given" if option.is_required else "" if option.default is None else _code(option)
        yield f"| `{option.name}` | {_cell(_in_table(option))}{unit} | {default} | {_cell(option.doc)} |"
    yield ""


def _in_table(option: Option) -> str:
    """Its type and range. docs/configuration.md says above the tables what a name may have."""
    words = option.words.removeprefix("a ").replace("name of letters, digits, _, . and -", "name")
    return words.replace("number from", "number")


def _code(option: Option) -> str:
    value = msgspec.to_builtins(option.default)
    return f"`{_cell(toml(value))}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
