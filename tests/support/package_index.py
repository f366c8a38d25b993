"""Whether the package index that pip is configured for can be reached."""

import re
import subprocess
import sys
from functools import cache

from support.checkout import ROOT


@cache
def index_error():
    """Why pip cannot find one small locked package; "" if it can."""
    lock = (ROOT / "requirements/run.lock").read_text(encoding="utf-8")
    entry = re.search(r"^smbus2==(?:.*\\\n)*.*\n", lock, re.MULTILINE)
    options = "--dry-run --quiet --ignore-installed --no-deps --require-hashes -r /dev/stdin"
    answer = subprocess.run(
        [sys.executable, "-I", "-m", "pip", "install", *options.split()],
        input=entry[0],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return f"the package index does not answer: {answer.stderr.strip()}" if answer.returncode else ""
