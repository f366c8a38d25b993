"""The connection to the broker of [mqtt], with the secrets and certificates that the section names."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from growd.config import chambers_of
from growd.config.mqtt import MQTT_ROOT
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
    from growd.host.mqtt import Broker, MqttLink

_PORTS: Final = {"none": 1_883, "tls": 8_883}
TIMEOUT_S: Final = 5.0  # of a connection, and of the acknowledgement of a message
_ALIVE_S: Final = 10  # for an output, which a lost connection makes safe


@contextlib.asynccontextmanager
async def mqtt_link(config: Config, bus: Bus, device: str) -> AsyncIterator[MqttLink | None]:
    """The connection, for the body; None if nothing uses the broker. Raises `ConfigError`.

    `device` is the id of this machine. The last will is that of the state which growd publishes.
    """
    if not _is_used(config):
        yield None
        return
    broker = await asyncio.to_thread(read_broker, config.mqtt)
    from aiomqtt import Will  # noqa: PLC0415  imported only if configured

    from growd.host.mqtt import MqttLink  # noqa: PLC0415  likewise

    will = Will(f"{MQTT_ROOT}/{device}/availability", b"offline", qos=1, retain=True)
    link = MqttLink(
        bus,
        broker,
        f"growd-{device}",
        will=will if config.mqtt.publish else None,
        is_vital=not config.simulator.enabled and _has_devices(config),
    )
    links = [link, *(() if config.simulator.enabled else _own_links(config, bus, broker, device, link))]
    async with Supervisor(RealClock(), bus.liveness) as supervisor:
        for each in links:
            supervisor.start(each.node.name, each.run)
        yield link


def _is_used(config: Config) -> bool:
    """Whether growd connects: simulated hardware has a broker of its own."""
    has_channel = any(each.kind == "mqtt" for each in config.notify)
    return bool(config.mqtt.host) and (config.mqtt.publish or has_channel or not config.simulator.enabled)


def _has_devices(config: Config) -> bool:
    return any(
        "mqtt" in {each.kind for each in chamber.options.sensor} | {each.kind for each in chamber.all_outputs}
        for chamber in chambers_of(config)
    )


def _own_links(config: Config, bus: Bus, broker: Broker, device: str, shared: MqttLink) -> Iterator[MqttLink]:
    """The connections of outputs without a timer of their own, which the last will makes safe."""
    from aiomqtt import Will  # noqa: PLC0415  likewise

    for chamber in chambers_of(config):
        for output in chamber.all_outputs:
            if output.kind == "mqtt" and not output.has_timer:
                ((topic, body),) = messages_of(output, float(output.safe == "on"))
                name = f"{chamber.environment}/{output.name}"
                link = type(shared)(
                    bus,
                    broker,
                    f"growd-{device}-{name.replace('/', '-')}",
                    name=f"mqtt/{name}",
                    will=Will(topic, body, qos=1),
                    keep_alive_s=_ALIVE_S,
                )
                shared.own(topic, link)
                yield link


async def check_broker(config: Config) -> None:
    """Read the files of the broker that growd will connect to. Raises `ConfigError`."""
    if _is_used(config):
        await asyncio.to_thread(read_broker, config.mqtt)


def read_broker(options: Mqtt) -> Broker:
    """The broker with its password and certificates. Blocking. Raises `ConfigError`."""
    from growd.host.mqtt import Broker  # noqa: PLC0415  imported only if configured

    where = f"[mqtt] ca_file: {options.ca_file}"
    context = None if options.security == "none" else trusting(where, options.ca_file)
    password = read_line("[mqtt] password_file", options.password_file)
    port = options.port or _PORTS[options.security]
    return Broker(options.host, port, context, TIMEOUT_S, options.user, password)
