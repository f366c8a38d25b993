"""What simulated sensors have in common, whatever they are connected to: for wiring and faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

SENSORS: dict[str, type[Chip]] = {}
"""The simulated sensors by their names. Importing `growd_hwsim.chips` fills it."""


@dataclass(frozen=True)
class Measurement:
    """How a measurement is encoded in an answer of `length` bytes, for faults that change it.

    `decoded` and `encoded` (the answer with another value, checksum included) count in 0..`full_scale`.
    """

    length: int
    full_scale: float
    decoded: Callable[[bytes], float]
    encoded: Callable[[bytes, float], bytes]


class Chip:
    """A simulated chip. It is a sensor if it has a `measurement`."""

    name: ClassVar[str] = "chip"
    """For a sensor the name of its kind in the configuration; faults find it by this name."""

    senses: ClassVar[Literal["air", "carbon_dioxide_ppm", "illuminance_lux"]] = "air"
    """The method of `SimulatedChamber` that gives the true value, the first argument of the constructor."""

    measurement: ClassVar[Measurement | None] = None
    faults: ClassVar[tuple[str, ...]] = ()
    """The kinds of faults that it can have."""

    warm_up_answer: ClassVar[bytes] = b""
    """What a serial sensor answers while it warms up."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.measurement is not None:
            SENSORS[cls.name] = cls

    def follow_at_once(self) -> None:
        """Have no lag: the values of a recording include the lag of the sensor that measured them."""
