"""Error messages for impossible requests."""

import socket
import sys
import types

import pytest

from growd_cli.__main__ import main
from support.lasting_pins import LastingPins
from support.program import failed
from support.program import said as growd

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
    status, printed = growd("run", "--data", str(data), *without, *arguments)
    assert status == 1, printed
    return one_sentence(printed)


def test_help_names_every_option_and_one_before_its_command_gets_a_hint():
    status, printed = growd("run", "--help")
    assert status == 0
    for option in ("--port", "--data", "--config", "--set", "--speed", "--faults"):
        assert option in printed
    status, printed = growd("--url", "http://localhost", "status")
    assert (status, "growd COMMAND --url" in printed) == (2, True)


async def test_only_the_configuration_error_is_printed(tmp_path):
    status, printed = await failed("run", "--data", str(tmp_path / "data"), "--set", "http.prot=1")
    assert status == 1
    assert printed == "growd: --set http.prot: [http] prot: unknown option; is it port?\n"


def test_errors_of_configuration_are_one_sentence(tmp_path, said):
    file = tmp_path / "day.csv"
    file.write_text("timestamp,variable,value\n1,air_temperature,20\n2,air_temperature,warm\n")
    for arguments in (
        ("--port", "70000"),
        ("--speed", "fast"),
        ("--config", "/nowhere/growd.toml"),
        ("--faults", "/nowhere/faults.toml"),
        ("--set", "simulator.replay=/nowhere/day.csv"),
        ("--set", f"simulator.replay={file}"),
        ("--set", "couchdb.credentials_file=/nowhere/login"),
    ):
        said(refused(tmp_path / "data", *arguments))


def test_a_file_that_cannot_be_read_at_the_start_is_named_with_the_line_of_its_option(tmp_path, said):
    file = tmp_path / "growd.toml"
    file.write_text(
        "[replication]\nurl = 'http://far'\n[[notify]]\nname = 'm'\nkind = 'apprise'\nurl_file = './m'\n"
    )
    said(refused(tmp_path / "data", "--config", str(file)))
    file.write_text("[simulator]\nenabled = true\nfaults = './none.toml'\n")
    said(refused(tmp_path / "data", "--config", str(file)))


def test_impossible_machines_ports_and_folders_are_one_sentence(tmp_path, said):
    with LastingPins(tmp_path).here(chips={}):
        said(refused(tmp_path / "data", "--set", "simulator.enabled=false"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = refused(tmp_path, "--port", str(port))
    assert sentence.startswith(f"growd: port {port} on 127.0.0.1 is in use")
    (tmp_path / "file").write_text("not a folder")
    said(refused(tmp_path / "file" / "data"))
    said(refused(tmp_path / "file"))


def test_ctrl_c_during_imports_prints_no_traceback(monkeypatch):
    class Interrupted(types.ModuleType):
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "growd_cli.main", Interrupted("growd_cli.main"))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
