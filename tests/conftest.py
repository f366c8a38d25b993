"""Checks around every test, the marks of slow tests, and the profiles of hypothesis."""

import asyncio
import faulthandler
import gc
import os
import signal
import sys
from pathlib import Path
from typing import TextIO

import pytest
import pytest_asyncio
from blockbuster import blockbuster_ctx
from hypothesis import settings

from growd_simulation.simulated_clock import SimulatedLoop
from support.daemon import serving
from support.leaks import Holdings, end_children
from support.ports import held_port

pytest_plugins = ["support.database", "support.sentences"]

# The same examples in each run, and no time limits: a run that fails shows a change, not chance or a busy
# machine. `./test --hypothesis-profile search` looks for new examples.
settings.register_profile("quick", derandomize=True, database=None, deadline=None, max_examples=20)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=100)
settings.register_profile("search", max_examples=1_000, deadline=None)
settings.load_profile("quick")

NIGHTLY = "nightly"
# What makes tests slow. `./test` leaves out all of these, `./test --all` only `nightly` ones.
SLOW = {
    "long": "takes seconds: whole programs, or days of simulated control",
    "soak": "weeks of simulated operation, with faults",
    "kill": "kills a process at many moments, or restarts whole programs",
    "watchdog": "lets loops and processes hang until the watchdog ends them",
    "replay": "replays a recording of months",
    "replication": "waits for two database servers and the connection between them",
    "browser": "drives a browser, with a growd for each test",
    "fuzz": "thousands of random inputs",
    NIGHTLY: "tries every combination or moment, where other tests try some; only `./test --nightly` runs it",
    "install": "builds packages and makes installations",
    "bench": "runs benchmarks",
    "vm": "starts virtual machines",
}

LONG_S = 240.0
OVERTIME_S = 60.0
TERMINAL = pytest.StashKey[TextIO]()


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out slow tests in files that are not named")
    parser.addoption(
        "--daily", action="store_true", help="leave out nightly tests in files that are not named"
    )


def pytest_asyncio_loop_factories():
    """Loops that can have simulated time."""
    return {"loop": SimulatedLoop}


def pytest_configure(config):
    # In background jobs SIGINT is ignored, and each program that a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, reason in SLOW.items():
        config.addinivalue_line("markers", f"{name}: slow: {reason}")
    config.stash[TERMINAL] = os.fdopen(os.dup(2), "w")  # pytest captures standard error during tests


def pytest_unconfigure(config):
    config.stash[TERMINAL].close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """End the process with all stacks if a test goes on after its time limit.

    The exception of pytest-timeout may be raised in a background task, which swallows it.
    """
    limit_s = _limit_s(item) or float(item.config.getini("timeout"))
    faulthandler.dump_traceback_later(2 * limit_s + OVERTIME_S, exit=True, file=item.config.stash[TERMINAL])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_collection_modifyitems(config, items):
    """Leave out slow or nightly tests, and begin with the longest: no worker should end alone with it."""
    if config.option.quick or config.option.daily:
        marks = {*SLOW} if config.option.quick else {NIGHTLY}
        named = {Path(argument.partition("::")[0]).absolute() for argument in config.args}
        left_out = {item for item in items if item.path not in named and _has_mark(item, marks)}
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=[*left_out])
    items.sort(key=lambda item: -_limit_s(item) if _limit_s(item) >= LONG_S else 0.0)


def _has_mark(item, names):
    return any(mark.name in names for mark in item.iter_markers())


def _limit_s(item):
    """The time limit of a test, if it has its own."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark is not None and mark.args else 0.0


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """No thread, socket, child process, variable of the environment or path of imports outlives its test.

    pytest sets up wider fixtures (a shared database) first, so their resources do not count.
    """
    before, settings_before = Holdings.now(), _settings()
    yield
    assert _settings() == settings_before
    left = Holdings.now().more_than(before)
    if left:
        gc.collect()  # only if needed: it takes longer than most tests
        left = Holdings.now().more_than(before)
        end_children(before)
    assert not left, f"left behind: {left}"


def _settings():
    """The path of imports and the environment, without the name of the test."""
    return [*sys.path], {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}


@pytest.fixture
def own_port():
    """A reserved port for a server of this test."""
    with held_port() as port:
        yield port


@pytest_asyncio.fixture
async def daemon():
    """A daemon without hardware and database."""
    async with serving() as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def nothing_blocks():
    """A blocking call on an event loop raises `BlockingError`. Set up once, since this is slow."""
    with blockbuster_ctx(["growd"]):
        yield


@pytest_asyncio.fixture(autouse=True)
async def quiet_loop():
    """No task outlives its test."""
    before = {*asyncio.all_tasks()}
    yield
    before.add(asyncio.current_task())
    left = [t.get_name() for t in asyncio.all_tasks() - before if not t.done()]
    assert not left, f"tasks left: {left}"
