import urllib.request

import pytest

from growd_machine.installation.get_pip import index_url
from support.fresh_machine import Fresh


@pytest.fixture
def fresh(tmp_path):
    (root := tmp_path / "root").mkdir()
    return Fresh(root)


@pytest.fixture
def index():
    """Skips a test where the package index does not answer."""
    try:
        with urllib.request.urlopen(f"{index_url()}/pip/", timeout=20):  # noqa: S310  as pip's settings say
            pass
    except OSError as error:
        pytest.skip(f"the package index does not answer: {error}")
