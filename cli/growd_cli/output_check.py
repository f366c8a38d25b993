"""`growd check --outputs`: the self-test of the outputs, by the running daemon."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd_cli.client import ordered
from growd_cli.output import echo_lines, print_json, table
from growd_cli.terminal import echo_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd_cli.options import DaemonOptions
    from growd_client.connection import DaemonClient

_LOOK_S: Final = 1.0
_OUTCOMES: Final = {"passed": "✓ passed", "failed": "✕ failed", "not_tested": "- not tested"}


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
        print_json(msgspec.to_builtins(report))
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
