"""Changes of options in the text of a configuration, which keep everything else, comments too."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Final

from growd.config.findings import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TABLE: Final = re.compile(r"\s*\[")
_VALUE: Final = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^#\n])*?"""


def with_texts(text: str, section: str, options: Mapping[str, str]) -> str:
    """The configuration with these texts as options of `[section]`, which is added if it is missing.

    Raises `ConfigError` for text that is not TOML, or in which the options are written in another way.
    """
    try:
        tree = tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"the configuration is not TOML: {error}") from None
    written = {name: json.dumps(value, ensure_ascii=False) for name, value in options.items()}
    changed = _edited(text, section, written)
    expected = tree | {section: {**tree.get(section, {}), **options}}
    try:
        is_sound = tomllib.loads(changed) == expected
    except ValueError:
        is_sound = False
    if not is_sound:
        wanted = "\n".join(f"  {name} = {value}" for name, value in written.items())
        raise ConfigError(
            f"[{section}] is written in a way that growd does not change; set there by hand:\n{wanted}"
        )
    return changed


def _edited(text: str, section: str, options: Mapping[str, str]) -> str:
    lines = text.splitlines(keepends=True)
    header = re.compile(rf"\s*\[\s*{re.escape(section)}\s*\]\s*(#.*)?$")
    start = next((at for at, line in enumerate(lines) if header.match(line)), None)
    new = [f"{name} = {value}\n" for name, value in options.items()]
    if start is None:
        gap = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{gap}\n[{section}]\n{''.join(new)}"
    end = next((at for at in range(start + 1, len(lines)) if _TABLE.match(lines[at])), len(lines))
    body = "".join(lines[start + 1 : end])
    missing = []
    for line, (name, value) in zip(new, options.items(), strict=True):
        present = re.compile(rf"^(\s*{name}\s*=\s*){_VALUE}(\s*(?:#.*)?)$", re.MULTILINE)
        if found := present.search(body):
            body = f"{body[: found.start()]}{found[1]}{value}{found[2]}{body[found.end() :]}"
        else:
            missing.append(line)
    if not lines[start].endswith("\n"):
        lines[start] += "\n"
    return "".join([*lines[: start + 1], *missing, body, *lines[end:]])
