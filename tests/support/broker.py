"""A real MQTT broker, with or without TLS and login."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from amqtt.broker import Broker
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from support.ports import held_port
from support.tls_door import TLS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

USER, PASSWORD = "grower", "secret"


class _Broker(Broker):
    """A broker that leaves no connection of a disconnected client behind."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._writers: list[asyncio.StreamWriter] = []

    async def stream_connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener_name: str
    ) -> None:
        self._writers.append(writer)
        await super().stream_connected(reader, writer, listener_name)

    async def leave(self) -> None:
        await self.shutdown()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def broker(
    folder: Path, *, tls: bool = False, login: bool = False, port: int = 0
) -> AsyncIterator[int]:
    """The port of a broker; with `login` only USER may connect."""
    logging.getLogger("amqtt").setLevel(logging.CRITICAL)
    logging.getLogger("transitions").setLevel(logging.CRITICAL)
    held = ExitStack()
    port = port or held.enter_context(held_port())
    listener: dict[str, Any] = {"type": "tcp", "bind": f"127.0.0.1:{port}"}
    if tls:
        listener |= {"ssl": True, "certfile": TLS / "server.pem", "keyfile": TLS / "server.key"}
    plugin: dict[str, Any] = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
    if login:
        passwords = folder / "passwords"
        hasher = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=64, parallelism=1),))
        passwords.write_text(f"{USER}:{hasher.hash(PASSWORD)}\n")
        plugin = {"amqtt.plugins.authentication.FileAuthPlugin": {"password_file": str(passwords)}}
    server = _Broker({"listeners": {"default": listener}, "plugins": plugin})
    with held:
        await server.start()
        try:
            yield port
        finally:
            await server.leave()
