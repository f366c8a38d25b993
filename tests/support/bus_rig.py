"""A bus on a clock that the test moves, with the topics of an environment."""

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.control.topics import declare_environment
from support.clock import ManualClock


class BusRig:
    """The environment `e`, which senses these variables and derives others."""

    def __init__(self, *sensed, derived=(), **time):
        self.clock = ManualClock(**time)
        self.bus = Bus(self.clock)
        declare_environment(self.bus, "e", [*sensed], [*derived])
        self.node = self.bus.node("client")

    def publish(self, topic, value, quality=Quality.OK):
        self.node.publisher(f"e/{topic}").publish(value, quality)

    def last(self, topic):
        return self.bus.topics.get(f"e/{topic}").last
