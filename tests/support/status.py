"""A status of a chamber in which nothing is measured and nothing fails, for tests that change it."""

from __future__ import annotations

from growd.status.model import Counters, Status
from growd.store.store_node import StoreStatus

NEVER = Counters(0, 0, 0, 0.0, "", 0.0)
STORE = StoreStatus(0, 0, 0, 0, 0, "", "", 0.0, [])
EMPTY = Status(
    time=1e9,
    machine_time=1e9,
    machine=None,
    database=None,
    variables=[],
    recipes=[],
    devices=[],
    interlocks=[],
    store=None,
    replications=[],
)
