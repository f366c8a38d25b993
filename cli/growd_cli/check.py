"""`growd check`: the configuration, the files it references, the devices, and what the outputs do."""

from __future__ import annotations

import functools
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd.bus import Bus
from growd.bus.errors import counted
from growd.config import Config, ConfigError, Finding, chambers_of, load
from growd.config.secrets import INSTALLED, is_hidden, read_line, secret_path
from growd.host.data_folder import StartError
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import run_on_loop
from growd.server.errors import CertificateError
from growd.server.tls import read_pair
from growd.wiring.files import read_credentials
from growd.wiring.hardware import opened_hardware
from growd.wiring.mqtt import mqtt_link, read_broker
from growd_alerts.channels import read_address
from growd_cli.asking import is_running
from growd_cli.client import HINTS, address_of, ordered
from growd_cli.config_checks import DEVICE_CHECKS, DOUBTS
from growd_cli.database_check import findings_of, print_findings
from growd_cli.hardware_check import DeviceAnswer, check_hardware, described
from growd_cli.options import client_options, environment_option, faults_option, hardware_of, refuse
from growd_cli.output import echo_lines, print_json, table
from growd_cli.pi_check import pi_options, report_pi
from growd_cli.setup_pi import configuration_at
from growd_cli.terminal import echo_text
from growd_client.connection import DaemonClient
from growd_client.errors import GrowdError
from growd_client.trust import trusting
from growd_cloud.access import read_trust
from growd_drivers.errors import DriverError
from growd_machine.raspberry_pi.model import PiError
from growd_simulation.simulated_clock import SimulatedClock, run_simulated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from growd.config import Source
    from growd.config.findings import OptionPath
    from growd.runtime.clock import Clock
    from growd_cli.options import DaemonOptions

_LOOK_S: Final = 1.0
_OUTCOMES: Final = {"passed": "✓ passed", "failed": "✕ failed", "not_tested": "- not tested"}


@click.command()
@click.argument("outputs", metavar="[OUTPUT]...", nargs=-1)
@client_options
@faults_option
@click.option("--hardware", is_flag=True, help="Test whether each device answers.")
@click.option(
    "--pi", is_flag=True, help="Check the Raspberry Pi: settings, pins, power, time, card, service."
)
@click.option(
    "--outputs",
    "tests",
    is_flag=True,
    help="Let the running growd test each OUTPUT, or all but those for CO2, acid, base and nutrients.",
)
@click.option("--include", metavar="OUTPUT", multiple=True, help="Test this output too; repeatable.")
@environment_option
@pi_options
def check(
    *,
    daemon: DaemonOptions,
    outputs: tuple[str, ...],
    faults: str | None,
    hardware: bool,
    pi: bool,
    tests: bool,
    include: tuple[str, ...],
    environment: str | None,
    as_json: bool,
    root: Path,
    data: Path,
) -> None:
    """Check the configuration (default: /etc/growd/growd.toml, if it exists), and list its devices.

    Also reads the referenced files with logins, secrets and certificates. With --hardware, each sensor is set
    up and read, and each output is driven to its safe value. growd must not be running then, unless the
    hardware is simulated. With --pi, the machine is checked instead; nothing is changed.

    With --outputs, the running growd switches each output on for moments within its interlocks, and looks
    whether its sensor follows. The exit status is 1 if one failed.
    """
    if pi + hardware + tests > 1:
        raise click.UsageError("--pi, --hardware and --outputs are separate checks: run one after the other")
    if (outputs or include) and not tests:
        raise click.UsageError("names of outputs are for --outputs")
    config, settings = daemon.config, daemon.settings
    if pi:
        report_pi(config, settings, root=root, data=data, as_json=as_json)
        return
    if tests:
        where = daemon.environment(environment)
        sys.exit(0 if check_outputs(daemon, where, outputs, include, as_json=as_json) else 1)
    if as_json:
        raise click.UsageError("--json is for --pi and --outputs")
    _check_configuration(config, settings, faults, hardware=hardware)


def _check_configuration(
    config: Path | None, settings: tuple[str, ...], faults: str | None, *, hardware: bool
) -> None:
    """Check it and, with `hardware`, the devices. Ends the program if something is wrong."""
    given = () if faults is None else (f"simulator.faults={faults}",)
    warnings: list[str] = []

    def warn(sentence: str) -> None:
        warnings.append(sentence)
        _print_warning(sentence)

    try:
        file = configuration_at(Path("/"), config)
        if config is None and file is not None:
            echo_text(f"configuration: {file}")
        configuration = load(
            file,
            settings + given,
            flags={"simulator.faults": "--faults"} if given else {},
            checks=(*DEVICE_CHECKS, faults_of_files),
            doubts=(*DOUBTS, missing_credentials),
            warn=warn,
            with_drivers=True,
        )
        if hardware:
            if file is None and configuration.simulator.enabled:
                _print_warning("there is no configuration, so the hardware is simulated; add --config FILE")
            sys.exit(0 if _all_answer(configuration) else 1)
    except (ConfigError, DriverError, StartError, GrowdError, PiError) as error:
        refuse(error)
    _check_database(configuration)
    for name, sentence in described(configuration):
        echo_text(f"{name}: {sentence}")
    for credential in systemd_credentials(configuration):
        echo_text(f"{credential}: not checked; only the service can read systemd credentials")
    doubtful = f", with {counted(len(warnings), 'warning')}" if warnings else ""
    untested = (
        "" if configuration.simulator.enabled else "; whether it can be used was not tested: add --hardware"
    )
    echo_text(f"The configuration is valid, for {hardware_of(configuration)}{doubtful}{untested}.")


def _check_database(config: Config) -> None:
    """Ask the configured CouchDB; only warnings, since it may be reachable from the device alone."""
    if not config.couchdb.url or _is_credential(config.couchdb.credentials_file):
        return
    print_findings(config, findings_of(config))


def _all_answer(config: Config) -> bool:
    """Test the hardware, with a line for each device. Raises the errors of opening it."""
    if not config.simulator.enabled and config.http.port:
        _check_not_running(config)
    simulated = SimulatedClock() if config.simulator.enabled else None
    answers = _answers(config, simulated or RealClock())
    findings = run_simulated(answers, simulated) if simulated else run_on_loop(answers)
    asked = [finding.answers for finding in findings if finding.answers is not None]
    others = f", {len(findings) - len(asked)} cannot be asked" if len(asked) < len(findings) else ""
    echo_text(f"{sum(asked)} of {len(asked)} devices answer{others} ({hardware_of(config)}).")
    return all(asked)


async def _answers(config: Config, clock: Clock) -> list[DeviceAnswer]:
    bus = Bus(clock)
    linked = nullcontext() if config.simulator.enabled else mqtt_link(config, bus, "check")
    async with linked as mqtt, opened_hardware(config, bus, mqtt) as hardware:
        return await check_hardware(config, hardware, clock, _print_finding)


def _print_warning(sentence: str) -> None:
    echo_text(f"warning: {sentence}")


def _print_finding(finding: DeviceAnswer) -> None:
    echo_text(f"{finding.device}: {finding.sentence}")


def _check_not_running(config: Config) -> None:
    """A running daemon owns the pins. Raises `GrowdError` if one answers."""
    address = address_of(config.http, None, config.tls)
    # any server; no login is sent
    tls = trusting(None, insecure=True) if address.scheme == "https" else None
    with DaemonClient(address, tls=tls, hints=HINTS) as client:
        is_there = is_running(client)
    if is_there:
        raise GrowdError(
            f"growd is running at {address} and owns the hardware: use `growd status` to see its devices, "
            "or stop it first"
        )


def faults_of_files(config: Config, *, with_credentials: bool = False) -> Iterator[Finding]:
    """A finding for each referenced file that cannot be used. Only the service has credentials. Blocking."""
    for path, name, read in _reads(config):
        if _is_credential(name) and not with_credentials:
            continue
        try:
            read()
        except (ConfigError, CertificateError) as error:  # "[section] option: reason"
            place, _, reason = str(error).partition(": ")
            yield Finding((*path[:-1], place.rpartition(" ")[2]), reason)


def missing_credentials(config: Config, _: Source) -> Iterator[Finding]:
    """Bare names that are neither a file nor an installed credential, as far as this user can see."""
    if is_hidden():
        return
    for path, name, _read in _reads(config):
        if _is_credential(name):
            missing = f"there is no file {name} beside the configuration, and no credential"
            yield Finding(path, f"{missing}: write it to {INSTALLED / name}, or give a path")


def systemd_credentials(config: Config) -> list[str]:
    """The names of systemd credentials, which only the service can read."""
    return sorted({name for _, name, _ in _reads(config) if _is_credential(name)}) if is_hidden() else []


def _is_credential(name: str) -> bool:
    """Whether a name has no folder and is not a file here."""
    return bool(name) and "/" not in name and not os.access(secret_path(name), os.F_OK)


def _reads(config: Config) -> Iterator[tuple[OptionPath, str, Callable[[], Any]]]:
    """The files to read, each with its option and its name there."""
    couchdb, replication, tls = config.couchdb, config.replication, config.tls
    file = couchdb.credentials_file
    yield ("couchdb", "credentials_file"), file, functools.partial(read_credentials, file)
    if replication.url:
        file = replication.credentials_file
        login = functools.partial(read_credentials, file, "replication", is_secret=True)
        yield ("replication", "credentials_file"), file, login
        yield ("replication", "ca_file"), "", functools.partial(read_trust, replication)
    if tls.certificate and tls.key:
        pair = secret_path(tls.certificate), secret_path(tls.key)
        reading = functools.partial(read_pair, *pair)
        yield ("tls", "certificate"), tls.certificate, reading if not _is_credential(tls.key) else _nothing
        yield ("tls", "key"), tls.key, _nothing
    if config.simulator.enabled:
        for option in ("faults", "replay"):
            if file := getattr(config.simulator, option):
                yield ("simulator", option), "", functools.partial(_read_simulated, option, file)
    if config.mqtt.host:
        file = config.mqtt.password_file
        yield ("mqtt", "password_file"), file, functools.partial(read_broker, config.mqtt)
    for number, channel in enumerate(config.notify):
        read = functools.partial(read_address, channel)
        yield ("notify", number, "url_file"), channel.url_file, read
    for chamber in chambers_of(config):
        for place, output in chamber.all_by_path.items():
            file = output.password_file
            yield (
                (*place, "password_file"),
                file,
                functools.partial(read_line, "[output] password_file", file),
            )


def _read_simulated(option: str, file: str) -> None:
    from growd_hwsim.errors import SimulationError  # noqa: PLC0415  only of a simulation
    from growd_hwsim.fault_files import load_faults  # noqa: PLC0415
    from growd_hwsim.replay import load_recording  # noqa: PLC0415

    try:
        (load_faults if option == "faults" else load_recording)(Path(file))
    except SimulationError as error:
        raise ConfigError(f"[simulator] {option}: {error}") from None


def _nothing() -> None:
    """A file that is read with another one."""


class _Result(msgspec.Struct):
    name: str
    outcome: str
    reason: str


class _Report(msgspec.Struct):
    state: str
    message: str
    begun: float
    results: list[_Result]


class _Data(msgspec.Struct):
    result: _Report


def check_outputs(
    daemon: DaemonOptions, environment: str, names: Sequence[str], include: Sequence[str], *, as_json: bool
) -> bool:
    """Begin the self-test, and show its progress and its results. Whether it ended and no output failed.

    Ctrl-C stops the test. Raises `GrowdError` and `ConfigError`.
    """
    with daemon.client() as client:
        wanted = {"outputs": [*names], "include": [*include]}
        ordered(client, f"{environment}/self_test/begin", wanted)
        try:
            report = _followed(client, environment)
        except KeyboardInterrupt:
            client.call(f"{environment}/self_test/stop", {}, kind=dict[str, Any])
            raise
    if as_json:
        print_json(report)
    else:
        rows = [(each.name, _OUTCOMES[each.outcome], each.reason) for each in report.results]
        echo_lines(table(("OUTPUT", "RESULT", "REASON"), rows))
        echo_text(report.message)
    return report.state == "done" and all(each.outcome != "failed" for each in report.results)


def _followed(client: DaemonClient, environment: str) -> _Report:
    """The report at the end; what it does meanwhile goes to standard error."""
    told = ""
    while True:
        report = client.get("topic_data", f"{environment}/self_test", kind=_Data, query="last=true").result
        if report.state != "running":
            return report
        if report.message != told:
            told = report.message
            echo_text(told, err=True)
        time.sleep(_LOOK_S)
