"""Services: named calls with typed arguments and a typed answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from growd.bus.errors import (
    InvalidAnswerError,
    InvalidArgumentsError,
    InvalidValueError,
    NameTakenError,
    UnknownNameError,
    counted,
    shown,
)
from growd.bus.fields import Field, Kind
from growd.bus.names import normalise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SUCCESS = (Field("success", Kind.BOOL), Field("message", Kind.STRING))


def done(message: str) -> dict[str, Any]:
    """The answer of a service that did what was asked."""
    return {"success": True, "message": message}


def refused(message: str) -> dict[str, Any]:
    """The answer of a service that refuses, with the reason."""
    return {"success": False, "message": message}


class Service(msgspec.Struct, frozen=True):
    """One service: `handler` takes the checked arguments by name and returns the fields of `reply`.

    Every answer has `success` and `message`; a handler refuses with `success` false. Fields of `reply` with a
    default are optional.

    `is_administrative` services have lasting effects (calibration), reset a safety function, or cause faults
    on purpose. With logins, they need the role of an administrator. Services that `only_read` change nothing;
    readers may call them.
    """

    name: str
    request_type: str
    node: str
    handler: Callable[..., Awaitable[dict[str, Any]]]
    arguments: tuple[Field, ...] = ()
    reply: tuple[Field, ...] = SUCCESS
    doc: str = ""
    is_administrative: bool = False
    names_caller: bool = False
    """The handler takes `who`: the user, else the argument `by`, else the address. It takes no `by`."""
    only_reads: bool = False

    async def call(self, given: Any = None, who: str = "", *, user: str = "") -> dict[str, Any]:
        """Call it with an array of arguments in order, an object of them by name, or None for none.

        The caller is `user`, or at the address `who` without a login.
        Raises `InvalidArgumentsError` or `InvalidValueError` before the handler is called, and
        `InvalidAnswerError` if its answer does not match `reply`.
        """
        bound = self.bind(given)
        if self.names_caller:
            named = bound.pop("by", "")
            bound["who"] = user or named or who
        answer = await self.handler(**bound)
        return {field.name: self._answered(field, answer) for field in self.reply}

    def bind(self, given: Any) -> dict[str, Any]:
        """The checked arguments by name, with defaults."""
        named = self._by_name(given)
        bound: dict[str, Any] = {}
        for field in self.arguments:
            if field.name in named:
                bound[field.name] = field.check(named[field.name])
            elif field.required:
                raise InvalidArgumentsError(f"{self.name}: the argument {field.name} is missing")
            else:
                bound[field.name] = field.default
        return bound

    def _answered(self, field: Field, answer: dict[str, Any]) -> Any:
        if field.name not in answer and field.required:
            raise InvalidAnswerError(self.name, f"the field {field.name} is missing")
        try:
            return field.check(answer.get(field.name, field.default))
        except InvalidValueError as error:
            raise InvalidAnswerError(self.name, str(error)) from error

    def _by_name(self, given: Any) -> dict[str, Any]:
        names = [field.name for field in self.arguments]
        if given is None:
            return {}
        if isinstance(given, dict):
            for name in given:
                if name not in names:
                    raise InvalidArgumentsError(
                        f"{self.name} has no argument {shown(name)}; it has {', '.join(names) or 'none'}"
                    )
            return given
        if not isinstance(given, list):
            raise InvalidArgumentsError(
                f"{self.name} takes its arguments as an array or an object, not {shown(given)}"
            )
        if len(given) > len(names):
            raise InvalidArgumentsError(
                f"{self.name} takes at most {counted(len(names), 'argument')}, got {len(given)}"
            )
        return dict(zip(names, given, strict=False))


class Services:
    """All services by name."""

    def __init__(self) -> None:
        self._services: dict[str, Service] = {}
        self.changes = 0  # counts services that came or went

    def add(self, service: Service) -> None:
        if normalise(service.name) != service.name:
            raise ValueError(f"service names are given without a leading slash: {service.name!r}")
        if service.name in self._services:
            raise NameTakenError("service", service.name)
        self._services[service.name] = service
        self.changes += 1

    def remove(self, name: str) -> None:
        del self._services[name]
        self.changes += 1

    def get(self, name: str) -> Service:
        """The service of this name; `UnknownNameError` if there is none."""
        name = normalise(name)
        service = self._services.get(name)
        if service is None:
            raise UnknownNameError("service", name)
        return service

    def names(self) -> list[str]:
        return sorted(self._services)
