"""get_pip.py against a package index on a real socket."""

import base64
import hashlib
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from support.checkout import ROOT

WHEEL = b"the contents of a wheel"
NAME = "pip-26.3-py3-none-any.whl"
PAGE = f'<a href="pip-1.0.tar.gz">old</a><a href="../../files/{NAME}#sha256=0" data-x>{NAME}</a>'.encode()
OTHER_HASH = "0" * 64


class Index(ThreadingHTTPServer):
    """A package index with pip, which records logins."""

    daemon_threads = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Pages)
        self.files = {"/simple/pip/": PAGE, f"/files/{NAME}": WHEEL}
        self.logins = []

    @property
    def host(self):
        return f"127.0.0.1:{self.server_port}"


class Pages(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.logins.append(self.headers["Authorization"])
        content = self.server.files.get(self.path)
        self.send_response(404 if content is None else 200)
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_):
        pass


@contextmanager
def serving(index):
    thread = threading.Thread(target=index.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield index
    finally:
        index.shutdown()
        thread.join()
        index.server_close()


@pytest.fixture
def index():
    with serving(Index()) as index:
        yield index


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "build.lock"
    entry = ["pip==26.3 \\", f"    --hash=sha256:{OTHER_HASH} \\", f"    --hash=sha256:{digest(WHEEL)}", ""]
    path.write_text(
        "\n".join(["packaging==26.3 \\", f"    --hash=sha256:{OTHER_HASH}", *entry]), encoding="utf-8"
    )
    return path


def digest(content):
    return hashlib.sha256(content).hexdigest()


def get_pip(lock, **environment):
    command = [
        sys.executable,
        "-I",
        ROOT / "machine/growd_machine/installation/get_pip.py",
        lock,
        lock.parent,
    ]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


def test_the_wheel_of_the_lock_is_fetched_and_its_path_printed(index, lock):
    answer = get_pip(lock, PIP_INDEX_URL=f"http://{index.host}/simple/")
    wheel = lock.parent / NAME
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"{wheel}\n", "")
    assert wheel.read_bytes() == WHEEL


def test_the_index_is_that_of_pip_s_configuration(index, lock):
    settings = lock.parent / "pip.conf"
    settings.write_text(f"[global]\nindex-url = http://{index.host}/simple\n", encoding="utf-8")
    assert get_pip(lock, PIP_CONFIG_FILE=str(settings)).returncode == 0
    folder = lock.parent / "home" / ".config" / "pip"
    folder.mkdir(parents=True)
    settings.rename(folder / "pip.conf")
    assert get_pip(lock, HOME=str(lock.parent / "home")).returncode == 0


def test_the_login_in_the_address_is_sent_and_never_printed(index, lock):
    del index.files[f"/files/{NAME}"]
    failed = get_pip(lock, PIP_INDEX_URL=f"http://grower:p%40ss@{index.host}/simple")
    assert index.logins == ["Basic " + base64.b64encode(b"grower:p@ss").decode()] * 2
    assert failed.returncode == 1
    assert "p@ss" not in failed.stderr
    assert "p%40ss" not in failed.stderr


def test_a_file_with_another_hash_is_refused(index, lock):
    index.files[f"/files/{NAME}"] = b"something else"
    refused = get_pip(lock, PIP_INDEX_URL=f"http://{index.host}/simple")
    assert refused.returncode == 1
    assert refused.stderr == f"what the index has as {NAME} is not the file that build.lock names\n"
    assert not (lock.parent / NAME).exists()


@pytest.mark.parametrize(
    ("page", "sentence"),
    [(b"<a href='pip-1.0.tar.gz'>old</a>", f"does not have {NAME}"), (None, "Not Found")],
)
def test_an_index_without_that_pip_is_an_error_of_one_line(index, lock, page, sentence):
    index.files["/simple/pip/"] = page
    assert_one_line(get_pip(lock, PIP_INDEX_URL=f"http://{index.host}/simple"), sentence)


def test_an_unreachable_index_and_a_lock_without_pip_are_errors_of_one_line(lock):
    for address in ("http://127.0.0.1:1/simple", "nowhere", "gopher://x/simple"):
        assert_one_line(get_pip(lock, PIP_INDEX_URL=address), "")
    lock.write_text("packaging==26.3\n", encoding="utf-8")
    assert_one_line(get_pip(lock), "the lock file names no pip")


def assert_one_line(failed, sentence):
    assert failed.returncode == 1
    assert len(failed.stderr.splitlines()) == 1
    assert sentence in failed.stderr
