"""The command `growd check`: the configuration, and the devices that it names."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from growd.cli.asking import is_running
from growd.cli.client import ClientError, DaemonClient, address_of, trusting
from growd.cli.config_files import faults_of_files, left_to_systemd
from growd.cli.hardware_check import check_hardware, described
from growd.cli.options import config_option, faults_option, hardware_of, refuse, set_option
from growd.config import Config, ConfigError, load
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import run_on_loop
from growd.runtime.text import printable
from growd.wiring.config_checks import DEVICE_CHECKS, DOUBTS
from growd.wiring.hardware import open_configured
from growd_drivers.errors import DriverError
from growd_hwsim.errors import SimulationError

if TYPE_CHECKING:
    from pathlib import Path

    from growd.cli.hardware_check import DeviceAnswer


@click.command()
@config_option
@set_option
@faults_option
@click.option("--hardware", is_flag=True, help="Ask each device whether it answers.")
def check(*, config: Path | None, settings: tuple[str, ...], faults: str | None, hardware: bool) -> None:
    """Check the configuration, and list the devices that it names.

    The files with logins, secrets and certificates that it names are read, too. With --hardware each sensor
    is set up and read, and each output is claimed at its safe value, which it keeps. growd must not run
    meanwhile, unless the hardware is simulated.
    """
    given = () if faults is None else (f"simulator.faults={faults}",)
    try:
        configuration = load(
            config, settings + given, checks=DEVICE_CHECKS, doubts=DOUBTS, warn=_tell_warning
        )
        _check_files(configuration)
        if hardware:
            sys.exit(0 if _all_answer(configuration) else 1)
    except (ConfigError, DriverError, SimulationError, ClientError) as error:
        refuse(error)
    for name, sentence in described(configuration):
        click.echo(f"{name}: {sentence}")
    for credential in left_to_systemd(configuration):
        click.echo(f"{credential}: not looked for, as only the service sees the credentials of systemd")
    click.echo(f"The configuration is sound, for {hardware_of(configuration)}.")


def _check_files(config: Config) -> None:
    if found := list(faults_of_files(config)):
        raise ConfigError(*found)


def _all_answer(config: Config) -> bool:
    """Ask the hardware, a line for each device. Raises what opening the hardware raises."""
    if not config.simulator.enabled and config.http.port:
        _check_not_running(config)
    clock = RealClock()
    hardware = open_configured(config, clock)
    try:
        findings = run_on_loop(check_hardware(config, hardware, clock, _tell))
    finally:
        hardware.close()
    answering = sum(finding.answers for finding in findings)
    click.echo(f"{answering} of {len(findings)} devices answer, of {hardware_of(config)}.")
    return answering == len(findings)


def _tell_warning(sentence: str) -> None:
    click.echo(f"warning: {printable(sentence)}")


def _tell(finding: DeviceAnswer) -> None:
    click.echo(f"{finding.device}: {finding.sentence}")


def _check_not_running(config: Config) -> None:
    """Two programs at one pin would switch each other's outputs. Raises `ClientError`."""
    address = address_of(config.http, None, config.tls)
    # whoever answers there; no login is sent
    tls = trusting(None, insecure=True) if address.scheme == "https" else None
    with DaemonClient(address, tls=tls) as client:
        is_there = is_running(client)
    if is_there:
        raise ClientError(
            f"growd runs at {address} and has the hardware: `growd status` tells how its devices are; "
            "to ask them here, stop it first"
        )
