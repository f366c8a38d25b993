"""A growd with simulated hardware, and a browser, which all tests of a process share."""

from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from support.browser import running_browser
from support.page import SIMULATED, Client
from support.program import started


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule():
    """Run these tests on the loop of the browser.

    pytest-asyncio looks for the mark while it makes the tests: one that comes later ends the loop, and with
    it the browser and `shared`, after each test.
    """
    module = yield
    module.add_marker(pytest.mark.asyncio(loop_scope="session"))
    return module


def pytest_collection_modifyitems(items):
    """Tests that start a growd of their own are slow."""
    for item in items:
        if item.path.parent == Path(__file__).parent and "shared" not in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser():
    async with running_browser() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def growd(tmp_path):
    """One for each test, which may leave it as it wants."""
    async with started(tmp_path, "--profile", "sim") as program:
        yield program


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(tmp_path_factory):
    """One for all tests of a file, which leave it as they found it."""
    async with started(tmp_path_factory.mktemp("growd"), *SIMULATED) as program:
        yield program


@pytest_asyncio.fixture(loop_scope="session")
async def client(shared):
    """Another client of `shared`."""
    async with aiohttp.ClientSession() as session:
        yield Client(shared, session)
