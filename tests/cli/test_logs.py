import array
import io
import logging
import os
import socket
import struct
import subprocess
import sys
import time

import pytest

from growd.host.logs import MOST_REMEMBERED, OncePerMinute, timed_by
from growd.runtime.text import excerpt, printable
from growd_cli import logs
from growd_cli.logs import MOST_CHARACTERS, JournalHandler, is_journal, terminal_handler
from support.clock import Time


class Journal:
    """A socket where journald has its own, read as systemd's native protocol has it."""

    def __init__(self, path):
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(10)

    def close(self):
        self._socket.close()

    def next(self):
        data, ancillary, _, _ = self._socket.recvmsg(1 << 20, 64)
        for _, _, rights in ancillary:
            file = array.array("i", rights)[0]
            data = os.pread(file, 1 << 24, 0)
            os.close(file)
        return _fields(data)


def _fields(data):
    fields, stream = {}, io.BytesIO(data)
    while line := stream.readline():
        name, is_short, value = line[:-1].partition(b"=")
        if not is_short:
            (length,) = struct.unpack("<Q", stream.read(8))
            value = stream.read(length)
            assert stream.read(1) == b"\n"
        fields[name.decode()] = value.decode()
    return fields


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "socket")
    yield journal
    journal.close()


@pytest.fixture
def log():
    # not in the tree of loggers: pytest could not handle some of these records
    logger = logging.Logger("growd.test_logs", logging.DEBUG)  # noqa: LOG001
    yield logger
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


def lines(stream):
    return [line.split(maxsplit=2)[2] for line in stream.getvalue().splitlines()]


def test_a_record_reaches_the_journal_with_its_priority_and_fields(journal, log):
    log.addHandler(JournalHandler(journal.path))
    log.warning("%s is %s", "scd30", "failed", extra={"device": "scd30", "environment": "environment_1"})
    entry = journal.next()
    assert entry["MESSAGE"] == "scd30 is failed"
    assert entry["PRIORITY"] == "4"
    assert entry["SYSLOG_IDENTIFIER"] == "growd"
    assert entry["LOGGER"] == "growd.test_logs"
    assert entry["CODE_FILE"] == __file__
    assert entry["CODE_FUNC"] == "test_a_record_reaches_the_journal_with_its_priority_and_fields"
    assert entry["CODE_LINE"].isdecimal()
    assert (entry["DEVICE"], entry["ENVIRONMENT"]) == ("scd30", "environment_1")
    assert "TOPIC" not in entry


def test_each_level_has_a_priority_and_none_wakes_all_terminals(journal, log):
    log.addHandler(JournalHandler(journal.path))
    levels = (logging.CRITICAL, logging.ERROR, 35, logging.INFO, logging.DEBUG)
    for level in levels:
        log.log(level, "it happened")
    assert [journal.next()["PRIORITY"] for _ in levels] == ["2", "3", "4", "6", "7"]


def test_a_message_with_any_text_and_an_error_with_its_traceback_are_one_entry(journal, log):
    log.addHandler(JournalHandler(journal.path))
    for text in ("PRIORITY=0\nMESSAGE=forged", "\udcff", "", "x" * 1_000_000):
        log.info("%s", text)
        entry = journal.next()
        assert entry["MESSAGE"] == printable(excerpt(text, MOST_CHARACTERS))
        assert entry["PRIORITY"] == "6"
    try:
        int("x")
    except ValueError:
        log.exception("it failed")
    message = journal.next()["MESSAGE"]
    assert message.startswith("it failed\nTraceback")
    assert message.endswith("invalid literal for int() with base 10: 'x'")


HOSTILE = "\x1b[2J\u202e" + 100_000 * "x" + "\x9b the end"


def test_text_of_others_is_escaped_and_limited_everywhere(journal, log):
    stream = io.StringIO()
    for handler in (JournalHandler(journal.path), terminal_handler(stream)):
        log.addHandler(handler)
    log.error("failed: %s", HOSTILE)
    raised = ValueError(HOSTILE)
    log.error("failed", exc_info=raised)
    for number, line in enumerate(stream.getvalue().split("\n", 1)):
        for text in (line, journal.next()["MESSAGE"]):
            assert all(sign.isprintable() or (number and sign == "\n") for sign in text)
            assert len(text) < 2 * MOST_CHARACTERS
            assert r"\x1b[2J\u202exx" in text
            assert "the end" in text


def test_a_full_journal_socket_does_not_block_and_lost_records_are_counted(journal, log):
    log.addHandler(JournalHandler(journal.path))
    sent = 1_000
    for number in range(sent):  # more than the socket has room for
        log.info("line %d", number)
    held = []
    while len(held) < sent:
        held.append(journal.next()["MESSAGE"])
        log.info("the next")
        if any("lost" in message for message in held):
            break
    lost = next(message for message in held if "lost" in message)
    assert int(lost.split()[0]) > 0


def test_a_journal_that_is_restarted_is_found_again(journal, log, tmp_path):
    log.addHandler(JournalHandler(journal.path))
    journal.close()
    journal.path.unlink()
    log.info("a lost record")
    again = Journal(journal.path)
    log.info("but this")
    assert again.next()["MESSAGE"] == "1 log records were lost"
    assert again.next()["MESSAGE"] == "but this"
    again.close()


def test_the_stream_is_the_journal_if_the_variable_names_it(tmp_path):
    with (tmp_path / "one").open("w") as one, (tmp_path / "other").open("w") as other:
        status = os.fstat(one.fileno())
        environment = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        assert is_journal(one, environment)
        assert not is_journal(other, environment)
        assert not is_journal(one, {})
        assert not is_journal(one, {"JOURNAL_STREAM": "nonsense"})
    assert not is_journal(io.StringIO(), environment)


def test_records_go_to_the_journal_under_systemd_and_else_to_standard_error(journal, tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "JOURNAL", journal.path)
    root = logging.getLogger()
    kept, level, root.handlers = root.handlers, root.level, []
    try:
        with (tmp_path / "stderr").open("w") as stream:
            monkeypatch.setattr(sys, "stderr", stream)
            status = os.fstat(stream.fileno())
            environment = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
            assert logs.set_up(verbose=False, environment=environment)
            logging.getLogger("growd").warning("it rains")
            assert journal.next()["MESSAGE"] == "it rains"
            root.handlers.pop().close()
            assert not logs.set_up(verbose=False, environment={})
            logging.getLogger("growd").warning("it pours")
            root.handlers.pop().close()
        assert "it pours" in (tmp_path / "stderr").read_text()
        assert "it rains" not in (tmp_path / "stderr").read_text()
    finally:
        root.handlers = kept
        root.setLevel(level)
        logging.getLogger("asyncio").setLevel(logging.NOTSET)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_have_colour_on_a_colour_terminal(log):
    for stream, environment, is_coloured in (
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ):
        handler = terminal_handler(stream, environment)
        handler.handle(log.makeRecord("x", logging.ERROR, "place", 1, "no answer", (), None))
        assert ("\033[31m" in stream.getvalue()) == is_coloured
        assert "ERROR   no answer" in stream.getvalue()


def test_lines_have_the_time_of_a_simulated_chamber_while_it_runs(log):
    said = io.StringIO()
    log.addHandler(terminal_handler(said, {}))
    at_four = time.mktime((2020, 6, 1, 4, 7, 0, 0, 0, -1))
    with timed_by(lambda: at_four):
        log.info("in the chamber")
    log.info("afterwards")
    inside, after = said.getvalue().splitlines()
    assert inside == "04:07:00 INFO    in the chamber"
    assert time.strptime(after[:8], "%H:%M:%S")


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_text_from_outside_can_not_forge_a_line_or_control_a_terminal(log, stream):
    said = stream()
    log.addHandler(terminal_handler(said, {"TERM": "xterm"}))
    log.info("paused by %s", "eve\r\n07:00:00 ERROR   forged\x1b[2J\udcff, at 20 µmol")
    log.error("it failed", exc_info=ValueError("x"))
    first, *rest = said.getvalue().splitlines()
    assert first.endswith("paused by eve\\r\\n07:00:00 ERROR   forged\\x1b[2J\\udcff, at 20 µmol")
    assert rest[1].startswith("ValueError: x")  # what follows on a message has its lines


def test_a_repeated_record_is_logged_once_a_minute_with_its_count(log):
    time, said = Time(), io.StringIO()
    log.addHandler(OncePerMinute(terminal_handler(said, {}), time))
    for second in range(121):
        time.now = second
        log.warning("the disk is %s", "full")
    log.warning("another")
    assert lines(said) == [
        "the disk is full",
        "59 more times in the last minute: the disk is full",
        "the disk is full",
        "59 more times in the last minute: the disk is full",
        "the disk is full",
        "another",
    ]


def test_an_event_is_logged_each_time_and_never_later(log):
    time, said = Time(), io.StringIO()
    log.addHandler(OncePerMinute(terminal_handler(said, {}), time))
    for _ in range(2):
        log.warning("all outputs are held", extra={"is_event": True})
    time.now = 120
    log.warning("another")
    assert lines(said) == ["all outputs are held", "all outputs are held", "another"]


def test_an_error_in_the_arguments_of_a_record_does_not_end_the_program(capsys):
    said = io.StringIO()
    handler = OncePerMinute(terminal_handler(said, {}), Time())
    for message, given in (("%d points", "three"), ("%s points", "3")):
        handler.handle(logging.LogRecord("growd", logging.WARNING, "place", 1, message, (given,), None))
    assert lines(said) == ["3 points"]
    assert "'three'" in capsys.readouterr().err


def test_any_number_of_different_messages_takes_bounded_memory(log):
    handler = OncePerMinute(terminal_handler(io.StringIO(), {}), Time())
    log.addHandler(handler)
    for number in range(3 * MOST_REMEMBERED):
        log.warning("number %d", number)
    assert len(handler._seen) <= MOST_REMEMBERED


def test_repetitions_are_logged_at_the_end_and_only_the_first_has_a_traceback(log):
    said = io.StringIO()
    handler = OncePerMinute(terminal_handler(said, {}), Time())
    log.addHandler(handler)
    for _ in range(2):
        log.error("it failed", exc_info=ValueError("x"))
    handler.close()
    assert said.getvalue().count("ValueError") == 1
    assert said.getvalue().splitlines()[-1].endswith("once more in the last minute: it failed")


def test_growd_starts_with_standard_error_closed():
    program = (
        "import logging; from growd_cli.logs import set_up; assert not set_up(verbose=False); "
        "logging.error('goes nowhere')"
    )
    closed = ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, program]
    assert subprocess.run(closed, check=False, timeout=50).returncode == 0
