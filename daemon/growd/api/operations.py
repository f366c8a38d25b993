"""The calls of the API, each declared once: for routing, checks of bodies and the OpenAPI document."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from growd.api.api import Api
from growd.api.history import HISTORY_QUERY
from growd.api.journal import JOURNAL_OPERATIONS
from growd.api.operation import Body, Limits, Operation, Repeated
from growd.bus.fields import Field, Kind
from growd.bus.names import MAX_NAME

MOST_TOPICS: Final = 200
"""Of one stream."""
_TIMEOUT: Final = Field("timeout", Kind.FLOAT64, 0, unit="s", default=0.0, doc="longest time to wait")
_LATEST: Final = Field("latest", Kind.BOOL, default=True, doc="begin with the last message")
_HEARTBEAT: Final = Field(
    "heartbeat", Kind.FLOAT64, 1, 3_600, "s", default=0.0, doc="send a heartbeat after this time of silence"
)
OPERATIONS: Final = (
    Operation(
        "GET", "param", "", "List the parameters", Api.list_parameters,
        query=(Field("declared", Kind.BOOL, default=False, doc="only those that a node has declared"),),
        answer="names",
    ),
    Operation(
        "GET", "param", "parameter", "Read a parameter or a branch", Api.get_parameter,
        answer="value", refusals=(404,),
    ),
    Operation(
        "POST", "param", "parameter", "Set a parameter; it is on disk before the answer", Api.set_parameter,
        body=Body((dict,), members=(Field("value", Kind.JSON, doc="any JSON value"),)),
        query=(Field("new", Kind.BOOL, default=False, doc="also a new parameter that looks misspelt"),),
        answer="value", refusals=(403, 409, 503, 507),
    ),
    Operation(
        "DELETE", "param", "parameter", "Delete a parameter; a parameter of a node returns to its default",
        Api.delete_parameter, answer="value", refusals=(403, 404, 409, 503),
    ),
    Operation("GET", "service", "", "List the services", Api.list_services, answer="names"),
    Operation(
        "GET", "service", "service", "Describe a service", Api.get_service, answer="service", refusals=(404,)
    ),
    Operation(
        "POST", "service", "service", "Call a service", Api.call_service,
        body=Body((list, dict), required=False, doc="the arguments in order or by name, or nothing"),
        answer="reply", refusals=(404, 503),
    ),
    Operation("GET", "topic", "", "List the topics", Api.list_topics, answer="names"),
    Operation("GET", "topic", "topic", "Describe a topic", Api.get_topic, answer="topic", refusals=(404,)),
    Operation(
        "POST", "topic", "topic",
        "Publish a message; a set point, a note or a manual measurement is on disk before the answer",
        Api.publish,
        body=Body((list,), doc="the arguments of the message type's constructor, in order"),
        query=(
            Field(
                "time", Kind.FLOAT64, 0, unit="s", default=0.0,
                doc="the time of a note or a manual measurement in the past, in UNIX seconds; 0: now",
            ),
            Field(
                "by", Kind.STRING, default="", max_length=100,
                doc="the author, for the record; with a login it is the user",
            ),
        ),
        answer="posted", refusals=(403, 404),
    ),
    Operation(
        "GET", "topic_stream", "topic", "Follow the messages of a topic", Api.stream_topic,
        query=(_LATEST,), answer="stream", refusals=(404, 406, 429, 503),
    ),
    Operation(
        "GET", "stream", "", "Follow the messages of many topics, beginning with the last of each",
        Api.stream_topics,
        query=(
            Repeated(
                Field("topic", Kind.STRING, max_length=MAX_NAME + 1, doc="the name of a topic"),
                most=MOST_TOPICS, least=1, is_name=True,
            ),
            _LATEST,
            Field(
                "throttle", Kind.FLOAT64, 0, 3_600, "s", default=0.0,
                doc="send of each topic the newest message, at most one in this time; 0: all messages",
            ),
            _HEARTBEAT,
            Field(
                "changes", Kind.BOOL, default=False,
                doc="send `status` whole first, then what changed, as `changes` in place of `value`",
            ),
        ),
        answer="topics", refusals=(404, 406, 429, 503),
    ),
    Operation(
        "GET", "topic_data", "topic", "Wait for the next message, or read the last one", Api.next_message,
        query=(
            _TIMEOUT,
            Field("last", Kind.BOOL, default=False, doc="answer at once with the last message"),
        ),
        answer="data", refusals=(404, 429, 503),
    ),
    Operation(
        "GET", "history", "environment",
        "Read the points of a range of time, as buckets with minimum, mean and maximum, and its events",
        Api.read_history, query=HISTORY_QUERY, answer="history",
        refusals=(404, 503),
    ),
    *JOURNAL_OPERATIONS,
    Operation("GET", "node", "", "List the nodes", Api.list_nodes, answer="names"),
    Operation("GET", "node", "node", "Describe a node", Api.get_node, answer="node", refusals=(404,)),
    Operation(
        "GET", "session", "", "Who the client is, and what it may do", Api.get_session,
        answer="session", refusals=(429, 503), is_open=True,
    ),
)  # fmt: skip


def operations_of(limits: Limits | None = None) -> tuple[Operation, ...]:
    """The operations with the configured limits."""
    limits = limits or Limits()
    configured: dict[Field | Repeated, Field] = {
        _TIMEOUT: replace(_TIMEOUT, maximum=limits.topic_data_s, default=limits.topic_data_s),
        _HEARTBEAT: replace(_HEARTBEAT, default=max(1.0, limits.heartbeat_s)),
    }
    return tuple(
        msgspec.structs.replace(each, query=tuple(configured.get(field, field) for field in each.query))
        for each in OPERATIONS
    )
