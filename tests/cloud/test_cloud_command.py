"""The options that `growd cloud receive` and `export` share."""

import os

import pytest
from click.testing import CliRunner

from growd_cli.cloud import cloud
from support.database import embedded_server


@pytest.fixture
def credentials(tmp_path):
    file = tmp_path / "credentials"
    file.write_text("admin\npassword\n")
    file.chmod(0o600)
    return file


def exported(url, credentials):
    place = str(credentials.with_name("out"))
    words = ["export", "--couchdb", url, "--credentials", str(credentials), "-o", place]
    result = CliRunner().invoke(cloud, words)
    return result.exit_code, result.output


def test_wrong_options_are_named(credentials, own_port, said):
    words = ["receive", "--couchdb", "http://a", "--credentials", str(credentials), "--port", "80000"]
    result = CliRunner().invoke(cloud, words)
    assert (result.exit_code, "80000 is not in the range" in result.output) == (2, True)
    status, output = exported(f"https://127.0.0.1:{own_port}", credentials)
    assert status == 3
    said(output)
    credentials.chmod(0o644)
    status, output = exported("http://10.0.0.5", credentials)
    assert status == 1
    said(output)
    credentials.chmod(0o600)
    credentials.write_text(os.linesep)
    status, output = exported("http://10.0.0.5", credentials)
    assert status == 1
    said(output)


def test_a_receiver_needs_a_couchdb(credentials, tmp_path, said):
    with embedded_server(tmp_path) as server:
        credentials.write_text(os.linesep.join(server.owner))
        words = ["receive", "--couchdb", server.url, "--credentials", str(credentials), "--port", "0"]
        result = CliRunner().invoke(cloud, words)
    assert result.exit_code == 1
    said(result.output.replace(server.url, "URL"))
