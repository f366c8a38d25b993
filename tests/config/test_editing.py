"""Changes of options in the text of a configuration."""

from __future__ import annotations

import tomllib

import pytest

from growd.config import ConfigError
from growd.config.editing import with_texts

OWN = """# my chamber
[http]
port = 5984  # as ever

[replication]  # to the farm
# url = "http://commented.example"
points = "up"
url = "http://old.example"   # of last year
environments = ["a"]

[[sensor]]
name = "scd30_1"
url = "http://not.this.one"
"""


def test_present_options_are_replaced_and_missing_ones_added_with_all_comments_kept():
    changed = with_texts(OWN, "replication", {"url": "https://new.example", "group": 'a "b" \\ c'})
    assert changed == OWN.replace('"http://old.example"   #', '"https://new.example"   #').replace(
        "# to the farm\n", '# to the farm\ngroup = "a \\"b\\" \\\\ c"\n'
    )


@pytest.mark.parametrize("text", ["", "[http]\nport = 1", "[http]\nport = 1\n", "# [replication]\n"])
def test_a_missing_section_is_added_at_the_end(text: str):
    changed = with_texts(text, "replication", {"url": "https://new.example"})
    assert changed.startswith(text)
    assert changed.endswith('\n[replication]\nurl = "https://new.example"\n')
    assert tomllib.loads(changed) == tomllib.loads(text) | {"replication": {"url": "https://new.example"}}


@pytest.mark.parametrize(
    "text",
    [
        'replication.url = "x"\n',
        'replication = {url = "x"}\n',
        '[replication]\nurl = """x\ny"""\n',
        '[replication]\n"url" = "x"\n',
    ],
)
def test_a_section_in_another_form_is_left_to_its_owner_with_the_lines_to_write(text: str):
    with pytest.raises(ConfigError, match=r'set there by hand:\n  url = "https://new'):
        with_texts(text, "replication", {"url": "https://new.example"})


def test_text_that_is_not_toml_is_refused():
    with pytest.raises(ConfigError, match="is not TOML"):
        with_texts("[replication\n", "replication", {"url": "x"})


def test_the_last_line_may_lack_its_end():
    changed = with_texts('[replication]\nurl = "x"', "replication", {"url": "y", "group": "g"})
    assert tomllib.loads(changed) == {"replication": {"url": "y", "group": "g"}}
    assert tomllib.loads(with_texts("[replication]", "replication", {"url": "y"}))
