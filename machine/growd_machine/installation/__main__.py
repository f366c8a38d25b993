"""Installs the growd that this file belongs to: a checkout, a wheel or a bundle, which Python runs.

    sudo python3 growd-VERSION-py3-none-any.whl/growd_machine/installation --help

Needs the standard library alone, as a new machine has no other packages.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # noqa: UP036  whoever installs may have an older one
    sys.exit(f"growd needs Python 3.11 or newer; this is Python {sys.version_info[0]}.{sys.version_info[1]}")
if __name__ == "__main__":
    packages = Path(__file__).parents[2]
    sys.path[0] = str(packages)  # instead of this folder, which Python adds
    if packages.name == "machine":  # a checkout has each package in a folder of its own
        sys.path.insert(1, str(packages.with_name("daemon")))

from growd_machine.installation.installer import install
from growd_machine.installation.machine import InstallError
from growd_machine.installation.options import INSTALL_OPTIONS, InstallChoices
from growd_machine.installation.sources import source_at

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Install, with the options of `growd install`."""
    choices = InstallChoices(**vars(_parser().parse_args(arguments)))
    try:
        install(source_at(None), choices, lambda line: print(line, flush=True))  # noqa: T201  a command line
    except InstallError as error:
        sys.exit(f"growd: {error}")
    except KeyboardInterrupt:
        sys.exit("\ngrowd: interrupted; the same command continues")
    except BrokenPipeError:  # nobody reads the output, as with `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the exit
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="install",
        description="Install this growd as a systemd service, and start it. Existing configuration and data "
        "are not changed. Run it again to continue an interrupted installation.",
    )
    for option in INSTALL_OPTIONS:
        words = argparse.SUPPRESS if option.is_hidden else option.help
        settings: dict[str, Any] = {"metavar": option.metavar}
        if option.metavar is None:
            settings = {"action": "store_true"}
        elif option.is_repeatable:
            settings |= {"action": "append", "default": []}
        elif option.name == "root":
            settings |= {"type": Path, "default": Path("/")}
        parser.add_argument(option.flag, dest=option.name, help=words, **settings)
    return parser


if __name__ == "__main__":
    main()
