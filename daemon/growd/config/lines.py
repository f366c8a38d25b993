"""What `tomllib` does not do: the line of each key in a TOML file, and values as text."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from growd.config.findings import OptionPath

_TOKEN: Final = re.compile(
    r"""(?P<void>\#[^\n]*|[ \t\r]+|\ufeff)
      | (?P<string>\"{3}(?:\\.|[^\\])*?\"{3,5} | '{3}.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
      | (?P<mark>[\[\]{},=.\n])
      | (?P<bare>[^\s\[\]{},=."'\#]+)""",
    re.VERBOSE | re.DOTALL,
)
"""https://toml.io/en/v1.0.0"""


def lines_of(text: str) -> dict[OptionPath, int]:
    """The line of each table, key and list entry. `text` has to be valid TOML."""
    return _LineReader(text).read()


def toml(value: Any) -> str:
    """A value in TOML: text, number, boolean, list or inline table."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {toml(each)}' for name, each in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


class _LineReader:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, int]] = []
        line = 1
        for match in _TOKEN.finditer(text):
            if match.lastgroup != "void":
                self._tokens.append((match[0], line))
            line += match[0].count("\n")
        self._tokens.append(("", line))
        self._at = 0
        self._lines: dict[OptionPath, int] = {}
        self._entries: dict[OptionPath, int] = {}  # entries of a list of tables so far

    def read(self) -> dict[OptionPath, int]:
        table: OptionPath = ()
        while self._next:
            if self._next == "\n":
                self._take()
            elif self._next == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    @property
    def _next(self) -> str:
        return self._tokens[self._at][0]

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _note(self, path: OptionPath, line: int | None = None) -> None:
        """Keep the first line: inner tables name their outer table again."""
        for end in range(1, len(path) + 1):
            self._lines.setdefault(path[:end], self._tokens[self._at][1] if line is None else line)

    def _header(self) -> OptionPath:
        line = self._tokens[self._at][1]
        self._take()
        is_list = self._next == "["
        if is_list:
            self._take()
        path: OptionPath = ()
        keys = self._key()
        for number, key in enumerate(keys, start=1):
            path = (*path, key)
            if is_list and number == len(keys):
                self._note(path, line)
                self._entries[path] = self._entries.get(path, -1) + 1
            if path in self._entries:
                path = (*path, self._entries[path])
        for _ in range(1 + is_list):
            self._take()
        self._note(path, line)
        return path

    def _key(self) -> list[str]:
        keys = [self._word()]
        while self._next == ".":
            self._take()
            keys.append(self._word())
        return keys

    def _word(self) -> str:
        word = self._take()
        return str(tomllib.loads(f"k = {word}")["k"]) if word[:1] in {'"', "'"} else word

    def _pair(self, table: OptionPath) -> None:
        line = self._tokens[self._at][1]
        path = (*table, *self._key())
        self._note(path, line)
        self._take()
        self._value(path)

    def _value(self, path: OptionPath) -> None:
        if self._next not in {"[", "{"}:
            while self._next not in {",", "]", "}", "\n", ""}:
                self._take()
            return
        is_list = self._take() == "["
        number = 0
        while self._next not in {"]", "}", ""}:
            if self._next in {",", "\n"}:
                self._take()
            elif is_list:
                self._note((*path, number))
                self._value((*path, number))
                number += 1
            else:
                self._pair(path)
        self._take()
