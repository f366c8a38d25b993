"""Encryption of the secrets in a backup with a passphrase: scrypt (RFC 7914), then AES-256-GCM.

The first line is JSON with the parameters and is authenticated too; the rest is the ciphertext with its tag.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

import msgspec

from growd_machine.backup.archive import BackupError, DamagedBackupError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_WORK: Final = 1 << 16  # scrypt's n: 64 MB of memory, about a second on a Raspberry Pi
_MOST_WORK: Final = 1 << 18
_BLOCKS: Final = 8  # scrypt's r


class _Parameters(msgspec.Struct, frozen=True):
    """`salt` and `nonce` in hexadecimal digits."""

    key: str
    n: int
    r: int
    p: int
    salt: str
    cipher: str
    nonce: str


def sealed(content: bytes, passphrase: str) -> bytes:
    """The encrypted content. Takes a second."""
    parameters = _Parameters(
        "scrypt", _WORK, _BLOCKS, 1, os.urandom(16).hex(), "AES-256-GCM", os.urandom(12).hex()
    )
    head = msgspec.json.encode(parameters)
    return (
        head + b"\n" + _cipher(parameters, passphrase).encrypt(bytes.fromhex(parameters.nonce), content, head)
    )


def opened(data: bytes, passphrase: str) -> bytes:
    """The content. Raises `BackupError` for another passphrase."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  only few backups have secrets

    head, _, encrypted = data.partition(b"\n")
    try:
        parameters = msgspec.json.decode(head, type=_Parameters)
        nonce = bytes.fromhex(parameters.nonce)
    except ValueError:
        raise DamagedBackupError("the secrets in the backup can't be read") from None
    if (parameters.key, parameters.cipher, parameters.r) != ("scrypt", "AES-256-GCM", _BLOCKS):
        raise BackupError("the secrets in the backup are encrypted in a way that this growd does not know")
    if not 1 < parameters.n <= _MOST_WORK or parameters.p != 1:
        raise BackupError("the secrets in the backup need more memory than this growd takes for them")
    try:
        return _cipher(parameters, passphrase).decrypt(nonce, encrypted, head)
    except (InvalidTag, ValueError):
        raise BackupError("the passphrase is wrong, or the secrets in the backup were changed") from None


def _cipher(parameters: _Parameters, passphrase: str) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  as above

    salt, blocks = bytes.fromhex(parameters.salt), parameters.r
    memory = 256 * parameters.n * blocks  # twice what it needs
    key = hashlib.scrypt(
        passphrase.encode(errors="surrogateescape"),
        salt=salt,
        n=parameters.n,
        r=blocks,
        p=parameters.p,
        maxmem=memory,
        dklen=32,
    )
    return AESGCM(key)
