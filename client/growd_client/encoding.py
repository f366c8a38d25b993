"""What a client sends, as JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from growd_client.errors import UsageError


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
