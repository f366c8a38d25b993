"""A receiver acknowledges nothing while its node of CouchDB reaches half of the cluster or less."""

import asyncio

import msgspec
import pytest

from growd.store.errors import CouchRefusedError, CouchUnavailableError
from growd_cloud.quorum import Quorum


class Member:
    """A node that sees some nodes of its cluster, and answers when it is let; some nodes may hang."""

    def __init__(self, seen, of):
        self.seen, self.of, self.questions = seen, of, 0
        self.hanging = set()
        self.asked = []
        self.status = 200
        self.answers = asyncio.Event()
        self.answers.set()
        self.was_asked = asyncio.Event()

    async def send(self, method, segments):
        assert method == "GET"
        if segments[0] == "_node":
            return await self.node(segments[1])
        assert segments == ("_membership",)
        self.questions += 1
        self.was_asked.set()
        members = {
            "all_nodes": [f"node{n}" for n in range(self.seen)],
            "cluster_nodes": [f"node{n}" for n in range(self.of)],
        }
        if self.status != 200:
            members = {"error": "unauthorized", "reason": "no"}
        await self.answers.wait()
        return self.status, msgspec.json.encode(members)

    async def node(self, name):
        self.asked.append(name)
        if name in self.hanging:
            await asyncio.Event().wait()
        is_connected = int(name.removeprefix("node")) < self.seen
        await self.answers.wait()
        return (200, b'"/data"') if is_connected else (404, b'{"error": "nodedown", "reason": "it is down"}')


def quorum_of(member, patience_s=60):
    return Quorum(member, patience_s)


async def test_most_nodes_are_enough_and_half_of_them_are_too_few():
    for seen, of in ((1, 1), (2, 3), (3, 4), (4, 3)):
        await quorum_of(Member(seen, of)).check()
    for seen, of in ((1, 3), (1, 2), (2, 4)):
        with pytest.raises(CouchUnavailableError, match=f"CouchDB reaches {seen} of {of} nodes"):
            await quorum_of(Member(seen, of)).check()


@pytest.mark.parametrize("hanging", [{"node0", "node1"}, {"node1", "node2"}, {"node0", "node1", "node2"}])
async def test_nodes_that_are_listed_and_do_not_answer_do_not_count(hanging):
    member = Member(3, 3)
    member.hanging = hanging
    quorum = quorum_of(member, 0)
    with pytest.raises(CouchUnavailableError, match=f"CouchDB reaches {3 - len(hanging)} of 3 nodes"):
        await quorum.check()
    member.hanging = set()
    await quorum.check()


async def test_a_node_that_hangs_is_asked_last_the_next_time():
    member = Member(3, 3)
    member.hanging = {"node0"}
    quorum = quorum_of(member, 0)
    await quorum.check()
    await quorum.check()
    assert member.asked == ["node0", "node1", "node2", "node1", "node2"]


async def test_a_node_that_hangs_itself_is_no_quorum(said):
    member = Member(3, 3)
    member.answers.clear()
    with said.raises(CouchUnavailableError):
        await quorum_of(member, 0).check()


async def test_requests_share_a_question_that_begins_after_them():
    member = Member(1, 3)
    member.answers.clear()
    quorum = quorum_of(member)
    early = asyncio.create_task(quorum.check())
    await member.was_asked.wait()
    later = [asyncio.create_task(quorum.check()) for _ in range(10)]
    await asyncio.sleep(0)  # they wait
    member.seen = 3  # the first question has its answer from before
    member.answers.set()
    results = await asyncio.gather(early, *later, return_exceptions=True)
    assert isinstance(results[0], CouchUnavailableError)
    assert results[1:] == [None] * 10
    assert (member.questions, member.asked) == (2, ["node0", "node1"])


async def test_nodes_are_asked_themselves_while_their_names_are_remembered():
    member = Member(3, 3)
    quorum = quorum_of(member)
    await quorum.check()
    member.seen = 1
    for _ in range(2):
        with pytest.raises(CouchUnavailableError, match="CouchDB reaches 1 of 3 nodes"):
            await quorum.check()
    assert member.questions == 2
    member.seen = 3
    await quorum.check()
    alone = Member(1, 1)  # of no cluster
    await quorum_of(alone).check()
    assert alone.asked == []


async def test_requests_share_a_question_that_fails():
    member = Member(3, 3)
    member.status = 401
    member.answers.clear()
    quorum = quorum_of(member)
    early = asyncio.create_task(quorum.check())
    await member.was_asked.wait()
    later = [asyncio.create_task(quorum.check()) for _ in range(10)]
    await asyncio.sleep(0)  # they wait
    member.answers.set()
    results = await asyncio.gather(early, *later, return_exceptions=True)
    assert all(isinstance(each, CouchRefusedError) for each in results)
    assert member.questions == 2
