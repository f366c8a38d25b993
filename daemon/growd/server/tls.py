"""The TLS certificate: read, checked, and read again when its files change."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from growd.config.findings import ConfigError
from growd.config.secrets import read_secret, secret_path
from growd.server.errors import CertificateError

if TYPE_CHECKING:
    from growd.config.web import Tls
    from growd.runtime.clock import Clock

CHECK_S: Final = 30.0
"""Between checks whether the files have changed."""

SOON_S: Final = 14 * 86_400  # a certificate that expires sooner is warned of
_PEM: Final = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_DER_VERSION: Final = 0xA0
_DER_UTC_TIME: Final = 0x17
_log = logging.getLogger(__name__)


class Pair(msgspec.Struct, frozen=True):
    """A certificate with its key, valid between two UNIX times."""

    context: ssl.SSLContext
    begins: float
    ends: float


class Certificate:
    """The last valid pair of the files in `tls`.

    New connections use `context`, so a replaced certificate needs no restart. A new pair is used once
    certificate and key match. If they do not match at two checks in a row, a warning is logged once and the
    previous pair stays in use.
    """

    def __init__(self, tls: Tls, clock: Clock) -> None:
        self._clock = clock
        self._section = tls
        self._files = Path(), Path()
        self._pair: Pair | None = None
        self._seen: object = None  # the files' state when they were read last
        self._doubted: object = None  # their state when they did not match
        self._warned = ""

    @property
    def context(self) -> ssl.SSLContext:
        """For a new connection."""
        if self._pair is None:
            raise CertificateError("the certificate has not been read")
        return self._pair.context

    async def open(self) -> None:
        """Read it for the first time. Raises `CertificateError`; an expired one is only warned of."""
        names = self._section.certificate, self._section.key
        self._files = await asyncio.to_thread(lambda: (secret_path(names[0]), secret_path(names[1])))
        self._seen = await asyncio.to_thread(_state, self._files)
        self._pair = await asyncio.to_thread(read_pair, *self._files)
        self._warn_of_dates(self._pair)

    async def run(self) -> None:
        """Check the files at intervals."""
        while True:
            await self._clock.sleep(CHECK_S)
            await self.check()

    async def check(self, *, is_asked_for: bool = False) -> None:
        """Use a new pair if there is one. Warn at the first check that fails if `is_asked_for`."""
        state = await asyncio.to_thread(_state, self._files)
        if state != self._seen:
            try:
                self._pair = await asyncio.to_thread(read_pair, *self._files)
            except CertificateError as error:
                if state == self._doubted or is_asked_for:
                    self._warn(f"{error}; keeping the previous certificate")
                self._doubted = state
            else:
                self._seen, self._doubted, self._warned = state, None, ""
                _log.info("using a new certificate, valid until %s", _date(self._pair.ends))
        if self._pair is not None:
            self._warn_of_dates(self._pair)

    def _warn_of_dates(self, pair: Pair) -> None:
        """Warn only: the chamber must run with an expired certificate, or a wrong clock."""
        now = self._clock.time()
        file = f"[tls] certificate: {self._files[0]}"
        if now < pair.begins:
            self._warn(
                f"{file} is not valid before {_date(pair.begins)}; is the clock of this machine right?"
            )
        elif now >= pair.ends:
            self._warn(f"{file} expired at {_date(pair.ends)}; clients will refuse it")
        elif now >= pair.ends - SOON_S:
            self._warn(f"{file} expires at {_date(pair.ends)}")

    def _warn(self, sentence: str) -> None:
        if sentence != self._warned:
            _log.warning("%s", sentence)
            self._warned = sentence


def read_pair(certificate: Path, key: Path) -> Pair:
    """Read certificate and key, and check that they match. Blocking. Raises `CertificateError`."""
    where, key_where = f"[tls] certificate: {certificate}", f"[tls] key: {key}"
    try:
        text = read_secret(where, certificate, is_private=False).decode("ascii", errors="replace")
        read_secret(key_where, key)  # for its permissions; `ssl` reads the content
    except ConfigError as error:
        raise CertificateError(str(error)) from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    found = _PEM.search(text)
    try:
        begins, ends = _validity(ssl.PEM_cert_to_DER_cert(found[0] if found else ""))
    except ValueError:
        raise CertificateError(f"{where} contains no certificate (PEM)") from None
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except _LockedKeyError:
        raise CertificateError(f"{key_where} is protected by a password; remove the password") from None
    except ssl.SSLError as error:
        raise CertificateError(_why(error, where, key_where)) from None
    except OSError as error:
        raise CertificateError(f"{where}, or its key, can't be read: {error.strerror}") from None
    return Pair(context, begins, ends)


class _LockedKeyError(Exception):
    """The key has a password."""


def _no_password() -> str:
    raise _LockedKeyError


def _why(error: ssl.SSLError, certificate: str, key: str) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{key} is not the key of the certificate"
    if error.reason in {None, "NO_START_LINE", "BAD_BASE64_DECODE", "PEM_LIB"}:
        return f"{key} contains no private key (PEM)"
    said = error.reason.replace("_", " ").lower()
    return f"{certificate} can't be used with its key: {said}"


def _state(files: tuple[Path, ...]) -> object:
    """A value that changes when a file is replaced or written. Blocking."""
    found: list[tuple[int, ...] | None] = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
    return found


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _validity(der: bytes) -> tuple[float, float]:
    """The UNIX times between which a certificate is valid (RFC 5280, section 4.1). Raises `ValueError`.

    Python's ssl gives them for the peer's certificate only.
    """
    try:
        body = _elements(_elements(der)[0][1])[0][1]
        fields = _elements(body)
        if fields[0][0] == _DER_VERSION:
            fields = fields[1:]
        begins, ends = _elements(fields[3][1])  # after serial number, signature and issuer
    except IndexError:
        raise ValueError("this is not a certificate") from None
    return _time(*begins), _time(*ends)


def _elements(data: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents of a sequence of elements (X.690, section 8.1)."""
    found, place = [], 0
    while place < len(data):
        tag, size, place = data[place], data[place + 1], place + 2
        if size & 0x80:
            digits = size & 0x7F
            size = int.from_bytes(data[place : place + digits], "big")
            place += digits
        found.append((tag, data[place : place + size]))
        place += size
    return found


def _time(tag: int, content: bytes) -> float:
    """A UNIX time (RFC 5280, section 4.1.2.5: two-digit years from 50 on are 19xx)."""
    text = content.decode("ascii")
    if tag == _DER_UTC_TIME:
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
