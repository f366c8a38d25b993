"""Services of devices beside reading and writing, such as calibrations."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from growd.control.calibration import Calibration
from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS, DeviceTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.bus import Node
    from growd.bus.fields import Field
    from growd.control.calibration import Calibrations
    from growd.device_kinds import CalibrationKind
    from growd.runtime.clock import Clock
    from growd.runtime.worker import Worker

logger = logging.getLogger(__name__)

_AUTOMATIC = (
    "the automatic baseline treats the lowest value of a day as fresh air, which hides CO2 from the "
    "interlocks; if the chamber gets fresh air each day, set self_calibration = true in the configuration"
)


@dataclass(frozen=True, slots=True)
class DeviceService:
    """A service of a device.

    `call` blocks, takes the checked arguments by name and returns a sentence about what it did. An OSError,
    RuntimeError or ValueError refuses the call with its text. A service that `calibrates` a CO2 sensor has
    `steady`, which blocks and returns the reading in steady air (ppm), or raises as `call`. A service that
    `is_automatic` lets the sensor calibrate itself while its argument `data` is true.
    """

    name: str
    request_type: str
    call: Callable[..., str]
    arguments: tuple[Field, ...] = ()
    doc: str = ""
    calibrates: CalibrationKind | None = None
    steady: Callable[[CalibrationKind], float] | None = None
    is_automatic: bool = False


class DeviceServices:
    """Offers services of a device on `node`, each as `<node>/<service>`; the calls run in the worker.

    All are administrative: most outlast growd, in the device itself.

    They have their own `DeviceCalls`: a call does not collide with a reading that is under way, but comes
    after it. One at a time; each within `limit_s` seconds of the clock. `calibrations` is asked before each
    calibration, if there is anybody to ask.
    """

    def __init__(
        self,
        node: Node,
        device: str,
        services: Iterable[DeviceService],
        *,
        worker: Worker,
        clock: Clock,
        limit_s: float,
        calibrations: Calibrations | None = None,
    ) -> None:
        self._node = node
        self._calibrations = calibrations
        self._is_busy = False
        self._device = device
        self._calls = DeviceCalls(device, worker, clock, limit_s)
        for service in services:
            node.serve(
                f"{node.name}/{service.name}",
                service.request_type,
                functools.partial(self._serve, service),
                arguments=service.arguments,
                doc=service.doc,
                is_administrative=True,
            )

    def close(self) -> None:
        """Stop waiting for the call that is pending, if there is one."""
        self._calls.close()

    async def _serve(self, service: DeviceService, **arguments: Any) -> dict[str, Any]:
        if self._is_busy or self._calls.is_pending:
            return _refused(f"{self._device} is still busy with an earlier call")
        if service.is_automatic and arguments["data"] and self._calibrations is not None:
            return _refused(_AUTOMATIC)
        self._is_busy = True  # also between the calls of a calibration
        try:
            refusal, message = await self._done(service, arguments)
        except DeviceTimeoutError as error:
            return _refused(f"{error}; the device may still carry it out")
        except DEVICE_ERRORS as error:
            return _refused(str(error) or type(error).__name__)
        finally:
            self._is_busy = False
        if refusal:
            return _refused(refusal)
        logger.info("%s: %s", self._node.name, message)
        return {"success": True, "message": message}

    async def _done(self, service: DeviceService, arguments: dict[str, Any]) -> tuple[str, str]:
        """Why it was refused (or ""), and what was done."""
        call = functools.partial(service.call, **arguments)
        if service.calibrates is None or service.steady is None:
            return "", await self._calls.run(call)
        reference: float = arguments.get("reference", service.calibrates.reference_ppm)
        reading = await self._calls.run(service.steady, service.calibrates)
        calibration = Calibration(reading, reference, service.calibrates.scales)
        refusal = calibration.why_not()
        if not refusal and self._calibrations is not None:
            refusal = await self._calibrations.begin_calibration(self._device, calibration)
        if refusal:
            return refusal, ""
        message = await self._calls.run(call)
        if self._calibrations is not None:
            self._calibrations.end_calibration(self._device, calibration)
        return "", message


def _refused(message: str) -> dict[str, Any]:
    return {"success": False, "message": message}
