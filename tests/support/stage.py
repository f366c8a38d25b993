"""A chamber on a stage: sources of commands, outputs that must not move, and interlocks."""

import dataclasses
from contextlib import asynccontextmanager

from support.rig import rigged

WHO = ("recipe", "controller", "client")
EACH_S = 10
LIGHT = "light_illuminance"


class Stage:
    """A rig, and the sources of its commands."""

    def __init__(self, rig):
        self.rig = rig
        self.clock, self.machine, self.bus = rig.clock, rig.machine, rig.bus
        self.people = {
            "recipe": self.bus.node("environment_1/a_recipe"),
            "client": self.bus.node("client"),
            "controller": self.bus.node("environment_1/controllers/rogue"),
        }

    def command(self, who, variable, value):
        folder = "desired" if who == "recipe" else "commanded"
        topic = f"environment_1/{folder}/{variable}"
        self.people[who].publish_arguments(topic, [value])

    def want(self, variable, value):
        self.people["client"].publish_arguments(f"environment_1/desired/{variable}", [value])

    def state(self, name):
        return self.rig.last(f"interlocks/{name}").value

    def has_tripped(self, name):
        return self.state(name)["tripped"]

    def is_on(self, relay):
        return self.machine.pins.high(relay.pin) > 0

    def lit(self):
        return [self.machine.pins.high(pin) for pin in (12, 13, 18)]

    def air(self):
        return self.machine.chamber.air()

    def change(self, **parameters):
        chamber = self.machine.chamber
        chamber.parameters = dataclasses.replace(chamber.parameters, **parameters)

    async def until(self, condition, within):
        return await self.clock.until(condition, within=within)

    async def holds_against_all(self, variable, value, device, *, state, each_s=EACH_S):
        """The device does not move, not even for a moment, whatever commands come from each source."""
        pins = [event for event in self.machine.pins.history if event.pin == device.pin]
        for who in WHO:
            for _ in range(each_s):
                self.command(who, variable, value)
                await self.clock.advance(1.0)
            assert self.is_on(device) == state, who
            assert [event for event in self.machine.pins.history if event.pin == device.pin] == pins, who

    async def stays_dark_against_all(self):
        """The lamp stays dark, whatever commands come from each source."""
        for who in WHO:
            for _ in range(EACH_S):
                self.command(who, LIGHT, 10_000 if who == "recipe" else 0.5)
                self.command(who, "light_intensity_red", 1.0)
                await self.clock.advance(1.0)
                assert self.lit() == [0, 0, 0], who

    async def call(self, service):
        return await self.bus.services.get(f"environment_1/interlocks/{service}").call()


@asynccontextmanager
async def stage(config, memory=None):
    """The parts of a chamber; commands by hand last a day."""
    async with rigged(config, memory) as rig:
        for name in [each for each in rig.bus.parameters.names() if each.endswith("/override")]:
            await rig.bus.parameters.set(name, 86_400.0)
        yield Stage(rig)


@asynccontextmanager
async def with_events(on):
    with on.bus.node("reader").subscribe("environment_1/events") as messages:
        published = []
        yield published
        published += [message.value for message in iter(messages.get_nowait, None)]
