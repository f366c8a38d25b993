"""Calibrations of CO2 sensors, as the ceiling permits and records them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.control.interlocks.base import UNREAD
from growd.control.interlocks.saved_states import SAVE_ERRORS

if TYPE_CHECKING:
    from growd.control.calibration import Calibration
    from growd.control.interlocks.carbon_dioxide import CarbonDioxideCeiling, DosePerHour
    from growd.control.interlocks.node import Interlocks
    from growd.runtime.clock import Clock


class SensorCalibrations:
    """The `Calibrations` of a chamber. `doses` is the record of open valves, None without a valve."""

    def __init__(
        self, interlocks: Interlocks, clock: Clock, ceiling: CarbonDioxideCeiling, doses: DosePerHour | None
    ) -> None:
        self._saved = interlocks.saved
        self._clock = clock
        self._ceiling = ceiling
        self._doses = doses
        interlocks.node.describe("calibrations", lambda: ceiling.calibrations)

    def judges(self, device: str) -> bool:
        """Whether the ceiling uses the readings of this sensor."""
        return self._ceiling.uses(device)

    async def begin_calibration(self, device: str, calibration: Calibration) -> str:
        """See `Calibrations`. A calibration that lowers the readings is on the disk before it is done."""
        if not self._saved.is_loaded:
            return UNREAD
        refusal = self._ceiling.why_no_calibration(device, calibration) or self._why_not_shut()
        if refusal or not calibration.lowers:
            return refusal
        async with self._saved.exclusive():
            before = self._ceiling.corrections
            self._ceiling.calibrated(device, calibration)
            try:
                await self._saved.save()
            except SAVE_ERRORS as error:
                refusal = f"{device} was not calibrated, because the calibration could not be saved: {error}"
            else:
                refusal = self._why_not_shut()  # again: the disk may have been slow
            if refusal:
                self._ceiling.undo_calibration(before)
        return refusal

    def why_no_calibration(self) -> tuple[str, float | None]:
        """See `Calibrations`."""
        if not self._saved.is_loaded:
            return UNREAD, None
        now = self._clock.monotonic()
        return (self._why_not_shut(), self._doses.shut_in_s(now)) if self._doses is not None else ("", 0.0)

    def end_calibration(self, device: str, calibration: Calibration) -> None:
        """See `Calibrations`. A calibration that raises the readings is saved with the next update."""
        if not calibration.lowers:
            self._ceiling.calibrated(device, calibration)

    def _why_not_shut(self) -> str:
        """Why the air may not be steady enough for a calibration, or ""."""
        return "" if self._doses is None else self._doses.why_not_shut(self._clock.monotonic())
