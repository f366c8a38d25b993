"""Services of devices beside reading and writing, such as calibrations."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from growd.bus.errors import NotKeptError
from growd.bus.services import done, refused
from growd.control.calibration import Calibration
from growd.control.calibration_log import CalibrationRecord
from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS, DeviceTimeoutError
from growd.control.interlocks.saved_states import SAVE_ERRORS
from growd.runtime.sentence import Sentence, code_of, of_error, reworded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.bus import Node
    from growd.bus.fields import Field
    from growd.control.calibration import SteadyAir
    from growd.control.calibration_log import CalibrationLog
    from growd.control.interlocks.carbon_dioxide import SensorCalibrations
    from growd.runtime.clock import Clock
    from growd.runtime.worker import Worker
    from growd_drivers.kinds import CalibrationKind

logger = logging.getLogger(__name__)

_MOST_SHOWN = 120  # readings in the information of a node
_AFTER_S = 8.0  # for the first reading after a calibration; clients wait for 10 s
_LOOK_S = 0.5
_AUTOMATIC = (
    "the automatic baseline treats the lowest value of a day as fresh air, which hides CO2 from the "
    "interlocks; if the chamber gets fresh air each day, set self_calibration = true in the configuration"
)


class DeviceService(msgspec.Struct, frozen=True):
    """A service of a device.

    `call` blocks, takes the checked arguments by name and returns a sentence about what it did. An OSError,
    RuntimeError or ValueError refuses the call with its text. A service that `calibrates` a sensor of
    `variable` has `air`, which returns at once what the sensor has measured. A service that `is_automatic`
    lets the sensor calibrate itself while its argument `data` is true.
    """

    name: str
    request_type: str
    call: Callable[..., str]
    arguments: tuple[Field, ...] = ()
    doc: str = ""
    variable: str = ""
    calibrates: CalibrationKind | None = None
    air: Callable[[CalibrationKind], SteadyAir] | None = None
    is_automatic: bool = False


class DeviceServices:
    """Offers services of a device on `node`, each as `<node>/<service>`; the calls run in the worker.

    All are administrative: most outlast growd, in the device itself. A call comes after a reading that is
    under way; one at a time, each within `limit_s`. `calibrations` is asked before each calibration, if there
    is anybody to ask. `log` keeps a record of each calibration before it is reported as done.
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
        calibrations: SensorCalibrations | None = None,
        log: CalibrationLog | None = None,
    ) -> None:
        self._node = node
        self._log = log
        self._calibrations = calibrations
        self._is_busy = False
        self._device = device
        self._calls = DeviceCalls(device, worker, clock, limit_s)
        self._ends: dict[str, dict[str, Any]] = {}  # by service: how its last call ended
        self._clock = clock
        services = tuple(services)
        calibrating = [(each.name, each.calibrates, each.air) for each in services]
        if any(kind is not None for _, kind, _ in calibrating):
            node.describe(
                "calibrations",
                lambda: [
                    self._calibration(name, kind, air(kind))
                    for name, kind, air in calibrating
                    if kind is not None and air is not None
                ],
            )
        for service in services:
            node.serve(
                f"{node.name}/{service.name}",
                service.request_type,
                functools.partial(self._serve, service),
                arguments=service.arguments,
                doc=service.doc,
                names_caller=True,
                is_administrative=True,
            )

    def close(self) -> None:
        """Stop waiting for the call that is pending, if there is one."""
        self._calls.close()

    def _calibration(self, name: str, kind: CalibrationKind, now: SteadyAir) -> dict[str, Any]:
        """A calibration: what it waits for, what the sensor measures, and how the last one ended."""
        reason, left_s = ("", 0.0) if self._calibrations is None else self._calibrations.why_no_calibration()
        if not kind.is_of_carbon_dioxide:
            reason, left_s = "", 0.0
        waits = None if left_s is None else max(left_s, kind.steady_s - now.lasted_s)
        step = -(-len(now.recent) // _MOST_SHOWN) or 1
        return {
            "service": f"{self._node.name}/{name}",
            "unit": kind.unit,
            "reference_range": kind.reference_range,
            "reference": kind.reference,
            "reading": now.reading,
            "doc": kind.doc,
            "steady_s": kind.steady_s,
            "lasted_s": now.lasted_s,
            "recent": [[-round(age, 1), ppm] for age, ppm in now.recent[::step]],
            "reason": now.reason or reason,
            **code_of(now.reason or reason),
            "wait_s": waits,
            "last": self._ends.get(name),
            **(_in_ppm(kind, now) if kind.is_of_carbon_dioxide else {}),
        }

    async def _serve(self, service: DeviceService, *, who: str, **arguments: Any) -> dict[str, Any]:
        answer = await self._answer(service, arguments, who)
        self._ends[service.name] = {
            "time": self._clock.time(),
            **arguments,
            **answer,
            **code_of(answer["message"]),
        }
        return answer

    async def _answer(self, service: DeviceService, arguments: dict[str, Any], who: str) -> dict[str, Any]:
        if self._is_busy or self._calls.is_pending:
            return refused(f"{self._device} is still busy with an earlier call")
        if service.is_automatic and arguments["data"] and self._calibrations is not None:
            return refused(_AUTOMATIC)
        self._is_busy = True  # also between the calls of a calibration
        try:
            refusal, message = await self._done(service, arguments, who)
        except DeviceTimeoutError as error:
            said = of_error(error)
            return refused(reworded(f"{error}; the device may still carry it out", said, device=self._device))
        except NotKeptError:
            raise  # the device is in order
        except DEVICE_ERRORS as error:
            said = of_error(error)
            return refused(reworded(said, said, device=self._device))
        finally:
            self._is_busy = False
        if refusal:
            return refused(refusal)
        logger.info("%s: %s", self._node.name, message)
        if service.calibrates is not None:
            message = Sentence(message, "calibrated", device=self._device)
        return done(message)

    async def _done(self, service: DeviceService, arguments: dict[str, Any], who: str) -> tuple[str, str]:
        """Why it was refused (or ""), and what was done."""
        call = functools.partial(service.call, **arguments)
        kind = service.calibrates
        if kind is None or service.air is None:
            return "", await self._calls.run(call)
        if self._log is not None:
            self._log.require_read()
        air = service.air(kind)
        if air.reading is None:
            return air.reason, ""
        reference: float = arguments.get("reference", kind.reference)
        calibration = Calibration(air.reading, reference, kind.scales)
        judge = self._calibrations if kind.is_of_carbon_dioxide else None
        refusal = (
            calibration.why_not() if kind.is_of_carbon_dioxide else _too_far(kind, air.reading, reference)
        )
        if not refusal and judge is not None:
            refusal = await judge.begin_calibration(self._device, calibration)
        if refusal:
            return refusal, ""
        message = await self._calls.run(call)
        if judge is not None:
            judge.end_calibration(self._device, calibration)
        if self._log is None:
            return "", message
        is_given = kind.reference_range is not None or kind.is_of_carbon_dioxide
        record = CalibrationRecord(
            self._device,
            service.name,
            service.variable,
            kind.unit,
            before=air.reading,
            after=await self._reading_after(service.air, kind),
            reference=reference if is_given else None,
            by=who,
            time=self._clock.time(),
        )
        try:
            await self._log.keep(record)
        except SAVE_ERRORS as error:
            words = f"{self._device} was calibrated, but the record of it could not be saved: {error}"
            raise NotKeptError(words) from error
        return "", message

    async def _reading_after(
        self, air: Callable[[CalibrationKind], SteadyAir], kind: CalibrationKind
    ) -> float | None:
        """The first reading after a calibration, None if none comes in time."""
        end = self._clock.monotonic() + _AFTER_S
        while not (recent := air(kind).recent):
            if self._clock.monotonic() >= end:
                return None
            await self._clock.sleep(_LOOK_S)
        return recent[0][1]


def _in_ppm(kind: CalibrationKind, now: SteadyAir) -> dict[str, Any]:
    """The names that clients know from the time when only CO2 sensors were calibrated."""
    return {
        "reference_range_ppm": kind.reference_range,
        "reference_ppm": kind.reference,
        "reading_ppm": now.reading,
    }


def _too_far(kind: CalibrationKind, reading: float, reference: float) -> str:
    """Why a reference is probably a mistake, or ""."""
    if abs(reading - reference) <= kind.most_off:
        return ""
    text = (
        f"the sensor reads {reading:.4g} {kind.unit}, and {reference:g} {kind.unit} is more than "
        f"{kind.most_off:g} away: check the solution and the probe"
    )
    return Sentence(text, "reference_too_far", reading=reading, reference=reference, unit=kind.unit)
