from click.testing import CliRunner

from growd.config import load
from growd_cli.check import faults_of_files, systemd_credentials
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
"""


def test_each_missing_file_is_named(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(TEXT.format(folder=tmp_path))
    faults = list(faults_of_files(load(file, environ={})))
    assert [fault.partition(": ")[0] for fault in faults] == [
        "[couchdb] credentials_file",
        "[replication] credentials_file",
        "[replication] ca_file",
        "[tls] certificate",
        "[notify] url_file",
    ]
    assert all(str(tmp_path) in fault for fault in faults)
    (tmp_path / "couchdb").write_text("grower\nsecret\n")
    (tmp_path / "mail").write_text("ntfys://topic\n")
    (tmp_path / "mail").chmod(0o600)
    assert len(list(faults_of_files(load(file, environ={})))) == 3


def test_systemd_credentials_are_listed_and_not_checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "growd.toml"
    file.write_text(TEXT.format(folder=".").replace("./", "").replace('ca_file = "ca.pem"', ""))
    config = load(file, environ={})
    assert list(faults_of_files(config)) == []
    assert systemd_credentials(config) == ["cert.pem", "couchdb", "far", "key.pem", "mail"]


def test_growd_check_reports_files_and_credentials(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text("[couchdb]\nurl = 'http://x'\ncredentials_file = '/nowhere/couchdb'\n")
    wrong = CliRunner().invoke(main, ["check", "--config", str(file)])
    assert wrong.exit_code == 1
    assert "[couchdb] credentials_file: /nowhere/couchdb can't be read: No such file" in wrong.output
    file.write_text("[couchdb]\nurl = 'http://x'\ncredentials_file = 'no_such_credential'\n")
    left = CliRunner().invoke(main, ["check", "--config", str(file)])
    assert left.exit_code == 0
    assert "no_such_credential: not checked" in left.output
