"""What recipes are told of an environment: what its actuators can do, and its time zone."""

from types import SimpleNamespace

import pytest

from growd.bus import Bus
from growd.config import ChamberOptions, Config, ConfigError, Environment
from growd.config.services import SetPoints
from growd.control.topics import declare_environment
from growd.store.local import LocalStore
from growd.store.outbox import Outbox
from growd.wiring.recipes import recipe_runners
from growd.wiring.store import Core
from support.clock import ManualClock
from support.refusals import check_config
from support.running import running

SHELF = "shelf_2"


def test_a_time_zone_is_that_of_the_recipes_and_an_unknown_one_is_refused():
    environment = Environment(time_zone="Europe/Berlin")
    check_config(Config(environment=environment))
    assert str(environment.zone()) == "Europe/Berlin"
    assert Environment().zone() is None
    for zone in ("Europe/Nowhere", "../../etc/passwd", "/etc/localtime", "Europe"):
        with pytest.raises(ConfigError, match=r"^\[environment\] time_zone: '.*' is not known here; one is"):
            check_config(Config(environment=Environment(time_zone=zone)))


@pytest.mark.parametrize("keeps", [{"environment_1"}, {SHELF}])
async def test_each_environment_keeps_set_points_by_hand_as_it_is_configured(tmp_path, keeps):
    settings = Config(
        environment=Environment(keep_set_points="environment_1" in keeps),
        chamber={SHELF: ChamberOptions(environment=SetPoints(keep_set_points=SHELF in keeps))},
    )
    clock = ManualClock(1_700_000_000.0)
    found = {}
    for value in (21, None):
        local = await LocalStore.open(tmp_path / "growd.sqlite3")
        outbox = await Outbox.open(local, clock)
        bus = Bus(clock)
        for environment in settings.chambers():
            declare_environment(bus, environment, [])
        database, documents = SimpleNamespace(recipe=None), SimpleNamespace(work=SimpleNamespace(wake=None))
        core = Core(lambda: settings, bus, local, database, SimpleNamespace(outbox=outbox), None)
        runners = recipe_runners(core, documents)
        async with running(clock, *runners):
            for environment in settings.chambers():
                formats = f"{environment}/supported_recipe_formats"
                await clock.until(
                    lambda name=formats, bus=bus: bus.parameters.get(name) != ""
                )  # it has loaded
                topic = found[environment] = bus.topics.get(f"{environment}/desired/air_temperature")
                if value is not None:
                    await topic.keeper(bus.node(environment).publisher(topic.name).publish(value), "anna")
        await outbox.close()
        await local.close()
    assert {name for name, topic in found.items() if topic.last is not None} == keeps
