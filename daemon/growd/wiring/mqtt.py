"""The connection to the broker of [mqtt], with the secrets and certificates that the section names."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from growd.config import chambers_of
from growd.config.secrets import read_line
from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor
from growd.wiring.files import trusting
from growd.wiring.outputs import messages_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from growd.bus import Bus
    from growd.config import Config
    from growd.config.mqtt import Mqtt
    from growd.host.mqtt import MqttLink
    from growd.host.mqtt_connection import Broker

_PORTS: Final = {"none": 1_883, "tls": 8_883}


@contextlib.asynccontextmanager
async def mqtt_link(config: Config, bus: Bus, device: str) -> AsyncIterator[MqttLink | None]:
    """The connection, for the body; None without a broker or with simulated hardware. Raises `ConfigError`.

    `device` is the id of this machine.
    """
    if not config.mqtt.host or config.simulator.enabled:
        yield None
        return
    broker = await asyncio.to_thread(read_broker, config.mqtt)
    from growd.host.mqtt import MqttLink  # noqa: PLC0415  imported only if configured

    link = MqttLink(bus, broker, f"growd-devices-{device}")
    links = [link, *_own_links(config, bus, broker, device, link)]
    async with Supervisor(RealClock(), bus.liveness) as supervisor:
        for each in links:
            supervisor.start(each.node.name, each.run)
        yield link


def _own_links(config: Config, bus: Bus, broker: Broker, device: str, shared: MqttLink) -> Iterator[MqttLink]:
    """The connections of outputs without a timer of their own, which the last will makes safe."""
    for chamber in chambers_of(config):
        for output in chamber.all_outputs:
            if output.kind == "mqtt" and not output.has_timer:
                ((topic, body),) = messages_of(output, float(output.safe == "on"))
                name = f"{chamber.environment}/{output.name}"
                identifier = f"growd-{device}-{name.replace('/', '-')}"
                link = type(shared)(bus, broker, identifier, name=f"mqtt/{name}", will=(topic, body))
                shared.own(topic, link)
                yield link


async def check_broker(config: Config) -> None:
    """Read the files of the broker that growd will connect to. Raises `ConfigError`."""
    if config.mqtt.publish or (config.mqtt.host and not config.simulator.enabled):
        await asyncio.to_thread(read_broker, config.mqtt)


def read_broker(options: Mqtt) -> Broker:
    """The broker with its password and certificates. Blocking. Raises `ConfigError`."""
    from growd.host.mqtt_connection import Broker  # noqa: PLC0415  imported only if configured

    where = f"[mqtt] ca_file: {options.ca_file}"
    context = None if options.security == "none" else trusting(where, options.ca_file)
    password = read_line("[mqtt] password_file", options.password_file)
    port = options.port or _PORTS[options.security]
    return Broker(options.host, port, context, options.timeout_s, options.user, password)
