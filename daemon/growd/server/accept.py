"""What a client prefers: the headers Accept and Accept-Encoding (RFC 9110, section 12.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import hdrs

if TYPE_CHECKING:
    from aiohttp import web


def weights(header: str) -> dict[str, float]:
    """The members of a header with their weights, 0 to 1; an invalid weight is 0."""
    return dict(_member(part) for part in header.split(",") if part.strip())


def prefers_html(request: web.BaseRequest) -> bool:
    """Whether a request names HTML, as browsers do, and not JSON with at least the same weight."""
    ranges = weights(request.headers.get(hdrs.ACCEPT, ""))
    return ranges.get("text/html", 0.0) > ranges.get("application/json", 0.0)


def _member(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    weight = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
    try:
        return name, min(max(float(weight), 0.0), 1.0)
    except ValueError:
        return name, 0.0
