import asyncio
import logging
import threading
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from growd.bus import Bus
from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.control.device_services import DeviceService
from growd.control.sampling import SLICE_S, Sampler
from growd.control.topics import declare_environment
from growd.runtime.pauses import Pauses
from growd.runtime.worker import Worker
from support.clock import ManualClock
from support.running import running
from support.waiting import PATIENCE_S

VARIABLES = ("air_carbon_dioxide", "air_temperature")
CO2 = "e/raw/air_carbon_dioxide"
GOOD = {"air_carbon_dioxide": 800.0, "air_temperature": 21.0}


class NotReadyError(RuntimeError):
    pass


class Device:
    """Answers each read with the next of `answers`, and goes on with the last one."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.times = []
        self.clock = None

    def read(self):
        self.times.append(self.clock.monotonic())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def sampling(device, services=(), begins_s=0.0, **options):
    clock = ManualClock()
    clock.stall(begins_s)
    bus = Bus(clock)
    declare_environment(bus, "e", VARIABLES)
    worker = Worker("bus 1", monotonic=clock.monotonic)
    clock.watch(worker)
    device.clock = clock
    sampler = Sampler(
        bus,
        "e",
        "scd30",
        read=device.read,
        variables=VARIABLES,
        worker=worker,
        not_ready=NotReadyError,
        **{"interval_s": 5.0, "retries": Pauses(1.0, 60.0, least=1.0), **options},
    )
    sampler.offer(services)
    with bus.node("test").subscribe(CO2) as seen:
        async with running(clock, sampler):
            yield bus, clock, worker, seen
    await worker.close()


def state_of(bus):
    return bus.find_node("e/samplers/scd30").information()["device"]


def drain(subscription):
    messages = []
    while (message := subscription.get_nowait()) is not None:
        messages.append(message)
    return messages


async def test_each_slot_gives_one_reading_of_each_variable_at_whole_seconds_after_the_first():
    device = Device(GOOD)
    async with sampling(device, begins_s=0.3) as (bus, clock, _, seen):
        await clock.advance(20)
        assert device.times == [1000.3, 1005, 1010, 1015, 1020]
        assert [(m.value, m.quality) for m in drain(seen)] == [(800.0, Quality.OK)] * 5
        assert bus.topics.get("e/raw/air_temperature").last.value == 21.0
        assert bus.topics.get("e/diagnostics/scd30").last.value["level"] == 0


class HangingDevice(Device):
    """Hangs in its second read until released."""

    def __init__(self):
        super().__init__(GOOD)
        self.begun, self.release = threading.Event(), threading.Event()

    def read(self):
        answer = super().read()
        if len(self.times) == 2:
            self.begun.set()
            self.release.wait(10)
        return answer


async def test_a_slow_read_skips_slots_without_a_drift():
    device = HangingDevice()
    async with sampling(device, read_timeout_s=60) as (bus, clock, worker, _):
        start = device.times[0]
        clock.unwatch(worker)
        await clock.advance(5)
        await asyncio.to_thread(device.begun.wait, 10)
        await clock.advance(7)
        device.release.set()
        await clock.until(lambda: bus.topics.get(CO2).count == 2)
        clock.watch(worker)
        await clock.advance(8)
        assert [time - start for time in device.times] == [0, 5, 15, 20]


async def test_a_hung_read_fails_in_time_and_queues_nothing():
    device = HangingDevice()
    async with sampling(device, read_timeout_s=2) as (bus, clock, worker, _):
        clock.unwatch(worker)
        await clock.advance(5)
        await asyncio.to_thread(device.begun.wait, 10)
        await clock.advance(3)
        assert bus.topics.get(CO2).last.quality is Quality.FAULT
        assert "has not answered for 3 s" in bus.topics.get("e/diagnostics/scd30").last.value["message"]
        await clock.advance(5)
        assert len(device.times) == 2
        assert worker._calls.empty()
        assert bus.topics.get(CO2).count == 2  # and what it brings back in the end is dropped
        device.release.set()
        clock.watch(worker)
        await clock.settle()
        assert bus.topics.get(CO2).count == 2
        await clock.advance(60)
        assert bus.topics.get(CO2).last.quality is Quality.OK


async def test_one_failed_read_is_only_counted(caplog, said):
    device = Device(GOOD, OSError(121, "Remote I/O error"), GOOD)
    async with sampling(device) as (bus, clock, _, seen):
        await clock.advance(20)
        assert {m.quality for m in drain(seen)} == {Quality.OK}
        assert [time - device.times[0] for time in device.times[:3]] == [0, 5, 6]
        counters = bus.topics.get("e/diagnostics/scd30/counters").last.value
    assert caplog.records == []
    assert (counters["failures"], counters["outages"]) == (1, 0)
    said(counters["last_error"])
    assert counters["last_error_time"] == 1_700_000_005.0


async def test_a_device_may_warm_up_again_after_an_outage():
    lost = OSError("absent")
    device = Device(GOOD, lost, lost, *[NotReadyError()] * 12, GOOD)
    async with sampling(device) as (_, clock, _, seen):
        await clock.advance(30)
        qualities = [m.quality for m in drain(seen)]
    assert qualities[:4] == [Quality.OK, Quality.FAULT, Quality.WARM_UP, Quality.OK]


async def test_no_new_reading_between_two_failures_is_still_an_outage(caplog, said):
    lost, none = OSError("saturated"), NotReadyError()
    device = Device(GOOD, lost, none, lost, none, lost, none, lost, none, none, GOOD)
    async with sampling(device, interval_s=2.0) as (bus, clock, _, seen):
        await clock.advance(4)
        assert bus.find_node("e/samplers/scd30").information()["device"]["state"] == "failed"
        await clock.advance(60)
        qualities = [m.quality for m in drain(seen)]
        counters = bus.topics.get("e/diagnostics/scd30/counters").last.value
    assert qualities[:3] == [Quality.OK, Quality.FAULT, Quality.OK]
    assert (counters["failures"], counters["outages"]) == (4, 1)
    said([record.message for record in caplog.records])


async def test_an_outage_is_one_message_and_one_log_line_and_is_counted(caplog):
    caplog.set_level(logging.INFO, "growd")
    device = Device(GOOD, *[OSError(121, "Remote I/O error")] * 3, GOOD)
    async with sampling(device) as (bus, clock, _, seen):
        await clock.advance(7)
        failed = state_of(bus)
        assert (failed["name"], failed["state"]) == ("e/scd30", "failed")
        assert "Remote I/O error" in failed["message"]
        assert failed["since"] == 1_700_000_006.0
        await clock.advance(100)
        qualities = [(m.quality, m.value) for m in drain(seen)]
        assert qualities[:3] == [(Quality.OK, 800.0), (Quality.FAULT, None), (Quality.OK, 800.0)]
        assert all(quality is Quality.OK for quality, _ in qualities[3:])
        well = state_of(bus)
        assert (well["state"], well["message"]) == ("ok", "ok")
        counters = well["counters"]
        assert (counters["failures"], counters["outages"], counters["outage_seconds"]) == (3, 1, 15.0)
        assert "Remote I/O error" in counters["last_error"]
        last = bus.topics.get("e/diagnostics/scd30/counters").last
        assert clock.time() - last.time < 65  # published each minute without a change
        assert counters["successes"] - last.value["successes"] == (clock.time() - last.time) // 5
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "Remote I/O error" in caplog.records[0].message
    assert "works again after 16.0 s" in caplog.records[1].message


async def test_the_delay_between_retries_grows_to_its_limit():
    device = Device(OSError("absent"))
    async with sampling(device, retries=Pauses(1.0, 30.0, least=1.0)) as (bus, clock, _, _):
        await clock.advance(140)
        assert [after - before for before, after in pairwise(device.times)] == [1, 5, 10, 20, 30, 30, 30]
        told = {"level": 2, "name": "e/scd30", "message": "absent"}
        assert bus.topics.get("e/diagnostics/scd30").last.value == told


async def test_a_device_that_answers_again_lets_the_others_of_its_bus_try_soon():
    device = Device(*[OSError("the bus is stuck")] * 8, OSError("absent"))
    other = Device(*[OSError("the bus is stuck")] * 2, GOOD)
    async with sampling(device, retries=Pauses(20.0, 60.0, least=1.0)) as (bus, clock, worker, _):
        await clock.advance(100)
        begins = clock.monotonic()
        device.answers, other.clock = [OSError("absent")], clock
        last = len(device.times)
        beside = Sampler(bus, "e", "other", read=other.read, variables=(), worker=worker)
        async with running(clock, beside):
            await clock.advance(2 * SLICE_S)
            assert device.times[last] - begins <= 2 * SLICE_S
            assert state_of(bus)["message"] == "absent"


async def test_a_device_that_is_not_ready_after_its_bus_recovered_is_asked_each_interval():
    device = Device(*[OSError("the bus is stuck")] * 3, NotReadyError())
    async with sampling(device) as (_, clock, worker, _seen):
        await clock.advance(10)
        worker.recovered += 1
        before, begins = len(device.times), clock.monotonic()
        await clock.advance(6)
        assert len(device.times) - before <= 1 + (clock.monotonic() - begins)


@pytest.mark.parametrize("value", [40_001.0, -1.0, float("nan"), None])
async def test_a_value_out_of_range_is_a_fault_of_that_variable_alone(value):
    async with sampling(Device({**GOOD, "air_carbon_dioxide": value})) as (bus, clock, _, seen):
        await clock.advance(10)
        assert [(m.quality, m.value) for m in drain(seen)] == [(Quality.FAULT, None)]
        assert bus.topics.get("e/raw/air_temperature").last.quality is Quality.OK
        diagnostic = bus.topics.get("e/diagnostics/scd30").last.value
        assert diagnostic["level"] == 1
        assert "air_carbon_dioxide must be a number from 0 to 40000 ppm" in diagnostic["message"]
        assert state_of(bus)["code"] == "device_invalid_reading"


async def test_no_reading_yet_is_warm_up_and_is_retried_soon():
    device = Device(NotReadyError(), NotReadyError(), GOOD)
    async with sampling(device) as (bus, clock, _, seen):
        assert state_of(bus)["code"] == "device_not_ready"
        await clock.advance(2)
        assert [(m.quality, m.value) for m in drain(seen)] == [(Quality.WARM_UP, None), (Quality.OK, 800.0)]
        assert state_of(bus)["code"] == ""
        assert [time - device.times[0] for time in device.times] == [0, 1, 2]


async def test_no_reading_for_too_long_is_a_failure():
    async with sampling(Device(GOOD, NotReadyError()), not_ready_limit_s=30.0) as (bus, clock, _, seen):
        await clock.advance(14)
        assert [m.quality for m in drain(seen)] == [Quality.OK]
        await clock.advance(20)
        assert [m.quality for m in drain(seen)] == [Quality.WARM_UP]
        assert bus.find_node("e/samplers/scd30").information()["device"]["state"] == "warm-up"
        await clock.advance(2)
        assert [m.quality for m in drain(seen)] == [Quality.FAULT]
        assert "no new reading for 30 s" in bus.topics.get("e/diagnostics/scd30").last.value["message"]


async def test_what_takes_long_is_prepared_in_another_thread_before_the_limit_of_the_first_reading_counts():
    device = Device(GOOD)
    began, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def prepare():
        loop.call_soon_threadsafe(began.set)
        assert go_on.wait(PATIENCE_S)

    async with sampling(device, prepare=prepare) as (bus, clock, _, seen):
        await began.wait()
        await clock.advance(50.0)
        assert (device.times, drain(seen)) == ([], [])
        go_on.set()
        await clock.until(lambda: device.times)
        assert device.times == [clock.monotonic()]
        assert bus.find_node("e/samplers/scd30").information()["device"]["state"] != "failed"


async def test_an_internal_error_ends_the_sampler_and_fails_the_device():
    clock = ManualClock()
    bus = Bus(clock)
    worker = Worker("bus 1")
    device = Device(KeyError("typo"))
    device.clock = clock
    sampler = Sampler(bus, "e", "scd30", read=device.read, variables=VARIABLES, worker=worker)
    with pytest.raises(KeyError):
        await sampler.run()
    assert bus.topics.get(CO2).last.quality is Quality.FAULT
    assert (state_of(bus)["state"], state_of(bus)["code"], state_of(bus)["message"]) == (
        "failed",
        "device_internal_error",
        "internal error while reading the sensor: KeyError('typo')",
    )
    await worker.close()


async def test_a_changed_interval_takes_effect_within_5_s():
    device = Device(GOOD)
    async with sampling(device, interval_s=3600.0) as (bus, clock, _, _):
        await clock.advance(100)
        await bus.parameters.set("e/samplers/scd30/interval", 10)
        await clock.advance(5)
        assert len(device.times) == 2
        await clock.advance(10)
        assert len(device.times) == 3


CALIBRATE = "e/samplers/scd30/calibrate"


def calibration(call):
    return DeviceService("calibrate", "growd/Calibrate", call, (Field("reference", Kind.INT64, 400, 2_000),))


async def test_a_service_runs_in_the_thread_of_the_bus_and_answers_with_its_error():
    threads, errors = [], []

    def calibrate(reference):
        threads.append(threading.current_thread().name)
        for error in errors:
            raise error
        return f"calibrated to {reference} ppm"

    async with sampling(Device(GOOD), services=[calibration(calibrate)]) as (bus, _, _, _):
        assert bus.find_node("e/samplers/scd30").information()["srvs"] == [CALIBRATE]
        service = bus.services.get(CALIBRATE)
        assert await service.call([800]) == {"success": True, "message": "calibrated to 800 ppm"}
        for error in (OSError("the bus is short"), ValueError("the bus is short")):
            errors[:] = [error]
            assert await service.call([800]) == {"success": False, "message": "the bus is short"}
    assert set(threads) == {"bus 1"}


async def test_a_service_waits_for_a_reading_and_times_out_with_it(said):
    device, done = HangingDevice(), []
    service = calibration(lambda reference: done.append(reference) or "done")
    async with sampling(device, read_timeout_s=2, services=[service]) as (bus, clock, worker, _):
        clock.unwatch(worker)
        await clock.advance(5)
        await asyncio.to_thread(device.begun.wait, 10)
        calls = [asyncio.create_task(bus.services.get(CALIBRATE).call([ppm])) for ppm in (800, 900)]
        await clock.until(calls[1].done)
        said(calls[1].result()["message"])
        await clock.advance(2)
        assert calls[0].result()["success"] is False
        assert "has not answered for 2 s; the device may still" in calls[0].result()["message"]
        device.release.set()
        clock.watch(worker)
        await clock.settle()
        assert done == [800]
