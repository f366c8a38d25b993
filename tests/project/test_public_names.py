"""A public class name exists once in the whole project."""

from __future__ import annotations

import ast
from collections import Counter

from support.checkout import ROOT

PACKAGES = ["daemon/growd", "drivers/growd_drivers", "hw-sim/growd_hwsim"]

# Names that still exist more than once: remove a name from this set once it is unique.
EXCEPTIONS = {
    "Finding",
    "RefusedError",
}


def test_public_class_names_are_unique():
    repeated = {name for name, count in Counter(_class_names()).items() if count > 1}
    assert repeated - EXCEPTIONS == set()


def _class_names():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield node.name
