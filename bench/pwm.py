"""How exact software PWM is, and what it costs, at a duty cycle of 30 %.

The process for software PWM drives its lines, on an idle machine and with a busy process for each core. In a
virtual machine with `hw-sim/kernel` these are GPIO lines, whose changes the kernel records. Elsewhere the
process records its own changes. The reference drives them from a thread beside a thread that computes half
of the time, as growd would without that process.

"Late" is the time from the start of a period to the pulse. "Light" is the share of time at high level.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from growd_drivers.pwm_pulses import ANSWER, MESSAGE, PulseGenerator
from measuring import Options, Process, Row, limited, main

from growd_drivers import pwm_pulses
from growd_drivers.gpio_lines import GpioLines, header_chip

if TYPE_CHECKING:
    from collections.abc import Iterator

DUTY = 0.3
PINS = (12, 13, 18, 19)
CASES = ((200.0, 1, False), (200.0, 1, True), (200.0, 4, False), (1000.0, 1, False), (1000.0, 4, False))
RECORDED = Path("/sys/kernel/debug/growd_pi/changes")  # of hw-sim/kernel
COMPUTES_S = 0.02
_NS_PER_S = 1_000_000_000
Change = tuple[int, int]  # monotonic ns, level


class Taken(NamedTuple):
    """What one run gave: lateness in us, light and CPU time in percent."""

    late_median: float
    late_p99: float
    light: float
    cpu: float


class RecordedLines:
    """Stands in for the module fcntl of `pwm_pulses`: records the changes of the first line."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._line: int | None = None

    def ioctl(self, line: int, _code: int, levels: bytes) -> None:
        now = time.monotonic_ns()
        self._line = line if self._line is None else self._line
        if line == self._line:
            self.changes.append((now, levels[0]))


def measure(options: Options) -> list[Row]:
    run = _on_lines if RECORDED.exists() else _recorded
    rows = []
    for frequency_hz, channels, is_busy in CASES:
        with _busy_cores(os.cpu_count() or 1 if is_busy else 0):
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
    real, pwm_pulses.fcntl = fcntl, lines  # type: ignore[assignment,attr-defined]
    thread = threading.Thread(target=PulseGenerator(its).run)
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
    pwm_pulses.fcntl = real  # type: ignore[attr-defined]
    return _taken(lines.changes, frequency_hz, 0.0)


def _on_lines(frequency_hz: float, channels: int, seconds: float) -> Taken:
    """The process on GPIO lines, whose changes the kernel records."""
    gpio = GpioLines(header_chip())
    for pin in PINS[:channels]:
        gpio.setup(pin, gpio.OUT, initial=0)
    pulses = [gpio.PWM(pin, frequency_hz) for pin in PINS[:channels]]
    for each in pulses:
        each.start(100 * DUTY)
    RECORDED.write_text("clear", encoding="ascii")
    process = Process(int(Path("/proc/thread-self/children").read_text(encoding="ascii").split()[-1]), 0)
    before = process.cpu_s()
    time.sleep(seconds)
    cpu_s = process.cpu_s() - before
    content = RECORDED.read_text(encoding="ascii")
    gpio.close()
    fields = [line.split() for line in content.splitlines()]
    changes = [(int(at), int(level)) for at, line, level in fields if line == str(PINS[0])]
    return _taken(changes, frequency_hz, cpu_s / seconds)


def _begin(control: socket.socket, frequency_hz: float, channels: int) -> None:
    period_ns = round(_NS_PER_S / frequency_hz)
    with open(os.devnull, "wb") as line:  # noqa: PTH123
        for pin in PINS[:channels]:
            message = MESSAGE.pack(pin, 0, period_ns, round(DUTY * period_ns))
            socket.send_fds(control, [message], [line.fileno()])
            control.recv(ANSWER.size)


def _taken(changes: list[Change], frequency_hz: float, cpu: float) -> Taken:
    """Of whole pulses."""
    period_ns = _NS_PER_S / frequency_hz
    first = next(number for number, (_, level) in enumerate(changes) if level and number > 1)
    whole = changes[first : len(changes) - (len(changes) - first + 1) % 2]
    pulses = list(zip(whole[::2], whole[1::2], strict=False))
    late = sorted(up % period_ns / 1000 for (up, _), _ in pulses)
    high = sum(down - up for (up, _), (down, _) in pulses[:-1])
    light = 100 * high / (pulses[-1][0][0] - pulses[0][0][0])
    return Taken(statistics.median(late), late[int(0.99 * len(late))], light, 100 * cpu)


@contextmanager
def _busy_cores(number: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(number):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def _lines() -> None:
    """The process of the pulses, with lines that record."""
    lines = RecordedLines()
    pwm_pulses.fcntl = lines  # type: ignore[assignment,attr-defined]
    before = time.process_time()
    pwm_pulses.main()
    json.dump({"changes": lines.changes, "cpu_s": time.process_time() - before}, sys.stdout)


if __name__ == "__main__" and sys.argv[1:] == ["lines"]:
    _lines()
elif __name__ == "__main__":
    main(measure, rounds=3, seconds=2.0)
