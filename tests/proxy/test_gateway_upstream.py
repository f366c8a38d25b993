"""How the address of the database is read."""

import pytest

from growd.proxy.headers import origin_of


@pytest.mark.parametrize(
    ("base", "origin"),
    [
        ("http://127.0.0.1:5985", "http://127.0.0.1:5985"),
        ("http://127.0.0.1:5985/", "http://127.0.0.1:5985"),
        ("http://user:secret@farm.example/couch/", "http://farm.example:80/couch"),
        ("https://[::1]", "https://[::1]:443"),
    ],
)
def test_an_address_is_read(base, origin):
    assert origin_of(base) == origin


@pytest.mark.parametrize("base", ["", "127.0.0.1:5985", "ftp://h", "http://", "http://h:99999"])
def test_an_invalid_address_is_refused(base):
    with pytest.raises(ValueError, match=r"address|Port"):
        origin_of(base)
