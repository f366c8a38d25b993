"""Checks of URLs and host names."""

from __future__ import annotations

import re


def is_host(name: str) -> bool:
    """Whether each label has 1 to 63 characters (RFC 1035)."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


def without_login(url: str) -> str:
    """A URL, valid or not, without a login."""
    return re.sub(r"^([^/]*//)?[^/]*@", r"\1", url)
