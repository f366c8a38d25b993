"""docs/python-client.md and docs/clients.md describe the clients and the examples as they are."""

import inspect
import re

import growd_client
from growd_client import Growd
from support.checkout import ROOT

PAGE = ROOT / "docs" / "python-client.md"


def row(name):
    """The row of a method: the call without types, the type of its result, the summary."""
    method = getattr(Growd, name)
    signature = inspect.signature(method)
    plain = signature.replace(
        parameters=[
            each.replace(annotation=inspect.Parameter.empty)
            for each in signature.parameters.values()
            if each.name != "self"
        ],
        return_annotation=inspect.Signature.empty,
    )
    summary = inspect.getdoc(method).partition("\n")[0]
    return f"| `{name}{plain}` | `{signature.return_annotation}` | {summary} |"


def test_the_table_has_every_method():
    names = [name for name in dir(Growd) if not name.startswith("_") and callable(getattr(Growd, name))]
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert sorted(each for each in rows if "(" in each.split("|")[1]) == sorted(row(name) for name in names)


def test_the_page_names_everything_public():
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in growd_client.__all__ if f"`{name}" not in page] == []


def test_everything_named_as_public_exists():
    imported = re.findall(r"from growd_client import ([A-Za-z, ]+)", PAGE.read_text(encoding="utf-8"))
    names = {name.strip() for names in imported for name in names.split(",")}
    assert names
    assert names <= {*growd_client.__all__}


def test_every_example_of_the_documentation_exists_and_is_tested():
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8").partition("\n## Examples\n")[2]
    names = re.findall(r"^\| \[.*\]\(examples/(.*)\) \|", page, re.MULTILINE)
    tests = (ROOT / "tests" / "client" / "test_examples.py").read_text(encoding="utf-8")
    assert len(names) >= 7
    assert [name for name in names if f'"{name}"' not in tests] == []
    assert [name for name in names if not (ROOT / "docs" / "examples" / name).is_file()] == []
