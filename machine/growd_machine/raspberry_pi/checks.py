"""`growd check --pi`: everything about the machine that a chamber depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd_machine.raspberry_pi.bus_checks import bus_findings
from growd_machine.raspberry_pi.machine_checks import machine_findings
from growd_machine.raspberry_pi.service_checks import service_findings

if TYPE_CHECKING:
    from growd_machine.raspberry_pi.findings import PiFinding, PiScene


def check_pi(scene: PiScene) -> list[PiFinding]:
    """Look at the machine, the buses, ports and pins of the configuration, and the service. Blocking."""
    return [*machine_findings(scene), *bus_findings(scene), *service_findings(scene)]
