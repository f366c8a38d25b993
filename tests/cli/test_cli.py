"""Error messages for impossible requests."""

import socket
import sys
import types

import pytest

from growd_cli.__main__ import main
from support.lasting_pins import LastingPins
from support.program import failed, said

NOWHERE = "http://127.0.0.1:1"


def one_sentence(printed):
    """The error message; the other lines are log lines, without a traceback."""
    assert "Traceback" not in printed, printed
    sentences = [line for line in printed.splitlines() if line.startswith("growd: ")]
    assert len(sentences) == 1, printed
    return sentences[0]


def refused(data, *arguments):
    """The error of `growd run` for invalid arguments; starts no database."""
    without = ("--port", "0", "--set", f"couchdb.url={NOWHERE}")
    status, printed = said("run", "--data", str(data), *without, *arguments)
    assert status == 1, printed
    return one_sentence(printed)


def test_help_names_every_option():
    status, printed = said("run", "--help")
    assert status == 0
    for option in ("--port", "--data", "--config", "--set", "--speed", "--faults"):
        assert option in printed


async def test_only_the_configuration_error_is_printed(tmp_path):
    status, printed = await failed("run", "--data", str(tmp_path / "data"), "--set", "http.prot=1")
    assert status == 1
    assert printed == "growd: --set http.prot: [http] prot: unknown option; is it port?\n"


def test_an_option_before_its_command_is_refused_with_a_hint():
    status, printed = said("--url", "http://localhost", "status")
    assert status == 2
    assert "growd COMMAND --url" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], "--port: [http] port"),
        (["--port", "x"], "--port: [http] port"),
        (["--speed", "0"], "--speed: [simulator] speed"),
        (["--speed", "fast"], "[simulator] speed"),
        (["--config", "/nowhere/growd.toml"], "/nowhere/growd.toml: can't be read"),
        (["--faults", "/nowhere/faults.toml"], "/nowhere/faults.toml"),
        (["--set", "simulator.replay=/nowhere/day.csv"], "/nowhere/day.csv: can't be read: No such file"),
        (["--set", "couchdb.credentials_file=/nowhere/login"], "[couchdb] credentials_file"),
    ],
)
def test_configuration_errors_are_one_sentence(tmp_path, arguments, words):
    assert words in refused(tmp_path / "data", *arguments)


def test_a_machine_without_pins_is_advised_to_simulate(tmp_path):
    with LastingPins(tmp_path).here(chips={}):
        sentence = refused(tmp_path / "data", "--set", "simulator.enabled=false")
    assert "[simulator] enabled = true" in sentence


def test_an_invalid_recording_is_refused_with_its_line(tmp_path):
    file = tmp_path / "day.csv"
    file.write_text("timestamp,variable,value\n1,air_temperature,20\n2,air_temperature,warm\n")
    sentence = refused(tmp_path / "data", "--set", f"simulator.replay={file}")
    assert f"{file}: line 3: value 'warm' is not a number" in sentence


def test_a_port_in_use_is_reported(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = refused(tmp_path, "--port", str(port))
    assert sentence.startswith(f"growd: port {port} on 127.0.0.1 is in use")


def test_ctrl_c_during_imports_prints_no_traceback(monkeypatch):
    class Interrupted(types.ModuleType):
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "growd_cli.main", Interrupted("growd_cli.main"))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130


def test_an_impossible_data_folder_is_reported(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    assert "can't be written to" in refused(tmp_path / "file" / "data")
    assert f"{tmp_path / 'file'} is not a folder" in refused(tmp_path / "file")
