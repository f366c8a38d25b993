"""Changes of options in the text of a configuration, which keep everything else, comments too."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from growd.config.findings import ConfigError
from growd.config.lines import lines_of, toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd.config.findings import OptionPath

_HEADER: Final = re.compile(r"""\s*\[\[?[\w\s."'-]+\]\]?\s*(#.*)?$""")
_VOID: Final = re.compile(r"\s*(#.*)?$")
_TABLE: Final = re.compile(r"\s*\[")
_VALUE: Final = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^#\n])*?"""


def with_texts(text: str, section: str, options: Mapping[str, str]) -> str:
    """The configuration with these texts as options of `[section]`, which is added if it is missing.

    Raises `ConfigError` for text that is not TOML, or in which the options are written in another way.
    """
    tree = _read(text)
    expected = tree | {section: {**tree.get(section, {}), **options}}
    return _sound(_edited(text, section, _written(options)), expected, f"[{section}]", options)


def with_entry(text: str, path: OptionPath, name: str, options: Mapping[str, Any] | None) -> str:
    """The configuration with an entry of the list at `path`, such as [[sensor]], added, changed or removed.

    `name` is that of the entry, "" for a new one; `options` are set in it, and None removes it. Raises
    `ConfigError` as `with_texts` does, and if there is no such entry.
    """
    tree = _read(text)
    section = f"[[{'.'.join(map(str, path))}]]"
    place, key = tree, str(path[-1])
    for part in map(str, path[:-1]):
        place = place.setdefault(part, {})
    entries = place[key] = list(place.get(key, []))
    lines = f"{text.rstrip()}\n".splitlines(keepends=True) if text.strip() else []
    if not name:
        changed = _with_another(lines, text, path, len(entries), options or {})
        entries.append(dict(options or {}))
    else:
        number = next((at for at, each in enumerate(entries) if each.get("name") == name), None)
        if number is None:
            raise ConfigError(f"{section}: the file has no entry named {name!r}")
        start, end = _span(lines, lines_of(text)[*path, number])
        if options is not None:
            changed = [*lines[:start], *_with_options(lines[start:end], _written(options)), *lines[end:]]
            entries[number] |= options
        else:
            changed = [*lines[:start], *lines[end + (lines[end : end + 1] == ["\n"]) :]]
            del entries[number]
            if not entries and path == ("sensor",):  # without the list there would be the usual sensors
                first = next((at for at, each in enumerate(changed) if each[0] != "#"), len(changed))
                changed.insert(first, "sensor = []\n")
            elif not entries:
                del place[key]
    return _sound("".join(changed), tree, section, options or {})


def _with_another(
    lines: list[str], text: str, path: OptionPath, count: int, options: Mapping[str, Any]
) -> list[str]:
    """The lines with one more entry, behind the others or at the end."""
    known = lines_of(text)
    end = _span(lines, known[*path, count - 1])[1] if count else len(lines)
    new = [f"{option} = {value}\n" for option, value in _written(options).items()]
    gap = ["\n"] if lines else []
    changed = [*lines[:end], *gap, f"[[{'.'.join(map(str, path))}]]\n", *new, *lines[end:]]
    if not count and path in known:  # an empty list
        del changed[known[path] - 1]
    return changed


def _span(lines: list[str], header: int) -> tuple[int, int]:
    """The lines of an entry whose header has this number, without the comments of what follows."""
    end = next((at for at in range(header, len(lines)) if _HEADER.match(lines[at])), len(lines))
    while _VOID.match(lines[end - 1]):
        end -= 1
    return header - 1, end


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"the configuration is not TOML: {error}") from None


def _written(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: f"{value:#04x}" if name == "address" else toml(value) for name, value in options.items()}


def _sound(changed: str, expected: Mapping[str, Any], section: str, options: Mapping[str, Any]) -> str:
    """The changed text, if it says what is expected."""
    try:
        is_sound = tomllib.loads(changed) == expected
    except ValueError:
        is_sound = False
    if not is_sound:
        wanted = "\n".join(f"  {name} = {value}" for name, value in _written(options).items())
        raise ConfigError(
            f"{section} is written in a way that growd does not change; set there by hand:\n{wanted}"
        )
    return changed


def _edited(text: str, section: str, options: Mapping[str, str]) -> str:
    lines = text.splitlines(keepends=True)
    header = re.compile(rf"\s*\[\s*{re.escape(section)}\s*\]\s*(#.*)?$")
    start = next((at for at, line in enumerate(lines) if header.match(line)), None)
    if start is None:
        gap = "" if not text or text.endswith("\n") else "\n"
        new = "".join(f"{name} = {value}\n" for name, value in options.items())
        return f"{text}{gap}\n[{section}]\n{new}"
    end = next((at for at in range(start + 1, len(lines)) if _TABLE.match(lines[at])), len(lines))
    if not lines[start].endswith("\n"):
        lines[start] += "\n"
    return "".join([*lines[:start], *_with_options(lines[start:end], options), *lines[end:]])


def _with_options(lines: list[str], options: Mapping[str, str]) -> list[str]:
    """The lines of a table, the header first, with these options."""
    body = "".join(lines[1:])
    missing = []
    for name, value in options.items():
        present = re.compile(rf"^(\s*{name}\s*=\s*){_VALUE}(\s*(?:#.*)?)$", re.MULTILINE)
        if found := present.search(body):
            body = f"{body[: found.start()]}{found[1]}{value}{found[2]}{body[found.end() :]}"
        else:
            missing.append(f"{name} = {value}\n")
    return [lines[0], *missing, body]
