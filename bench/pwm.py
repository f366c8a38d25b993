"""How exact software PWM is, and what it costs, at a duty cycle of 30 %.

The pin keeper drives its lines, on an idle machine and with a busy process for each core. In a
virtual machine with `hw-sim/kernel` these are GPIO lines, whose changes the kernel records. Elsewhere the
keeper records its own changes. The reference drives them from a thread beside a thread that computes half
of the time, as growd would without that process.

"Late" is the time from the start of a period to the pulse. "Light" is the share of time at high level.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from measuring import Options, Process, Row, busy, limited, main

from growd_drivers import pin_keeper
from growd_drivers.pin_keeper import ANSWER, CLAIM, REQUEST, WRITE, Keeper
from growd_drivers.pin_lines import NS_PER_S, PulsedLine
from growd_drivers.pins import KeptPins

if TYPE_CHECKING:
    from growd_drivers.pin_lines import Drive, PinLines

DUTY = 0.3
PINS = (12, 13, 18, 19)
CASES = ((200.0, 1, False), (200.0, 1, True), (200.0, 4, False), (1000.0, 1, False), (1000.0, 4, False))
RECORDED = Path("/sys/kernel/debug/growd_pi/changes")  # of hw-sim/kernel
COMPUTES_S = 0.02
VALID_S = 600.0
Change = tuple[int, int]  # monotonic ns, level


class Taken(NamedTuple):
    """What one run gave: lateness in us, light and CPU time in percent."""

    late_median: float
    late_p99: float
    light: float
    cpu: float


class RecordedLines:
    """Outputs as `pin_keeper.PinLines`: records the changes of the first pin."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def claim(self, pin: int, rest: int, chip: int) -> Drive:
        del chip
        return PulsedLine(partial(self._drive, pin), rest)

    def claim_input(self, pin: int, pull: str, debounce_ns: int) -> None:
        """There are no inputs."""

    def is_output(self, pin: int) -> bool:
        return pin in PINS

    def read(self, pin: int) -> int:
        raise NotImplementedError

    def _drive(self, pin: int, is_high: bool) -> None:  # noqa: FBT001  it is the level
        now = time.monotonic_ns()
        if pin == PINS[0]:
            self.changes.append((now, int(is_high)))


def measure(options: Options) -> list[Row]:
    run = _on_lines if RECORDED.exists() else _recorded
    rows = []
    for frequency_hz, channels, is_busy in CASES:
        with busy(os.cpu_count() or 1 if is_busy else 0):
            rounds = [run(frequency_hz, channels, options.seconds) for _ in range(options.rounds)]
        taken = Taken(*map(statistics.median, zip(*rounds, strict=True)))
        case = (
            f"{frequency_hz:g} Hz, {channels} line{'s' * (channels > 1)}{', busy cores' if is_busy else ''}"
        )
        thread = _in_a_thread(frequency_hz, options.seconds) if channels == 1 and not is_busy else None
        rows += [
            limited(f"{case}: late, median", "us", taken.late_median, None, thread and thread.late_median),
            limited(f"{case}: late, 99 %", "us", taken.late_p99, None, thread and thread.late_p99),
            limited(f"{case}: light", "%", taken.light, None, thread and thread.light),
            limited(f"{case}: CPU", "% of a core", taken.cpu),
        ]
    return rows


def _recorded(frequency_hz: float, channels: int, seconds: float) -> Taken:
    """The process, which records its own changes."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, __file__, "lines"]
    with subprocess.Popen(command, stdin=its.fileno(), stdout=subprocess.PIPE) as process:
        its.close()
        _begin(ours, frequency_hz, channels)
        time.sleep(seconds)
        ours.close()
        content, _ = process.communicate()
    recorded = json.loads(content)
    return _taken(recorded["changes"], frequency_hz, recorded["cpu_s"] / seconds)


def _in_a_thread(frequency_hz: float, seconds: float) -> Taken:
    """The same pulses from a thread of this process, which computes half of the time."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    lines = RecordedLines()
    thread = threading.Thread(target=pin_keeper.serve, args=(Keeper(lambda: lines), its))
    thread.start()
    _begin(ours, frequency_hz, 1)
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        while time.monotonic() < now + COMPUTES_S:
            sum(range(100))
        time.sleep(COMPUTES_S)
    ours.close()
    thread.join()
    its.close()
    return _taken(lines.changes, frequency_hz, 0.0)


def _on_lines(frequency_hz: float, channels: int, seconds: float) -> Taken:
    """The process on GPIO lines, whose changes the kernel records."""
    pins = KeptPins()
    for pin in PINS[:channels]:
        pins.claim(pin, 0)
        pins.write(pin, DUTY, frequency_hz, VALID_S)
    RECORDED.write_text("clear", encoding="ascii")
    process = Process(pins.process or 0, 0)
    before = process.cpu_s()
    time.sleep(seconds)
    cpu_s = process.cpu_s() - before
    content = RECORDED.read_text(encoding="ascii")
    pins.close()
    fields = [line.split() for line in content.splitlines()]
    changes = [(int(at), int(level)) for at, line, level in fields if line == str(PINS[0])]
    return _taken(changes, frequency_hz, cpu_s / seconds)


def _begin(control: socket.socket, frequency_hz: float, channels: int) -> None:
    period_ns = round(NS_PER_S / frequency_hz)
    for pin in PINS[:channels]:
        for operation in (CLAIM, WRITE):
            pulses = period_ns, round(DUTY * period_ns), round(VALID_S * NS_PER_S)
            control.send(REQUEST.pack(operation, pin, 0, -1, *pulses))
            number, _ = ANSWER.unpack_from(control.recv(pin_keeper.MOST_BYTES))
            assert not number  # noqa: S101  nothing fails here


def _taken(changes: list[Change], frequency_hz: float, cpu: float) -> Taken:
    """Of whole pulses."""
    period_ns = NS_PER_S / frequency_hz
    first = next(number for number, (_, level) in enumerate(changes) if level and number > 1)
    whole = changes[first : len(changes) - (len(changes) - first + 1) % 2]
    pulses = list(zip(whole[::2], whole[1::2], strict=False))
    late = sorted(up % period_ns / 1000 for (up, _), _ in pulses)
    high = sum(down - up for (up, _), (down, _) in pulses[:-1])
    light = 100 * high / (pulses[-1][0][0] - pulses[0][0][0])
    return Taken(statistics.median(late), late[int(0.99 * len(late))], light, 100 * cpu)


def _lines() -> None:
    """The keeper, with lines that record."""
    lines = RecordedLines()

    def open_lines(library: str) -> PinLines:
        del library
        return lines

    pin_keeper.open_lines = open_lines
    before = time.process_time()
    sys.argv[1:] = [""]
    pin_keeper.main()
    json.dump({"changes": lines.changes, "cpu_s": time.process_time() - before}, sys.stdout)


if __name__ == "__main__" and sys.argv[1:] == ["lines"]:
    _lines()
elif __name__ == "__main__":
    main(measure, rounds=3, seconds=2.0)
