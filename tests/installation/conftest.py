from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING

import pytest

from growd_machine.installation.get_pip import index_url
from support.fresh_machine import Fresh

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def fresh(tmp_path: Path) -> Fresh:
    (root := tmp_path / "root").mkdir()
    return Fresh(root)


@pytest.fixture
def index() -> None:
    """Skips a test where the package index does not answer."""
    try:
        with urllib.request.urlopen(f"{index_url()}/pip/", timeout=20):  # noqa: S310  as pip's settings say
            pass
    except OSError as error:
        pytest.skip(f"the package index does not answer: {error}")
