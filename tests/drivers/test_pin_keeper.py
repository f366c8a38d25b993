"""The logic of the pin keeper on a clock of the test: pulses, leases, doses, and outputs that fail."""

import errno
import random
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import growd_drivers
from growd_drivers.pin_keeper import (
    ANSWER,
    CLAIM,
    CLAIM_DRIVEN,
    CLAIM_INPUT,
    MOST_BYTES,
    OPEN,
    PING,
    READ,
    REQUEST,
    WRITE,
    Keeper,
    serve,
)
from growd_drivers.pin_lines import NS_PER_S, PulsedLine

PERIOD = 5_000_000
VALVE, FAN = 23, 24


class Wave:
    """Pulses, and the time of each change of their line."""

    def __init__(self, high, began=0):
        self.now = began
        self.changes = []
        self.line = PulsedLine(lambda is_high: self.changes.append((self.now, is_high)), 0)
        self.line.set(PERIOD, high, began)

    def step(self, late=0):
        assert self.line.due is not None
        self.now = self.line.due + late
        self.line.step(self.now)

    def highs(self):
        """The start and the length of each pulse."""
        ups = [time for time, is_high in self.changes if is_high]
        downs = [time for time, is_high in self.changes[1:] if not is_high]
        return [(up, down - up) for up, down in zip(ups, downs, strict=False)]


def test_periods_do_not_drift_when_each_change_is_late():
    wave = Wave(2_000_000)
    for _ in range(1000):
        wave.step(late=70_000)
    starts = [start for start, _ in wave.highs()]
    assert [start // PERIOD for start in starts] == list(range(500))
    assert {start % PERIOD for start in starts[1:]} == {70_000}


def test_missed_periods_are_made_up_for_by_a_period_at_most():
    wave = Wave(1_000_000)
    wave.step()
    wave.step(late=2 * PERIOD)
    wave.step()
    assert wave.highs()[1] == (3 * PERIOD, 3_000_000)
    wave.step(late=100 * PERIOD)
    wave.step()
    wave.step()
    assert wave.highs()[2][1] <= 2 * PERIOD


@pytest.mark.parametrize("high", [30_000, 1_500_000, 4_900_000])
def test_the_mean_is_right_although_each_change_is_late_by_another_time(high):
    wave, dice = Wave(high), random.Random(1)
    for _ in range(4000):
        wave.step(late=round(dice.expovariate(1 / 60_000)))
    lit = sum(length for _, length in wave.highs())
    assert lit / wave.now == pytest.approx(high / PERIOD, rel=0.01)


@pytest.mark.parametrize(
    ("high", "began", "is_high", "due"),
    [
        (2_000_000, 1_000, True, 2_000_000),
        (2_000_000, 3_000_000, False, PERIOD),
        (0, 3_000_000, False, None),
        (PERIOD, 3_000_000, True, None),
    ],
)
def test_pulses_begin_as_in_the_middle_of_a_period_and_a_steady_level_stays(high, began, is_high, due):
    wave = Wave(high, began)
    assert wave.changes == [(began, is_high)]
    assert wave.line.due == due


def test_a_line_that_fails_is_tried_at_most_twice_in_a_period():
    wave = Wave(1_000_000)

    def fail(_is_high):
        raise OSError(errno.EIO, "failed")

    wave.line._drive = fail
    for _ in range(20):
        with pytest.raises(OSError, match="failed"):
            wave.step()
    assert wave.now >= 9 * PERIOD
    wave.line._drive = lambda is_high: wave.changes.append((wave.now, is_high))
    for _ in range(10):
        wave.step()
    assert wave.highs()[-1][1] == 1_000_000


class Board:
    """As `pin_lines.PinLines`: notes each write with its time. Pins in `failing` refuse to be driven."""

    def __init__(self):
        self.now = 0
        self.writes = []
        self.outputs = set()
        self.failing = set()
        self.claims = []
        self.inputs = []

    def is_output(self, pin):
        return pin in self.outputs

    def claim(self, pin, rest, chip):
        self.claims.append((pin, rest, chip))
        return PulsedLine(partial(self.drive, pin), rest)

    def claim_input(self, pin, pull, debounce_ns):
        self._check(pin)
        self.inputs.append((pin, pull, debounce_ns))

    def read(self, pin):
        self._check(pin)
        return 1

    def drive(self, pin, is_high):
        self._check(pin)
        self.writes.append((self.now, pin, int(is_high)))

    def _check(self, pin):
        if pin in self.failing:
            raise OSError(errno.EIO, f"line {pin} failed")

    def level(self, pin):
        return next(level for _, its, level in reversed(self.writes) if its == pin)


class Bench:
    def __init__(self):
        self.board = Board()
        self.keeper = Keeper(lambda: self.board)

    @property
    def now(self):
        return self.board.now

    def ask(self, operation, pin=0, level=0, chip=-1, *times):
        first, second, valid_ns = times or (0, 0, 0)
        answer = self.keeper.answer(
            REQUEST.pack(operation, pin, level, chip, first, second, valid_ns), self.now
        )
        number, value = ANSWER.unpack_from(answer)
        if number:
            raise OSError(number, answer[ANSWER.size :].decode())
        return int(value)

    def claim(self, pin, rest=0):
        assert self.ask(CLAIM, pin, rest) == 1

    def write(self, pin, high, valid_ns, period=0):
        return self.ask(WRITE, pin, 0, -1, period, high, valid_ns)

    def run(self, until):
        """Step at each time that is due."""
        while (due := self.keeper.due) is not None and due <= until:
            self.board.now = max(self.now, due)
            self.keeper.step(self.now)
        self.board.now = until


@pytest.fixture
def bench():
    return Bench()


@pytest.mark.parametrize("rest", [0, 1])
def test_a_lease_ends_to_the_nanosecond_unless_it_is_renewed(bench, rest):
    bench.claim(VALVE, rest)
    bench.board.writes.clear()
    bench.run(1_000)
    for _ in range(3):
        bench.write(VALVE, 1 - rest, 2_000_000_007)
        bench.run(bench.now + 500_000_000)
    bench.run(10 * NS_PER_S)
    assert bench.board.writes == [(1_000, VALVE, 1 - rest), (1_000_001_000 + 2_000_000_007, VALVE, rest)]
    assert bench.keeper.due is None


def test_a_dose_has_its_length_and_the_answer_to_the_next_write_tells_it(bench):
    bench.claim(VALVE)
    assert bench.write(VALVE, 1, 2_300_000_001) == 0
    bench.run(NS_PER_S)
    assert bench.write(VALVE, 1, 1_300_000_001) == NS_PER_S
    bench.run(60 * NS_PER_S)
    assert bench.write(VALVE, 0, 0) == 2_300_000_001
    bench.write(VALVE, 1, NS_PER_S)
    bench.run(90 * NS_PER_S)
    assert bench.write(VALVE, 0, 0) == 3_300_000_001


def test_a_step_that_is_late_counts_what_was_given(bench):
    bench.claim(VALVE)
    bench.write(VALVE, 1, 1_000)
    bench.board.now = 5_000
    bench.keeper.step(bench.now)
    assert bench.write(VALVE, 0, 0) == 5_000


def test_pulses_end_with_their_lease_and_renewed_ones_go_on_without_a_break(bench):
    bench.claim(FAN)
    for _ in range(2):
        bench.write(FAN, 1_000_000, 3 * PERIOD, PERIOD)
        bench.run(bench.now + 2_500_000)
    bench.run(NS_PER_S)
    ups = [time for time, _, level in bench.board.writes if level]
    assert ups == [0, PERIOD, 2 * PERIOD, 3 * PERIOD]
    assert bench.board.writes[-1] == (3.5 * PERIOD, FAN, 0)
    assert bench.write(FAN, 0, 0) == 3.5 * PERIOD


def test_an_output_that_fails_to_rest_is_tried_again_and_stops_no_other(bench):
    bench.claim(VALVE)
    bench.claim(FAN)
    bench.write(VALVE, 1, NS_PER_S)
    bench.write(FAN, 1, NS_PER_S)
    bench.board.failing = {VALVE}
    bench.run(NS_PER_S)
    assert (bench.board.level(VALVE), bench.board.level(FAN)) == (1, 0)
    bench.run(3 * NS_PER_S)
    bench.board.failing.clear()
    bench.run(4 * NS_PER_S)
    assert bench.board.level(VALVE) == 0
    assert 3 * NS_PER_S <= bench.write(VALVE, 0, 0) < 3.1 * NS_PER_S


def test_a_write_that_fails_is_an_error_and_the_output_rests(bench):
    bench.claim(VALVE)
    bench.board.failing = {VALVE}
    with pytest.raises(OSError, match="line 23 failed") as caught:
        bench.write(VALVE, 1, NS_PER_S)
    assert caught.value.errno == errno.EIO
    bench.board.failing.clear()
    bench.board.writes.clear()
    bench.run(NS_PER_S // 10)
    assert [level for _, _, level in bench.board.writes] == [0]
    assert bench.keeper.due is None


@pytest.mark.parametrize(("valid_ns", "high"), [(1_000, 1_000_000), (3_600 * NS_PER_S, 0)])
def test_a_failed_change_of_level_lengthens_nothing_and_rest_is_made_good(bench, valid_ns, high):
    bench.claim(VALVE)
    bench.write(VALVE, 1, valid_ns)
    bench.board.failing = {VALVE}
    with pytest.raises(OSError, match="failed"):
        bench.write(VALVE, high, NS_PER_S if high else 0, PERIOD if high else 0)
    bench.board.failing.clear()
    bench.run(1_000 if high else NS_PER_S)
    assert bench.board.level(VALVE) == 0


def test_a_claim_brings_an_output_to_rest_again_although_it_should_be(bench):
    bench.claim(VALVE)
    bench.write(VALVE, 1, NS_PER_S)
    bench.claim(VALVE)
    assert bench.board.level(VALVE) == 0
    bench.board.writes.clear()
    bench.claim(VALVE)
    assert bench.board.writes == [(0, VALVE, 0)]
    assert bench.board.claims == [(VALVE, 0, -1)]


@pytest.mark.parametrize(("rest", "chip"), [(1, -1), (0, 0)])
def test_a_claim_with_another_level_or_chip_is_a_new_one(bench, rest, chip):
    bench.claim(VALVE)
    bench.write(VALVE, 1, NS_PER_S)
    assert bench.ask(CLAIM, VALVE, rest, chip) == 1
    assert bench.board.claims == [(VALVE, 0, -1), (VALVE, rest, chip)]
    assert bench.board.level(VALVE) == rest
    assert bench.keeper.due is None
    bench.write(VALVE, 1 - rest, 1_000)
    bench.run(1_000)
    assert bench.board.level(VALVE) == rest


def test_only_what_is_driven_is_claimed_on_request(bench):
    bench.board.outputs = {VALVE}
    assert bench.ask(CLAIM_DRIVEN, VALVE) == 1
    assert bench.ask(CLAIM_DRIVEN, FAN) == 0
    assert bench.board.writes == [(0, VALVE, 0)]
    assert bench.ask(CLAIM_DRIVEN, 18, 0, 0) == 1  # a pin of a PWM chip is no output of the GPIO chip


def test_an_input_that_is_refused_leaves_the_output_under_its_lease(bench, said):
    bench.claim(VALVE)
    bench.write(VALVE, 1, 1_000)
    bench.board.failing = {VALVE}
    with pytest.raises(OSError, match="failed"):
        bench.ask(CLAIM_INPUT, VALVE, 1)
    bench.board.failing.clear()
    bench.run(1_000)
    assert bench.board.level(VALVE) == 0
    bench.ask(CLAIM_INPUT, VALVE, 1, -1, 50, 0, 0)
    assert bench.board.inputs == [(VALVE, "up", 50)]
    assert bench.ask(READ, VALVE) == 1
    with said.raises(OSError):
        bench.write(VALVE, 1, 1_000)


@pytest.mark.parametrize(
    ("high", "period", "valid_ns"),
    [(2, 0, 1), (-1, 0, 1), (6, 5, 1), (1, 0, -1), (1, 0, 3_601 * NS_PER_S), (400, 999_999, NS_PER_S)],
    ids=["level", "negative level", "duty", "negative time", "more than an hour", "more than 1000 Hz"],
)
def test_what_cannot_be_is_refused_and_drives_nothing(bench, high, period, valid_ns):
    bench.claim(VALVE)
    bench.board.writes.clear()
    with pytest.raises(OSError, match=r"out of range|software PWM has up to 1000 Hz") as caught:
        bench.write(VALVE, high, valid_ns, period)
    assert caught.value.errno == errno.EINVAL
    bench.run(NS_PER_S)
    assert not any(level for _, _, level in bench.board.writes)


def test_a_pin_that_was_not_claimed_is_not_driven(bench, said):
    with said.raises(PermissionError):
        bench.write(VALVE, 1, 1_000)
    assert not bench.board.writes


def test_without_the_library_each_request_for_pins_says_why_and_a_ping_answers():
    bench = Bench()
    bench.keeper = Keeper(refuse)
    assert bench.ask(PING) == 0
    for operation in (OPEN, CLAIM, CLAIM_DRIVEN, CLAIM_INPUT, READ):
        with pytest.raises(OSError, match=r"^\[Errno 19\] no such pins, x+$") as caught:
            bench.ask(operation, VALVE)
        assert caught.value.errno == errno.ENODEV
    assert len(bench.keeper.answer(REQUEST.pack(OPEN, 0, 0, -1, 0, 0, 0), 0)) <= MOST_BYTES


def refuse():
    raise OSError(errno.ENODEV, "no such pins, " + 1_000 * "x")


def test_at_the_end_all_outputs_rest_and_one_that_fails_is_reported(bench):
    for pin in (VALVE, FAN):
        bench.claim(pin)
        bench.write(pin, 1, NS_PER_S)
    bench.board.failing = {VALVE}
    assert not bench.keeper.rest(bench.now)
    assert bench.board.level(FAN) == 0
    bench.board.failing = {FAN}  # which rests
    assert bench.keeper.rest(bench.now)
    assert bench.board.level(VALVE) == 0


def test_requests_without_a_pause_do_not_keep_an_output_on():
    board = Board()
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:
        for operation, pin, high in ((CLAIM, VALVE, 0), (CLAIM, FAN, 0), (WRITE, VALVE, 1)):
            ours.send(REQUEST.pack(operation, pin, 0, -1, 0, high, 0))
        for _ in range(10):
            ours.send(REQUEST.pack(PING, 0, 0, -1, 0, 0, 0))
        ours.send(REQUEST.pack(WRITE, FAN, 0, -1, 0, 1, 0))
        ours.shutdown(socket.SHUT_WR)
        serve(Keeper(lambda: board), its)
    driven = [(pin, level) for _, pin, level in board.writes]
    assert driven.index((VALVE, 1)) < driven.index((VALVE, 0), 1) < driven.index((FAN, 1))


def test_a_request_of_another_length_ends_it():
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:
        ours.send(b"what")
        serve(Keeper(Board), its)


PINS = (5, 6, 7)
requests = st.tuples(
    st.sampled_from(PINS),
    st.sampled_from(["on", "off", "pulse", "claim", "fail", "mend"]),
    st.integers(0, 4 * PERIOD),  # valid for
    st.integers(0, PERIOD),  # high of a period
    st.integers(0, 3 * PERIOD),  # until the next request
)


@settings(max_examples=100)
@given(rests=st.tuples(*[st.integers(0, 1) for _ in PINS]), sequence=st.lists(requests, max_size=30))
def test_an_output_rests_from_the_end_of_its_last_lease_and_the_time_elsewhere_is_counted(rests, sequence):
    bench = Bench()
    rest_of = dict(zip(PINS, rests, strict=True))
    ends = dict.fromkeys(PINS, 0)  # of what was wanted last, or of the failure
    for pin, rest in rest_of.items():
        bench.claim(pin, rest)
    for pin, what, valid_ns, high, pause in sequence:
        rest = rest_of[pin]
        if what == "fail":
            bench.board.failing.add(pin)
        elif what == "mend":
            bench.board.failing.discard(pin)
            ends[pin] = max(ends[pin], bench.now)
        else:
            written = {
                "on": lambda: bench.write(pin, 1 - rest, valid_ns),  # noqa: B023  called at once
                "off": lambda: bench.write(pin, rest, 0),  # noqa: B023
                "pulse": lambda: bench.write(pin, high, valid_ns, PERIOD),  # noqa: B023
                "claim": lambda: bench.claim(pin, rest),  # noqa: B023
            }[what]
            try:
                written()
            except OSError:
                assert pin in bench.board.failing
            else:
                ends[pin] = bench.now if what in {"off", "claim"} else bench.now + valid_ns
        bench.run(bench.now + pause)
        for each in PINS:
            if each not in bench.board.failing and ends[each] + NS_PER_S // 10 <= bench.now:
                assert bench.board.level(each) == rest_of[each]
    bench.board.failing.clear()
    bench.run(bench.now + NS_PER_S)
    for pin, rest in rest_of.items():
        assert bench.board.level(pin) == rest
        assert bench.write(pin, rest, 0) >= elsewhere(bench.board, pin, rest)
    assert bench.keeper.due is None


@settings(max_examples=50)
@given(
    rest=st.integers(0, 1),
    sequence=st.lists(st.tuples(st.booleans(), st.integers(0, 20), st.integers(0, 20)), max_size=20),
)
def test_without_failures_the_count_is_exactly_the_time_elsewhere(rest, sequence):
    bench = Bench()
    bench.claim(VALVE, rest)
    last = 0
    for is_on, valid_ns, pause in sequence:
        counted = bench.write(VALVE, 1 - rest if is_on else rest, valid_ns)
        assert counted == elsewhere(bench.board, VALVE, rest)
        assert counted >= last
        last = counted
        bench.run(bench.now + pause)
        if not is_on or pause >= valid_ns:
            assert bench.board.level(VALVE) == rest


def elsewhere(board, pin, rest):
    """For how long a pin was not at its level of rest, of what was written."""
    spent, left = 0, None
    for time, its, level in [*board.writes, (board.now, pin, rest)]:
        if its == pin and level != rest:
            left = time if left is None else left
        elif its == pin and left is not None:
            spent, left = spent + time - left, None
    return spent


def test_the_program_needs_nothing_but_the_standard_library():
    program = (
        "import sys, growd_drivers.pin_keeper\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(names - {*sys.stdlib_module_names, '__main__', 'growd_drivers'}))\n"
    )
    command = [sys.executable, "-S", "-c", program]
    environment = {"PYTHONPATH": str(Path(growd_drivers.__file__).parents[1])}
    assert subprocess.check_output(command, env=environment, text=True) == "[]\n"
