"""The options that `growd cloud receive` and `export` share."""

import os

import pytest
from click.testing import CliRunner

from growd_cli.cloud import cloud


@pytest.fixture
def credentials(tmp_path):
    file = tmp_path / "credentials"
    file.write_text("admin\npassword\n")
    file.chmod(0o600)
    return file


def exported(url, credentials, *more):
    place = str(credentials.with_name("out"))
    words = ["export", "--couchdb", url, "--credentials", str(credentials), "-o", place, *more]
    result = CliRunner().invoke(cloud, words)
    return result.exit_code, result.output


def test_a_port_beyond_the_range_is_refused_before_anything_is_made(credentials):
    words = ["receive", "--couchdb", "http://a", "--credentials", str(credentials), "--port", "80000"]
    result = CliRunner().invoke(cloud, words)
    assert (result.exit_code, "80000 is not in the range" in result.output) == (2, True)


def test_wrong_options_are_named(credentials, own_port):
    status, output = exported("http://admin:secret@10.0.0.5:5984", credentials)
    assert (status, "--couchdb" in output, "secret" in output) == (2, True, False)
    assert exported("http://10.0.0.5", credentials, "--prefix", "9")[0] == 2
    status, output = exported(f"http://127.0.0.1:{own_port}", credentials)
    assert (status, f"http://127.0.0.1:{own_port}: no answer" in output) == (3, True)
    assert "Connection refused" in output
    status, output = exported(f"https://127.0.0.1:{own_port}", credentials)
    assert (status, f"without TLS, its address is http://127.0.0.1:{own_port}" in output) == (3, True)
    credentials.chmod(0o644)
    status, output = exported("http://10.0.0.5", credentials)
    assert (status, "chmod 600" in output) == (1, True)
    credentials.chmod(0o600)
    credentials.write_text(os.linesep)
    status, output = exported("http://10.0.0.5", credentials)
    assert (status, "two lines" in output) == (1, True)
