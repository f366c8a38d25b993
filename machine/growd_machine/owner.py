"""What root does to the data folder, which belongs to the user of the service."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def as_owner(folder: Path) -> Iterator[None]:
    """Let this process be the owner of `folder` for the body.

    growd owns its data folder, and could have put a link to another file into it.
    """
    owner = folder.stat()
    if os.geteuid() or not owner.st_uid:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
