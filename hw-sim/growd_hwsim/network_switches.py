"""Simulated switches in the network, which answer as Shelly's and Tasmota's do.

Sources: as `growd_drivers.network_switch`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from growd_drivers.network_switch import DeviceLogin

_OK, _NOT_FOUND = 200, 404
_TENTHS_UP_TO = 111  # Tasmota: above, PulseTime counts seconds from 100
_SECONDS_FROM = 100


@dataclass
class _Relay:
    on: bool = False
    flips_at: float = inf
    pulse: int = 0


class SimulatedSwitch:
    """A device with four relays that takes the requests of `protocol`, and their timers.

    `on_change(relay, on)` is called when a command or a timer changes a relay; timers are looked at with each
    request and with `step`. `words` are those of Tasmota's StateText.
    """

    def __init__(
        self,
        protocol: str,
        monotonic: Callable[[], float],
        on_change: Callable[[int, bool], None] = lambda _relay, _on: None,
        *,
        words: tuple[str, str] = ("OFF", "ON"),
    ) -> None:
        self._protocol = protocol
        self._monotonic = monotonic
        self._on_change = on_change
        self._words = words
        self._relays = [_Relay() for _ in range(4)]

    def is_on(self, relay: int = 0) -> bool:
        """Whether a relay is on now."""
        self.step()
        return self._relays[relay].on

    def step(self) -> None:
        """Switch the relays whose timer has ended."""
        for number, relay in enumerate(self._relays):
            if self._monotonic() >= relay.flips_at:
                self._switch(number, on=not relay.on)

    def restart(self) -> None:
        """As after a power cut: all relays are off, settings stay."""
        for number in range(len(self._relays)):
            self._switch(number, on=False)

    def get(self, target: str) -> tuple[int, bytes]:
        """Answer a GET of a path with a query: status and body."""
        self.step()
        parts = urlsplit(target)
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        answer = {"shelly_gen1": self._gen1, "shelly_gen2": self._gen2, "tasmota": self._tasmota}[
            self._protocol
        ](parts.path, options)
        return (_NOT_FOUND, b"Not Found") if answer is None else (_OK, json.dumps(answer).encode())

    def receive(self, topic: str, body: bytes) -> None:
        """Take a message of MQTT."""
        self.step()
        if self._protocol == "tasmota":
            self._command(f"{topic.rpartition('/')[2]} {body.decode()}")
        elif topic.endswith("/rpc"):
            call = json.loads(body)["params"]
            self._switch(call["id"], on=call["on"], timer_s=call.get("toggle_after"))

    def _gen1(self, path: str, options: Mapping[str, str]) -> dict[str, Any] | None:
        if not path.startswith("/relay/"):
            return None
        number, timer = int(path.rpartition("/")[2]), options.get("timer")
        self._switch(number, on=options["turn"] == "on", timer_s=float(timer) if timer else None)
        return {"ison": self._relays[number].on, "has_timer": timer is not None, "source": "http"}

    def _gen2(self, path: str, options: Mapping[str, str]) -> dict[str, Any] | None:
        if path != "/rpc/Switch.Set":
            return None
        number, timer = int(options["id"]), options.get("toggle_after")
        was_on = self._relays[number].on
        self._switch(number, on=options["on"] == "true", timer_s=float(timer) if timer else None)
        return {"was_on": was_on}

    def _tasmota(self, path: str, options: Mapping[str, str]) -> dict[str, Any] | None:
        return self._command(options["cmnd"]) if path == "/cm" else None

    def _command(self, command: str) -> dict[str, Any]:
        word, _, argument = command.partition(" ")
        if word.startswith("StateText"):
            return {word: self._words[int(word[-1]) - 1]}
        name, number = word.rstrip("0123456789").lower(), int(word[-1]) - 1
        if name == "pulsetime":
            self._relays[number].pulse = int(argument)
            return {f"PulseTime{number + 1}": {"Set": int(argument), "Remaining": 0}}
        self._switch(number, on=argument.upper() == "ON", timer_s=self._pulse_s(number, argument))
        return {f"POWER{number + 1}": self._words[self._relays[number].on]}

    def _pulse_s(self, number: int, argument: str) -> float | None:
        pulse = self._relays[number].pulse
        if not pulse or argument.upper() != "ON":
            return None
        return pulse / 10 if pulse <= _TENTHS_UP_TO else pulse - _SECONDS_FROM

    def _switch(self, number: int, *, on: bool, timer_s: float | None = None) -> None:
        relay = self._relays[number]
        has_changed = relay.on != on
        relay.on = on
        relay.flips_at = inf if timer_s is None else self._monotonic() + timer_s
        if has_changed:
            self._on_change(number, on)


@dataclass(frozen=True)
class WiredNetwork:
    """An output in the network, and what it moves: as `WiredRelay`.

    `place` is its address, or for MQTT its topic. Without a known protocol `level_of` gives the level of an
    address that is asked for, or of a message; None for another one.
    """

    place: str
    protocol: str
    relay: int
    moves: str
    channel: str = ""
    level_of: Callable[[str, bytes], float | None] = lambda _place, _body: None


class SimulatedNetwork:
    """All outputs in the network, each with what it moves (`move(level)`).

    A device for whose place `is_away` is true gets nothing and does not answer.
    """

    def __init__(
        self,
        wired: Sequence[tuple[WiredNetwork, Callable[[float], None]]],
        monotonic: Callable[[], float],
        is_away: Callable[[str], bool] = lambda _place: False,
    ) -> None:
        self._is_away = is_away
        self._plain = [(each, move) for each, move in wired if each.protocol == "plain"]
        self.switches: dict[str, SimulatedSwitch] = {}
        self._moves: dict[tuple[str, int], Callable[[float], None]] = {}
        for each, move in wired:
            if each.protocol != "plain":
                self._moves[each.place, each.relay] = move
                self.switches.setdefault(
                    each.place, SimulatedSwitch(each.protocol, monotonic, self._mover(each.place))
                )

    def ask_http(self, address: str, login: DeviceLogin | None) -> tuple[int, bytes]:
        """As `growd_drivers.network_switch.AskHttp`."""
        del login
        if self._take_plain(address, b""):
            return _OK, b""
        for place, switch in self.switches.items():
            if address.startswith(f"{place}/") and not self._is_away(place):
                return switch.get(address.removeprefix(place))
        raise ConnectionRefusedError("connection refused")

    def receive(self, topic: str, body: bytes) -> None:
        """Take what is published over MQTT."""
        if self._take_plain(topic, body):
            return
        for place, switch in self.switches.items():
            if topic.startswith((f"cmnd/{place}/", f"{place}/rpc")) and not self._is_away(place):
                switch.receive(topic, body)

    def _take_plain(self, place: str, body: bytes) -> bool:
        levels = [
            (each.level_of(place, body), move) for each, move in self._plain if not self._is_away(each.place)
        ]
        for level, move in levels:
            if level is not None:
                move(level)
        return any(level is not None for level, _ in levels)

    def _mover(self, place: str) -> Callable[[int, bool], None]:
        def moved(relay: int, on: bool) -> None:  # noqa: FBT001  `on_change` of a switch
            if (place, relay) in self._moves:
                self._moves[place, relay](float(on))

        return moved
