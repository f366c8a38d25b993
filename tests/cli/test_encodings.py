"""Files that people write may begin with a byte order mark; another encoding than UTF-8 is named."""

import json

import pytest
from click.testing import CliRunner

from growd_analysis.openag.sources import SourceError, of_file
from growd_cli.main import main

RECIPE = {"format": "simple", "name": "Grün", "operations": [[0, "light_illuminance", 8_000]]}
CONFIGURATION = '# Grün\n[simulator]\nenabled = true\n[couchdb]\nurl = "http://127.0.0.1:9"\n'
FILES = {
    "recipe": (json.dumps(RECIPE, ensure_ascii=False), ("recipe", "check", "{}")),
    "configuration": (CONFIGURATION, ("check", "--config", "{}")),
    "faults": ("# Grün\n", ("check", "--hardware", "--set=simulator.enabled=true", "--faults", "{}")),
    "password": ("grün\n", ("status", "--user=a", "--password-file", "{}")),
    "login": ("growd\ngrün\n", ("check", "--set=simulator.enabled=true", "--set=couchdb.url=http://127.0.0.1:9",
                                "--set=couchdb.credentials_file={}")),
}  # fmt: skip
UNREADABLE = ("utf-16", "utf-16-le", "latin-1")


def said(tmp_path, kind, encoding):
    text, arguments = FILES[kind]
    file = tmp_path / "file.json"
    file.write_bytes(text.encode(encoding))
    done = CliRunner().invoke(main, [each.format(file) for each in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.fixture(autouse=True)
def no_daemon(monkeypatch):
    monkeypatch.setenv("GROWD_URL", "http://127.0.0.1:9")


@pytest.mark.parametrize("kind", FILES)
def test_a_byte_order_mark_changes_nothing_and_another_encoding_is_named(tmp_path, kind):
    plain = said(tmp_path, kind, "utf-8")
    assert "UTF-8" not in plain[1]
    marked = said(tmp_path, kind, "utf-8-sig")
    assert (marked[0], "UTF-8" in marked[1]) == (plain[0], False)
    for encoding in UNREADABLE:
        status, output = said(tmp_path, kind, encoding)
        assert status != 0
        *_, sentence = output.splitlines()
        assert str(tmp_path) in sentence
        assert "save it as UTF-8" in sentence


async def documents(file):
    return [document async for page in of_file(file) for document in page.documents]


async def test_a_dump_of_openag_brain_has_an_encoding_too(tmp_path):
    line = '{"_id": "grün"}\n'
    file = tmp_path / "dump"
    for encoding in ("utf-8", "utf-8-sig"):
        file.write_bytes(line.encode(encoding))
        assert await documents(file) == [{"_id": "grün"}]
    for encoding in UNREADABLE:
        file.write_bytes(line.encode(encoding))
        with pytest.raises(SourceError, match="save it as UTF-8"):
            await documents(file)
