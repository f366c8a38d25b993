"""Requests a second of the API, against a bare aiohttp application on the same event loop.

16 connections; 200 topics; each message goes to 10 subscribers; each parameter is on the disk when its answer
goes out.
"""

from __future__ import annotations

from dataclasses import dataclass

from measuring import API, Options, Process, Row, compared, has, main, pairs, post, server, wrk


@dataclass(frozen=True)
class Case:
    """One kind of request; in `body`, JSON to post, N is another number each time."""

    name: str
    path: str
    least: float  # of the reference's rate
    body: str = ""


CASES = (
    Case("GET a parameter", "/param/chamber/parameter_0", 0.75),
    Case("POST a parameter", "/param/chamber/parameter_0", 0.7, '{"value": N}'),
    Case("POST a message to 10 subscribers", "/topic/chamber/measured/variable_0", 0.7, "[N]"),
    Case("GET the list of 200 topics", "/topic", 0.6),
    Case("GET the list of 20 services", "/service", 0.6),
    Case("GET the list of nodes", "/node", 0.6),
)


def measure(options: Options) -> list[Row]:
    if not has("wrk"):
        return []
    growd = server("core", "--topics", 200, "--subscribers", 10, "--parameters", 100, "--services", 20)
    with growd as ours, server("bare") as bare:
        return [_row(ours, bare, options, case) for case in CASES]


def _row(ours: Process, bare: Process, options: Options, case: Case) -> Row:
    script = post(case.body) if case.body else ""
    measured = pairs(
        lambda: wrk(ours.url(API + case.path), options.seconds, script=script).rate,
        lambda: wrk(bare.url("/"), options.seconds, script=script).rate,
        options.rounds,
    )
    return compared(case.name, "requests/s", measured, at_least=case.least)


if __name__ == "__main__":
    main(measure, seconds=2.0)
