"""A public class name exists once in the whole project."""

import re
from collections import Counter

from support.checkout import ROOT

PACKAGES = [each for each in ROOT.glob("*/growd*") if each.name != "growd_client"]  # it stands alone


def test_public_class_names_are_unique():
    files = [file for package in PACKAGES for file in package.rglob("*.py")]
    names = [re.findall(r"(?m)^class ([A-Za-z]\w*)", file.read_text(encoding="utf-8")) for file in files]
    counts = Counter(name for found in names for name in found)
    assert counts
    assert [name for name, count in counts.items() if count > 1] == []
