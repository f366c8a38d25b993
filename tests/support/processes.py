"""Finds processes of this machine, and ends those of a test."""

import contextlib
import subprocess
from pathlib import Path
from typing import AnyStr


def child_with(argument):
    """The id of the process whose command line has this argument."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # another test may run a program with an argument that is no UTF-8
                if argument in (entry / "cmdline").read_text(errors="surrogateescape").split("\0"):
                    return int(entry.name)
    raise AssertionError(f"no process has the argument {argument}")


class Ending(subprocess.Popen[AnyStr]):
    """A process that is killed when its context ends with an error, such as the time limit of the test.

    Otherwise the context waits for its end, within that limit. That of `subprocess.Popen` waits for ever.
    """

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.kill()
        try:
            super().__exit__(kind, error, trace)
        except BaseException:
            self.kill()
            self.wait()
            raise
