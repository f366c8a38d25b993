"""Changes of options in the text of a configuration."""

import tomllib

import pytest

from growd.config import ConfigError
from growd_machine.setup.editing import with_entry, with_texts

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
def test_a_missing_section_is_added_at_the_end(text):
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
def test_a_section_in_another_form_is_left_to_its_owner_with_the_lines_to_write(text):
    with pytest.raises(ConfigError, match=r'set there by hand:\n  url = "https://new'):
        with_texts(text, "replication", {"url": "https://new.example"})


def test_the_last_line_may_lack_its_end_and_text_that_is_not_toml_is_refused():
    changed = with_texts('[replication]\nurl = "x"', "replication", {"url": "y", "group": "g"})
    assert tomllib.loads(changed) == {"replication": {"url": "y", "group": "g"}}
    assert tomllib.loads(with_texts("[replication]", "replication", {"url": "y"}))
    with pytest.raises(ConfigError, match="is not TOML"):
        with_texts("[replication\n", "replication", {"url": "x"})


CHAMBER = """\
# My chamber.
[simulator]
enabled = true

# Over the door.
[[sensor]]
name = "air"   # the white one
kind = "scd30"

# The exhaust fan.
[[output]]
name = "fan"
pin = 24
variable = "air_flush_on"

# In the lamp.
[[sensor]]
name = "light"
kind = "bh1750"
"""


def test_an_entry_is_added_behind_those_of_its_list():
    changed = with_entry(CHAMBER, ("sensor",), "", {"name": "b", "kind": "sht4x", "address": 0x45})
    assert changed == f'{CHAMBER}\n[[sensor]]\nname = "b"\nkind = "sht4x"\naddress = 0x45\n'
    changed = with_entry(CHAMBER, ("output",), "", {"name": "heater", "pin": 25})
    assert '\n[[output]]\nname = "heater"\npin = 25\n\n# In the lamp.\n[[sensor]]\n' in changed


def test_an_entry_is_renamed_or_removed_and_all_else_stays():
    assert with_entry(CHAMBER, ("sensor",), "air", {"name": "top"}) == CHAMBER.replace('"air"', '"top"')
    changed = with_entry(CHAMBER, ("output",), "fan", None)
    assert tomllib.loads(changed)["sensor"] == tomllib.loads(CHAMBER)["sensor"]
    assert "output" not in tomllib.loads(changed)
    assert "# In the lamp.\n[[sensor]]" in changed
    with pytest.raises(ConfigError, match="no entry named 'nothing'"):
        with_entry(CHAMBER, ("sensor",), "nothing", {"name": "b"})


def test_the_last_sensor_leaves_an_empty_list_which_the_next_one_replaces():
    text = '# One sensor.\n[[sensor]]\nname = "a"\nkind = "scd30"\n'
    empty = with_entry(text, ("sensor",), "a", None)
    assert tomllib.loads(empty) == {"sensor": []}
    assert (
        with_entry(empty, ("sensor",), "", {"name": "a", "kind": "scd30"}) == f"# One sensor.\n\n{text[14:]}"
    )


def test_an_entry_of_a_further_chamber_is_added_and_removed():
    path = ("chamber", "shelf_2", "sensor")
    text = f"{CHAMBER}\n[chamber.shelf_2.light]\nkind = 'relay'\n"
    changed = with_entry(text, path, "", {"name": "a", "kind": "scd30"})
    assert tomllib.loads(changed)["chamber"]["shelf_2"]["sensor"] == [{"name": "a", "kind": "scd30"}]
    assert tomllib.loads(with_entry(changed, path, "a", None)) == tomllib.loads(text)


@pytest.mark.parametrize("name", ["air", ""])
def test_entries_in_one_line_are_left_to_the_user(name):
    with pytest.raises(ConfigError, match="by hand"):
        with_entry('sensor = [{ name = "air", kind = "scd30" }]\n', ("sensor",), name, {"name": "b"})
