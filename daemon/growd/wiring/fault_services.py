"""Services of the simulator: inject and clear faults while growd runs."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from growd.bus.errors import counted
from growd.bus.fields import Field, Kind
from growd_drivers.gpio import MAXIMUM_PIN
from growd_hwsim.errors import FaultError
from growd_hwsim.faults import parse_fault

if TYPE_CHECKING:
    from collections.abc import Collection

    from growd.bus import Bus
    from growd_hwsim.faults import Faults

logger = logging.getLogger(__name__)

_ARGUMENTS = (
    Field("kind", Kind.STRING, max_length=32, doc="what fails; see docs/faults.md"),
    Field("device", Kind.STRING, max_length=256, doc="a kind of sensor, or a place such as i2c-1 or gpio-18"),
    Field("at", Kind.FLOAT64, 0, unit="s", default=0.0, doc="from now"),
    Field("for", Kind.FLOAT64, 0, unit="s", default=0.0, doc="how long; 0: until it is cleared"),
    Field("probability", Kind.FLOAT64, 0, 1, default=1.0, doc="of each message"),
    Field("seed", Kind.INT64, default=0, doc="of the random generator"),
    Field("amount", Kind.FLOAT64, default=0.0, doc="of noise, or of drift in an hour; 0 for other kinds"),
)
MOST_FAULTS = 1_000
_ZERO_IS_NONE = {"for", "amount"}
_DEVICE = Field(
    "device", Kind.STRING, max_length=256, default="", doc="the device of the faults; default: all"
)

_SIMULATED = {
    "text": "the hardware is simulated: no sensor is read and no output is switched; "
    "for real hardware set [simulator] enabled = false",
    "is_failure": False,
    "is_note": True,
}


class FaultServices:
    """The services `simulator/inject_fault` and `simulator/clear_faults`. Their node lists the faults.

    Serial ports are refused unless a sensor is there (`ports`). It also warns in `growd status` that the
    hardware is simulated.
    """

    def __init__(self, bus: Bus, faults: Faults, ports: Collection[str] = ()) -> None:
        self._faults = faults
        self._ports = ports
        self.node = bus.node("simulator")
        self.node.serve(
            "simulator/inject_fault",
            "growd/InjectFault",
            self._inject,
            arguments=_ARGUMENTS,
            doc="Inject a fault into the simulated machine, as an entry of a faults file does.",
            is_administrative=True,
        )
        self.node.serve(
            "simulator/clear_faults",
            "growd/ClearFaults",
            self._clear,
            arguments=(_DEVICE,),
            doc="Clear faults.",
            is_administrative=True,
        )
        self.node.describe("hardware", lambda: "simulated")
        self.node.describe("problems", lambda: [_SIMULATED])
        self.node.describe("faults", lambda: [asdict(fault) for fault in faults.active()])

    async def _inject(self, **entry: Any) -> dict[str, Any]:
        given = {name: value for name, value in entry.items() if value or name not in _ZERO_IS_NONE}
        try:
            fault = parse_fault(given)
        except FaultError as error:
            return {"success": False, "message": str(error)}
        if fault.device.startswith("gpio-") and int(fault.device.removeprefix("gpio-")) > MAXIMUM_PIN:
            message = f"device must be a pin from gpio-0 to gpio-{MAXIMUM_PIN}, not {fault.device!r}"
            return {"success": False, "message": message}
        if fault.device.startswith("/dev/") and fault.device not in self._ports:
            there = ", ".join(sorted(self._ports)) or "none"
            message = f"device: no sensor is at the serial port {fault.device}; there is {there}"
            return {"success": False, "message": message}
        if len(self._faults.active()) >= MOST_FAULTS:
            return {"success": False, "message": f"there are {MOST_FAULTS} faults already; clear some"}
        self._faults.inject(fault)
        logger.info("simulated fault: %s at %s", fault.kind, fault.device)
        return {"success": True, "message": f"{fault.kind} at {fault.device}"}

    async def _clear(self, device: str) -> dict[str, Any]:
        number = self._faults.clear(device or None)
        return {"success": True, "message": f"{counted(number, 'fault')} cleared"}
