"""Faults of a benchmark of a fleet: what fails while devices write, and what the comparison then says."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from fleet_nodes import CouchDBError
from fleet_receivers import recovered
from fleet_scene import scene
from measuring import Options, Row, limited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet_devices import Audit
    from fleet_nodes import Node
    from fleet_scene import Scene

OF_A_CLUSTER: Final = ("node", "hang", "alone", "partition")
CATCH_UP_S: Final = 150.0  # without any arrival
SETTLES_S: Final = 300.0


async def fault(options: Options, nodes: int, name: str) -> list[Row]:
    """Let something fail while devices write, and see that everything arrives."""
    given = options.arguments
    async with scene(options, nodes, given.devices) as here:
        await here.replicate()
        async with here.followed():
            await here.devices.write_steadily(2, min(given.every, 2.0), 10)
            await here.devices.ledger.all_there(CATCH_UP_S)
            end = await FAULT_SCENES[name](here, options)
            last = await here.devices.ledger.all_there(CATCH_UP_S)
        behind, unseen = max(await here.missing_in_copies()), (await here.audit()).missing
        settled = await here.cloud.settle(SETTLES_S)
        found, lost = await here.audit(), await here.missing_in_copies()
    print(f"{name}: {found}, missing in the files of each node: {lost}", file=sys.stderr)
    case = f"{label(nodes)}, {name}"
    lags = here.devices.ledger.lags()
    return [
        limited(f"{case}: until everything had arrived", "s", max(last - end, 0.0)),
        limited(f"{case}: longest lag", "s", lags[-1]),
        limited(f"{case}: points in all", "points", found.points),
        limited(f"{case}: not yet in the files of a node then", "points", behind),
        limited(f"{case}: not in an answer of the cluster then", "points", unseen),
        limited(f"{case}: until the nodes had nothing to copy", "s", settled),
        limited(f"{case}: lost, doubled or changed", "points", wrong(found), 0),
        limited(f"{case}: missing in the files of any node", "points", max(lost), 0),
    ]


async def an_outage(here: Scene, options: Options) -> float:
    """No receiver while the points of a day are written; then all replications start at one moment."""
    for receiver in here.receivers:
        receiver.kill()
    number = options.arguments.backlog
    day_ago = time.time() - 86_400
    for name in here.devices.names:
        await here.devices.write(name, number, day_ago, 86_400 / number)
    for receiver in here.receivers:
        await receiver.start()
    end = time.monotonic()
    await here.devices.restart()
    return end


async def a_killed_receiver(here: Scene, options: Options) -> float:
    """One receiver ends in the middle of batches, and is started again; then the next."""

    async def kill() -> None:
        for receiver in here.receivers:
            await asyncio.sleep(options.seconds / 4)
            receiver.kill()
            await asyncio.sleep(options.seconds / 8)
            await receiver.start()

    return await while_writing(here, options, kill())


async def a_killed_node(here: Scene, options: Options) -> float:
    """A node of three ends as with a power cut, and is started again."""
    node = here.cloud.nodes[-1]

    async def kill() -> None:
        await asyncio.sleep(options.seconds / 4)
        node.kill()
        await asyncio.sleep(options.seconds / 4)
        began = time.monotonic()
        await node.start()
        print(f"the node answers after {await recovered(here.cloud, began):.1f} s", file=sys.stderr)

    return await while_writing(here, options, kill())


async def a_hanging_node(here: Scene, options: Options) -> float:
    """A node of three stops without a word: its connections stay open and nothing is answered."""
    return await while_writing(here, options, hang(here.cloud.nodes[-1:], options.seconds))


async def a_lonely_node(here: Scene, options: Options) -> float:
    """Two of three nodes hang: the third still counts them as connected, as when a network loses packets."""
    return await while_writing(here, options, hang(here.cloud.nodes[1:], options.seconds))


async def hang(nodes: Sequence[Node], seconds: float) -> None:
    """Stop nodes for half of the time."""
    await asyncio.sleep(seconds / 4)
    for node in nodes:
        node.send(signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds / 2)
    finally:
        for node in nodes:
            node.send(signal.SIGCONT)


async def a_partition(here: Scene, options: Options) -> float:
    """A node of three is parted from the others; devices write to both sides."""

    async def part() -> None:
        await asyncio.sleep(options.seconds / 4)
        await here.cloud.cut(here.cloud.nodes[-1])
        await asyncio.sleep(options.seconds / 2)
        await here.cloud.heal()

    return await while_writing(here, options, part())


async def sent_twice(here: Scene, options: Options) -> float:
    """Every point is sent again, twice, as by a replicator that did not get the answer."""
    await here.devices.write_steadily(options.seconds, options.arguments.every, options.arguments.points)
    await here.devices.ledger.all_there(CATCH_UP_S)
    end = time.monotonic()
    for name in here.devices.names:
        login = here.logins[name]
        docs = await here.devices.documents(name)
        for _ in range(2):
            await resend(here, login, docs)
    return end


async def resend(here: Scene, login: tuple[str, str], docs: list[dict[str, Any]]) -> None:
    """Send a batch that was sent before; it must be acknowledged."""
    body = {"docs": docs, "new_edits": False}
    fields = {"Authorization": aiohttp.encode_basic_auth(*login)}
    async with (
        aiohttp.ClientSession(headers=fields) as session,
        session.post(f"{here.url}/{here.target}/_bulk_docs", json=body) as answer,
    ):
        if answer.status != 201 or await answer.json() != []:
            raise CouchDBError(f"a batch that is sent again: {answer.status} {await answer.text()}")


async def while_writing(here: Scene, options: Options, happening: Any) -> float:
    """Devices write at their pace while something happens; the time when both had ended."""
    given = options.arguments
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(here.devices.write_steadily(options.seconds, given.every, given.points))
        tasks.create_task(happening)
    end = time.monotonic()
    await here.devices.restart()  # growd does it within 90 s after the server answers again
    return end


FAULT_SCENES: Final = {
    "outage": an_outage,
    "receiver": a_killed_receiver,
    "node": a_killed_node,
    "hang": a_hanging_node,
    "alone": a_lonely_node,
    "partition": a_partition,
    "twice": sent_twice,
}


def wrong(found: Audit) -> int:
    return found.missing + found.foreign + found.twice + found.conflicts + found.different


def label(nodes: int) -> str:
    return "one node" if nodes == 1 else f"{nodes} nodes"
