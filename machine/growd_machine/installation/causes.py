"""The line of pip's or npm's output that names the cause of a failure; their last line seldom does.

    causes.py LOG

prints it. Needs the standard library alone.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

_CAUSES: Final = (
    r"\[Errno -?\d+\] ([^'\"\n)]+)",  # an error of the system: no network, no space
    r"(certificate verify failed[^'\"\n()]*)",
    r"(THESE PACKAGES DO NOT MATCH THE HASHES)",
    r"(?m)^npm (?:error|ERR!) .*reason: (.+)$",
    r"(?m)^npm (?:error|ERR!) (?!code |errno |syscall )(.+)$",
    r"(?m)^ERROR: (.+)$",
    r"(?m)^npm (?:error|ERR!) (.+)$",
    r"(\S.*)\s*\Z",
)
"""The most telling first; of one kind, the first that was printed."""


def cause_in(output: str) -> str:
    """The cause in the output of a program that failed; the last line if no other is known, else empty."""
    for pattern in _CAUSES:
        if found := re.search(pattern, output):
            return found[1].strip()
    return ""


if __name__ == "__main__":
    print(cause_in(Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")))  # noqa: T201 - for a script
