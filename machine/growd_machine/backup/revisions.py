"""Revisions of documents as replication writes and reads them, with their histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.store.attachments import related
from growd.store.couch import as_object, path_of
from growd.store.couch_answers import error_members
from growd.store.errors import CouchRefusedError, CouchUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Mapping, Sequence

    from growd.store.couch import Couch, Document


async def write_revisions(couch: Couch, database: str, documents: Sequence[Document]) -> None:
    """POST /{db}/_bulk_docs with `new_edits` off: these revisions beside those that exist, as replicated.

    Raises `CouchRefusedError` if the database refuses one.
    """
    path = path_of(database, "_bulk_docs")
    body = {"docs": list(documents), "new_edits": False}
    answer = await couch.request("POST", path, body=body)
    for row in answer if isinstance(answer, list) else []:
        if isinstance(row, dict) and "error" in row:
            error, reason = error_members(row)
            sentence = f"the database refused {row.get('id')}: {error}: {reason}"
            raise CouchRefusedError(sentence, 403, error, reason)


async def bulk_get(couch: Couch, database: str, revisions: Sequence[tuple[str, str]]) -> list[Document]:
    """POST /{db}/_bulk_get: these revisions (id, rev) with their histories, without unknown ones."""
    wanted = [{"id": document_id, "rev": revision} for document_id, revision in revisions]
    path = path_of(database, "_bulk_get")
    answer = as_object(await couch.request("POST", path, query={"revs": "true"}, body={"docs": wanted}))
    results = answer.get("results")
    if not isinstance(results, list):
        raise CouchUnavailableError("the database's answer has no results")
    return [found["ok"] for result in results for found in result["docs"] if "ok" in found]


async def put_with_attachments(
    couch: Couch, database: str, document: Document, contents: Sequence[tuple[int, AsyncIterable[bytes]]]
) -> None:
    """PUT /{db}/{docid} with `new_edits` off: a revision with its attachments, as replicated.

    `contents` has the size and the content of each of its `_attachments`, in their order.
    """
    path = path_of(database, document["_id"])
    await couch.put_content(path, related(document, contents), {"new_edits": False})


async def unknown_revisions(
    couch: Couch, database: str, revisions: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """POST /{db}/_revs_diff: those of these revisions, by `_id`, that the database never had."""
    answer = as_object(await couch.request("POST", path_of(database, "_revs_diff"), body=dict(revisions)))
    return {document_id: list(found["missing"]) for document_id, found in answer.items()}
