"""The program `growd`, and `python -m growd_cli`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command line. A Ctrl-C while Python still reads the program leaves without a traceback.

    Before anything is imported that takes long, the pins of the last run are brought to rest.
    """
    if "JOURNAL_STREAM" in os.environ:  # systemd may have started it
        from growd_cli.logs import mark_errors  # noqa: PLC0415  it takes as long as the rest of the start

        mark_errors()
    try:
        if sys.argv[1:2] in (["run"], ["safe"]):
            from growd_drivers.last_run import rest_last_run  # noqa: PLC0415  only these drive pins

            rest_last_run(_data_folder(sys.argv))
        from growd_cli.main import main as command_line  # noqa: PLC0415  it is what takes long

        command_line()
    except KeyboardInterrupt:
        sys.exit(130)  # as a shell reports a program that SIGINT ended


def _data_folder(arguments: list[str]) -> Path:
    """The data folder, as the option --data of the command line says."""
    found = os.environ.get("GROWD_DATA") or "data"
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, _, value = argument.partition("=")
        if name == "--data":
            found = value or following
    return Path(found)


if __name__ == "__main__":
    main()
