"""Without a daemon all commands end with one sentence and one exit status."""

import json

import pytest
from click.testing import CliRunner

from growd_cli.main import main

NOWHERE = "http://127.0.0.1:9"
COMMANDS = """
status; alert list; alert acknowledge x; alert test; check --outputs; db export -o FILE.csv;
db export -o -; db export -o - --start 06:00; db history; import openag FILE; node list;
node info x; note add x; note add x --at 06:00; note list; param get x; pump calibrate x;
pump list; recipe check x; recipe list; recipe put FILE; recipe resolve x; recipe show;
recipe start x; recipe start x --at 06:00; run compare x y; run export x; run list; run report x;
run show x; service call x; service list; topic echo x; topic list; topic pub x 1
"""


@pytest.mark.parametrize("command", [each.strip() for each in COMMANDS.split(";")])
def test_the_sentence_and_the_status_are_the_same(command, tmp_path, monkeypatch):
    monkeypatch.setenv("GROWD_URL", NOWHERE)
    file = tmp_path / "recipe.json"
    file.write_text(json.dumps({"format": "simple", "operations": [[0, "air_temperature", 20]]}))
    words = command.replace("FILE", str(file)).split()
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 3, done.output
    assert done.stderr == (
        f"growd: no daemon answers at {NOWHERE}/_svc: is growd running? "
        "(--url or GROWD_URL names another address)\n"
    )
