"""Modules of a page joined into two files: those of the first view, and those that are imported later.

A browser then needs few requests, and two large files are a fifth smaller than many small ones when they are
compressed. Each module becomes a function that returns its exports, and is called once, after the modules
that it imports. Libraries (`vendor/`) and texts, which are chosen by the language, stay files of their own.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_IMPORT: Final = re.compile(r'^(?:import (\{[^}]*\}|\w+)|export \*) from "([^"]+)";\n', re.MULTILINE)
_LATER: Final = re.compile(r'\bimport\((["`])([^"`]+)\1\)')
_EXPORT: Final = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_OTHER: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_HEAD: Final = """export const modules = {};
export const later = async (name) => (await import("./%s"), modules[name]);
"""


def joined(modules: Mapping[str, str], entry: str) -> dict[str, str]:
    """The files that take the place of `modules` (texts by names) for a page that begins with `entry`.

    They are called `entry`, and with ".rest.js" at the end. Raises ValueError for an import or export of
    another form than those of the page, and KeyError for a module that is not there.
    """
    known: set[str] = set()
    first = _with_imports(modules, entry, known)
    rest: list[str] = []
    wanted = _imported_later(modules, first)
    while wanted:
        more = _with_imports(modules, wanted.pop(0), known)
        rest += more
        wanted += _imported_later(modules, more)
    second = entry.removesuffix(".js") + ".rest.js"
    files = {entry: _HEAD % second + _file(modules, first)}
    if rest:
        files[second] = f'import {{ modules, later }} from "./{entry}";\n{_file(modules, rest)}'
    return files


def _with_imports(modules: Mapping[str, str], name: str, known: set[str]) -> list[str]:
    """A module after those that it imports, without the `known` ones, to which these are added."""
    if name in known or _is_library(name):
        return []
    known.add(name)
    paths = [path for _, path in _IMPORT.findall(modules[name])]
    before = [each for path in paths for each in _with_imports(modules, _resolved(name, path), known)]
    return [*before, name]


def _imported_later(modules: Mapping[str, str], names: list[str]) -> list[str]:
    found = [_resolved(name, path) for name in names for _, path in _LATER.findall(modules[name])]
    return [name for name in found if not _is_text(name)]


def _resolved(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _is_library(name: str) -> bool:
    return name.startswith("vendor/")


def _is_text(name: str) -> bool:
    return name.startswith("texts/")


def _file(modules: Mapping[str, str], names: list[str]) -> str:
    used = {_resolved(name, path) for name in names for _, path in _IMPORT.findall(modules[name])}
    libraries = sorted(filter(_is_library, used))
    return "".join(
        [f'import * as library{number} from "./{name}";\n' for number, name in enumerate(libraries)]
        + [f'modules["{name}"] = library{number};\n' for number, name in enumerate(libraries)]
        + [_function(name, modules[name]) for name in names]
    )


def _function(name: str, text: str) -> str:
    """A module as a call of a function, which may wait for something."""
    exports = _EXPORT.findall(text)

    def bound(found: re.Match[str]) -> str:
        module = f'modules["{_resolved(name, found[2])}"]'
        if not found[1]:
            exports.append(f"...{module}")
            return ""
        names = found[1].replace(" as ", ": ") if found[1].startswith("{") else f"{{ default: {found[1]} }}"
        return f"const {names} = {module};\n"

    def asked(found: re.Match[str]) -> str:
        path = _resolved(name, found[2])
        return f"import(`./{path}`)" if _is_text(path) else f'later("{path}")'

    body = _LATER.sub(asked, _EXPORT.sub("", _IMPORT.sub(bound, text)))
    if other := _OTHER.search(body):
        raise ValueError(f"{name}: growd does not join modules with {other[0]!r}")
    return f'modules["{name}"] = await (async () => {{\n{body}return {{ {", ".join(exports)} }};\n}})();\n'
