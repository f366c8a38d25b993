"""Samplers: each reads one device at a fixed interval and publishes the values."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from growd.bus.errors import InvalidValueError
from growd.bus.fields import Field, Kind
from growd.bus.messages import FLOAT64, Quality
from growd.control.calls import DeviceCalls
from growd.control.device_services import DeviceServices
from growd.control.errors import DEVICE_ERRORS, NoReadingError
from growd.control.health import Health, State
from growd.control.topics import feedback, raw
from growd.runtime.pauses import Pauses
from growd.runtime.sentence import Sentence, of_error
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from growd.bus import Bus, Node
    from growd.control.calibration_log import CalibrationLog
    from growd.control.device_services import DeviceService
    from growd.control.interlocks.carbon_dioxide import SensorCalibrations
    from growd.runtime.liveness import Heartbeat
    from growd.runtime.worker import Worker

SLICE_S: Final = 5.0  # a changed interval takes effect within this time
NOT_READY_RETRY_S: Final = 1.0
NOT_READY_LIMIT_S: Final = 30.0
SILENCE_S: Final = 10.0  # a device that answers without a reading for this long is warming up
SECOND_TRY_S: Final = 1.0
RETRIES: Final = Pauses(SECOND_TRY_S, 60.0)  # after the second try, from the interval on
HANGING_RETRY_S: Final = 2.0  # a hanging call is watched, not repeated, so this costs the bus nothing


class Readings:
    """Publishes each variable of a device on `<environment>/raw/<variable>`.

    A value out of its variable's range is a fault of that variable alone. A variable in `shared` is measured
    by other sensors too: its raw topic then ends in the device's name. A device that `confirms` an output has
    no variable; its reading, by the name of the output, is on `<environment>/feedback/<output>`.
    """

    def __init__(
        self,
        node: Node,
        environment: str,
        device: str,
        variables: Iterable[str],
        *,
        shared: Collection[str] = (),
        confirms: str = "",
    ) -> None:
        self._checks = {variable: _field(variable).checker() for variable in variables}
        self._publishers = {
            variable: node.advertise(
                raw(environment, variable, device if variable in shared else ""), FLOAT64
            )
            for variable in self._checks
        }
        if confirms:
            self._checks[confirms] = Field(confirms, Kind.FLOAT64).checker()
            self._publishers[confirms] = node.advertise(feedback(environment, confirms), FLOAT64)
        self._last_quality: dict[str, Quality] = {}

    def publish(self, reading: Mapping[str, Any]) -> str:
        """Publish the values, and return what is wrong with them, or ""."""
        wrong = []
        for name, check in self._checks.items():
            try:
                value = check(reading.get(name))
            except InvalidValueError as error:
                wrong.append(str(error))
                self._publish_none(name, Quality.FAULT)
            else:
                self._publishers[name].publish(value)
                self._last_quality[name] = Quality.OK
        return "; ".join(wrong)

    def publish_none(self, quality: Quality) -> None:
        """Publish for each variable that it has no value, once per change of the quality."""
        for name in self._publishers:
            self._publish_none(name, quality)

    def _publish_none(self, name: str, quality: Quality) -> None:
        if self._last_quality.get(name) is not quality:
            self._publishers[name].publish(None, quality)
            self._last_quality[name] = quality


def _field(variable: str) -> Field:
    known = VARIABLES[variable]
    return Field(variable, Kind.FLOAT64).within(known.minimum, known.maximum, known.unit)


class NeverNotReadyError(Exception):
    """Default for devices without an error that means "no new reading yet"."""


class Sampler:
    """Reads one device and publishes each of its variables on `<environment>/raw/<variable>`.

    `read` runs in the worker thread of the device's bus and returns values by variable. `not_ready` means
    that it has no new reading yet. An error that is none of a device is a bug: it ends `run`.

    A failed read is repeated once within a second, since buses and chips miss a transfer now and then. If
    that fails too, it is an outage: one message of quality fault for each variable, and retries after a
    growing delay (`retries`). `not_ready` counts as a failure after `not_ready_limit_s`; before the first
    reading, and after 10 s, it is warm-up.

    The interval is a parameter, within `intervals_s`: the stale limits of the readers depend on that range.
    `shared` and `confirms` are as for `Readings`.
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
        intervals_s: tuple[float, float] = (0.1, 86_400.0),
        prepare: Callable[[], object] | None = None,
        read_timeout_s: float = 2.0,
        not_ready: type[Exception] = NeverNotReadyError,
        not_ready_limit_s: float = NOT_READY_LIMIT_S,
        retries: Pauses = RETRIES,
        shared: Collection[str] = (),
        confirms: str = "",
    ) -> None:
        self.node = bus.node(f"{environment}/samplers/{device}")
        self._clock = bus.clock
        self._liveness = bus.liveness
        self._device = device
        self._read = read
        self._prepare = prepare
        self._worker = worker
        self._limit_s = read_timeout_s
        self._calls = DeviceCalls(device, worker, bus.clock, read_timeout_s)
        self._services: DeviceServices | None = None
        variables = tuple(variables)
        self._health = Health(self.node, environment, device, bus.clock, variables)
        self._readings = Readings(self.node, environment, device, variables, shared=shared, confirms=confirms)
        self._interval = self.node.declare(
            f"{environment}/samplers/{device}/interval",
            Field("interval", Kind.FLOAT64, default=interval_s).within(*intervals_s, "s"),
        )
        self._not_ready = not_ready
        self._not_ready_limit = not_ready_limit_s
        self._retries = retries
        self._retry_in = 0.0
        self._slot = 0.0
        self._failures = 0
        self._recovered = 0  # of the worker, at the last reading
        self._waiting_since: float | None = None

    def offer(
        self,
        services: Iterable[DeviceService],
        calibrations: SensorCalibrations | None = None,
        log: CalibrationLog | None = None,
    ) -> None:
        """Offer services of the device, each within `read_timeout_s`; see `DeviceServices`."""
        self._services = DeviceServices(
            self.node,
            self._device,
            services,
            worker=self._worker,
            clock=self._clock,
            limit_s=self._limit_s,
            calibrations=calibrations,
            log=log,
        )

    async def run(self) -> None:
        """Sample until cancelled, on a schedule without drift. Missed slots are skipped."""
        try:
            if self._prepare is not None:
                await asyncio.to_thread(self._prepare)
            now = self._clock.monotonic()
            self._slot = now - now % 1.0  # a whole second, as other loops: fewer wake-ups
            with self._liveness.heartbeat(self.node.name) as heart:
                while True:
                    await self._sample()
                    await self._wait_for_slot(heart)
        except Exception as error:
            self._fault(Sentence(f"internal error while reading the sensor: {error!r}", "internal_error"))
            raise
        finally:
            if self._services is not None:
                self._services.close()
            self._calls.close()

    async def _sample(self) -> None:
        self._recovered = self._worker.recovered
        try:
            reading = await self._calls.run(self._read)
        except self._not_ready:
            self._no_reading_yet()
        except DEVICE_ERRORS as error:
            self._waiting_since = None
            self._failed(error)
        else:
            self._waiting_since = None
            self._worker.recovered += self._failures > 1
            self._failures = 0
            self._publish(reading)

    async def _wait_for_slot(self, heart: Heartbeat) -> None:
        heart.beat()
        delay = self._delay()
        self._slot += (self._clock.monotonic() - self._slot) // delay * delay
        while (left := self._slot + self._delay() - self._clock.monotonic()) > 0 and not self._may_answer:
            await self._clock.sleep(min(left, SLICE_S))
            heart.beat()
        self._slot += self._delay()

    @property
    def _may_answer(self) -> bool:
        """Whether another device of the bus has answered again since this one, which fails, was asked."""
        return self._failures > 1 and self._worker.recovered != self._recovered

    def _delay(self) -> float:
        interval: float = self._interval.value
        if self._failures:
            return min(self._retry_in, HANGING_RETRY_S) if self._calls.is_pending else self._retry_in
        if self._waiting_since is not None:
            return min(interval, NOT_READY_RETRY_S)
        return interval

    def _publish(self, reading: Mapping[str, float]) -> None:
        if wrong := self._readings.publish(reading):
            self._health.degraded(Sentence(wrong, "invalid_reading"))
        else:
            self._health.succeeded()

    def _no_reading_yet(self) -> None:
        now = self._clock.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        waited = now - self._waiting_since
        if waited >= self._not_ready_limit:
            self._failures = max(1, self._failures)  # no second try
            self._failed(NoReadingError(self._device, waited))
            return
        self._retry_in = NOT_READY_RETRY_S  # it answers, so no longer delay is needed
        if self._health.state is State.STARTING or waited >= SILENCE_S:
            self._failures = 0
            self._readings.publish_none(Quality.WARM_UP)
            self._health.warming_up(f"{self._device} has no reading yet")

    def _failed(self, error: Exception) -> None:
        sentence = of_error(error)
        interval: float = self._interval.value
        self._failures += 1
        if self._failures == 1:
            self._retry_in = min(interval, SECOND_TRY_S)
            self._health.failed_once(sentence)
            return
        self._retry_in = replace(self._retries, first_s=interval).after(self._failures - 1)
        self._fault(sentence)

    def _fault(self, sentence: str) -> None:
        self._readings.publish_none(Quality.FAULT)
        self._health.failed(sentence)
