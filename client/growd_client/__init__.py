"""A Python client of growd's REST API; docs/python-client.md describes it.

Names are imported when they are used, so `Growd` needs neither aiohttp nor asyncio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from growd_client.answers import (
        BucketColumns,
        EarlierText,
        EntryList,
        EnvironmentInfo,
        NodeInfo,
        PastRange,
        PhotoInfo,
        Posted,
        Quality,
        RunList,
        RunMeasurement,
        RunNote,
        RunRecord,
        RunSummary,
        SavedEntry,
        ServiceInfo,
        SessionInfo,
        StoredEvent,
        StoredPoint,
        TopicInfo,
        TopicMessage,
        ValueAt,
        VariableHistory,
        VariableInfo,
    )
    from growd_client.asynchronous import AsyncGrowd
    from growd_client.blocking import Growd
    from growd_client.errors import (
        GrowdError,
        NotAllowedError,
        NotFoundError,
        NotReachedError,
        RefusedError,
        UnavailableError,
        UsageError,
    )
    from growd_client.following import Disconnected, Dropped, Pauses, Reconnected, StreamEvent

__all__ = [
    "AsyncGrowd",
    "BucketColumns",
    "Disconnected",
    "Dropped",
    "EarlierText",
    "EntryList",
    "EnvironmentInfo",
    "Growd",
    "GrowdError",
    "NodeInfo",
    "NotAllowedError",
    "NotFoundError",
    "NotReachedError",
    "PastRange",
    "Pauses",
    "PhotoInfo",
    "Posted",
    "Quality",
    "Reconnected",
    "RefusedError",
    "RunList",
    "RunMeasurement",
    "RunNote",
    "RunRecord",
    "RunSummary",
    "SavedEntry",
    "ServiceInfo",
    "SessionInfo",
    "StoredEvent",
    "StoredPoint",
    "StreamEvent",
    "TopicInfo",
    "TopicMessage",
    "UnavailableError",
    "UsageError",
    "ValueAt",
    "VariableHistory",
    "VariableInfo",
]
_MODULES: Final = {
    "AsyncGrowd": "asynchronous",
    "Growd": "blocking",
    **dict.fromkeys(("Disconnected", "Dropped", "Pauses", "Reconnected", "StreamEvent"), "following"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES.get(name) or ("errors" if name.endswith("Error") else "answers")
    return getattr(import_module(f"{__name__}.{module}"), name)
