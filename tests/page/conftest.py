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


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser():
    async with running_browser() as browser:
        yield browser


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def lasting(tmp_path_factory):
    """A growd for all tests of this folder, and its recipes as they were at its start."""
    async with started(tmp_path_factory.mktemp("growd"), *SIMULATED) as program:
        await program.until_there("recipes/lettuce_days")
        yield program, await program.documents("recipes")


@pytest_asyncio.fixture(loop_scope="session")
async def client(lasting):
    """Another client of `shared`."""
    async with aiohttp.ClientSession() as session:
        yield Client(lasting[0], session)


@pytest_asyncio.fixture(loop_scope="session")
async def shared(lasting, client):
    """The same growd for all tests, which begin without faults, holds, set points by hand and a recipe."""
    program, recipes = lasting
    yield program
    await client.come_to_rest(recipes)
