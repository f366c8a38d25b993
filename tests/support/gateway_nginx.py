"""A real nginx with the project's configuration, on ports and paths of the test's own."""

import asyncio
import shutil
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

from support.ports import held_port
from support.processes import Ending

CONFIGURATION = Path(__file__).parents[2] / "couchdb" / "nginx.conf"

# As Debian's nginx.conf has it, but in the foreground, by any user, and with all files in one folder.
_MAIN = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    gzip on;
    gzip_types application/json text/plain;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/growd.conf;
}}
"""


def nginx_binary():
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@asynccontextmanager
async def nginx_to(folder, *, database=None, growd=None):
    """The port of an nginx in front of a database and a growd on these ports; who has none is away."""
    with held_port() as port, held_port() as away:
        text = CONFIGURATION.read_text()
        for address, own in (
            ("127.0.0.1:5984", port),
            ("127.0.0.1:5985", database or away),
            ("127.0.0.1:5983", growd or away),
        ):
            assert f" {address};" in text
            text = text.replace(f" {address};", f" 127.0.0.1:{own};")
        (folder / "growd.conf").write_text(text)
        (folder / "nginx.conf").write_text(_MAIN.format(folder=folder))
        with _start(folder) as process:
            try:
                await _listens(process, port)
                yield port
            finally:
                process.terminate()


def _start(folder):
    binary = nginx_binary()
    assert binary is not None
    command = [binary, "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
    return Ending(command, stderr=subprocess.PIPE, text=True)


async def _listens(process, port):
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            assert process.poll() is None, process.communicate()[1]
            await asyncio.sleep(0.01)  # polls for its port: nginx tells nobody when it listens
        else:
            writer.close()
            await writer.wait_closed()
            return
