"""Samplers: each reads one device at a steady pace and publishes what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.bus.errors import InvalidValueError
from growd.bus.fields import Field, Kind
from growd.bus.messages import FLOAT64, Quality
from growd.control.calls import DeviceCalls
from growd.control.device_services import DeviceServices
from growd.control.errors import DEVICE_ERRORS, NoReadingError
from growd.control.health import Health, State
from growd.control.topics import raw
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from growd.bus import Bus
    from growd.control.device_services import DeviceService
    from growd.worker import Worker

SLICE_S: Final = 5.0  # a changed interval takes effect within this time, however long the old one is
NOT_READY_RETRY_S: Final = 1.0
NOT_READY_LIMIT_S: Final = 30.0
MAX_DOUBLINGS: Final = 16


class NeverNotReadyError(Exception):
    """Stands where a device has no error that means "no new reading yet"."""


class Sampler:
    """Reads one device and publishes each of its variables on `<environment>/raw/<variable>`.

    `read` runs in the worker thread of the device's bus and returns values by variable. What it raises from
    OSError, RuntimeError or ValueError is a failure of the device, `not_ready` a device that has no new
    reading yet; anything else is a mistake in the program and ends `run`.

    An outage is one message of quality fault without a value for each variable: an old reading is never
    published again as a new one. While it lasts the sampler tries again after a growing delay of at most
    `retry_limit_s`. A value out of its variable's range is a fault of that variable alone. `not_ready` counts
    as a failure only after `not_ready_limit_s`; before the first reading it is warm-up.

    All times in seconds of the bus's clock. The interval is the parameter
    `<environment>/samplers/<device>/interval`. The device's `services` stand beside it, within
    `read_timeout_s` each.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        device: str,
        *,
        read: Callable[[], Mapping[str, float]],
        variables: Iterable[str],
        worker: Worker,
        interval_s: float = 5.0,
        read_timeout_s: float = 2.0,
        not_ready: type[Exception] = NeverNotReadyError,
        not_ready_limit_s: float = NOT_READY_LIMIT_S,
        retry_limit_s: float = 60.0,
        services: Iterable[DeviceService] = (),
    ) -> None:
        self.node = bus.node(f"{environment}/samplers/{device}")
        self._clock = bus.clock
        self._device = device
        self._read = read
        self._calls = DeviceCalls(device, worker, bus.clock, read_timeout_s)
        self._services = DeviceServices(
            self.node, device, services, worker=worker, clock=bus.clock, limit_s=read_timeout_s
        )
        self._health = Health(self.node, environment, device, bus.clock)
        self._fields = [_field(variable) for variable in variables]
        self._publishers = {
            field.name: self.node.advertise(raw(environment, field.name), FLOAT64) for field in self._fields
        }
        self._interval = self.node.declare(
            f"{environment}/samplers/{device}/interval",
            Field("interval", Kind.FLOAT64, 0.1, 86_400, "s", default=interval_s),
        )
        self._not_ready = not_ready
        self._not_ready_limit = not_ready_limit_s
        self._retry_limit = retry_limit_s
        self._slot = 0.0
        self._failures = 0
        self._waiting_since: float | None = None
        self._last_quality: dict[str, Quality] = {}

    async def run(self) -> None:
        """Sample until cancelled, on a schedule without drift: a slot that was missed is skipped."""
        self._slot = self._clock.monotonic()
        try:
            while True:
                await self._sample()
                await self._wait_for_slot()
        finally:
            await self._services.close()
            await self._calls.close()

    async def _sample(self) -> None:
        try:
            reading = await self._calls.run(self._read)
        except self._not_ready:
            self._no_reading_yet()
        except DEVICE_ERRORS as error:
            self._waiting_since = None
            self._failed(error)
        else:
            self._waiting_since = None
            self._failures = 0
            self._publish(reading)

    async def _wait_for_slot(self) -> None:
        delay = self._delay()
        self._slot += (self._clock.monotonic() - self._slot) // delay * delay
        while (left := self._slot + self._delay() - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left, SLICE_S))
        self._slot += self._delay()

    def _delay(self) -> float:
        interval: float = self._interval.value
        if self._failures:
            grown = interval * 2.0 ** min(self._failures - 1, MAX_DOUBLINGS)
            return min(grown, max(interval, self._retry_limit))
        if self._waiting_since is not None:
            return min(interval, NOT_READY_RETRY_S)
        return interval

    def _publish(self, reading: Mapping[str, float]) -> None:
        wrong = []
        for field in self._fields:
            try:
                value = field.check(reading.get(field.name))
            except InvalidValueError as error:
                wrong.append(str(error))
                self._publish_without_value(field.name, Quality.FAULT)
            else:
                self._publishers[field.name].publish(value)
                self._last_quality[field.name] = Quality.OK
        self._health.report(State.DEGRADED if wrong else State.OK, "; ".join(wrong))

    def _no_reading_yet(self) -> None:
        now = self._clock.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since >= self._not_ready_limit:
            self._failed(NoReadingError(self._device, now - self._waiting_since))
            return
        self._failures = 0
        if self._health.state is State.STARTING:
            for variable in self._publishers:
                self._publish_without_value(variable, Quality.WARM_UP)
            self._health.report(State.WARM_UP, f"{self._device} has no reading yet")

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        for variable in self._publishers:
            self._publish_without_value(variable, Quality.FAULT)
        self._health.report(State.FAILED, str(error) or type(error).__name__)

    def _publish_without_value(self, variable: str, quality: Quality) -> None:
        """Say it once: until the next reading nothing new is known."""
        if self._last_quality.get(variable) is not quality:
            self._publishers[variable].publish(None, quality)
            self._last_quality[variable] = quality


def _field(variable: str) -> Field:
    known = VARIABLES[variable]
    return Field(variable, Kind.FLOAT64).within(known.minimum, known.maximum, known.unit)
