"""Faults of a simulation as words: `KIND:DEVICE@TIME`, such as `absent:scd30@2d6h+30min`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from growd_simulation.fault_services import fault_among, fault_places

if TYPE_CHECKING:
    from growd.config import Config
    from growd_hwsim.faults import Fault

FORM: Final = "KIND[=AMOUNT]:DEVICE@TIME[+LENGTH]"
_FAULT: Final = re.compile(
    r"(?P<kind>\w+)(?:=(?P<amount>[^:]+))?:(?P<device>.+)@(?P<at>\w[\w.]*)(?:\+(?P<length>[\w.]+))?"
)
_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(d|h|min|s)")


def fault_of(text: str, config: Config) -> Fault:
    """The fault at a device of this configuration. Raises ValueError with a sentence."""
    found = _FAULT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is not {FORM}, such as absent:scd30@2d6h+30min")
    kind, amount, device, at, length = found.group("kind", "amount", "device", "at", "length")
    try:
        entry: dict[str, Any] = {"kind": kind, "device": device, "at": _seconds(at)}
        if length:
            entry["for"] = _seconds(length)
        if amount:
            entry["amount"] = float(amount)
        return fault_among(fault_places(config), entry)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None


def _seconds(text: str) -> float:
    """Seconds of a time such as 2d6h. Raises ValueError."""
    if not re.fullmatch(f"(?:{_PART.pattern})+", text):
        raise ValueError(f"expected a time such as 2d6h or 90min, got {text}")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
