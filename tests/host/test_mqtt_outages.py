"""A broker that accepts a connection and drops it is away."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from growd.host.mqtt_connection import LOST, Broker
from growd.host.mqtt_outages import BrokerOutages
from growd.runtime.pauses import Pauses
from support.home import Home
from support.waiting import until

if TYPE_CHECKING:
    import pytest

CONNECTED = b"\x20\x02\x00\x00"


async def test_a_broker_that_accepts_and_drops_counts_as_away_until_it_takes_messages(
    caplog: pytest.LogCaptureFixture,
):
    connections = ended = 0

    async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections, ended
        connections += 1
        await reader.read(1_000)
        writer.write(CONNECTED)
        await writer.drain()
        await reader.read(10)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        ended += 1

    async with await asyncio.start_server(drop, "127.0.0.1", 0) as server:
        home = Home(server.sockets[0].getsockname()[1])
        with caplog.at_level("INFO"):
            async with home.running():
                await until(lambda: connections > 3)
            await until(lambda: ended == connections)
    texts = [each.getMessage() for each in caplog.records]
    assert len([text for text in texts if "can't be reached: " in text]) == 1
    assert not [text for text in texts if "can be reached again" in text]


async def test_connections_that_are_lost_again_and_again_name_the_id_as_possible_cause():
    outages = BrokerOutages(Broker("broker.example", 1_883, None, 5.0), "growd-home-1", Pauses(0.0, 0.0))
    reasons: list[str] = []

    async def connect() -> None:
        reasons.append(outages.reason)
        outages.end()
        raise ConnectionRefusedError("refused") if len(reasons) == 4 else ConnectionError(LOST)

    task = asyncio.create_task(outages.keep(connect), name="keep")
    await until(lambda: len(reasons) > 5)
    task.cancel()
    await asyncio.wait([task])
    assert reasons[2] == LOST
    assert "another client may have the id growd-home-1" in reasons[3]
    assert reasons[4:6] == ["refused", LOST]
