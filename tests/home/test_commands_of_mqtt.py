"""The queue of commands by MQTT when many come at once."""

import asyncio

from growd.control.topics import declare_environment
from growd_home.commands import Commands
from support.home import ENVIRONMENT, TOPICS, Home
from support.waiting import until

PLACES = 64
OTHERS = [f"environment_{number}" for number in range(2, PLACES + 2)]
HOLD = TOPICS("hold", "set")


class Queue:
    """The commands of a bus, their refusals, and how many services and set points there were after each."""

    def __init__(self):
        self.home = Home(0)
        self.refused = []
        self.steps = []
        self.commands = Commands(
            self.home.bus,
            self.home.bus.node("test"),
            TOPICS,
            [ENVIRONMENT, *OTHERS],
            recipes=self._recipes,
            holds=self._holds,
            refused=lambda topic, reason: self.refused.append((topic, reason)),
            remarked=lambda _topic, _words: None,
            changed=lambda: self.steps.append((len(self.home.called), self._set_points())),
        )
        for each in OTHERS:
            declare_environment(self.home.bus, each, ("air_temperature",))

    async def _recipes(self):
        return []

    def _holds(self):
        return []

    def take(self, topic, body):
        self.commands.take(topic, body, is_retained=False)

    def fill(self, places=PLACES):
        """A set point waits at each place."""
        for each in OTHERS[:places]:
            self.take(TOPICS(each, "desired", "air_temperature", "set"), b"20")

    def _set_points(self):
        return sum(
            self.home.bus.topics.get(f"{each}/desired/air_temperature").last is not None for each in OTHERS
        )

    async def carry_out(self, count):
        """Carry out at least this many commands."""
        task = asyncio.create_task(self.commands.run(), name="commands")
        await until(lambda: len(self.steps) >= count)
        task.cancel()
        await asyncio.wait([task])


async def test_a_hold_is_carried_out_before_all_commands_that_wait(said):
    queue = Queue()
    queue.fill()
    queue.take(TOPICS(ENVIRONMENT, "desired", "air_temperature", "set"), b"20")
    said([reason for _, reason in queue.refused])
    queue.take(HOLD, b"ON")
    assert len(queue.refused) == 1
    await queue.carry_out(1)
    assert queue.steps[0] == (1, 0)
    assert queue.home.called[0][0] == "hold/set"


async def test_a_release_waits_for_the_commands_before_it():
    queue = Queue()
    queue.fill(2)
    queue.take(HOLD, b"OFF")
    await queue.carry_out(3)
    assert queue.steps == [(0, 1), (0, 2), (1, 2)]
    assert queue.home.called[0][0] == "hold/release"


async def test_unknown_names_take_no_place(said):
    queue = Queue()
    for number in range(PLACES):
        queue.take(TOPICS(f"x{number}", "desired", "y", "set"), b"1")
        queue.take(TOPICS(ENVIRONMENT, "recipe", f"x{number}"), b"PRESS")
    assert len(queue.refused) == 2 * PLACES
    said(queue.refused[0][1])
    queue.fill()
    assert len(queue.refused) == 2 * PLACES
