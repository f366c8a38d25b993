"""The common part of simulated sensors on I2C and serial lines: for wiring and faults."""

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

    `decoded` and `encoded` (the answer with another value, checksum included) count in 0..`full_scale`, in
    `unit`.
    """

    length: int
    full_scale: float
    decoded: Callable[[bytes], float]
    encoded: Callable[[bytes, float], bytes]
    unit: str = "counts"


class Chip:
    """A simulated chip. It is a sensor if it has a `measurement`."""

    name: ClassVar[str] = "chip"
    """For a sensor the name of its kind in the configuration; faults find it by this name."""

    senses: ClassVar[
        Literal[
            "air",
            "carbon_dioxide_ppm",
            "illuminance_lux",
            "ppfd_umol_m2_s",
            "photons_by_source",
            "water",
            "soil_moisture_percent",
            "is_door_open",
        ]
    ] = "air"
    """The method of `SimulatedChamber` that gives the true value, the first argument of the constructor."""

    measurement: ClassVar[Measurement | None] = None
    faults: ClassVar[tuple[str, ...]] = ()
    """The kinds of faults that it can have."""

    is_output: ClassVar[bool] = False
    """It drives an actuator: the first argument of its constructor is called with each level, 0..1."""

    warm_up_answer: ClassVar[bytes] = b""
    """What a serial sensor answers while it warms up."""

    restart_answer: ClassVar[bytes] = b""
    """The same after a brown-out, if it differs."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        is_named = cls.name != Chip.name  # a base of several chips has no name
        if is_named and (cls.measurement is not None or cls.is_output):
            SENSORS[cls.name] = cls

    def follow_at_once(self) -> None:
        """Have no lag: the values of a recording include the lag of the sensor that measured them."""
