"""One request, without the network: what is sent, and how the answer is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote

import msgspec

from growd_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_client.form import PhotoForm

T = TypeVar("T")

API: Final = "api/0.0.1"
"""The path of the API below that of growd. A URL may have it."""


@dataclass(frozen=True, slots=True)
class ClientCall(Generic[T]):
    """One request. `wait_s` is how long growd may take in addition to the client's time limit.

    With `of_database` the target is one of the database behind growd, relative to its root. `unknown` is what
    to say of an unknown name. The refusal of a `service` is an answer too; that of its arguments is none.
    """

    method: str
    target: str
    decode: Callable[[bytes], T]
    body: bytes | None = None
    form: PhotoForm | None = None
    wait_s: float = 0.0
    of_database: bool = False
    service: bool = False
    unknown: str = ""

    def headers(self) -> dict[str, str]:
        """Those that belong to the body."""
        if self.form is not None:
            return {"Content-Type": self.form.media, "Content-Length": str(self.form.measure())}
        return {"Content-Type": "application/json"} if self.body is not None else {}


def target(resource: str, name: str = "", query: str = "") -> str:
    """The path of a resource of the API; a name keeps its slashes."""
    parts = [API, resource, *([quote(name.removeprefix("/"))] if name else [])]
    return "/".join(parts) + (f"?{query}" if query else "")


def encoded(body: Any) -> bytes:
    """`body` as JSON. Raises `UsageError` for what JSON has not.

    msgspec would send NaN and infinity as null, which releases a set point.
    """
    try:
        plain = msgspec.to_builtins(body, enc_hook=_of_numpy)
        return json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # bytes of a command line (PEP 383), or half of a surrogate pair
        raise UsageError("an argument is not UTF-8") from None
    except ValueError:
        raise UsageError("NaN and infinity can't be sent: None is an unknown value") from None
    except TypeError as error:
        raise UsageError(str(error)) from None


def _of_numpy(value: Any) -> Any:
    """A scalar of NumPy as a number of Python."""
    if not hasattr(value, "item"):
        raise TypeError(f"{type(value).__name__} can't be sent: expected what JSON has")
    return value.item()
