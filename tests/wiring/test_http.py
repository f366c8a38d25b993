"""The front door as configured: what can not be, what may change meanwhile, and a certificate at work."""

import asyncio
import shutil

from growd.access.origins import OriginGuard
from growd.config import load
from growd.config.web import Tls
from growd.runtime.liveness import Liveness
from growd.server.client_limits import ClientLimits, Clients
from growd.server.errors import CertificateError
from growd.wiring.http import certified, offer_reloads
from growd.wiring.reload import Reloader
from support.daemon import serving
from support.raw_http import raw_client
from support.tls_door import TLS, client_context

NODES = b"GET /_svc/api/0.0.1/node HTTP/1.1\r\nHost: %b\r\n\r\n"


async def test_names_and_proxies_change_while_it_runs():
    config, clients = load(None), Clients()
    settings = ()
    reloader = Reloader(config, lambda: load(None, settings))
    async with serving(clients=clients) as daemon:
        offer_reloads(reloader, daemon.server.guard, clients)
        for host, status in ((b"farm.example", 421), (b"farm.example", 200)):
            async with raw_client(daemon.port) as client:
                await client.send(NODES % host)
                assert (await client.answer()).status == status
            settings = ('http.hosts=["farm.example"]', 'http.trusted_proxies=["192.0.2.1"]')
            await reloader.reload()
    assert clients.limits == ClientLimits(proxies=("192.0.2.1",))
    assert isinstance(daemon.server.guard, OriginGuard)


async def test_a_certificate_is_shown_as_configured_and_a_bad_one_stops_the_start(tmp_path, said):
    key = tmp_path / "server.key"
    shutil.copyfile(TLS / "server.key", key)
    key.chmod(0o600)
    section = Tls(certificate=str(TLS / "server.pem"), key=str(key))
    context = await asyncio.to_thread(client_context)
    for options, scheme in ((section, "https"), (Tls(), "http")):
        async with certified(options, Liveness()) as certificate, serving(certificate=certificate) as daemon:
            assert daemon.server.scheme == scheme
            client_tls = context if scheme == "https" else None
            async with raw_client(daemon.port, context=client_tls) as client:
                await client.send(NODES % b"localhost")
                assert (await client.answer()).status == 200
    with said.raises(CertificateError):
        async with certified(Tls(certificate=str(tmp_path / "none"), key="x"), Liveness()):
            pass
