"""`growd driver`: drivers that other packages bring."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from growd import own_kinds
from growd.runtime.text import printable
from growd_cli.driver_skeleton import NAME, fault_of_name, write_skeleton
from growd_cli.options import plain_errors, refuse
from growd_cli.output import echo_lines, output_options, print_json, print_result, table
from growd_cli.terminal import echo_text
from growd_drivers.kinds import API_VERSION, SensorKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.own_kinds import Offer
    from growd_hwsim.driver_bench import TrialResult


_NO_TRIALS: Final = "There are no other trials, since nothing is simulated where it is."


@click.group()
def driver() -> None:
    """List, test and write drivers of your own (docs/drivers.md)."""


@driver.command("list")
@output_options
def list_command(*, as_json: bool) -> None:
    """List the drivers of installed packages, and whether each can be loaded.

    The exit status is 1 if one can't be loaded.
    """
    with plain_errors():
        rows = [_row(offer) for offer in all_offers()]
        lines = table(
            ("KIND", "PACKAGE", "VERSION", "STATE"),
            [(row["kind"], row["package"], row["version"], row["reason"] or "ok") for row in rows],
        )
        nothing = [f"no package with drivers is installed; this growd has interface {API_VERSION}"]
        print_result(rows, lines if rows else nothing, as_json=as_json)
        sys.exit(any(row["reason"] for row in rows))


def all_offers() -> list[Offer]:
    """All kinds of installed packages, those of sensors first."""
    return [*own_kinds.offers(own_kinds.SENSORS), *own_kinds.offers(own_kinds.OUTPUTS)]


def _row(offer: Offer) -> dict[str, Any]:
    kind = own_kinds.loaded([each for each in all_offers() if _competes(each, offer)])
    variables = sorted(kind.variables.values()) if isinstance(kind, SensorKind) else []
    return {
        "kind": offer.name,
        "group": offer.entry.group,
        "variables": variables,
        "package": offer.package,
        "version": offer.version,
        "reason": printable(own_kinds.reason_of(kind)),
    }


def _competes(one: Offer, other: Offer) -> bool:
    return (one.name, one.entry.group) == (other.name, other.entry.group)


@driver.command()
@click.argument("package")
@output_options
def test(*, package: str, as_json: bool) -> None:
    """Play the table of faults with the drivers of the installed PACKAGE, on their simulated chips.

    The exit status is 1 if a trial fails. The trials need no hardware.
    """
    with plain_errors():
        offers = [offer for offer in all_offers() if _same(offer.package, package)]
        if not offers:
            there = ", ".join(sorted({offer.package for offer in all_offers()})) or "none"
            refuse(f"{package} is not installed, or has no entry point of growd; installed: {there}")
        with redirect_stdout(sys.stderr):  # what a driver prints is no result
            results = [(offer.name, result) for offer in offers for result in results_of(offer)]
        if as_json:
            print_json(
                [
                    {"kind": kind, "trial": each.name, "failure": each.failure, "advice": each.advice}
                    for kind, each in results
                ]
            )
        else:
            echo_lines(_report(results))
        sys.exit(any(result.failure for _, result in results))


def _same(package: str, other: str) -> bool:
    """Whether two names are of one package (PEP 503)."""
    return package.lower().replace("_", "-") == other.lower().replace("_", "-")


def results_of(offer: Offer) -> Iterator[TrialResult]:
    """The rows of one kind; a driver or chip that can't be loaded is a failed row."""
    from growd_hwsim.driver_bench import TrialResult  # noqa: PLC0415
    from growd_simulation.driver_trials import results_of_kind  # noqa: PLC0415  the simulation, only for this
    from growd_simulation.simulated_hardware import chip_fault  # noqa: PLC0415

    kind = own_kinds.loaded([offer])
    if reason := own_kinds.reason_of(kind):
        yield TrialResult("loads", reason)
        return
    if not own_kinds.can_have_chip(kind):
        yield TrialResult("loads", advice=_NO_TRIALS)
        return
    if fault := chip_fault(kind, offer.name):
        yield TrialResult("has a simulated chip", fault, "Write one, and name it in `chip` of the kind.")
        return
    yield from results_of_kind(offer.name, kind)


def _report(results: list[tuple[str, TrialResult]]) -> Iterator[str]:
    rows = [
        (
            kind,
            each.name,
            "FAILED" if each.failure else "ok",
            printable(f"{each.failure} {each.advice}"),
        )
        for kind, each in results
    ]
    yield from table(("KIND", "TRIAL", "RESULT", "WHY"), rows)
    passed = sum(not each.failure for _, each in results)
    yield f"{passed} of {len(results)} trials passed."


@driver.command()
@click.argument("name")
@click.option("--i2c", "kind", flag_value="i2c", default="i2c", help="A sensor on I2C (the default).")
@click.option("--serial", "kind", flag_value="serial", help="A sensor on a serial line.")
@click.option("--output", "kind", flag_value="output", help="An output on I2C.")
def new(*, name: str, kind: str) -> None:
    """Write a package NAME with a driver, its simulated chip and tests, in a folder of that name.

    The tests pass as written. Choose a NAME that is not taken, such as growd-acme-co2.
    """
    with plain_errors():
        if NAME.fullmatch(name) and Path(name).exists():
            refuse(f"{name} exists already; choose another name")
        if fault := fault_of_name(name):
            raise click.UsageError(f"NAME {name!r} {fault}; choose another, such as growd-acme")
        for file in write_skeleton(Path(name), name, kind):
            echo_text(file)
        echo_text(f"Next: pip install -e {name}; growd driver test {name}")
