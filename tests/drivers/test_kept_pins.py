"""The pin keeper as a process: what becomes of the pins when it, or the program that uses it, fails."""

import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from growd_drivers import pins as pins_module
from growd_drivers.errors import HardwareUnavailableError
from growd_drivers.gpio_input import GpioInput
from growd_drivers.pins import KeptPins, kept_pins, release_pins
from support.lasting_pins import LastingPins
from support.processes import Ending
from support.waiting import wait_until

pytestmark = pytest.mark.long

PIN = 12
FOR_EVER_S = 3_600.0
THREADS = 8
LIBRARIES = ("gpiod", "RPi.GPIO")


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param


@pytest.fixture
def lasting(tmp_path):
    return LastingPins(tmp_path)


@pytest.fixture
def pins(lasting, library):
    with lasting.here():
        yield kept_pins(library)


def answers(pins):
    with suppress(OSError):
        pins.ping()
        return True
    return False


def is_gone(process):
    """Whether a process has ended; this process may not have waited for it."""
    with suppress(FileNotFoundError):
        return "\nState:\tZ" in Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return True


# what ends by itself


@pytest.mark.parametrize("rest", [0, 1])
def test_a_level_ends_while_nobody_asks(lasting, pins, rest):
    assert pins.claim(PIN, rest)
    assert pins.write(PIN, 1.0 - rest, 1.0, 0.1) is None
    wait_until(lambda: lasting.levels() == {PIN: rest})
    given = pins.write(PIN, float(rest), 1.0, 0.0)
    assert given is not None
    assert given >= 0.1
    assert [level for _, level in lasting.history()][-2:] == [1 - rest, rest]
    assert pins.write(PIN, float(rest), 1.0, 0.0) == 0.0


def test_a_full_level_is_steady_and_pulses_alternate_and_end(lasting, pins):
    pins.claim(PIN, 0)
    pins.write(PIN, 1.0, 100.0, FOR_EVER_S)
    pins.write(PIN, 0.0, 100.0, 0.0)
    assert [level for _, level in lasting.history() if level] == [1]
    pins.write(PIN, 0.5, 100.0, FOR_EVER_S)
    wait_until(lambda: len(lasting.history()) > 13)
    levels = [level for _, level in lasting.history()][-8:]
    assert levels in ([0, 1] * 4, [1, 0] * 4)
    pins.write(PIN, 0.5, 100.0, 0.05)
    wait_until(lambda: lasting.levels() == {PIN: 0} and pins.write(PIN, 0.0, 1.0, 0.0) == 0.0)


def test_only_what_a_program_has_left_driven_is_claimed_on_request(lasting, pins):
    lasting.left({PIN: 1})
    assert pins.claim(PIN, 0, only_if_driven=True)
    assert not pins.claim(13, 0, only_if_driven=True)
    assert lasting.levels() == {PIN: 0}
    assert pins.claimed == {PIN: (0, -1)}


# the program fails

BEGIN = """
import ctypes, os, signal, sys, threading, time
from growd_drivers.pins import KeptPins

pins = KeptPins(sys.argv[1])
pins.claim(12, 0)
valid_s = float(sys.argv[2])

def renew():
    while True:
        pins.write(12, 1.0, 1.0, valid_s)
        time.sleep(0.02)

pins.write(12, 1.0, 1.0, valid_s)
threading.Thread(target=renew, daemon=True).start()
print(pins.process, flush=True)
sys.stdin.readline()
"""
FAILURES = {
    "killed": (FOR_EVER_S, "os.kill(os.getpid(), signal.SIGKILL)"),
    "ended at once": (FOR_EVER_S, "os._exit(1)"),
    "ended in order": (FOR_EVER_S, "sys.exit()"),
    "stopped": (0.3, "os.kill(os.getpid(), signal.SIGSTOP)"),
    "holds the interpreter": (0.3, "ctypes.PyDLL(None).sleep(600)"),
    "forked and killed": (0.3, "os.fork() or sys.stdin.read()\nos.kill(os.getpid(), signal.SIGKILL)"),
}


@contextmanager
def program(lasting, library, name):
    """A program that drives a pin for as long as it can, and the number of its keeper."""
    valid_s, failure = FAILURES[name]
    command = [sys.executable, "-c", BEGIN + failure, library, str(valid_s)]
    environment = {**os.environ, **lasting.environment}
    with Ending(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        try:
            yield running, int(running.stdout.readline())
        finally:
            running.kill()


@pytest.mark.parametrize("failure", FAILURES)
def test_a_program_that_fails_leaves_its_pins_at_rest(lasting, library, failure):
    with program(lasting, library, failure) as (running, keeper):
        assert running.stdin is not None
        assert lasting.levels() == {PIN: 1}
        running.stdin.write("now\n")
        running.stdin.flush()
        wait_until(lambda: lasting.levels() == {PIN: 0})
    wait_until(lambda: is_gone(keeper))
    assert lasting.levels() == {PIN: 0}


def test_signals_to_all_processes_of_growd_do_not_end_the_keeper(pins):
    pins.claim(PIN, 0)
    keeper = pins.process
    assert keeper is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGABRT):
        os.kill(keeper, number)
        pins.write(PIN, 1.0, 1.0, 1.0)
        assert (pins.process, pins.restarts) == (keeper, 0)


# the keeper fails


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_keeper_that_fails_is_replaced_by_one_that_brings_all_to_rest(lasting, pins, number):
    for pin, rest in ((PIN, 0), (13, 1)):
        pins.claim(pin, rest)
        pins.write(pin, 1.0 - rest, 1.0, FOR_EVER_S)
    first = pins.process
    assert first is not None
    os.kill(first, number)
    assert lasting.levels() == {PIN: 1, 13: 0}
    with pytest.raises(OSError, match="the pin keeper failed"):
        pins.ping()
    wait_until(lambda: answers(pins))
    assert (lasting.levels(), pins.restarts) == ({PIN: 0, 13: 1}, 1)
    assert pins.trouble
    assert pins.process not in {None, first}
    assert is_gone(first)
    assert pins.write(PIN, 1.0, 1.0, FOR_EVER_S) is None
    assert pins.write(PIN, 1.0, 1.0, FOR_EVER_S) is not None
    assert lasting.levels() == {PIN: 1, 13: 1}


def test_an_input_is_read_again_from_a_new_keeper(lasting, pins, said):
    switch = GpioInput(pins, 17, pull="up")
    assert switch.read().is_active == 0
    assert pins.process is not None
    os.kill(pins.process, signal.SIGKILL)
    wait_until(lambda: answers(pins))
    with said.raises(HardwareUnavailableError):
        switch.read()
    lasting.left({17: 0})
    assert switch.read().is_active == 1


def test_a_pin_that_the_new_keeper_is_refused_is_brought_to_rest_as_soon_as_it_is_free(lasting, said):
    holder = (
        "import gpiod, sys\n"
        "settings = gpiod.LineSettings(gpiod.Direction.OUTPUT, gpiod.line.Value.ACTIVE)\n"
        "line = gpiod.Chip('/dev/gpiochip0').request_lines({12: settings}, consumer='other')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with lasting.here():
        pins = kept_pins("gpiod")
        for pin in (PIN, 13):
            pins.claim(pin, 0)
            pins.write(pin, 1.0, 1.0, FOR_EVER_S)
        assert pins.process is not None
        os.kill(pins.process, signal.SIGKILL)
        wait_until(lambda: pins.process is None or is_gone(pins.process))
        with Ending([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout.readline() == b"held\n"
            wait_until(lambda: answers(pins))
            assert lasting.levels() == {PIN: 1, 13: 0}
            with said.raises(OSError):
                pins.write(PIN, 1.0, 1.0, FOR_EVER_S)
            other.communicate()
        pins.ping()
        assert lasting.levels() == {PIN: 0, 13: 0}
        pins.write(PIN, 1.0, 1.0, FOR_EVER_S)
        assert lasting.levels() == {PIN: 1, 13: 0}


@pytest.mark.parametrize("executable", ["/nowhere/python", "/bin/false"], ids=["none", "ends at once"])
def test_a_keeper_that_cannot_start_is_an_error_and_is_tried_again(lasting, library, executable, monkeypatch):
    with lasting.here():
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", executable)
            patch.setattr(pins_module, "_PAUSE_S", 0.0)
            pins = kept_pins(library)
            for _ in range(3):
                with pytest.raises(HardwareUnavailableError, match="the pin keeper failed"):
                    pins.open()
        wait_until(lambda: answers(pins))
        assert pins.claim(PIN, 0)
    assert lasting.levels() == {PIN: 0}


def test_a_new_keeper_that_does_not_answer_is_not_asked_again(lasting, library, tmp_path, monkeypatch, said):
    """An answer that comes late would be taken for that to the next request."""
    slow = tmp_path / "python"
    slow.write_text(f'#!/bin/sh\nsleep 600 & echo $! >{tmp_path}/pid; wait; exec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    with lasting.here():
        pins = kept_pins(library)
        pins.claim(PIN, 0)
        pins.write(PIN, 1.0, 1.0, FOR_EVER_S)
        assert pins.process is not None
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(slow))
            patch.setattr(pins_module, "_PAUSE_S", 0.0)
            patch.setattr(pins_module, "_FIRST_ANSWER_S", 0.1)
            os.kill(pins.process, signal.SIGKILL)
            with said.raises(OSError):
                pins.ping()
        os.kill(int((tmp_path / "pid").read_text(encoding="ascii")), signal.SIGKILL)
        assert pins.process is None
        wait_until(lambda: answers(pins))
        assert lasting.levels() == {PIN: 0}


def test_a_keeper_ends_although_a_pin_fails(tmp_path):
    with LastingPins(tmp_path).here():
        pins = KeptPins("gpiod")
        pins.claim(PIN, 0)
        pins.write(PIN, 1.0, 1.0, FOR_EVER_S)
        (tmp_path / "pins").rename(tmp_path / "away")
        (tmp_path / "pins").mkdir()  # so that each write fails
        process = pins._process
        pins.close()
        process.wait()


# many at once


def test_many_threads_at_the_first_use_get_all_their_pins(lasting, library):
    numbers = (5, 6, 12, 13, 18, 22, 23, 24)
    together = threading.Barrier(THREADS)
    seen = []
    failures = []

    def claim(mine):
        together.wait()
        try:
            pins = kept_pins(library)
            seen.append(pins)
            for pin in mine:
                pins.claim(pin, 1)
            for pin in mine:
                pins.write(pin, 0.0, 1.0, FOR_EVER_S)
        except Exception as error:  # noqa: BLE001  shown below
            failures.append(error)

    with lasting.here():
        in_threads([lambda mine=numbers[each:] + numbers[:each]: claim(mine) for each in range(THREADS)])
        assert failures == []
        assert len({*map(id, seen)}) == 1
        assert {*seen[0].claimed} == {*numbers}
        for pin in numbers:
            seen[0].write(pin, 0.0, 1.0, FOR_EVER_S)
        assert lasting.levels() == dict.fromkeys(numbers, 0)
    assert lasting.levels() == dict.fromkeys(numbers, 1)


def test_each_claim_is_noted_with_all_before_it(pins):
    noted = []
    pins.on_claim = lambda pin: noted.append({*pins.claimed, pin})
    in_threads([lambda pin=pin: pins.claim(pin, 0) for pin in range(4, 4 + THREADS)])
    assert [len(each) for each in noted] == list(range(1, THREADS + 1))


def test_the_time_that_is_counted_is_right_while_a_keeper_is_replaced(pins):
    """A new keeper counts from 0."""
    pins.claim(PIN, 0)
    given = []
    is_over = threading.Event()

    def write():
        while not is_over.is_set():
            with suppress(OSError):
                given.append(pins.write(PIN, 1.0, 1.0, 1.0))

    def kill():
        try:
            assert pins.process is not None
            os.kill(pins.process, signal.SIGKILL)
            wait_until(lambda: pins.restarts > 0 and answers(pins))
        finally:
            is_over.set()

    in_threads([write, write, kill])
    assert None in given
    assert all(each is None or each >= 0 for each in given)


def in_threads(calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# what it costs


def test_the_keeper_does_not_grow(pins):
    pins.claim(PIN, 0)
    sizes = []
    for number in range(16_000):
        what = number % 4
        if what == 0:
            pins.write(PIN, 1.0, 1.0, FOR_EVER_S)
        elif what == 1:
            with suppress(PermissionError):
                pins.write(13, 1.0, 1.0, 1.0)
        elif what == 2:
            with suppress(OSError):
                pins.input(14)
        else:
            pins.ping()
        if number in {4_000, 15_999}:
            sizes.append(status_kb(pins, "VmRSS"))
    assert pins.restarts == 0
    assert sizes[1] - sizes[0] < 60


def status_kb(pins, name):
    for line in Path(f"/proc/{pins.process}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise ValueError(name)


def test_memory_is_locked_only_without_a_limit(lasting):
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limits = [2**23] + [resource.RLIM_INFINITY] * (hard == resource.RLIM_INFINITY)
    try:
        for limit in limits:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, hard))
            with lasting.here():
                pins = kept_pins("gpiod")
                pins.ping()
                assert (status_kb(pins, "VmLck") > 0) == (limit == resource.RLIM_INFINITY)
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


def test_another_library_has_another_keeper(lasting):
    with lasting.here():
        first = kept_pins("gpiod")
        first.claim(PIN, 0)
        first.write(PIN, 1.0, 1.0, FOR_EVER_S)
        other = kept_pins("RPi.GPIO")
        assert other is not first
        assert other is kept_pins("RPi.GPIO")
        assert (first.process, lasting.levels()) == (None, {PIN: 0})
        release_pins()
        assert other.process is None


INSTALLED = """
import sys
sys.path[:0] = sys.argv[1:]
from growd_drivers.pins import KeptPins
pins = KeptPins()
pins.claim(12, 0)
pins.write(12, 1.0, 1.0, 3_600.0)
pins.close()
"""


def test_the_keeper_finds_the_packages_of_an_installed_growd_which_python_does_not_know(lasting):
    python = Path(sys.base_prefix, "bin", "python3")  # has none of the packages of this environment
    packages = (lasting.environment["PYTHONPATH"], str(Path(pins_module.__file__).parents[1]))
    variables = {"PINS_FILE": lasting.environment["PINS_FILE"]}
    done = subprocess.run(
        [python, "-I", "-c", INSTALLED, *packages], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (PIN, 1) in lasting.history()
    assert lasting.levels() == {PIN: 0}
