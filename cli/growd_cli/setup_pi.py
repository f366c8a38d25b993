"""`growd setup-pi`: the boot settings of a Raspberry Pi for the chamber."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from growd.config import ConfigError, load
from growd_cli.config_checks import DEVICE_CHECKS, DOUBTS
from growd_cli.config_doubts import shared_pwm
from growd_cli.options import config_option, refuse, set_option
from growd_cli.terminal import echo_text
from growd_machine.raspberry_pi.boot_files import (
    config_txt,
    included_files,
    made_buses,
    planned_files,
    undone_files,
)
from growd_machine.raspberry_pi.config_txt import FRAME, settings_in
from growd_machine.raspberry_pi.model import MODELS, PiError, model_at
from growd_machine.raspberry_pi.pin_claims import taken_pins
from growd_machine.raspberry_pi.plan import boot_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from growd.config import Config
    from growd_machine.raspberry_pi.boot_files import BootFile
    from growd_machine.raspberry_pi.model import PiModel

INSTALLED: Final = Path("etc/growd/growd.toml")
_HERE: Final = Path("/")


@click.command("setup-pi")
@config_option
@set_option
@click.option("--write", "writes", is_flag=True, help="Write the changes; asks first at a terminal.")
@click.option("--undo", is_flag=True, help="Show, and with --write take back, the changes of growd only.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--model", type=click.Choice(tuple(MODELS)), help="The model, for a card in another computer.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=_HERE,
    metavar="FOLDER",
    help="Use the file system or boot partition at FOLDER, such as a mounted card.  [default: /]",
)
def setup_pi(
    *,
    config: Path | None,
    settings: tuple[str, ...],
    writes: bool,
    undo: bool,
    yes: bool,
    model: str | None,
    root: Path,
) -> None:
    """Show what config.txt and cmdline.txt of a Raspberry Pi should say for the chamber.

    The configuration names the sensors and outputs (default: /etc/growd/growd.toml). --write writes the
    changes, --undo --write takes exactly them back. Both take effect after a reboot.
    """
    try:
        if undo:
            files = undone_files(root)
        else:
            files = _planned(root, _model(root, model), _configuration(root, config, settings))
    except (ConfigError, PiError) as error:
        refuse(error)
    changed = [file for file in files if file.is_changed]
    if not changed:
        if undo and writes:
            _write(files, undo=True)  # removes copies that remained
        echo_text("There is nothing to take back." if undo else "The boot files are as growd needs them.")
        return
    for line in _shown(changed, undo=undo):
        echo_text(line)
    if not writes:
        echo_text("Nothing is written yet: add --write, as root.")
    elif root == _HERE and os.geteuid():
        refuse("this needs root: use sudo")
    elif yes or _agrees():
        _write(files, undo=undo)
        _reboot(is_here=root == _HERE, may_ask=not yes)


def configuration_at(root: Path, config: Path | None) -> Path | None:
    """The given configuration, else the installed one. Raises `PiError` if that can't be read."""
    installed = root / INSTALLED
    if config is not None:
        return config
    try:
        installed.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PiError(f"{installed} can't be read: {error.strerror}; use sudo, or --config FILE") from None
    return installed


def _configuration(root: Path, config: Path | None, settings: tuple[str, ...]) -> Config:
    file = configuration_at(root, config)
    if file is None and not settings:
        raise PiError(
            f"there is no {root / INSTALLED}: say which chamber with --config FILE or --profile NAME"
        )
    return load(
        file,
        settings,
        checks=DEVICE_CHECKS,
        doubts=[doubt for doubt in DOUBTS if doubt is not shared_pwm],  # the plan knows the model
        warn=lambda sentence: echo_text(f"warning: {sentence}"),
        with_drivers=True,
    )


def _model(root: Path, name: str | None) -> PiModel:
    found = model_at(root) if name is None else MODELS[name]
    if found is None:
        machine = "this machine" if root == _HERE else f"the machine of {root}"
        way = "use --root and --model" if root == _HERE else "add --model"
        raise PiError(f"{machine} is not a Raspberry Pi 3, 4, 5 or Zero 2; for a card of one {way}")
    return found


def _planned(root: Path, model: PiModel, config: Config) -> list[BootFile]:
    plan = boot_plan(config, model, made_buses(root, model.filters))
    files = planned_files(root, plan, model.filters)
    echo_text(f"{model.name}:")
    for note in plan.notes:
        echo_text(f"note: {note}")
    if not config.simulator.enabled:
        for pin, line, output in taken_pins(settings_in(config_txt(root), model.filters), config):
            echo_text(
                f"note: {line} uses GPIO {pin}, the pin of {output}: "
                "give one of them another pin, or remove the line from config.txt"
            )
    for name in included_files(root):
        echo_text(f"note: config.txt includes {name}, which growd does not read")
    return files


def _shown(files: Iterable[BootFile], *, undo: bool) -> Iterator[str]:
    """The changes with their reasons, then the diffs."""
    for file in () if undo else files:
        yield f"{file.path}"
        for change in file.changes:
            if change.line in FRAME:
                continue
            what = change.line or f"without {change.before}"
            old = f" (now {change.before})" if change.line and change.before else ""
            yield f"  {what}{old}: {change.reason}"
    for file in files:
        yield from file.diff()


def _agrees() -> bool:
    if not sys.stdin.isatty():
        refuse("there is no terminal to ask at: add --yes")
    return click.confirm("Write this?")


def _write(files: Iterable[BootFile], *, undo: bool) -> None:
    """Whatever the umask is, all users may read the files."""
    umask = os.umask(0o022)
    try:
        for file in files:
            if undo:
                file.take_back()
            else:
                file.write()
    except PiError as error:
        refuse(error)
    finally:
        os.umask(umask)


def _reboot(*, is_here: bool, may_ask: bool) -> None:
    """Reboot this machine if the user says so."""
    if is_here and may_ask and click.confirm("The settings hold after a reboot. Reboot now?"):
        subprocess.run(["/usr/bin/systemctl", "reboot"], check=False)  # our own words
    else:
        echo_text(f"Written. The settings hold after a reboot{': sudo reboot' if is_here else ' of the Pi.'}")
