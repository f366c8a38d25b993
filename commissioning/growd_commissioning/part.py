"""The part of a running daemon with the experiments of each environment."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from growd_commissioning.self_test import SelfTest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from growd.parts import ControlledChamber, Surroundings
    from growd_commissioning.experiments import Experiment


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Offer the experiments."""
    around.experiments.offer("commissioning", experiments_of)
    yield


def experiments_of(control: ControlledChamber) -> Iterator[Experiment]:
    """The experiments of an environment, new. One of them runs at a time.

    A chamber imports only those that it can have.
    """
    made: list[Experiment] = []

    def running() -> str:
        return next((each.running for each in made if each.running), "")

    for each in _made(control, running):
        made.append(each)
        yield each


def _made(control: ControlledChamber, running: Callable[[], str]) -> Iterator[Experiment]:
    chamber = control.chamber
    # the calibration goes through the levels of the lamp
    if control.lamp is not None and chamber.controls_illuminance and not chamber.is_lamp_switched:
        from growd_commissioning.light_calibration import LightCalibration  # noqa: PLC0415

        yield LightCalibration(control, control.lamp, running)
    for variable, loop in control.loops.items():
        from growd.wiring.loops import can_tune  # noqa: PLC0415
        from growd_commissioning.autotune import autotuner  # noqa: PLC0415

        if can_tune(chamber, variable):
            yield autotuner(chamber, control.bus, loop, control.interlocks, running)
    if control.log is not None and control.pumps.dosing:
        from growd_commissioning.pump_calibration import PumpCalibration  # noqa: PLC0415

        yield PumpCalibration(control, control.log, running)
    yield SelfTest(control, running)
