"""An Apache CouchDB that a test starts, from the folder in GROWD_TEST_COUCHDB_HOME."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

HOME = "GROWD_TEST_COUCHDB_HOME"
"""The variable with the folder of a release, such as /opt/couchdb; it is only read."""


def couchdb_home():
    """The folder; skips the test without one."""
    folder = os.environ.get(HOME)
    if not folder:
        pytest.skip(f"{HOME} names no folder with a CouchDB, such as /opt/couchdb")
    return Path(folder)


@contextlib.contextmanager
def couchdb_process(folder, settings, port):
    """Run CouchDB with the settings of some files, with its data in `folder`, and end it."""
    home = couchdb_home()
    last = folder / "last.ini"
    last.write_text(
        f"[couchdb]\ndatabase_dir = {folder}/data\nview_index_dir = {folder}/data\n"
        f"[smoosh]\nstate_dir = {folder}\n[chttpd]\nport = {port}\n"
    )
    (folder / "vm.args").write_text("-kernel error_logger silent\n+Bd -noinput\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [home / "bin/couchdb"],
            env=os.environ
            | {
                "COUCHDB_INI_FILES": " ".join(map(str, [home / "etc/default.ini", *settings, last])),
                "COUCHDB_ARGS_FILE": str(folder / "vm.args"),
                "HOME": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()  # a stop in the first seconds takes most of a minute
        process.wait()
