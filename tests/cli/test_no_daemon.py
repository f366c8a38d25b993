"""Without a daemon all commands end with one sentence and one exit status."""

import json

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


def test_the_sentence_and_the_status_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("GROWD_URL", NOWHERE)
    file = tmp_path / "recipe.json"
    file.write_text(json.dumps({"format": "simple", "operations": [[0, "air_temperature", 20]]}))
    for command in COMMANDS.split(";"):
        done = CliRunner().invoke(main, command.replace("FILE", str(file)).split())
        assert done.exit_code == 3, (command, done.output)
        assert done.stderr == (
            f"growd: no daemon answers at {NOWHERE}/_svc: is growd running? "
            "(--url or GROWD_URL names another address)\n"
        ), command
