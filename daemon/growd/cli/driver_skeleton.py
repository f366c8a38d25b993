"""A new package with a driver, its simulated chip and tests, from the templates in growd/skeletons."""

from __future__ import annotations

import re
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
SECTIONS: Final = {
    "i2c": '[[sensor]]\nname = "air"\nkind = "$kind"',
    "serial": '[[sensor]]\nname = "air"\nkind = "$kind"\nport = "/dev/serial0"',
    "output": '[[output]]\nname = "heating"\nkind = "$kind"\ndrives = ["air_temperature"]',
}
"""A section of the configuration for each kind of skeleton."""


def write_skeleton(folder: Path, name: str, kind: str) -> list[Path]:
    """Write a package `name` of one of `SECTIONS`; the files. Blocking. Raises OSError if there is one."""
    module = name.replace("-", "_")
    own = module.removeprefix("growd_")
    words = {
        "package": name,
        "module": module,
        "kind": own,
        "cls": "".join(part.capitalize() for part in own.split("_")),
        "group": "growd.outputs" if kind == "output" else "growd.sensors",
    }
    words["section"] = Template(SECTIONS[kind]).substitute(words)
    places = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{kind}.py": f"{module}.py",
        f"{kind}_chip.py": f"{module}_chip.py",
        "test.py": f"tests/test_{module}.py",
    }
    folder.mkdir(parents=True)
    (folder / "tests").mkdir()
    for template, place in places.items():
        text = (files("growd") / "skeletons" / f"{template}.template").read_text(encoding="utf-8")
        (folder / place).write_text(Template(text).substitute(words), encoding="utf-8")
    return [folder / place for place in places.values()]
