"""The program `growd`, and `python -m growd`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. A Ctrl-C while Python still reads the program leaves without a traceback."""
    try:
        from growd.cli.main import main as command_line  # noqa: PLC0415  it is what takes long

        command_line()
    except KeyboardInterrupt:
        sys.exit(130)  # as a shell reports a program that SIGINT ended


if __name__ == "__main__":
    main()
