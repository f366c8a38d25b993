"""TLS at the front door: which certificates are taken, what clients get, and what becomes of strangers."""

import asyncio
import logging
import os
import shutil
import socket
import ssl
import subprocess
import warnings
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from growd.api.front_door import FrontDoor
from growd.config.web import Tls
from growd.server.client_limits import ClientLimits, Clients
from growd.server.connections import ConnectionFactory, ConnectionLimits
from growd.server.errors import CertificateError
from growd.server.tls import Certificate, read_pair
from support.clock import ManualClock
from support.daemon import CO2, open_connections, serving
from support.raw_http import raw_client
from support.tls_door import CA_FILE, TLS, client_context
from support.waiting import until

NODES = b"GET /_svc/api/0.0.1/node HTTP/1.1\r\nHost: localhost\r\n\r\n"
STREAM = b"GET /_svc/api/0.0.1/topic_stream/%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % CO2.encode()
NOW = 2_000_000_000.0  # 2033; the certificate expires at 2126
openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes other certificates")


class Files:
    """A certificate and its key in a folder."""

    def __init__(self, folder):
        self.certificate, self.key = folder / "server.pem", folder / "server.key"
        self.take(TLS / "server.pem", TLS / "server.key")

    def take(self, certificate, key):
        for new, file in ((certificate, self.certificate), (key, self.key)):
            beside = file.with_suffix(".new")  # replaced in one move, as those do who renew certificates
            beside.write_bytes(new.read_bytes())
            beside.chmod(0o600)
            beside.rename(file)

    @property
    def section(self):
        return Tls(certificate=str(self.certificate), key=str(self.key))


def made(folder, name):
    """Another pair, as openssl makes it."""
    pair = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-out", pair[0], "-keyout", pair[1], "-days", "36500",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return pair


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest_asyncio.fixture
async def certificate(files, clock):
    found = Certificate(files.section, clock)
    await found.open()
    return found


@pytest_asyncio.fixture
async def context():
    return await asyncio.to_thread(client_context)


async def served(port, context):
    """The certificate that a new connection gets."""
    async with raw_client(port, context=context) as client:
        await client.send(NODES)
        assert (await client.answer()).status == 200
        return client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)


class TestClients:
    async def test_they_get_answers_and_streams_and_their_own_pages_are_those_over_tls(
        self, certificate, context
    ):
        ask = NODES[:-2] + b"Origin: %b://localhost\r\n\r\n"
        async with (
            serving(certificate=certificate) as daemon,
            raw_client(daemon.port, context=context) as client,
        ):
            await client.send(NODES)
            assert (await client.answer()).status == 200
            assert client.writer.get_extra_info("ssl_object").version() == "TLSv1.3"
            await client.send(ask % b"https")
            assert (await client.answer()).status == 200
            async with raw_client(daemon.port, context=context) as other:
                await other.send(ask % b"http")
                assert (await other.answer()).status == 403
            await client.send(STREAM)
            await client.head()
            daemon.sensor[CO2].publish(400)
            assert b"400" in await anext(client.chunks())

    async def test_a_request_that_comes_with_the_last_of_the_handshake(self, certificate, context):
        async with serving(certificate=certificate) as daemon:
            for _ in range(20):
                async with raw_client(daemon.port, context=context) as client:
                    client.writer.write(NODES)
                    assert (await client.answer()).status == 200
            await until(lambda: daemon.server.connections == 0)

    async def test_one_that_reads_nothing_has_no_more_held_for_it_than_over_tcp(self, certificate, context):
        limits = []
        for shown, tls in ((None, None), (certificate, context)):
            async with serving(certificate=shown) as daemon, raw_client(daemon.port, context=tls) as client:
                await client.send(NODES)
                await client.answer()
                (connection,) = open_connections(daemon.server)
                limits.append(connection._transport.get_write_buffer_limits())
        assert limits[0] == limits[1]

    async def test_old_versions_are_refused(self, certificate, context):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is an old one
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        async with serving(certificate=certificate) as daemon:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                async with raw_client(daemon.port, context=context):
                    pass


class TestStrangers:
    @pytest.mark.parametrize(
        "said", [NODES, b"\0" * 300, b"SSH-2.0-x\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70_000]
    )
    async def test_what_is_no_tls_is_calmly_refused(self, certificate, context, said, caplog):
        caplog.set_level(logging.DEBUG)
        async with serving(certificate=certificate) as daemon:
            async with raw_client(daemon.port) as client:
                client.writer.write(said)
                await client.gone()
            await until(lambda: daemon.server.connections == 0)
            assert await served(daemon.port, context)
        told = [record for record in caplog.records if record.name.startswith(("growd.server", "asyncio"))]
        assert [record.levelname for record in told if record.name == "growd.server.connections"] == ["DEBUG"]
        assert all(record.levelno <= logging.DEBUG and not record.exc_info for record in told)

    async def test_who_says_nothing_is_let_go(self, files, clock, monkeypatch):
        monkeypatch.setattr("growd.server.connections.HANDSHAKE_S", 0.05)
        section = Tls(certificate=str(files.certificate), key=str(files.key))
        certificate = Certificate(section, clock)
        await certificate.open()
        async with serving(certificate=certificate) as daemon, raw_client(daemon.port) as client:
            await until(lambda: daemon.server.connections == 1)
            assert await client.reader.read() == b""
            await until(lambda: daemon.server.connections == 0)

    async def test_handshakes_count_and_make_way(self, certificate, context):
        async with serving(certificate=certificate) as daemon, AsyncExitStack() as stack:
            server = FrontDoor(
                daemon.api, daemon.database, ConnectionLimits(connections=3), daemon.server.guard
            )
            await server.open("127.0.0.1", 0, certificate=certificate)
            stack.push_async_callback(server.close)
            silent = [await stack.enter_async_context(raw_client(server.address[1])) for _ in range(3)]
            await until(lambda: server.connections == 3)
            assert await served(server.address[1], context)
            await silent[0].gone()
            await until(lambda: server.connections == 2)

    async def test_handshakes_count_for_their_client(self, certificate, context):
        clients = Clients(ClientLimits(connections=1), is_own=lambda _: False)
        async with (
            serving(certificate=certificate, clients=clients) as daemon,
            raw_client(daemon.port, context=context) as client,
        ):
            await client.send(STREAM)
            await client.head()
            async with raw_client(daemon.port) as more:
                await more.gone()

    async def test_handshakes_end_with_the_server(self, certificate):
        async with serving(certificate=certificate) as daemon:
            silent = socket.create_connection(("127.0.0.1", daemon.port))
            await until(lambda: daemon.server.connections == 1)
        silent.close()

    async def test_one_that_is_ended_before_it_began_is_closed(self, certificate, monkeypatch):
        own = ConnectionFactory.own

        def own_and_end(server, handshake):
            own(server, handshake)
            handshake.cancel()  # as `leave` does

        monkeypatch.setattr(ConnectionFactory, "own", own_and_end)
        async with serving(certificate=certificate) as daemon, raw_client(daemon.port) as client:
            await client.gone()
            await until(lambda: daemon.server.connections == 0)


class TestFiles:
    def refused(self, files):
        with pytest.raises(CertificateError) as told:
            read_pair(files.certificate, files.key)
        return str(told.value)

    def test_a_good_pair_whose_key_no_others_may_read(self, files):
        for mode in (0o600, 0o640):
            files.key.chmod(mode)
            pair = read_pair(files.certificate, files.key)
            assert pair.begins < NOW < pair.ends
        for mode in (0o644, 0o604, 0o660, 0o601):
            files.key.chmod(mode)
            assert f"[tls] key: {files.key} is open to others (mode {mode:04o})" in self.refused(files)

    def test_files_that_are_not_there(self, files):
        files.key.unlink()
        assert self.refused(files) == f"[tls] key: {files.key} can't be read: No such file or directory"
        files.certificate.unlink()
        assert self.refused(files).startswith(f"[tls] certificate: {files.certificate} can't be read")

    @pytest.mark.parametrize("name", ["certificate", "key"])
    def test_a_pipe_is_not_waited_for(self, files, name):
        pipe = getattr(files, name)
        pipe.unlink()
        os.mkfifo(pipe)
        assert self.refused(files) == f"[tls] {name}: {pipe} is not a regular file"

    @pytest.mark.parametrize("text", ["", "x", "-----BEGIN {0}-----\nAAAA\n-----END {0}-----\n"])
    def test_what_is_no_key_or_no_certificate(self, files, text):
        files.key.write_text(text.format("PRIVATE KEY"))
        assert f"[tls] key: {files.key}" in self.refused(files)
        files.certificate.write_text(text.format("CERTIFICATE"))
        assert self.refused(files) == f"[tls] certificate: {files.certificate} contains no certificate (PEM)"

    @openssl
    def test_a_key_of_another_certificate(self, files, tmp_path):
        files.take(TLS / "server.pem", made(tmp_path, "other")[1])
        assert self.refused(files) == f"[tls] key: {files.key} is not the key of the certificate"

    @openssl
    def test_a_key_with_a_password(self, files, tmp_path):
        locked = tmp_path / "locked.key"
        command = ["openssl", "pkcs8", "-topk8", "-in", files.key, "-out", locked, "-passout", "pass:x"]
        subprocess.run(command, check=True, capture_output=True)
        files.take(TLS / "server.pem", locked)
        assert "is protected by a password" in self.refused(files)


class TestTime:
    @pytest.mark.parametrize(
        ("offset", "said"), [(-3_153_600_000, "is not valid before 20"), (4 * 3_153_600_000, "expired at 21")]
    )
    async def test_a_certificate_out_of_date_is_complained_of_once_and_used(
        self, files, offset, said, caplog
    ):
        certificate = Certificate(files.section, ManualClock(NOW + offset))
        await certificate.open()
        await certificate.check()
        assert certificate.context
        (told,) = [record.message for record in caplog.records]
        assert said in told

    async def test_one_that_ends_soon(self, files, caplog):
        ends = (await asyncio.to_thread(read_pair, files.certificate, files.key)).ends
        clock = ManualClock(ends - 15 * 86_400)
        certificate = Certificate(files.section, clock)
        await certificate.open()
        assert caplog.records == []
        clock.step(2 * 86_400)
        await certificate.check()
        (told,) = [record.message for record in caplog.records]
        assert "expires at" in told


@openssl
class TestReplaced:
    async def test_new_connections_get_the_new_one_and_old_ones_go_on(
        self, files, clock, certificate, tmp_path
    ):
        pair = made(tmp_path, "second")
        expected = ssl.PEM_cert_to_DER_cert(await asyncio.to_thread(pair[0].read_text))
        context = await asyncio.to_thread(ssl.create_default_context, cafile=CA_FILE)
        await asyncio.to_thread(context.load_verify_locations, pair[0])
        async with (
            serving(certificate=certificate) as daemon,
            raw_client(daemon.port, context=context) as old,
        ):
            await old.send(NODES)
            assert (await old.answer()).status == 200
            assert await served(daemon.port, context) != expected
            first = certificate.context
            files.take(*pair)
            watching = asyncio.create_task(certificate.run(), name="certificate")
            await clock.settle()
            await clock.advance(30)
            await until(lambda: certificate.context is not first)
            assert await served(daemon.port, context) == expected
            await old.send(NODES)
            assert (await old.answer()).status == 200
            watching.cancel()
            await asyncio.wait([watching])

    async def test_between_two_replaced_files_nothing_is_said(self, files, certificate, tmp_path, caplog):
        pair, before = made(tmp_path, "second"), certificate.context
        files.take(pair[0], TLS / "server.key")
        await certificate.check()
        assert certificate.context is before
        files.take(*pair)
        await certificate.check()
        assert certificate.context is not before
        assert [record.message for record in caplog.records if record.levelno > logging.INFO] == []

    async def test_a_bad_one_is_told_of_once_and_when_it_is_asked_for_at_once(
        self, files, certificate, tmp_path, caplog
    ):
        before = certificate.context
        files.take(made(tmp_path, "second")[0], TLS / "server.key")
        for _ in range(4):
            await certificate.check()
        assert certificate.context is before
        (told,) = [record.message for record in caplog.records]
        assert told.endswith("is not the key of the certificate; keeping the previous certificate")
        files.key.unlink()
        await certificate.check(is_asked_for=True)
        assert "can't be read" in caplog.text


async def test_a_bare_name_is_one_of_systemds_credentials(tmp_path, clock, monkeypatch):
    Files(tmp_path)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    certificate = Certificate(Tls(certificate="server.pem", key="server.key"), clock)
    await certificate.open()
    assert certificate.context
