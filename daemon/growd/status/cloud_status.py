"""How the reports to a cloud go."""

from __future__ import annotations

from typing import Literal

import msgspec


class CloudStatus(msgspec.Struct, frozen=True):
    """How the reports to the cloud at `server` go; `reported_at` in UNIX seconds of the machine, 0 for never.

    `state`: "starting", "reporting", "away" (no answer), "refused", or "none" if the server takes no reports.
    `fault` says why none is taken, "" if the last one was. `clock` says that the clocks of the machine and of
    the cloud differ, "" if they agree.
    """

    server: str
    state: Literal["starting", "reporting", "away", "refused", "none"] = "starting"
    reported_at: float = 0.0
    fault: str = ""
    clock: str = ""
