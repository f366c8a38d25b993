"""What became of a document of `_bulk_docs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from growd.store.couch import Document

_SERVER_ERROR: Final = 500
# Errors that CouchDB gives for one document, and that have another cause (fabric_doc_update.erl).
_TRANSIENT: Final = frozenset({"internal_server_error", "timeout"})


def is_stored(outcome: Document) -> bool:
    """Whether the database has the document; with a conflict, an earlier try has stored it."""
    return "error" not in outcome or outcome["error"] == "conflict" or outcome.get("name") == "conflict"


def is_transient(outcome: Document) -> bool:
    """Whether trying again may help."""
    status = outcome.get("status")  # PouchDB's; CouchDB gives none
    return outcome["error"] in _TRANSIENT or (isinstance(status, int) and status >= _SERVER_ERROR)


def reason_of(outcome: Document) -> str:
    """Why the document was refused."""
    return f"{outcome['error']}: {outcome.get('reason', 'no reason given')}"
