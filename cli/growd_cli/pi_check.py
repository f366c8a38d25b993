"""`growd check --pi`: the Raspberry Pi below the chamber."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd.config import load
from growd.config.profiles import PROFILES, profile_path
from growd.host.machine import read_machine
from growd.runtime.clock import RealClock
from growd.runtime.text import printable
from growd_cli.config_checks import DEVICE_CHECKS
from growd_cli.options import json_option, plain_errors, refuse
from growd_cli.output import print_result
from growd_cli.setup_pi import configuration_at
from growd_machine.raspberry_pi.checks import check_pi
from growd_machine.raspberry_pi.files import PiFiles
from growd_machine.raspberry_pi.findings import PiScene
from growd_machine.raspberry_pi.model import PiError, model_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from growd_machine.raspberry_pi.findings import PiFinding

_COLOURS: Final = {"ok": "green", "warning": "yellow", "failure": "red", "not checked": "bright_black"}
_COMMAND: Final = re.compile(r"growd (check --pi|setup-pi)")
_INSTALLED_DATA: Final = Path("/var/lib/growd")


def pi_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that only `--pi` has."""
    for option in (
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            default=_INSTALLED_DATA,
            envvar="GROWD_DATA",
            show_default=True,
            help="With --pi: the data folder.",
        ),
        click.option(
            "--root",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            default=Path("/"),
            metavar="FOLDER",
            help="With --pi: the file system of the machine.  [default: /]",
        ),
        json_option,
    ):
        command = option(command)
    return command


def report_pi(
    config: Path | None, settings: tuple[str, ...], *, root: Path, data: Path, as_json: bool
) -> None:
    """Print each finding with its remedy. Ends with status 1 on a failure."""
    with plain_errors():
        try:
            file = configuration_at(root, config)
            scene = _scene(root, data, file, settings)
        except PiError as error:
            refuse(error)
        options = _options_again(config, settings, root)
        findings = [_complete(finding, options) for finding in check_pi(scene)]
        is_pi = scene.model is not None
        document = {
            "model": scene.machine.model,
            "is_supported": is_pi,
            "configuration": None if file is None else str(file),
            "findings": findings,
        }
        print_result(document, _lines(findings, scene, file), as_json=as_json)
    sys.exit(any(finding.state == "failure" for finding in findings))


def _scene(root: Path, data: Path, file: Path | None, settings: tuple[str, ...]) -> PiScene:
    """Raises `ConfigError`."""
    data = data.absolute()
    place = root / data.relative_to("/")
    machine = read_machine(place, RealClock(), root)
    return PiScene(
        files=PiFiles(root),
        machine=machine,
        model=model_named(machine.model),
        config=load(file, settings, checks=DEVICE_CHECKS, with_drivers=True),
        user="" if os.geteuid() == 0 else getpass.getuser(),
        data=data,
    )


def _options_again(config: Path | None, settings: tuple[str, ...], root: Path) -> str:
    """The options that a remedy has to repeat, each with a space before it."""
    given: list[tuple[str, object]] = [("--root", root)] if root != Path("/") else []
    if config is not None:
        profile = next((name for name in PROFILES if profile_path(name) == config), None)
        given.append(("--profile", profile) if profile else ("--config", config))
    given += [("--set", setting) for setting in settings]
    return "".join(f" {option} {shlex.quote(str(value))}" for option, value in given)


def _complete(finding: PiFinding, options: str) -> PiFinding:
    """The finding, where commands in the remedy have the options of this one."""
    remedy = _COMMAND.sub(lambda found: found[0] + options, finding.remedy)
    return msgspec.structs.replace(finding, remedy=remedy)


def _lines(findings: Sequence[PiFinding], scene: PiScene, file: Path | None) -> Iterator[str]:
    if scene.model is None:
        yield "This machine is not a Raspberry Pi 3, 4, 5 or Zero 2; what applies is checked all the same."
    if file is None:
        yield "There is no configuration, so buses and pins are not checked: use --config FILE."
    for finding in findings:
        state = click.style(f"{finding.state:<11}", _COLOURS[finding.state])
        yield _line(f"{finding.subject}: {finding.text}", state)
        if finding.remedy:
            yield _line(finding.remedy, " " * 11 + "   ->")


def _line(text: str, before: str) -> str:
    """A line with `before`, which may have colours."""
    return f"{before} {printable(text)}"
