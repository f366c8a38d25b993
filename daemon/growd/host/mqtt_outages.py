"""Connections to the MQTT broker that are made again after each outage."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from growd.host.mqtt_connection import LOST
from growd.runtime.pauses import Pauses
from growd.runtime.task_fault import TaskFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.host.mqtt_connection import Broker

PAUSES: Final = Pauses(1.0, 60.0)
"""Between attempts to connect, in real seconds."""

_BRIEF_S: Final = 10.0
_MANY: Final = 3  # brief connections in a row

_log = logging.getLogger(__name__)


class BrokerOutages:
    """Connects again after growing pauses, and logs the begin and the end of an outage.

    `name` is that of the broker in sentences. `identifier` is that of the client at the broker.
    """

    def __init__(self, broker: Broker, identifier: str, pauses: Pauses = PAUSES) -> None:
        self.name = f"the MQTT broker {broker.host}:{broker.port}"
        self._fault = TaskFault(_log, f"{self.name} can't be reached", f"{self.name} can be reached again")
        self._timeout_s = broker.timeout_s
        self._identifier = identifier
        self._pauses = pauses
        self._brief = 0

    @property
    def reason(self) -> str:
        """Why there is no connection; "" before the first failure and while there is one."""
        return str(self._fault)

    async def keep(self, connect: Callable[[], Awaitable[None]]) -> None:
        """Call `connect` until cancelled. It connects, calls `end`, and raises OSError at a loss."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await connect()
            except* OSError as errors:
                self._begin(_first(errors), is_brief=loop.time() - began < _BRIEF_S)
            await asyncio.sleep(self._pauses.after(max(1, self._fault.failures)))

    def end(self) -> None:
        """The connection is of use: the next outage begins with the first pause."""
        self._fault.succeeded()

    def _begin(self, error: OSError, *, is_brief: bool) -> None:
        reason = error.strerror or str(error) or f"no answer within {self._timeout_s:g} s"
        self._brief = self._brief + 1 if is_brief and reason == LOST else 0
        if self._brief >= _MANY:  # MQTT 3.1.1 gives no reason
            reason += f" within seconds, again and again; another client may have the id {self._identifier}"
        self._fault.failed(reason)


def _first(errors: BaseExceptionGroup[OSError]) -> OSError:
    """The first error in a group of groups."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
