"""Outputs in the network: switches of Shelly and Tasmota, and any device with two addresses or a topic.

Such a device must not stay on when growd ends or the network fails. Shelly's and Tasmota's have a timer that
switches them to their safe state; each command that leaves this state starts it again.

Sources: Shelly API Reference, "/relay/{index}" (Gen1) and "Switch.Set" (Gen2); Tasmota documentation,
"Commands", Power and PulseTime.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol
from urllib.parse import quote, unquote_plus, urlencode

from growd_drivers.errors import HardwareUnavailableError, SettingError

if TYPE_CHECKING:
    from growd_drivers.mqtt import MqttClient

NETWORK_LIMIT_S: Final = 3.0
"""Time limit of one request or message. A command has one or two."""

ON_FROM: Final = 0.5
_MOST_BYTES: Final = 65_536
_SHOWN: Final = 80
_MOST_TENTHS: Final = 111  # Tasmota: PulseTime 111 is 11.1 s
_STATES: Final = ("OFF", "ON")  # Tasmota's words, unless StateText1 and StateText2 are set
_PULSE_OFFSET: Final = 100  # and 130 is 30 s, for 12 s and more
_LEAST_PULSE_S: Final = 12
_UNAUTHORIZED: Final = (401, 403)
_OK: Final = range(200, 300)


_BASIC: Final = "basic"
_DIGEST: Final = "digest"


class DeviceLogin(NamedTuple):
    """User and password of a device, and by which schemes they may be sent in the header."""

    user: str
    password: str
    schemes: tuple[str, ...] = (_BASIC, _DIGEST)


class Request(NamedTuple):
    """One request, and whether its answer says that it is done.

    `is_done` may also return the request whose answer tells, and which asks for `what`. The address may hold
    a password, so it is not shown.
    """

    address: str
    is_done: Callable[[Any], bool | Request]
    what: str = ""


AskHttp = Callable[[str, DeviceLogin | None], tuple[int, bytes]]
"""GET an address: status and body. Blocking. Raises OSError."""


class SwitchProtocol(Protocol):
    """The requests of one relay of a device. `schemes` are those of its logins."""

    @property
    def schemes(self) -> tuple[str, ...]: ...

    def requests(self, on: bool, timer_s: float | None, login: DeviceLogin | None) -> list[Request]:  # noqa: FBT001
        """Switch the relay, back after `timer_s`."""


@dataclass(frozen=True)
class ShellyGen1:
    """Shelly 1, 2.5, Plug S and others of the first generation. `relay` counts from 0."""

    base: str
    relay: int = 0
    schemes: ClassVar = (_BASIC,)

    def requests(self, on: bool, timer_s: float | None, login: DeviceLogin | None) -> list[Request]:  # noqa: FBT001
        """As `SwitchProtocol`."""
        del login  # in the header
        options = {"turn": "on" if on else "off"} | (
            {} if timer_s is None else {"timer": f"{math.ceil(timer_s)}"}
        )
        address = f"{self.base}/relay/{self.relay}?{urlencode(options)}"
        return [Request(address, lambda answer: answer["ison"] is on)]


@dataclass(frozen=True)
class ShellyGen2:
    """Shelly Plus, Pro, Gen3 and Gen4. `relay` counts from 0."""

    base: str
    relay: int = 0
    schemes: ClassVar = (_DIGEST,)

    def requests(self, on: bool, timer_s: float | None, login: DeviceLogin | None) -> list[Request]:  # noqa: FBT001
        """As `SwitchProtocol`."""
        del login
        options = {"id": str(self.relay), "on": "true" if on else "false"}
        if timer_s is not None:
            options["toggle_after"] = f"{timer_s:g}"
        address = f"{self.base}/rpc/Switch.Set?{urlencode(options)}"
        return [Request(address, lambda answer: isinstance(answer["was_on"], bool))]


@dataclass(frozen=True)
class Tasmota:
    """A device with Tasmota. `relay` counts from 0, Tasmota from 1."""

    base: str
    relay: int = 0
    schemes: ClassVar[tuple[str, ...]] = ()

    def requests(self, on: bool, timer_s: float | None, login: DeviceLogin | None) -> list[Request]:  # noqa: FBT001
        """As `SwitchProtocol`. The timer, which is a setting, only ends a relay that is on."""
        number, wanted = self.relay + 1, _STATES[on]

        def is_wanted(answer: Any) -> bool | Request:
            word = answer.get(f"POWER{number}") or answer["POWER"]
            return word == wanted if word in _STATES else self._is_word_for(word, login, on=on)

        power = Request(self._address(f"Power{number} {wanted}", login), is_wanted)
        if timer_s is None:
            return [power]
        pulse = f"PulseTime{number}"
        timer = Request(
            self._address(f"{pulse} {pulse_time(timer_s)}", login),
            lambda answer: _pulse_of(answer[pulse]) == pulse_time(timer_s),
        )
        return [timer, power]

    def _is_word_for(self, word: str, login: DeviceLogin | None, *, on: bool) -> Request:
        """Ask whether this is the device's own word for a state: the setting StateText has them."""
        setting = f"StateText{on + 1}"
        return Request(self._address(setting, login), lambda answer: answer[setting] == word, setting)

    def _address(self, command: str, login: DeviceLogin | None) -> str:
        options = {"cmnd": command}
        if login is not None:
            options |= {"user": login.user, "password": login.password}
        return f"{self.base}/cm?{urlencode(options, quote_via=quote)}"


@dataclass(frozen=True)
class TwoAddresses:
    """Any device that is switched by a GET of one address or another. It has no timer."""

    on: str
    off: str
    schemes: ClassVar = (_BASIC, _DIGEST)

    def requests(self, on: bool, timer_s: float | None, login: DeviceLogin | None) -> list[Request]:  # noqa: FBT001
        """As `SwitchProtocol`."""
        del timer_s, login
        return [Request(self.on if on else self.off, lambda _: True)]


def pulse_time(seconds: float) -> int:
    """Tasmota's number for a time, which is rounded up: tenths of a second up to 11.1 s, then seconds."""
    if seconds <= _MOST_TENTHS / 10:
        return max(1, math.ceil(10 * seconds))
    return _PULSE_OFFSET + max(_LEAST_PULSE_S, math.ceil(seconds))


def _pulse_of(answer: Any) -> int:
    """{"Set": 130, "Remaining": 0}, or "130 (Active 0)" of older versions."""
    return int(answer["Set"]) if isinstance(answer, dict) else int(str(answer).split()[0])


class HttpSwitch:
    """A switch that is commanded over HTTP. It is in its safe state (`safe_on`) from the start.

    While it is not in its safe state, its own timer makes it safe after `timer_s` unless `write` is called
    again (None: without a timer). `login()` gives user and password. All methods raise
    `HardwareUnavailableError`.
    """

    def __init__(
        self,
        protocol: SwitchProtocol,
        ask: AskHttp,
        *,
        name: str,
        safe_on: bool = False,
        timer_s: float | None = None,
        login: Callable[[], DeviceLogin | None] = lambda: None,
    ) -> None:
        self._protocol = protocol
        self._ask = ask
        self._name = name
        self._safe_on = safe_on
        self._timer_s = timer_s
        given = login()
        self._login = None if given is None else given._replace(schemes=protocol.schemes)
        self._set(safe_on)

    def write(self, level: float, valid_s: float) -> None:
        """Switch on from a level of one half, else off. A command is sent also for an unchanged state.

        The timer of the device ends it after `valid_s`, or after `timer_s` if that is shorter.
        """
        self._set(level >= ON_FROM, valid_s)

    def close(self) -> None:
        """Make it safe."""
        self._set(self._safe_on)

    def _set(self, on: bool, valid_s: float = math.inf) -> None:  # noqa: FBT001
        is_timed = on != self._safe_on and self._timer_s is not None
        timer_s = min(self._timer_s or 0.0, valid_s) if is_timed else None
        for request in self._protocol.requests(on, timer_s, self._login):
            body = self._answer(request)
            if isinstance(self._protocol, TwoAddresses):
                continue
            judged, hint = _judged(request, body), ""
            if isinstance(judged, Request):
                hint = f", which is not its {judged.what}"
                judged = self._is_confirmed(judged)
            if not judged:
                raise self._failure(f"gives an unexpected answer: {self._shown(body)}{hint}")

    def _is_confirmed(self, request: Request) -> bool:
        try:
            return _judged(request, self._answer(request)) is True
        except HardwareUnavailableError:
            return False

    def _answer(self, request: Request) -> bytes:
        try:
            status, body = self._ask(request.address, self._login)
        except OSError as error:
            reason = str(error) or type(error).__name__
            raise self._failure(f"can't be reached: {reason}") from error
        if status in _UNAUTHORIZED:
            raise self._failure("refuses the user or the password")
        if status not in _OK:
            raise self._failure(f"answers with HTTP status {status}")
        return body

    def _shown(self, body: bytes) -> str:
        """The begin of an answer. One that repeats the address may have the password."""
        text = body.decode(errors="replace")
        if self._login is not None and self._login.password in unquote_plus(text):
            return "not shown, since it has the password"
        return repr(text[:_SHOWN])

    def _failure(self, what: str) -> HardwareUnavailableError:
        return HardwareUnavailableError(f"{self._name} {what}", device=self._name)


def _judged(request: Request, body: bytes) -> bool | Request:
    try:
        return request.is_done(json.loads(body))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def ask_http(
    address: str, login: DeviceLogin | None, *, limit_s: float = NETWORK_LIMIT_S
) -> tuple[int, bytes]:
    """As `AskHttp`. A login is sent by Digest (RFC 7616) or Basic authentication, as the device asks for it.

    Blocking, for worker threads: it runs an event loop of its own.
    """
    import asyncio  # noqa: PLC0415  imported only for an output in the network, after the pins are safe

    try:
        return asyncio.run(_get(address, login, limit_s))
    except TimeoutError:
        raise TimeoutError(f"no answer within {limit_s:g} s") from None


async def _get(address: str, login: DeviceLogin | None, limit_s: float) -> tuple[int, bytes]:
    import asyncio  # noqa: PLC0415  likewise

    import aiohttp  # noqa: PLC0415  likewise

    schemes = () if login is None else login.schemes
    user = ("", "") if login is None else login[:2]
    digest = [aiohttp.DigestAuthMiddleware(*user)] if _DIGEST in schemes else []
    try:
        async with asyncio.timeout(limit_s):
            status, scheme, body = await _answer(address, middlewares=digest)
            if status == _UNAUTHORIZED[0] and _BASIC in schemes and scheme.lower().startswith(_BASIC):
                status, _, body = await _answer(
                    address, headers={"Authorization": aiohttp.encode_basic_auth(*user)}
                )
            return status, body
    except aiohttp.ClientConnectionError as error:
        raise OSError(str(error) or type(error).__name__) from error
    except (aiohttp.ClientError, ValueError) as error:  # its text has the address, with login or token
        raise OSError(f"no valid HTTP answer ({type(error).__name__})") from None


async def _answer(address: str, **options: Any) -> tuple[int, str, bytes]:
    """Status, the scheme of authentication that is asked for, and the begin of the body."""
    import aiohttp  # noqa: PLC0415  likewise

    async with (
        aiohttp.ClientSession(**options) as session,
        session.get(address, allow_redirects=False) as response,
    ):
        scheme = response.headers.get("WWW-Authenticate", "")
        return response.status, scheme, await response.content.read(_MOST_BYTES)


Messages = Callable[[float, float], list[tuple[str, bytes]]]
"""The topics and bodies of the messages for a level, and for how long it is valid."""


class MqttOutput:
    """An output that is commanded over MQTT. It is at its safe level from the start.

    A command is sent also for an unchanged level. All methods raise `HardwareUnavailableError`, also without
    a connection. The broker acknowledges a command, not the device.
    """

    def __init__(self, client: MqttClient | None, messages: Messages, *, name: str, safe_on: bool) -> None:
        if client is None:
            raise SettingError(f"{name}: there is no MQTT broker", device=name)
        self._client = client
        self._messages = messages
        self._name = name
        self._safe = float(safe_on)
        self.write(self._safe, 0.0)

    def write(self, level: float, valid_s: float) -> None:
        """Command a level, 0..1. The timer of the device ends it after `valid_s`, if it has one."""
        try:
            for topic, body in self._messages(level, valid_s):
                self._client.send(topic, body)
        except OSError as error:
            raise HardwareUnavailableError(f"{self._name}: {error}", device=self._name) from error

    def close(self) -> None:
        """Command the safe level."""
        self.write(self._safe, 0.0)


def tasmota_messages(topic: str, relay: int, timer_s: float | None, level: float) -> list[tuple[str, bytes]]:
    """The commands of a device with Tasmota, whose own topic is `topic`; `timer_s` while it is on."""
    on = level >= ON_FROM
    power = (f"cmnd/{topic}/POWER{relay + 1}", b"ON" if on else b"OFF")
    if timer_s is None or not on:
        return [power]
    return [(f"cmnd/{topic}/PulseTime{relay + 1}", b"%d" % pulse_time(timer_s)), power]


def shelly_messages(
    prefix: str,
    relay: int,
    timer_s: float | None,
    level: float,
    *,
    safe_on: bool,
) -> list[tuple[str, bytes]]:
    """The command of a Shelly of the second generation or later, whose MQTT prefix is `prefix`."""
    on = level >= ON_FROM
    params: dict[str, float] = {"id": relay, "on": on}
    if timer_s is not None and on != safe_on:
        params["toggle_after"] = timer_s
    call = {"id": 1, "src": "growd", "method": "Switch.Set", "params": params}
    return [(f"{prefix}/rpc", json.dumps(call).encode())]
