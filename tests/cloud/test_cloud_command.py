"""`growd cloud prepare`, and the options that it shares with `receive`."""

import asyncio
import os
import secrets

import pytest
from click.testing import CliRunner

from growd_cli.cloud import cloud
from support.cloud import ADDRESS, needs_cloud
from support.couch_client import client_of
from support.database import named_server


@pytest.fixture
def credentials(tmp_path):
    file = tmp_path / "credentials"
    user, password = (named_server(ADDRESS).auth if ADDRESS else None) or ("admin", "password")
    file.write_text(f"{user}\n{password}\n")
    file.chmod(0o600)
    return file


def prepared(url, credentials, *more):
    words = ["prepare", "--couchdb", url, "--credentials", str(credentials), *more]
    result = CliRunner().invoke(cloud, words)
    return result.exit_code, result.output


@needs_cloud
def test_prepare_makes_what_is_missing_once(credentials):
    server, prefix = named_server(ADDRESS or ""), f"t{secrets.token_hex(4)}_"
    try:
        status, output = prepared(server.url, credentials, "--prefix", prefix)
        assert (status, output.count(prefix)) == (0, 9)
        assert f"{prefix}devices" in output
        assert prepared(server.url, credentials, "--prefix", prefix) == (0, "all databases exist\n")
    finally:
        asyncio.run(delete_all(prefix))


async def delete_all(prefix):
    server = named_server(ADDRESS or "")
    async with client_of(server.url, server.auth) as couch:
        for name in (await couch("GET", "/_all_dbs")).json:
            if name.startswith(prefix):
                await couch("DELETE", f"/{name}")


def test_a_port_beyond_the_range_is_refused_before_anything_is_made(credentials):
    words = [
        "receive",
        "--couchdb",
        "http://127.0.0.1:1",
        "--credentials",
        str(credentials),
        "--port",
        "80000",
    ]
    result = CliRunner().invoke(cloud, words)
    assert (result.exit_code, "80000 is not in the range" in result.output) == (2, True)


def test_wrong_options_are_named(credentials, own_port):
    status, output = prepared("http://admin:secret@10.0.0.5:5984", credentials)
    assert (status, "--couchdb" in output, "secret" in output) == (2, True, False)
    assert prepared("http://10.0.0.5", credentials, "--prefix", "9")[0] == 2
    status, output = prepared(f"http://127.0.0.1:{own_port}", credentials)
    assert (status, f"http://127.0.0.1:{own_port}: no answer" in output) == (3, True)
    assert "Connection refused" in output
    status, output = prepared(f"https://127.0.0.1:{own_port}", credentials)
    assert (status, f"without TLS, its address is http://127.0.0.1:{own_port}" in output) == (3, True)
    credentials.chmod(0o644)
    status, output = prepared("http://10.0.0.5", credentials)
    assert (status, "chmod 600" in output) == (1, True)
    credentials.chmod(0o600)
    credentials.write_text(os.linesep)
    status, output = prepared("http://10.0.0.5", credentials)
    assert (status, "two lines" in output) == (1, True)
