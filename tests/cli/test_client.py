"""The client of the commands: address, login, errors."""

import asyncio
import base64
import os
import pty
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from growd.config import Http
from growd_cli.client import address_of
from growd_cli.options import DaemonOptions
from growd_client.address import Login
from growd_client.connection import DaemonClient
from growd_client.errors import NotReachedError, UsageError
from growd_client.trust import trusting_only
from support.daemon import CO2, START
from support.http_server import serving_http
from support.processes import Ending
from support.program import GROWD
from support.stand_in import StandIn
from support.terminal import typed
from support.tls_door import CA_FILE, TLS, tls_door_to


@pytest.mark.parametrize(
    ("http", "url", "address"),
    [
        (Http(), None, "http://127.0.0.1:5984/_svc"),
        (Http(host="0.0.0.0", port=80, name="openag"), None, "http://127.0.0.1/_openag"),  # noqa: S104
        (Http(host="::"), None, "http://[::1]:5984/_svc"),
        (Http(), "https://chamber/", "https://chamber/_svc"),
        (Http(), "https://chamber/growd/_svc", "https://chamber/growd/_svc"),
        (Http(), "127.0.0.1:7301", "http://127.0.0.1:7301/_svc"),
        (Http(), "chamber", "http://chamber/_svc"),
    ],
)
def test_the_address_of_the_daemon(http, url, address):
    assert str(address_of(http, url)) == address


def test_invalid_addresses_are_refused(said):
    for http, url in (
        (Http(port=0), None),
        (Http(), "ftp://chamber:5984"),
        (Http(), "http://chamber:port"),
        (Http(), ""),
        (Http(), "http://chamber:0"),
        (Http(), "http://farm..example"),
        (Http(), f"http://{'a' * 64}.example"),
    ):
        with said.raises(UsageError):
            address_of(http, url)


def test_a_login_is_never_shown():
    for url in ("http://bob:s%40crit@", "bob:s%40crit@chamber:port", "ftp://bob:s%40crit@c"):
        with pytest.raises(UsageError) as refused:
            address_of(Http(), url)
        assert "crit" not in str(refused.value)
    address = address_of(Http(), "http://bob:s%40crit@chamber:1")
    assert address.login == Login("bob", "s@crit")
    assert "crit" not in f"{address} {address!r} {address.root} {address.login!r}"


def header(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@asynccontextmanager
async def guarded(*, allowed=None, status=401):
    """A server that accepts only that header, and the headers it received."""
    seen = []

    async def answer(request):
        seen.append(request.headers.get("Authorization", ""))
        if seen[-1] == allowed:
            return web.json_response({"results": ["a"]})
        sentence = "a login that may read is needed"
        error = {"ERROR": sentence, "error": "unauthorized", "reason": sentence}
        return web.json_response(error, status=status)

    async with serving_http(answer) as url:
        yield url.removeprefix("http://"), seen


async def test_a_login_comes_from_options_the_environment_or_the_address(tmp_path):
    file = tmp_path / "password"
    file.write_text("from a file\nand no more\n")
    async with guarded() as (place, seen):
        url = f"http://{place}"
        await typed("node", "list", "--url", url)
        await typed("node", "list", "--url", url, GROWD_USER="eve", GROWD_PASSWORD="e")
        await typed("node", "list", "--url", f"http://bob:s%40crit@{place}", GROWD_USER="eve")
        await typed("node", "list", "--url", f"http://bob@{place}", GROWD_PASSWORD="p")
        await typed("node", "list", "--url", f"http://bob:b@{place}", "--user", "al", GROWD_PASSWORD="p")
        await typed("node", "list", "--url", url, "--user", "al", "--password-file", str(file))
    assert seen == [
        "",
        header("eve", "e"),
        header("bob", "s@crit"),
        header("bob", "p"),
        header("al", "p"),
        header("al", "from a file"),
    ]


async def test_a_missing_login_has_its_own_exit_status(said):
    for status, user, words in (
        (401, "", ("node", "list")),
        (401, "bob:secret@", ("topic", "echo", CO2)),
        (403, "bob:secret@", ("status",)),
    ):
        async with guarded(status=status) as (place, _):
            printed = await typed(*words, "--url", f"http://{user}{place}")
        assert (printed.status, printed.out, "secret" in printed.err) == (4, "", False)
        said(printed.err)


async def test_a_missing_password_without_a_terminal_is_a_usage_error(tmp_path, said):
    for file in ((), ("--password-file", str(tmp_path / "none"))):
        printed = await typed("node", "list", "--user", "bob", *file)
        assert printed.status == 2
        said(printed.err)


async def test_a_password_is_prompted_for_and_not_echoed():
    async with guarded(allowed=header("bob", "secret")) as (place, _):
        shown = await asyncio.to_thread(
            on_a_terminal, ["node", "list", "--user", "bob", "--url", f"http://{place}"]
        )
    assert "Password for bob: " in shown
    assert "secret" not in shown
    assert shown.splitlines()[-1] == "a"


def on_a_terminal(arguments):
    """The terminal output of a command, with "secret" typed at the prompt."""
    ours, theirs = pty.openpty()
    command = [str(GROWD), *arguments]
    with Ending(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True):
        os.close(theirs)
        shown, has_typed = b"", False
        try:
            while data := os.read(ours, 4096):
                shown += data
                if b": " in shown and not has_typed:
                    os.write(ours, b"secret\n")
                    has_typed = True
        except OSError:
            pass  # the program has left the terminal
        finally:
            os.close(ours)
    return shown.decode()


async def test_https_needs_a_trusted_certificate(daemon, said):
    async with tls_door_to(daemon.port) as port:
        url = ("--url", f"https://localhost:{port}")
        trusted = await typed("node", "list", *url, "--ca", str(CA_FILE))
        assert (trusted.status, trusted.err) == (0, "")
        assert "recipe_runner" in trusted.out.splitlines()
        assert (await typed("node", "list", *url, "--insecure")).out == trusted.out
        for refusing in (port, daemon.port):  # the second one does not speak TLS
            printed = await typed("node", "list", "--url", f"https://localhost:{refusing}")
            assert printed.status == 3
            said(printed.err)


async def test_the_certificate_of_the_configuration_is_trusted(daemon, tmp_path, said):
    file = tmp_path / "chain.pem"
    file.write_text((TLS / "server.pem").read_text() + CA_FILE.read_text())
    async with tls_door_to(daemon.port) as port:
        files = [f"tls.certificate={file}", f"tls.key={TLS}/server.key"]
        settings = [*files, f"http.port={port}", "http.host=0.0.0.0", "http.access=open"]
        arguments = [word for setting in settings for word in ("--set", setting)]
        printed = await typed("node", "list", *arguments)
        assert (printed.status, printed.err) == (0, "")
        assert "recipe_runner" in printed.out.splitlines()
        file.unlink()
        printed = await typed("node", "list", *arguments)
    assert printed.status == 2
    said(printed.err)


def test_only_a_certificate_of_a_file_is_pinned_without_its_authority(tmp_path):
    options = DaemonOptions(settings=("tls.certificate=server.pem", "tls.key=server.key"))
    context = options.tls(options.address())  # a credential of systemd
    assert context.check_hostname
    file = tmp_path / "chain.pem"
    file.write_text((TLS / "server.pem").read_text() + CA_FILE.read_text())
    assert trusting_only(file).cert_store_stats()["x509"] == 1


async def test_a_file_without_certificates_is_a_usage_error(tmp_path):
    file = tmp_path / "ca.pem"
    for why in ("No such file or directory", "it contains no certificate"):
        printed = await typed("node", "list", "--url", "https://localhost", "--ca", str(file))
        assert (printed.status, printed.err) == (2, f"growd: --ca {file} can't be read: {why}\n")
        file.write_text("none")


async def asked(client, *arguments, **options):
    return await asyncio.to_thread(client.get, *arguments, kind=dict, **options)


async def test_one_connection_is_reused(daemon):
    with DaemonOptions(url=daemon.origin).client() as client:
        await asked(client, "node")
        await asked(client, "topic", CO2)
        assert daemon.server.connections == 1


EMPTY_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


async def test_a_closed_connection_is_opened_again():
    async def answer_once(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(EMPTY_ANSWER)
        writer.close()

    async with StandIn(answer_once) as server:
        with DaemonClient(address_of(Http(), server.url)) as client:
            assert [await asked(client, "node") for _ in range(2)] == [{}, {}]
    assert server.connections == 2


@pytest.mark.parametrize("is_reused", [True, False])
async def test_a_change_is_sent_once(*, is_reused):
    """Also if the daemon disconnects before it answers: it may have made the change."""
    came = []

    async def answer_once(reader, writer):
        came.append(await reader.readuntil(b"\r\n\r\n"))
        if came[-1].startswith(b"GET"):
            writer.write(EMPTY_ANSWER)
            came.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with StandIn(answer_once) as server:
        with DaemonClient(address_of(Http(), server.url)) as client:
            if is_reused:
                await asked(client, "node")
            with pytest.raises(NotReachedError, match="is growd running"):
                await asyncio.to_thread(client.post, "service", START, {}, kind=dict)
    assert [request.partition(b" ")[0] for request in came if b"POST" in request] == [b"POST"]


@asynccontextmanager
async def answering(head, body, *, pause_s=0.0):
    """The address of another server than growd, with an endless answer."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 " + head + b"\r\n\r\n")
        with suppress(ConnectionError):
            while body:
                writer.write(body)
                await writer.drain()
                await asyncio.sleep(pause_s)
        writer.close()

    async with StandIn(answer) as server:
        yield server.url


@pytest.mark.parametrize(
    ("head", "body", "words"),
    [
        (b"200 OK", b"x" * 50_000, "the answer of http.* is longer than 64 MiB"),
        (b"200 OK", b"x", r"within 0\.5 s"),
        (b"100 Continue", b"HTTP/1.1 100 Continue\r\n\r\n", r"within 0\.5 s"),
    ],
)
async def test_answers_are_limited_in_size_and_time(monkeypatch, head, body, words):
    monkeypatch.setattr("growd_client.connection.ANSWER_BYTES", 100_000)
    is_long = len(body) > 100
    async with answering(head, body, pause_s=0.0 if is_long else 0.05) as url:
        with (
            DaemonClient(address_of(Http(), url), timeout_s=10.0 if is_long else 0.5) as client,
            pytest.raises(NotReachedError, match=words),
        ):
            await asked(client, "node")


async def test_control_characters_in_answers_are_escaped():
    refusal = b'{"ERROR": "\\u001b[2Jgone"}'
    async with answering(b"400 Bad\r\nContent-Length: %d" % len(refusal), refusal) as url:
        printed = await typed("node", "list", "--url", url)
    assert (printed.status, printed.err) == (1, "growd: \\x1b[2Jgone\n")


async def test_arguments_other_than_utf_8_are_usage_errors(daemon):
    for words in (
        ("topic", "info", "caf\udce9"),
        ("topic", "pub", CO2, "caf\udce9"),
        ("param", "set", "mine", '"\\ud800"'),
        ("node", "list", "--user", "caf\udce9"),
    ):
        printed = await typed(*words, "--url", daemon.origin, GROWD_PASSWORD="x")
        assert (printed.status, printed.err) == (2, "growd: an argument is not UTF-8\n")


@pytest.mark.parametrize(
    ("output", "status", "error"),
    [("/dev/full", 1, "growd: can't write the output: No space left on device\n"), ("&-", 0, "")],
)
async def test_a_failing_output_is_reported(daemon, output, status, error):
    command = f'"{GROWD}" node list --url {daemon.origin} >{output}'
    process = await asyncio.create_subprocess_shell(command, stderr=asyncio.subprocess.PIPE)
    _, reported = await process.communicate()
    assert (process.returncode, reported.decode()) == (status, error)
