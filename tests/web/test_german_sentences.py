"""Each sentence of growd that has a code, and each remedy, has a German one in the page."""

import ast
import re
from pathlib import Path

import growd.control.errors as control_errors
import growd.status.notices
import growd_drivers.errors as driver_errors
from growd.runtime.sentence import of_error
from support.checkout import ROOT

GERMAN = {
    key
    for name in ("frame", "views")
    for key in re.findall(
        r'(?m)^ +"?([\w-]+)"?: "', (ROOT / f"page/texts/de/{name}.js").read_text(encoding="utf-8")
    )
}
NOTICES = Path(growd.status.notices.__file__)


def sentences():
    """The codes of all sentences in the source, and of those with a remedy."""
    for path in ROOT.glob("*/growd*/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            keywords = {each.arg: each.value for each in node.keywords}
            if is_sentence(node):
                yield "said", pattern(node.args[1])
            elif "remedy" in keywords and node.args and is_sentence(node.args[0]):
                yield "remedy", pattern(node.args[0].args[1])
            elif path == NOTICES and "code" in keywords:
                for code in constants(keywords["code"]):
                    yield "said", code
                    if "remedy" in keywords:
                        yield "remedy", code


def is_sentence(node):
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "Sentence" and len(node.args) > 1


def pattern(node):
    """A code as a regular expression; "" for one that is computed elsewhere."""
    if isinstance(node, ast.JoinedStr):
        return "".join(each.value if isinstance(each, ast.Constant) else r"\w+" for each in node.values)
    return node.value if isinstance(node, ast.Constant) else ""


def constants(node):
    """A code of a notice, or all that are assigned to the variable `code`."""
    if isinstance(node, ast.Constant):
        return [node.value]
    assigned = [
        (target, value)
        for each in ast.walk(ast.parse(NOTICES.read_text(encoding="utf-8")))
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Tuple)
        for target, value in zip(each.targets[0].elts, each.value.elts, strict=True)
    ]
    is_code = ast.unparse(node) == "code"
    return [pattern(value) for target, value in assigned if is_code and ast.unparse(target) == "code"]


def is_german(kind, code):
    """Of an error, the page has a sentence with its device; of a hint, only a remedy."""
    forms = [f"{kind}_{code}", f"said_device_{code}", f"remedy_{code}"][: 3 if kind == "said" else 1]
    return any(re.fullmatch(form, key) for form in forms for key in GERMAN)


def test_each_sentence_and_each_remedy_has_a_german_one():
    found = {each for each in sentences() if each[1]}
    assert ("remedy", "line_unusable") in found
    assert [each for each in sorted(found) if not is_german(*each)] == []


def test_each_error_of_a_device_has_a_german_sentence():
    named = {*vars(driver_errors), *vars(control_errors)} - {"DriverError", "ControlError"}
    names = [name for name in named if name.endswith("Error")]
    codes = {of_error(type(name, (Exception,), {})()).code.removeprefix("device_") for name in names}
    assert "missing" in codes
    assert [code for code in sorted(codes) if not is_german("said", f"device_{code}")] == []
