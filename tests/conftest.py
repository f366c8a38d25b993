"""What every test is held to: nothing left behind, and nothing that blocks the event loop."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from blockbuster import blockbuster_ctx
from hypothesis import settings

from support.leaks import Holdings
from support.ports import held_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytest_plugins = ["support.api_fixtures", "support.database"]

# The same examples in each run, and no time limits: a run that fails shows a change, not chance or a busy
# machine. `./test --hypothesis-profile search` looks for new ones.
settings.register_profile("steady", derandomize=True, database=None, deadline=None)
settings.register_profile("search", max_examples=1_000, deadline=None)
settings.load_profile("steady")

LONG_S = 240.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what may take longest: no worker shall be left alone with one of these in the end."""
    items.sort(key=lambda item: -_limit_s(item) if _limit_s(item) >= LONG_S else 0.0)


def _limit_s(item: pytest.Item) -> float:
    """How long a test may take where it says so itself."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark is not None and mark.args else 0.0


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No thread, socket or child process outlives the test that made it.

    pytest sets up wider fixtures (a database shared by the tests of a file) before this one, so what they
    hold counts as there before.
    """
    before = Holdings.now()
    yield
    left = Holdings.now().more_than(before)
    if left:
        gc.collect()  # only then: it costs more than most tests
        left = Holdings.now().more_than(before)
    assert not left, f"left behind: {left}"


@pytest.fixture
def own_port() -> Iterator[int]:
    """A port on which nobody listens, until a server of this test does."""
    with held_port() as port:
        yield port


@pytest.fixture(scope="session", autouse=True)
def nothing_blocks() -> Iterator[None]:
    """A blocking call on an event loop raises `BlockingError`. Set up once: it is slower than most tests."""
    with blockbuster_ctx(["growd"]):
        yield


@pytest_asyncio.fixture(autouse=True)
async def quiet_loop() -> AsyncIterator[None]:
    """No task is left."""
    before: set[asyncio.Task[Any] | None] = {*asyncio.all_tasks()}
    yield
    before.add(asyncio.current_task())
    left = [t.get_name() for t in asyncio.all_tasks() - before if not t.done()]
    assert not left, f"tasks left: {left}"
