"""A real MQTT broker, with or without TLS and login."""

import asyncio
import logging
from collections import defaultdict
from contextlib import ExitStack, asynccontextmanager

import aiomqtt
from amqtt.broker import Broker
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from support.ports import held_port
from support.tls_door import TLS
from support.waiting import PATIENCE_S

USER, PASSWORD = "grower", "secret"


class _Broker(Broker):
    """A broker that leaves no connection of a disconnected client behind."""

    def __init__(self, config):
        super().__init__(config)
        self._writers = []

    async def stream_connected(self, reader, writer, listener_name):
        self._writers.append(writer)
        await super().stream_connected(reader, writer, listener_name)

    async def leave(self):
        await self.shutdown()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def broker(folder, *, tls=False, login=False, prohibits=False, port=0):
    """The port of a broker. `login`: only USER may connect. `prohibits`: nobody may read "prohibited"."""
    logging.getLogger("amqtt").setLevel(logging.CRITICAL)
    logging.getLogger("transitions").setLevel(logging.CRITICAL)
    held = ExitStack()
    port = port or held.enter_context(held_port())
    listener = {"type": "tcp", "bind": f"127.0.0.1:{port}"}
    if tls:
        listener |= {"ssl": True, "certfile": TLS / "server.pem", "keyfile": TLS / "server.key"}
    plugin = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
    if login:
        passwords = folder / "passwords"
        hasher = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=64, parallelism=1),))
        passwords.write_text(f"{USER}:{hasher.hash(PASSWORD)}\n")
        plugin = {"amqtt.plugins.authentication.FileAuthPlugin": {"password_file": str(passwords)}}
    if prohibits:
        plugin["amqtt.plugins.topic_checking.TopicTabooPlugin"] = {}
    server = _Broker({"listeners": {"default": listener}, "plugins": plugin})
    with held:
        await server.start()
        try:
            yield port
        finally:
            await server.leave()


class Listener:
    """A client of the broker, and what came on each topic by the last part of its name."""

    def __init__(self):
        self._came = defaultdict(asyncio.Queue)

    async def listen(self, client):
        async for message in client.messages:
            self._came[str(message.topic).rpartition("/")[2]].put_nowait(message)

    async def next(self, topic):
        async with asyncio.timeout(PATIENCE_S):
            return await self._came[topic].get()


@asynccontextmanager
async def listening(port, **options):
    listener = Listener()
    async with aiomqtt.Client("localhost", port, **options) as client:
        task = asyncio.create_task(listener.listen(client), name="listener")
        try:
            await client.subscribe("growd/#", qos=1)
            yield listener
        finally:
            task.cancel()
            await asyncio.wait([task])
