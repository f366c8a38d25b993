import os

import pytest
from click.testing import CliRunner

from growd.config import load
from growd_cli.check import faults_of_files, missing_credentials, systemd_credentials
from growd_cli.main import main

TEXT = """
[couchdb]
url = "http://127.0.0.1:5985"
credentials_file = "{folder}/couchdb"

[replication]
url = "https://far"
credentials_file = "{folder}/far"
ca_file = "{folder}/ca.pem"

[tls]
certificate = "{folder}/cert.pem"
key = "{folder}/key.pem"

[[notify]]
name = "mail"
kind = "apprise"
url_file = "{folder}/mail"

[[output]]
name = "plug"
kind = "http"
variable = "auxiliary_1"
url = "http://192.168.1.40"
protocol = "shelly_gen2"
password_file = "{folder}/plug"
"""


def test_each_missing_file_is_a_fault_of_its_option(tmp_path, said):
    file = tmp_path / "growd.toml"
    file.write_text(TEXT.format(folder=tmp_path))
    faults = list(faults_of_files(load(file, environ={})))
    assert [fault.path for fault in faults] == [
        ("couchdb", "credentials_file"),
        ("replication", "credentials_file"),
        ("replication", "ca_file"),
        ("tls", "certificate"),
        ("notify", 0, "url_file"),
        ("output", 0, "password_file"),
    ]
    said([fault.reason for fault in faults])
    (tmp_path / "couchdb").write_text("grower\nsecret\n")
    (tmp_path / "mail").write_text("ntfys://topic\n")
    (tmp_path / "mail").chmod(0o600)
    assert len(list(faults_of_files(load(file, environ={})))) == 4


@pytest.mark.parametrize("name", ["missing", "pipe"])
def test_files_of_the_simulator_and_authorities_are_read_without_waiting_for_a_pipe(tmp_path, name, said):
    os.mkfifo(tmp_path / "pipe")
    file, path = tmp_path / "growd.toml", tmp_path / name
    file.write_text(
        f"[simulator]\nenabled = true\nfaults = '{path}'\nreplay = '{path}'\n"
        f"[mqtt]\nhost = 'broker'\nsecurity = 'tls'\nca_file = '{path}'\n"
    )
    faults = list(faults_of_files(load(file, environ={})))
    assert [fault.path for fault in faults] == [
        ("simulator", "faults"),
        ("simulator", "replay"),
        ("mqtt", "ca_file"),
    ]
    said([fault.reason for fault in faults])


NAMES = ["cert.pem", "couchdb", "far", "key.pem", "mail", "plug"]


@pytest.mark.parametrize(("is_hidden", "listed", "doubtful"), [(True, NAMES, []), (False, [], NAMES)])
def test_bare_names_are_credentials_that_only_root_can_see(
    tmp_path, monkeypatch, is_hidden, listed, doubtful
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("growd_cli.check.is_hidden", lambda: is_hidden)
    file = tmp_path / "growd.toml"
    file.write_text(TEXT.format(folder=".").replace("./", "").replace('ca_file = "ca.pem"', ""))
    config = load(file, environ={})
    assert list(faults_of_files(config)) == []
    assert systemd_credentials(config) == listed
    assert len(list(missing_credentials(config, None))) == len(doubtful)


def test_growd_check_names_the_line_of_a_missing_file_and_of_a_missing_credential(tmp_path, said):
    file = tmp_path / "growd.toml"
    file.write_text("[couchdb]\nurl = 'http://x'\ncredentials_file = '/nowhere/couchdb'\n")
    wrong = CliRunner().invoke(main, ["check", "--config", str(file)])
    assert wrong.exit_code == 1
    assert f"{file}:3: [couchdb] credentials_file: " in wrong.output
    file.write_text("[couchdb]\nurl = 'http://x'\ncredentials_file = 'no_such_credential'\n")
    doubtful = CliRunner().invoke(main, ["check", "--config", str(file)])
    assert doubtful.exit_code == 0
    assert f"warning: {file}:3: [couchdb] credentials_file: " in doubtful.output
    said([line for line in doubtful.output.splitlines() if "no_such_credential" in line])
