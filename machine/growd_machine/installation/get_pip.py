"""Fetch the pip that a lock file names, for a Python that came without one.

    get_pip.py LOCK FOLDER

Puts the wheel into the folder and prints its path. Needs the standard library alone. The index is the one
that pip's own settings name (PIP_INDEX_URL, pip.conf), else the Python Package Index; it is read in the HTML
form of PEP 503, which every index has. It is not trusted: the file must have one of the lock's hashes.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import html.parser
import http.client
import os
import re
import ssl
import sys
import urllib.parse
import urllib.request
from pathlib import Path

PYPI = "https://pypi.org/simple"
TIMEOUT = 60.0  # seconds without an answer


class GetPipError(RuntimeError):
    """No pip for a reason that the user can do something about."""


class LinkParser(html.parser.HTMLParser):
    """Collects the targets of links."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value for name, value in attrs if tag == "a" and name == "href" and value]


def main(lock: Path, folder: Path) -> None:
    try:
        print(fetch_pip(lock, folder))  # noqa: T201 - the shell script that calls this reads it
    except (OSError, ValueError, http.client.HTTPException, configparser.Error, GetPipError) as error:
        sys.exit(str(getattr(error, "reason", error)))


def fetch_pip(lock: Path, folder: Path) -> Path:
    """The path of the wheel, fetched and checked; GetPipError, or what the network, disk or URL raises."""
    version, hashes = locked_pip(lock.read_text(encoding="utf-8"))
    name = f"pip-{version}-py3-none-any.whl"
    content = download(find_link(index_url() + "/pip/", name))
    if hashlib.sha256(content).hexdigest() not in hashes:
        raise GetPipError(f"what the index has as {name} is not the file that {lock.name} names")
    wheel = folder / name
    wheel.write_bytes(content)
    return wheel


def locked_pip(lock: str) -> tuple[str, set[str]]:
    entry = re.search(r"^pip==(\S+)((?:\s+\\?\s*--hash=sha256:\w+)+)", lock, re.MULTILINE)
    if entry is None:
        raise GetPipError("the lock file names no pip")
    return entry[1], set(re.findall(r"sha256:(\w+)", entry[2]))


def index_url() -> str:
    return (os.environ.get("PIP_INDEX_URL") or setting("index-url") or PYPI).rstrip("/")


def setting(name: str) -> str | None:
    """What pip.conf says, the user's before the machine's; pip's documentation, "Configuration"."""
    config = configparser.RawConfigParser()
    user = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - without HOME too
    config.read(
        [
            "/etc/xdg/pip/pip.conf",
            "/etc/pip.conf",
            os.path.expanduser("~/.pip/pip.conf"),  # noqa: PTH111
            f"{user}/pip/pip.conf",
            os.environ.get("PIP_CONFIG_FILE", ""),
        ]
    )
    return config.get("install", name, fallback=None) or config.get("global", name, fallback=None)


def find_link(page: str, name: str) -> str:
    parser = LinkParser()
    parser.feed(download(page).decode("utf-8", "replace"))
    for target in parser.targets:
        link = urllib.parse.urljoin(page, target)
        if urllib.parse.urlsplit(link).path.endswith("/" + name):
            return link
    raise GetPipError(f"{without_login(page)[0]} does not have {name}")


def download(address: str) -> bytes:
    plain, login = without_login(address)
    request = urllib.request.Request(plain)  # noqa: S310 - the scheme is the user's choice, as with pip
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or setting("cert"))
    with urllib.request.urlopen(request, timeout=TIMEOUT, context=context) as answer:  # noqa: S310 - as above
        content: bytes = answer.read()
    return content


def without_login(address: str) -> tuple[str, str]:
    """The address without `user:password@`, which urllib does not understand, and that login."""
    parts = urllib.parse.urlsplit(address)
    login, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=host).geturl(), urllib.parse.unquote(login)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
