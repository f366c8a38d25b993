"""When the interlocks of an environment are updated: by what concerns them, and each second."""

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.control.interlocks.base import Interlock, SensorReadings
from growd.control.interlocks.node import Interlocks
from growd.control.interlocks.on_times import OnTimes
from growd.control.topics import declare_environment
from support.clock import ManualClock
from support.memory import ShortMemory
from support.running import running

DEGC, CO2, WHITE, RED = "air_temperature", "air_carbon_dioxide", "white", "red"


class Counting(Interlock):
    def __init__(self, variable):
        super().__init__(f"of_{variable}", [WHITE, RED], {})
        self.reads = self.follows = frozenset({variable})
        self.updates = 0

    def update(self, now, wall):
        self.updates += 1


async def test_a_message_updates_the_interlocks_that_it_concerns_and_each_second_all():
    clock = ManualClock()
    bus = Bus(clock)
    declare_environment(bus, "e", [DEGC, CO2])
    warm, rich = both = Counting(DEGC), Counting(CO2)
    readings = SensorReadings({DEGC: 30.0, CO2: 30.0})
    sensors = {DEGC: (), CO2: ()}
    interlocks = Interlocks(bus, "e", both, readings, sensors=sensors, memory=ShortMemory())
    interlocks.track(OnTimes(), [WHITE, RED])
    guard = interlocks.guard("lamp", {WHITE: 0.0, RED: 0.0})
    sensor = bus.node("sensor").publisher(f"e/raw/{DEGC}")
    async with running(clock, interlocks):
        begun = warm.updates, rich.updates
        sensor.publish(21.0)
        sensor.publish(None, Quality.FAULT)
        bus.node("client").publisher(f"e/desired/{CO2}").publish(800.0)
        await clock.settle()
        assert (warm.updates - begun[0], rich.updates - begun[1]) == (1, 1)
        await clock.advance(1)
        assert (warm.updates - begun[0], rich.updates - begun[1]) == (2, 2)
        clock.stall(0.5)
        for output in (WHITE, RED):  # written one after the other
            clock.stall(1e-5)
            guard.wrote(output, 0.5)
        assert warm.updates - begun[0] == 3
