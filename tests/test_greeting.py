"""What `growd run` prints when it is ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from growd.app import Running
from growd.config import Config
from growd.run_command import _greeting


@pytest.mark.parametrize(("listens", "shown"), [("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]")])  # noqa: S104
def test_the_greeting_shows_an_address_that_can_be_typed(listens: str, shown: str):
    printed = _greeting(Config(), Running(f"http://{listens}:5984", "embedded", Path("data")))
    assert f"http://{listens}:" not in printed
    assert f"http://{shown}:5984 (and all other addresses of this machine)" in printed
    assert f"curl http://{shown}:5984/_svc/api/0.0.1/topic_data/" in printed
