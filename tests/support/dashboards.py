"""The dashboards of docs/monitoring and the queries in them."""

import json

from msgspec.structs import replace

from growd.host.hold import Hold, Holder
from growd.status.model import Reading, VariableStatus
from support.checkout import ROOT
from support.status import FULL, SHELF

MONITORING = ROOT / "docs/monitoring"
DASHBOARDS = sorted((MONITORING / "grafana/dashboards").glob("*.json"))
PROMETHEUS, HISTORY = "growd-prometheus", "growd-history"
VARIABLE = "air_humidity"
MONITORED = replace(
    FULL,
    variables=[
        VariableStatus(
            SHELF,
            VARIABLE,
            "percent",
            Reading(40.0, "ok", 1.0, "filter"),
            Reading(60.0, "ok", 9.0, "hand"),
            Reading(0.5, "ok", 1.0, "control"),
            0.0,
            is_sensed=True,
        )
    ],
    machine=FULL.machine and replace(FULL.machine, load_1min=0.5),
    holds=[Hold(Holder.PERSON)],
)
"""A status with all that the dashboards show."""


def dashboard(name):
    return json.loads((MONITORING / f"grafana/dashboards/{name}.json").read_text())


def targets(board, source):
    """The queries of all panels to this data source."""
    for panel in board["panels"]:
        yield from (each for each in panel.get("targets", []) if each["datasource"]["uid"] == source)


def filled(query, **values):
    """The query with the values of its variables, as Grafana sends it."""
    for name, value in values.items():
        query = query.replace(f"${{{name}}}", value).replace(f"${name}", value)
    return query
