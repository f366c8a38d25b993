"""What importing the daemon leaves behind in the process."""

import os

from growd_cli.memory import saving_memory


def test_memory_is_saved_without_a_trace_in_the_environment(monkeypatch):
    monkeypatch.delenv("FROZENLIST_NO_EXTENSIONS", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with saving_memory():
        assert os.environ["SSL_CERT_FILE"] == os.devnull
    assert {"SSL_CERT_FILE", "FROZENLIST_NO_EXTENSIONS"} & os.environ.keys() == set()
    monkeypatch.setenv("SSL_CERT_FILE", "ours")
    with saving_memory(trusts_all=True):
        assert os.environ["SSL_CERT_FILE"] == "ours"
    with saving_memory():
        pass
    assert os.environ["SSL_CERT_FILE"] == "ours"
