"""Invitations, and the accounts of devices in CouchDB's `_users`."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.errors import CouchConflictError
from growd_cloud.devices import (
    INVITATION_PREFIX,
    DeviceDocument,
    DeviceId,
    Invitation,
    Name,
    device_document_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.store.couch import Couch
    from growd_cloud.months import CloudNames

VALID_S: Final = 7 * 86_400.0
"""Of an invitation."""

ROLE: Final = "device"
READER: Final = "reader"
_USERS: Final = "_users"
_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # 32 signs, without those that look alike
_CODE_GROUPS, _GROUP_SIGNS = 4, 5  # 100 bits
_HASH, _ROUNDS = "sha256", 1_000
_NO_SIGN: Final = re.compile(r"[^A-Z0-9]")
_TRIES: Final = 5  # if other clients change the same document


class EnrolmentError(Exception):
    """A device can't enrol: the sentence says why, `status` is that of HTTP."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class EnrolmentRequest(msgspec.Struct, frozen=True):
    """The body of POST /_enroll."""

    code: Name
    device: DeviceId
    name: Name = ""
    group: Name = ""
    version: Name = ""


@dataclass(frozen=True, slots=True)
class Accounts:
    """Makes and removes accounts of devices, with their documents. All methods raise `CouchError`.

    `time` gives UNIX seconds.
    """

    couch: Couch
    names: CloudNames
    time: Callable[[], float]

    async def invite(self, uses: int = 1, valid_s: float = VALID_S) -> str:
        """The code of a new invitation for so many devices. CouchDB has its hash only."""
        code = _new_code()
        now = self.time()
        invitation = Invitation(_invitation_id(code), now, now + valid_s, uses)
        await self.couch.put(self.names.devices, _document(invitation))
        return code

    async def enroll(self, request: EnrolmentRequest) -> str:
        """Make the account and the document of a device; its password. Raises `EnrolmentError`.

        A device that lost the answer may enrol again with the same invitation until its first report: the
        account gets a new password.
        """
        for _ in range(_TRIES):
            invitation = await self._invitation(request.code)
            await self._check_free(request.device, invitation)
            is_new = request.device not in invitation.devices
            if not is_new:
                break
            invitation.devices.append(request.device)
            if await self.couch.put(self.names.devices, _document(invitation)) is not None:
                break
        else:
            raise CouchConflictError(invitation.id)
        password = secrets.token_urlsafe(24)
        await self._write_account(request.device, password, is_new=is_new)
        await self._change_device(request.device, _enroll(request, self.time()))
        return password

    async def revoke(self, device: str) -> bool:
        """Delete the account of a device and mark its document; whether there was an account."""
        had_account = await self._change_account(device, lambda _: {"_deleted": True})
        await self._change_device(device, _revoke(self.time()))
        return had_account

    async def rename(self, device: str, name: str | None, group: str | None) -> None:
        """Change the name or the group of a device, or both; None keeps it."""

        def change(document: DeviceDocument) -> None:
            document.name = document.name if name is None else name
            document.group = document.group if group is None else group

        await self._change_device(device, change)

    async def add_reader(self, name: str, password: str) -> bool:
        """Make an account that reads the fleet and its points; False if there is one of this name."""
        account = {"name": name, "password": password, "roles": [READER], "type": "user"}
        return await self.couch.put(_USERS, {"_id": _account_id(name), **account}) is not None

    async def change_reader(self, name: str, password: str | None) -> bool:
        """Give a reader another password, or end the login; False if there is no account of a mere reader."""

        def changed(present: dict[str, Any]) -> dict[str, Any] | None:
            if present["roles"] != [READER]:
                return None
            change = {"_deleted": True} if password is None else {"password": password}
            return {"name": name, "roles": [READER], "type": "user", **change}

        return await self._change_account(name, changed)

    async def is_administrator(self, name: str) -> bool:
        """Whether CouchDB's settings have an administrator of this name; its password is there."""
        return await self.couch.setting("admins", name) is not None

    async def add_own(self, name: str) -> None:
        """Make a document for the administrator that the receiver is, if there is none; it gives no access.

        At each request CouchDB looks for one, and remembers only what is there (`chttpd_auth_cache`).
        """
        account = {"name": name, "roles": [], "type": "user", **_hashed(secrets.token_urlsafe(24))}
        await self.couch.put(_USERS, {"_id": _account_id(name), **account})

    async def has_account(self, name: str) -> bool:
        """Whether there is a login of this name, such as the id of a device."""
        return await self.couch.get(_USERS, _account_id(name)) is not None

    async def device(self, device: str) -> DeviceDocument | None:
        """The document of a device, None if there is none."""
        found = await self.couch.get(self.names.devices, device_document_id(device))
        return None if found is None else msgspec.convert(found, DeviceDocument)

    async def _invitation(self, code: str) -> Invitation:
        found = await self.couch.get(self.names.devices, _invitation_id(code))
        if found is None:
            raise EnrolmentError(HTTPStatus.FORBIDDEN, "the code is unknown; check it, or ask for a new one")
        invitation = msgspec.convert(found, Invitation)
        if self.time() >= invitation.expires:
            raise EnrolmentError(HTTPStatus.FORBIDDEN, "the code has expired; ask for a new one")
        return invitation

    async def _check_free(self, device: str, invitation: Invitation) -> None:
        """Nobody may take over the account of a device: it has another invitation, or has reported."""
        known = await self.device(device)
        if known is not None and known.last_revoked >= invitation.created:
            sentence = f"the device {device} was revoked after this code was made; ask for a new one"
            raise EnrolmentError(HTTPStatus.FORBIDDEN, sentence)
        has_reported = known is not None and 0.0 < known.enrolled <= known.received
        if device in invitation.devices:
            if has_reported:
                raise EnrolmentError(HTTPStatus.CONFLICT, _in_use(device))
            return
        if len(invitation.devices) >= invitation.uses:
            raise EnrolmentError(HTTPStatus.FORBIDDEN, "the code has been used; ask for a new one")
        if await self.has_account(device):
            raise EnrolmentError(HTTPStatus.CONFLICT, _in_use(device))

    async def _write_account(self, device: str, password: str, *, is_new: bool) -> None:
        """A new account replaces none: another invitation may have made one at the same moment."""
        account: dict[str, Any] = {
            "_id": _account_id(device),
            "name": device,
            "roles": [ROLE],
            "type": "user",
            **_hashed(password),
        }
        present = None if is_new else await self.couch.get(_USERS, account["_id"])
        if present is not None:
            account["_rev"] = present["_rev"]
        if await self.couch.put(_USERS, account) is None:
            raise CouchConflictError(account["_id"])

    async def _change_account(
        self, name: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]
    ) -> bool:
        """Write what `change` makes of an account; False if there is none, or if it makes None."""
        for _ in range(_TRIES):  # CouchDB may write a new hash of the password at the same moment
            present = await self.couch.get(_USERS, _account_id(name))
            changed = None if present is None else change(present)
            if present is None or changed is None:
                return False
            if await self.couch.put(_USERS, {"_id": present["_id"], "_rev": present["_rev"], **changed}):
                return True
        raise CouchConflictError(_account_id(name))

    async def _change_device(self, device: str, change: Callable[[DeviceDocument], None]) -> None:
        """Change the document of a device, also if there is none yet."""
        for _ in range(_TRIES):
            document = await self.device(device) or DeviceDocument(device_document_id(device), device)
            change(document)
            if await self.couch.put(self.names.devices, _document(document)) is not None:
                return
        raise CouchConflictError(device_document_id(device))


def _enroll(request: EnrolmentRequest, now: float) -> Callable[[DeviceDocument], None]:
    def change(document: DeviceDocument) -> None:
        document.enrolled, document.revoked = now, 0.0
        document.name = request.name or document.name
        document.group = request.group or document.group
        document.version = request.version

    return change


def _revoke(now: float) -> Callable[[DeviceDocument], None]:
    def change(document: DeviceDocument) -> None:
        document.revoked = document.last_revoked = now

    return change


def _in_use(device: str) -> str:
    return f"the device {device} has an account; revoke it first (growd fleet revoke {device})"


def _document(value: msgspec.Struct) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(value)
    return built


def _hashed(password: str) -> dict[str, Any]:
    """The members of an account for a random password, as CouchDB has them (`couch_passwords`).

    CouchDB's 600 000 rounds take 0.14 s for each device after a restart. They protect passwords that can be
    guessed; this one has 192 bits.
    """
    salt = secrets.token_hex(16)
    key = hashlib.pbkdf2_hmac(_HASH, password.encode(), salt.encode(), _ROUNDS)
    return {
        "password_scheme": "pbkdf2",
        "pbkdf2_prf": _HASH,
        "iterations": _ROUNDS,
        "salt": salt,
        "derived_key": key.hex(),
    }


def _account_id(name: str) -> str:
    return f"org.couchdb.user:{name}"


def _new_code() -> str:
    groups = ("".join(secrets.choice(_ALPHABET) for _ in range(_GROUP_SIGNS)) for _ in range(_CODE_GROUPS))
    return "-".join(groups)


def _invitation_id(code: str) -> str:
    """Signs between the groups, spaces and lower case do not matter."""
    signs = _NO_SIGN.sub("", code.upper())
    return INVITATION_PREFIX + hashlib.sha256(signs.encode()).hexdigest()
