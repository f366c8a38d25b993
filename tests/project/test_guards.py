"""The checks around every test find what they should."""

import asyncio
import socket
import subprocess
import sys
import threading

import pytest
from blockbuster import BlockingError

from growd.runtime.clock import RealClock
from support.leaks import Holdings


async def test_a_blocking_call_on_the_event_loop_fails():
    with pytest.raises(BlockingError):
        RealClock().sleep_blocking(0.001)


async def test_the_same_call_in_a_worker_thread_succeeds():
    await asyncio.to_thread(RealClock().sleep_blocking, 0.001)


def test_a_leftover_thread_socket_and_child_are_found():
    before = Holdings.now()
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="forgotten")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with socket.socket() as left:
        thread.start()
        try:
            found = Holdings.now().more_than(before)
        finally:
            release.set()
            thread.join()
            child.communicate(b"\n")
        assert left.fileno() >= 0
    assert "thread forgotten" in found
    assert f"child process {child.pid}" in found
    assert any(line.startswith("socket ") for line in found)
    assert Holdings.now().more_than(before) == []
