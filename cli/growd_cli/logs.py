"""Log records go to the systemd journal with fields, or as lines to a terminal or a file.

`OncePerMinute` counts records that repeat.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from growd.host.logs import FIELDS, OncePerMinute
from growd.runtime.text import excerpt, printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import BinaryIO, TypeAlias

    from logging_journald import JournaldTransport

    Raised: TypeAlias = (
        tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    )

JOURNAL: Final = Path("/run/systemd/journal/socket")
MOST_CHARACTERS: Final = 8_192
"""Of a message, and of a traceback. Of longer ones the middle is left out."""

_DAEMON: Final = 3  # syslog's facility
_SEVERITIES: Final = (  # levels from, with syslog's priority
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
    (logging.NOTSET, 7),
)
_COLOURS: Final = ((logging.ERROR, "31"), (logging.WARNING, "33"), (logging.INFO, ""), (logging.NOTSET, "2"))
_LINE: Final = "%(asctime)s %(levelname)-7s %(message)s"


def set_up(*, verbose: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Log to standard error, or to the journal if standard error is the journal; return whether it is."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open as long as growd runs
    to_journal = is_journal(sys.stderr, environment) and JOURNAL.exists()
    stream = (sys.__stderr__ if isinstance(sys.stderr, MarkedErrors) else None) or sys.stderr
    handler: logging.Handler = (
        JournalHandler(JOURNAL) if to_journal else terminal_handler(stream, environment)
    )
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[OncePerMinute(handler)])
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    return to_journal


def be_quiet() -> None:
    """Log nothing, for a command that shows by itself what happens."""
    logging.basicConfig(handlers=[logging.NullHandler()])


def terminal_handler(
    stream: TextIO, environment: Mapping[str, str] = os.environ
) -> logging.StreamHandler[TextIO]:
    """Readable lines, in colour on a terminal that supports it, unless NO_COLOR is set (no-color.org)."""
    handler = logging.StreamHandler(stream)
    is_coloured = (
        stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM", "dumb") != "dumb"
    )
    formatter = _Coloured if is_coloured else _Plain
    handler.setFormatter(formatter(_LINE, datefmt="%H:%M:%S"))
    return handler


class JournalHandler(logging.Handler):
    """Sends each record to the journal as one entry, with its traceback.

    It does not wait for the journal: a record is lost if the socket is full, and the next entry counts the
    lost ones.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._lost = 0
        self._transport = _transport(path)
        self.setFormatter(_Printable())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._lost:
                self._send([("MESSAGE", f"{self._lost} log records were lost"), ("PRIORITY", 4)])
                self._lost = 0
            self._send(_fields(record, self.format(record)))
        except OSError:
            self._lost += 1
        except Exception:  # noqa: BLE001  an error in the arguments of a record must not end the program
            self.handleError(record)

    def close(self) -> None:
        self._transport.socket.close()
        super().close()

    def _send(self, fields: list[tuple[str, str | int]]) -> None:
        fields = [*fields, ("SYSLOG_IDENTIFIER", "growd"), ("SYSLOG_FACILITY", _DAEMON)]
        # bytes, since a name from outside may contain invalid UTF-8
        self._transport.send(
            (name, value if isinstance(value, int) else value.encode(errors="replace"))
            for name, value in fields
        )


class _Printable(logging.Formatter):
    """Text from outside, also in a traceback, can't control a terminal, and is limited."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        record.message = printable(excerpt(record.message, MOST_CHARACTERS))
        return super().formatMessage(record)

    def formatException(self, ei: Raised) -> str:  # noqa: N802  likewise
        return printable(excerpt(super().formatException(ei), MOST_CHARACTERS))


class _Plain(_Printable):
    """One line per message: text from outside can't forge another line either."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        record.message = record.message.replace("\n", "\\n")
        return super().formatMessage(record)


class _Coloured(_Plain):
    def format(self, record: logging.LogRecord) -> str:
        colour = next(colour for level, colour in _COLOURS if record.levelno >= level)
        line = super().format(record)
        return f"\033[{colour}m{line}\033[0m" if colour else line


def _fields(record: logging.LogRecord, message: str) -> list[tuple[str, str | int]]:
    """The fields of an entry (systemd.journal-fields(7))."""
    fields: list[tuple[str, str | int]] = [
        ("MESSAGE", message),
        ("PRIORITY", next(priority for level, priority in _SEVERITIES if record.levelno >= level)),
        ("LOGGER", record.name),
        ("CODE_FILE", record.pathname),
        ("CODE_LINE", record.lineno),
        ("CODE_FUNC", record.funcName or ""),
        ("THREAD_NAME", record.threadName or ""),
    ]
    given = ((name, getattr(record, name, None)) for name in FIELDS)
    return [*fields, *((name.upper(), str(value)) for name, value in given if value is not None)]


def _transport(path: Path) -> JournaldTransport:
    from logging_journald import JournaldTransport  # noqa: PLC0415  only a service needs it

    # not connected: journald replaces its socket when it restarts
    transport = JournaldTransport(path, connected=False)
    transport.socket.setblocking(False)
    return transport


_ERR: Final = "<3>"  # the priority of a line, sd-daemon(3)


def is_journal(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether systemd has connected the stream to the journal (JOURNAL_STREAM, systemd.exec(5)).

    The variable alone is not enough: a process whose stream was redirected inherits it.
    """
    device, _, inode = environment.get("JOURNAL_STREAM", "").partition(":")
    try:
        status = os.fstat(stream.fileno())
        return (status.st_dev, status.st_ino) == (int(device), int(inode))
    except (OSError, ValueError):
        return False


def mark_errors() -> None:
    """Give each line on standard error the priority err, if it goes to the journal; else it has info."""
    if sys.stderr is not None and is_journal(sys.stderr):
        sys.stderr = MarkedErrors(sys.stderr.buffer)


class MarkedErrors(io.TextIOWrapper):
    """Puts the priority before each line; `sys.__stderr__` is the stream without it."""

    def __init__(self, buffer: BinaryIO) -> None:
        super().__init__(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        self._is_in_line = False

    def write(self, text: str) -> int:
        """Write a text of any number of lines, or a part of one. Raises TypeError on bytes."""
        if not text:
            return super().write(text)  # click writes b"" to learn whether a stream takes bytes
        for line in text.splitlines(keepends=True):
            super().write(line if self._is_in_line else _ERR + line)
            self._is_in_line = not line.endswith("\n")
        return len(text)
