"""The sentences of messages, in one file that `./test --rewrite-sentences` rewrites."""

import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[1] / "sentences.json"
REWRITE = "--rewrite-sentences"
_PORT = re.compile(r"(127\.0\.0\.\d+|localhost):\d+")
_KEPT = pytest.StashKey[dict[str, list[Any]]]()


class Said:
    """What one test has been told, without its folder and ports, compared with what is kept for it."""

    def __init__(self, kept, folder):
        self.found = []
        self._kept = kept
        self._folder = re.compile(rf"{re.escape(str(folder))}/[^/\s:]+")

    def __call__(self, sentence):
        """Compare a sentence, or a list of them, with the next one that is kept."""
        lasting = [self._lasting(each) for each in ([sentence] if isinstance(sentence, str) else sentence)]
        self.found.append(lasting[0] if isinstance(sentence, str) else lasting)
        if self._kept is not None:
            assert self.found == self._kept[: len(self.found)], f"intended? ./test {REWRITE}"

    @contextmanager
    def raises(self, error):
        """Expect an error with the next sentence that is kept."""
        with pytest.raises(error) as caught:
            yield
        self(str(caught.value))

    def _lasting(self, sentence):
        return _PORT.sub(r"\1:PORT", self._folder.sub("FOLDER", sentence))


def pytest_addoption(parser):
    parser.addoption(
        REWRITE, action="store_true", help="run the tests with sentences, and keep what they say"
    )


def pytest_configure(config):
    config.stash[_KEPT] = json.loads(FILE.read_text(encoding="utf-8"))


def pytest_collection_modifyitems(config, items):
    if config.getoption(REWRITE):
        items[:] = [item for item in items if "said" in getattr(item, "fixturenames", ())]
        if config.args == config.getini("testpaths"):  # of all tests: those that are gone leave the file
            named = {item.nodeid for item in items}
            config.stash[_KEPT] = {key: each for key, each in config.stash[_KEPT].items() if key in named}


def pytest_sessionfinish(session):
    if session.config.getoption(REWRITE):
        text = json.dumps(session.config.stash[_KEPT], indent=1, sort_keys=True, ensure_ascii=False)
        FILE.write_text(text + "\n", encoding="utf-8")


@pytest.fixture
def said(request, tmp_path_factory):
    """Compares the sentences of a test with those in the file."""
    kept, name = request.config.stash[_KEPT], request.node.nodeid
    rewrites = request.config.getoption(REWRITE)
    made = Said(None if rewrites else kept.get(name, []), tmp_path_factory.getbasetemp())
    yield made
    if made.found and rewrites:  # not of a test that is skipped
        kept[name] = made.found
