"""`guard` of a CouchDB without receivers refuses what a receiver refuses, except for what is listed here."""

import json
import shutil
import subprocess

from growd.store.points import PointMaker
from growd_cloud.checks import RefusedDocumentError, check_document
from growd_cloud.months import EVENTS, POINTS
from support.checkout import ROOT

DEVICE = "0123456789ab"
GUARD = ROOT / "couchdb" / "cloud" / "design" / "guard.json"
# CouchDB's engine sees the function as an expression, and `throw` with an object is a refusal.
PROGRAM = """
const { source, user, updates } = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));
const guard = eval(`(${source})`);
const refusals = updates.map(([doc, stored]) => {
  try {
    guard(doc, stored, { name: user, roles: ['device'] });
    return null;
  } catch (refusal) {
    return refusal.forbidden ?? String(refusal);
  }
});
console.log(JSON.stringify(refusals));
"""
POINT = PointMaker(DEVICE).make("environment_1", "air_temperature", 21.5, 1_767_400_000.0).document()
EVENT = POINT | {"category": "note"}
FIRST, SECOND = f"1-{'a' * 32}", f"2-{'b' * 32}"
PHOTO = {"_attachments": {"photo-1.png": {"content_type": "image/png", "stub": True}}}


def by_guard(cases):
    """The refusals of `guard`, None where it lets a document pass. A second revision changes a stored one."""
    stored = POINT | {"_rev": FIRST}
    asked = {
        "source": json.loads(GUARD.read_text())["validate_doc_update"],
        "user": DEVICE,
        "updates": [(each, stored if each["_rev"] == SECOND else None) for _, each in cases],
    }
    node = shutil.which("node")
    assert node, "the functions of design documents need Node.js: ./test brings it"
    words, sent = [node, "-e", PROGRAM], json.dumps(asked)
    done = subprocess.run(words, input=sent, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def by_receiver(cases):
    """The refusals of a receiver."""
    return [refusal(series, document) for series, document in cases]


def refusal(series, document):
    try:
        check_document(series, document, DEVICE)
    except RefusedDocumentError as error:
        return str(error)
    return None


def revision_of(document, **members):
    return {"_rev": FIRST} | document | members


BOTH_STORE = [
    (POINTS, revision_of(POINT)),
    (POINTS, revision_of(POINT, is_desired=True, category="desired")),
    (POINTS, revision_of(POINT, value="recipe", note={"of": ["any", "kind"]})),
    (EVENTS, revision_of(EVENT)),
    (EVENTS, revision_of(EVENT, **PHOTO)),
]
BOTH_REFUSE = [
    (POINTS, revision_of(POINT, _id=PointMaker.new_device() + POINT["_id"][12:])),
    (POINTS, revision_of(POINT, _id=POINT["_id"][13:])),
    (POINTS, revision_of(POINT, _id=f"x{POINT['_id']}")),
    (POINTS, revision_of(POINT, _deleted=True)),
    (POINTS, revision_of(POINT, _rev=SECOND)),
    (EVENTS, revision_of(EVENT, _deleted=True)),
    (EVENTS, revision_of(EVENT, _id=PointMaker.new_device() + EVENT["_id"][12:])),
]
RECEIVER_REFUSES = [
    (POINTS, revision_of(POINT, _id=DEVICE)),
    (POINTS, revision_of(POINT, _id=f"{DEVICE}:1")),
    (POINTS, revision_of(POINT, _rev="1-a")),
    (POINTS, revision_of(POINT, environment="")),
    (POINTS, revision_of(POINT, variable=7)),
    (POINTS, revision_of(POINT, value=[1])),
    (POINTS, revision_of(POINT, timestamp="now")),
    (POINTS, revision_of(POINT, category="note")),
    (POINTS, revision_of(POINT, **PHOTO)),
    (EVENTS, revision_of(EVENT, category="measured")),
]
RECEIVER_STORES = [(EVENTS, revision_of(EVENT, _rev=SECOND, **PHOTO))]


def test_both_store_points_and_events():
    assert {*by_receiver(BOTH_STORE), *by_guard(BOTH_STORE)} == {None}


def test_both_refuse_foreign_ids_deletions_and_changed_points():
    receiver, guard = by_receiver(BOTH_REFUSE), by_guard(BOTH_REFUSE)
    assert None not in {*receiver, *guard}
    assert receiver[0] == guard[0]


def test_only_a_receiver_looks_at_the_members():
    assert None not in by_receiver(RECEIVER_REFUSES)
    assert {*by_guard(RECEIVER_REFUSES)} == {None}


def test_only_a_receiver_stores_a_photo_that_is_added_later():
    assert by_receiver(RECEIVER_STORES) == [None]
    assert by_guard(RECEIVER_STORES) == ["a point is not changed"]
