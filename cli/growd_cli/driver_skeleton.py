"""A new package with a driver, its simulated chip and tests, from the templates in growd_cli/skeletons."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from string import Template
from typing import TYPE_CHECKING, Final

from growd.device_kinds import OUTPUT_KINDS
from growd.own_kinds import BUILT_IN

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
SECTIONS: Final = {
    "i2c": '[[sensor]]\nname = "air"\nkind = "$kind"',
    "serial": '[[sensor]]\nname = "air"\nkind = "$kind"\nport = "/dev/serial0"',
    "output": '[[output]]\nname = "heating"\nkind = "$kind"\ndrives = ["air_temperature"]',
}
"""A section of the configuration for each kind of skeleton."""


def fault_of_name(name: str) -> str:
    """Why a package can't have a name, "" if it can. Blocking."""
    if not NAME.fullmatch(name):
        return "must be of letters a-z, digits and -"
    module = name.replace("-", "_")
    own, cls = _kind_and_class(module)
    if not module.isidentifier() or iskeyword(module) or not cls.isidentifier() or iskeyword(cls):
        return "can't be a name in Python"
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        return f"is taken: Python finds another module {module}"
    if own in BUILT_IN or own in OUTPUT_KINDS:
        return f"is taken: growd has a kind {own}"
    texts = (_template(place) for kind in SECTIONS for place in (f"{kind}.py", f"{kind}_chip.py"))
    if any(re.search(rf"\b{cls}\b", text) for text in texts):
        return f"is taken: the driver has another {cls}"
    return ""


def write_skeleton(folder: Path, name: str, kind: str) -> list[Path]:
    """Write a package `name` of one of `SECTIONS`; the files. Blocking. Raises OSError if there is one."""
    module = name.replace("-", "_")
    own, cls = _kind_and_class(module)
    words = {
        "package": name,
        "module": module,
        "kind": own,
        "cls": cls,
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
        (folder / place).write_text(Template(_template(template)).substitute(words), encoding="utf-8")
    return [folder / place for place in places.values()]


def _kind_and_class(module: str) -> tuple[str, str]:
    own = module.removeprefix("growd_")
    return own, "".join(part.capitalize() for part in own.split("_"))


def _template(name: str) -> str:
    return (files("growd_cli") / "skeletons" / f"{name}.template").read_text(encoding="utf-8")
