"""What a device can be asked to do beside being read or written, such as a calibration, as services."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS, DeviceTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.bus import Node
    from growd.bus.fields import Field
    from growd.clock import Clock
    from growd.worker import Worker

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeviceService:
    """One thing that a device can be asked to do.

    `call` is blocking, takes the checked arguments by name and returns in words what it has done. What it
    raises from OSError, RuntimeError or ValueError is the reason of a refusal.
    """

    name: str
    request_type: str
    call: Callable[..., str]
    arguments: tuple[Field, ...] = ()
    doc: str = ""


class DeviceServices:
    """Offers services of a device on `node`, each as `<node>/<service>`; the calls run in the worker.

    All are administrative: most outlast growd, in the device itself.

    They have their own `DeviceCalls`: a call does not collide with a reading that is under way, but comes
    after it. One at a time; each within `limit_s` seconds of the clock.
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
    ) -> None:
        self._node = node
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
        if self._calls.is_pending:
            return _refused(f"{self._device} is still busy with what it was asked before")
        try:
            message = await self._calls.run(functools.partial(service.call, **arguments))
        except DeviceTimeoutError as error:
            return _refused(f"{error}; what was asked of it may still be done")
        except DEVICE_ERRORS as error:
            return _refused(str(error) or type(error).__name__)
        logger.info("%s: %s", self._node.name, message)
        return {"success": True, "message": message}


def _refused(message: str) -> dict[str, Any]:
    return {"success": False, "message": message}
