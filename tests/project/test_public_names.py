"""A public class name exists once in the whole project."""

import ast
from collections import Counter

from support.checkout import ROOT

PACKAGES = [each for each in ROOT.glob("*/growd*") if each.name != "growd_client"]  # it stands alone


def test_public_class_names_are_unique():
    counts = Counter(_class_names())
    assert counts
    assert [name for name, count in counts.items() if count > 1] == []


def _class_names():
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield node.name
