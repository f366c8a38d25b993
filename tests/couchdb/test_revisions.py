"""A change needs the revision of its document, in the embedded server and in CouchDB."""

import pytest

from support.rows import each

UNKNOWN = "9-967a00dff5e02add41819138abb3284d"
CONFLICT = {"error": "conflict", "reason": "Document update conflict."}
TEXT = {"Content-Type": "text/plain"}


async def put(couch, path, document):
    answer = await couch("PUT", path, document)
    assert answer.status == 201, answer.body
    return str(answer.json["rev"])


async def put_text(couch, path, text, **query):
    return await couch("PUT", path, text, headers=TEXT, **query)


@each("name", ["doc", "a%2Fb", "null", "_design/d", "_design%2Fd"])
@each(("query", "headers"), [({}, {}), ({"rev": UNKNOWN}, {}), ({}, {"If-Match": UNKNOWN})])
async def test_a_document_is_deleted_only_with_its_revision(couch, database, name, query, headers):
    path = f"{database}/{name}"
    rev = await put(couch, path, {"n": 1})
    answer = await couch("DELETE", path, headers=headers, **query)
    assert (answer.status, answer.json) == (409, CONFLICT)
    assert (await couch("GET", database)).json["doc_count"] == 1
    deleted = await couch("DELETE", path, rev=rev)
    assert (deleted.status, deleted.headers["ETag"]) == (200, f'"{deleted.json["rev"]}"')
    assert (await couch("GET", database)).json["doc_count"] == 0


async def test_if_match_names_the_revision(couch, database):
    path = f"{database}/doc"
    rev = await put(couch, path, {"n": 1})
    changed = await couch("PUT", path, {"n": 2}, headers={"If-Match": f'"{rev}"'})
    assert changed.status == 201
    assert (await couch("DELETE", path, headers={"If-Match": f'"{rev}"'})).status == 409
    assert (await couch("DELETE", path, headers={"If-Match": f'"{changed.json["rev"]}"'})).status == 200
    assert (await couch("DELETE", path)).json == {"error": "not_found", "reason": "deleted"}


async def test_a_missing_document_cannot_be_deleted(couch, database):
    for name in ("doc", "_design/d", "_local/d", "doc/file"):
        assert (await couch("DELETE", f"{database}/{name}")).status == 404


async def test_a_local_document_is_deleted_without_its_revision(couch, database):
    await put(couch, f"{database}/_local/l", {"n": 1})
    assert (await couch("DELETE", f"{database}/_local/l")).status == 200
    assert (await couch("GET", f"{database}/_local/l")).status == 404


async def test_a_malformed_revision_is_refused(couch, database):
    await put(couch, f"{database}/doc", {"n": 1})
    for rev in ("junk", ""):
        for method, body in (("PUT", {"n": 2}), ("DELETE", None)):
            for query, headers in (({"rev": rev}, {}), ({}, {"If-Match": rev})):
                answer = await couch(method, f"{database}/doc", body, headers=headers, **query)
                assert (answer.status, answer.json["reason"]) == (400, "Invalid rev format")


async def test_different_revisions_in_one_request_are_refused(couch, database):
    path = f"{database}/doc"
    rev = await put(couch, path, {"n": 1})
    for body, query, headers in (
        ({"_rev": rev}, {"rev": UNKNOWN}, {}),
        ({"_rev": rev}, {}, {"If-Match": UNKNOWN}),
        ({}, {"rev": rev}, {"If-Match": UNKNOWN}),
    ):
        assert (await couch("PUT", path, body, headers=headers, **query)).status == 400
    assert (await couch("DELETE", path, rev=rev, headers={"If-Match": UNKNOWN})).status == 400
    assert (await couch("GET", path)).json["_rev"] == rev


async def test_a_document_is_overwritten_only_with_its_revision(couch, database):
    path = f"{database}/doc"
    rev = await put(couch, path, {"n": 1})
    for body, query, headers in (
        ({}, {}, {}),
        ({"_rev": UNKNOWN}, {}, {}),
        ({}, {"rev": UNKNOWN}, {}),
        ({}, {}, {"If-Match": UNKNOWN}),
        ({"_deleted": True}, {}, {}),
    ):
        answer = await couch("PUT", path, body, headers=headers, **query)
        assert (answer.status, answer.json) == (409, CONFLICT)
    posted = await couch("POST", database, {"_id": "doc"})
    assert (posted.status, posted.json) == (409, CONFLICT)
    bulk = await couch("POST", f"{database}/_bulk_docs", {"docs": [{"_id": "doc", "_deleted": True}]})
    assert bulk.json == [{"id": "doc"} | CONFLICT]
    assert (await couch("GET", path)).json["_rev"] == rev


async def test_the_id_is_the_one_in_the_path(couch, database):
    assert (await couch("PUT", f"{database}/doc", {"_id": "other"}, id="third")).json["id"] == "doc"
    assert [row["id"] for row in (await couch("GET", f"{database}/_all_docs")).json["rows"]] == ["doc"]


async def test_a_replicated_revision_is_stored_unchanged(couch, database):
    await put(couch, f"{database}/doc", {"n": 1})
    answer = await couch("PUT", f"{database}/doc", {"_rev": "1-abc"}, new_edits=False)
    assert (answer.status, answer.json) == (201, {"ok": True, "id": "doc", "rev": "1-abc"})


@pytest.mark.parametrize("name", ["doc", "_design/d"])
async def test_an_attachment_changes_only_with_the_revision_of_its_document(couch, database, name):
    path = f"{database}/{name}"
    rev = (await put_text(couch, f"{path}/a/b.txt", b"first")).json["rev"]
    for method, body in (("PUT", b"second"), ("DELETE", None)):
        for query, headers in (({}, {}), ({"rev": UNKNOWN}, {}), ({}, {"If-Match": UNKNOWN})):
            answer = await couch(method, f"{path}/a/b.txt", body, headers=TEXT | headers, **query)
            assert answer.status == 409
    assert (await put_text(couch, f"{path}/other", b"")).status == 409
    assert (await couch("GET", f"{path}/a/b.txt")).body == b"first"
    rev = (await put_text(couch, f"{path}/other", b"", rev=rev)).json["rev"]
    second = await couch("PUT", f"{path}/a/b.txt", b"second", headers=TEXT | {"If-Match": f'"{rev}"'})
    assert (await couch("GET", f"{path}/a/b.txt")).body == b"second"
    assert (await couch("DELETE", f"{path}/a/b.txt", rev=second.json["rev"])).status == 200
    assert list((await couch("GET", path)).json["_attachments"]) == ["other"]


async def test_a_missing_attachment_is_not_found(couch, database):
    rev = await put(couch, f"{database}/doc", {"n": 1})
    assert (await couch("DELETE", f"{database}/doc/none", rev=rev)).status == 404
    assert (await put_text(couch, f"{database}/new/a.txt", b"a", rev=UNKNOWN)).status == 409
    assert (await couch("GET", f"{database}/new")).status == 404


async def test_an_attachment_brings_a_deleted_document_back(couch, database):
    rev = await put(couch, f"{database}/doc", {"n": 1})
    await couch("DELETE", f"{database}/doc", rev=rev)
    assert (await put_text(couch, f"{database}/doc/a.txt", b"a")).json["rev"].startswith("3-")
    assert "n" not in (await couch("GET", f"{database}/doc")).json


async def test_a_copy_overwrites_only_with_the_revision_of_the_destination(couch, database):
    source = await put(couch, f"{database}/from", {"n": 1})
    rev = await put(couch, f"{database}/to", {"n": 2})
    for destination in ("to", f"to?rev={UNKNOWN}", "from"):
        answer = await couch("COPY", f"{database}/from", headers={"Destination": destination})
        assert (answer.status, answer.json) == (409, CONFLICT)
    for destination in ("to?rev=junk", "to?rev=", "http://elsewhere/to"):
        answer = await couch("COPY", f"{database}/from", headers={"Destination": destination})
        assert answer.status == 400
    stale = {"Destination": "new", "If-Match": UNKNOWN}
    assert (await couch("COPY", f"{database}/from", headers=stale)).status == 404
    answer = await couch("COPY", f"{database}/from", headers={"Destination": f"to?rev={rev}"}, rev=source)
    assert answer.status == 201
    assert (await couch("GET", f"{database}/to")).json["n"] == 1
