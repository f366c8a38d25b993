import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.bus.errors import InvalidNameError
from growd.bus.names import MAX_NAME, normalise


def test_a_leading_slash_makes_no_difference():
    for name in ("a", "environment_1/measured/air_humidity", "é/日本/a b", "a.b/..", "x" * MAX_NAME):
        assert normalise(name) == normalise("/" + name) == name


@pytest.mark.parametrize(
    ("reason", "names"),
    [
        ("empty", ["", "/"]),
        ("empty segment", ["//a", "a//b", "a/", "/a/"]),
        ("printed", ["a\nb", "a\x00", "\u202ea", "\ud800"]),
        ("longer than 255", ["x" * (MAX_NAME + 1)]),
    ],
)
def test_an_invalid_name_is_refused_with_its_reason(reason, names):
    for name in names:
        with pytest.raises(InvalidNameError, match=reason) as caught:
            normalise(name)
        assert caught.value.name == name
        sentence = str(caught.value)
        assert sentence.isprintable()
        assert len(sentence) < 200


@given(st.text(max_size=12))
def test_normalising_is_idempotent(text):
    try:
        name = normalise(text)
    except InvalidNameError:
        return
    assert all(name.split("/"))
    assert text in {name, "/" + name}
    assert normalise(name) == name
