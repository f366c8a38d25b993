"""Reloading the configuration: applies the options that can change while growd runs."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from growd.config import Config, ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

_log = logging.getLogger(__name__)


class Reloader:
    """Applies the changes between the current configuration and what `read` returns.

    `read` blocks and may raise `ConfigError`. Components register the options they can apply with `offer`. A
    change of any other option is logged at each reload until growd is restarted.
    """

    def __init__(self, config: Config, read: Callable[[], Config]) -> None:
        self.config = config
        self._read = read
        self._offers: list[tuple[frozenset[str], Callable[[Config], Awaitable[None]]]] = []
        self._reading = asyncio.Lock()

    def offer(self, *options: str, apply: Callable[[Config], Awaitable[None]]) -> None:
        """Call `apply` when one of these changes: "store.budget_mb", or "store" for the whole section.

        It may raise `ConfigError` without having changed anything.
        """
        self._offers.append((frozenset(options), apply))

    async def reload(self) -> None:
        """Read the configuration and apply the changes. An invalid one is logged and changes nothing."""
        async with self._reading:
            try:
                found = await asyncio.to_thread(self._read)
            except ConfigError as error:
                for sentence in error.sentences:
                    _log.error("%s", sentence)
                _log.error("the configuration is invalid; keeping the previous one")
                return
            await self._take(found)

    async def _take(self, found: Config) -> None:
        changed = set(_changes(self.config, found))
        if not changed:
            _log.info("reloaded the configuration: no changes")
            return
        taken: set[str] = set()
        refused: set[str] = set()
        for options, apply in self._offers:
            wanted = {option for option in changed if _is_among(option, options)}
            if wanted:
                is_taken = await self._apply(apply, _with(self.config, found, taken | wanted), wanted)
                (taken if is_taken else refused).update(wanted)
        self.config = _with(self.config, found, taken)
        if taken:
            _log.warning("reloaded the configuration; changed: %s", _listed(taken))
        if left := changed - taken - refused:
            _log.warning("these changes need a restart of growd: %s", _listed(left))

    async def _apply(
        self, apply: Callable[[Config], Awaitable[None]], config: Config, wanted: set[str]
    ) -> bool:
        try:
            await apply(config)
        except ConfigError as error:
            for sentence in error.sentences:
                _log.error("%s; keeping the previous value of %s", sentence, _listed(wanted))
            return False
        return True


def has_terminal() -> bool:
    """Whether this process has a terminal that still exists; SIGHUP may report its end. Blocking."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:  # ENXIO without one, EIO after its end
        return False
    return True


def _changes(before: Struct, after: Struct, within: str = "") -> Iterator[str]:
    """The options that differ, such as "http.port"; lists and tables as a whole, such as "sensor"."""
    for field in msgspec.structs.fields(before):
        one, other = getattr(before, field.name), getattr(after, field.name)
        if one == other:
            continue
        if not within and isinstance(one, Struct):
            yield from _changes(one, other, f"{field.name}.")
        else:
            yield f"{within}{field.name}"


def _is_among(option: str, options: frozenset[str]) -> bool:
    return option in options or option.partition(".")[0] in options


def _with(before: Config, after: Config, options: set[str]) -> Config:
    """The configuration `before` with these options of `after`."""
    changed: dict[str, Any] = {}
    for option in options:
        section, _, name = option.partition(".")
        if not name:
            changed[section] = getattr(after, section)
        else:
            whole = changed.get(section, getattr(before, section))
            value = getattr(getattr(after, section), name)
            changed[section] = msgspec.structs.replace(whole, **{name: value})
    return msgspec.structs.replace(before, **changed)


def _listed(options: set[str]) -> str:
    """The options as in a configuration file: "[http] port, [sensor]"."""
    parts = (option.partition(".") for option in sorted(options))
    return ", ".join(f"[{section}] {name}".rstrip() for section, _, name in parts)
