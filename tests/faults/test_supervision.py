"""Hanging buses and threads are cleared and replaced; other devices are not affected."""

import threading
from collections import Counter

import pytest

from growd.bus import Bus
from growd.control.calls import STUCK_AFTER
from growd.runtime.clock import RealClock
from growd.wiring.actuators import Common
from growd.wiring.chamber import DEVICE_TIMEOUT_S, AllChambers
from growd.wiring.chambers_node import declare_topics
from growd_hwsim.faults import Fault
from growd_hwsim.i2c import CLEARING_PULSES, I2CKernel
from growd_simulation.simulated_hardware import simulated_hardware
from support.memory import ShortMemory
from support.scene import INTERVAL_S, chamber_of, sensor, steady_scene
from support.waiting import until

GIVEN_UP_S = STUCK_AFTER * DEVICE_TIMEOUT_S
SIBLING_S = 3 * GIVEN_UP_S
"""Until another sensor on the bus is read in the new thread, after its retries have become rare."""

TWO_BUSES = chamber_of(sensor("scd30", "air"), sensor("bh1750", "lux"), sensor("tsl2591", "other_lux", bus=2))
ABANDONED = "i2c-1: call hung; abandoned its thread and started a new one"


@pytest.fixture
def opened(monkeypatch):
    """How often each bus is opened."""
    paths = Counter()
    open_path = I2CKernel.open

    def counted(kernel, path, flags):
        paths[path] += 1
        return open_path(kernel, path, flags)

    monkeypatch.setattr(I2CKernel, "open", counted)
    return paths


async def test_a_stuck_bus_is_cleared_and_opened_again(opened):
    async with steady_scene(TWO_BUSES) as scene:
        assert opened == {"/dev/i2c-1": 1, "/dev/i2c-2": 1}
        read = scene.device("other_lux")["counters"]["successes"]
        scene.strike(Fault("stuck", "i2c-1"))
        await scene.watch(60.0)
        adapters = scene.rig.machine.adapters
        assert opened == {"/dev/i2c-1": 2, "/dev/i2c-2": 1}
        assert (adapters[1].pulses, adapters[2].pulses) == (CLEARING_PULSES, 0)
        assert scene.rig.machine.i2c(1).recoveries == 1
        assert set(scene.moments[-1].states.values()) == {"ok"}
        counters = scene.device("other_lux")["counters"]
        assert counters["successes"] - read >= 60 / INTERVAL_S - 1
        assert counters["failures"] == 0


async def test_a_bus_that_stays_stuck_is_cleared_ever_more_rarely(opened):
    async with steady_scene(TWO_BUSES) as scene:
        scene.strike(Fault("timeout", "i2c-1"))
        await scene.watch(60.0)
        cleared_at_first = scene.rig.machine.i2c(1).recoveries
        await scene.watch(300.0)
        cleared = scene.rig.machine.i2c(1).recoveries
        assert scene.rig.machine.adapters[1].pulses == cleared * CLEARING_PULSES
        assert (cleared - cleared_at_first) / 5 < cleared_at_first
        assert opened["/dev/i2c-2"] == 1
        assert {moment.states["other_lux"] for moment in scene.moments[-360:]} == {"ok"}


async def test_a_hanging_thread_is_replaced_by_a_new_one(caplog, opened):
    async with steady_scene(TWO_BUSES) as scene:
        worker = scene.rig.chambers.workers["i2c-1"]
        scene.strike(Fault("hang", "scd30"))
        await scene.until(lambda _: worker.replaced == 1, within=INTERVAL_S + GIVEN_UP_S + INTERVAL_S)
        assert ABANDONED in [record.getMessage() for record in caplog.records]
        assert "has not answered for" in scene.rig.last("diagnostics/air").value["message"]
        await scene.until(lambda moment: moment.states["lux"] == "ok", within=SIBLING_S)
        assert scene.device("air")["state"] == "failed"
        replaced = {
            name: other.replaced for name, other in scene.rig.chambers.workers.items() if other.replaced
        }
        assert replaced.keys() == {"i2c-1"}
        assert scene.rig.machine.i2c(1).recoveries == replaced["i2c-1"]
        assert opened == {"/dev/i2c-1": 1 + replaced["i2c-1"], "/dev/i2c-2": 1}
        threads = [thread.name for thread in threading.enumerate()]
        assert (threads.count("i2c-1"), threads.count("i2c-2")) == (1 + replaced["i2c-1"], 1)
        await scene.clear()
        await scene.until(lambda moment: moment.states["air"] == "ok", within=70.0)
        assert [thread.name for thread in threading.enumerate()].count("i2c-1") == 1


@pytest.mark.long
async def test_a_hanging_thread_does_not_delay_the_end(monkeypatch):
    monkeypatch.setattr("growd.wiring.chamber.DEVICE_TIMEOUT_S", 0.05)
    bus, complaints = Bus(RealClock()), []
    declare_topics(TWO_BUSES, bus)
    machine = simulated_hardware(TWO_BUSES, bus.clock)
    chambers = AllChambers(TWO_BUSES, Common(bus, machine, memory=ShortMemory(), report=complaints.append))
    async with chambers.running():
        machine.faults.inject(Fault("hang", "i2c-1"))
        await until(lambda: chambers.workers["i2c-1"].replaced >= 1)
        await until(lambda: machine.faults.hanging >= 1)
    assert machine.faults.hanging >= 1
    assert complaints == []  # of outputs
    machine.close()
    await until(lambda: not any(thread.name.startswith("i2c-") for thread in threading.enumerate()))
