"""The services of ROS's node rosapi that roslib calls (rosapi_msgs in RobotWebTools/rosbridge_suite)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.json import encode

from growd.bus.errors import UnknownNameError
from growd.bus.fields import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.bus.fields import Field
    from growd.bus.nodes import Bus

_EXAMPLES: Final = {
    Kind.FLOAT64: "0.0",
    Kind.INT64: "0",
    Kind.BOOL: "False",
    Kind.STRING: "",
    Kind.JSON: "null",
}


def _named(names: Iterable[str]) -> list[str]:
    return [f"/{name}" for name in names]


def _plain(kind: str) -> str:
    """The name of a type; ROS 2 writes std_msgs/msg/Float64."""
    return kind.replace("/msg/", "/").replace("/srv/", "/")


def _topics(on: Bus, *_: Any) -> dict[str, Any]:
    names = on.topics.names()
    return {"topics": _named(names), "types": [on.topics.get(name).type.name for name in names]}


def _raw_types(on: Bus, *_: Any) -> dict[str, Any]:
    types = [on.topics.get(name).type for name in on.topics.names()]
    texts = ["\n".join(f"{field.kind} {field.name}" for field in each.fields) for each in types]
    return {**_topics(on), "typedefs_full_text": texts}


def _node(on: Bus, _: Any, name: str) -> dict[str, Any]:
    about = on.find_node(name).information()
    members = {"subscribing": "subs", "publishing": "pubs", "services": "srvs"}
    return {member: _named(about[ours]) for member, ours in members.items()}


def _message(on: Bus, _: Any, kind: str) -> dict[str, Any]:
    for name in on.topics.names():
        if (its := on.topics.get(name).type).name == _plain(kind):
            return _described(kind, its.fields)
    raise UnknownNameError("message type", kind)


def _service(part: str) -> Callable[..., dict[str, Any]]:
    """What describes the `part`, "arguments" or "reply", of the services of a type."""

    def describe(on: Bus, _: Any, kind: str) -> dict[str, Any]:
        for name in on.services.names():
            if (its := on.services.get(name)).request_type == _plain(kind):
                return _described(kind, getattr(its, part))
        raise UnknownNameError("service type", kind)

    return describe


def _described(kind: str, fields: tuple[Field, ...]) -> dict[str, Any]:
    about = {
        "type": kind,
        "fieldnames": [field.name for field in fields],
        "fieldtypes": [field.kind for field in fields],
        "fieldarraylen": [-1] * len(fields),
        "examples": [_EXAMPLES[field.kind] for field in fields],
        "constnames": [],
        "constvalues": [],
    }
    return {"typedefs": [about]}


ROSAPI: Final[dict[str, tuple[tuple[str, ...], Callable[..., Any]]]] = {
    "rosapi/topics": ((), _topics),
    "rosapi/topics_and_raw_types": ((), _raw_types),
    "rosapi/topic_type": (("topic",), lambda on, _, name: {"type": on.topics.get(name).type.name}),
    "rosapi/topics_for_type": (
        ("type",),
        lambda on, _, kind: {
            "topics": _named(
                each for each in on.topics.names() if on.topics.get(each).type.name == _plain(kind)
            )
        },
    ),
    "rosapi/publishers": (
        ("topic",),
        lambda on, _, name: {"publishers": _named(on.topics.get(name).publishers)},
    ),
    "rosapi/message_details": (("type",), _message),
    "rosapi/services": ((), lambda on, _: {"services": _named(on.services.names())}),
    "rosapi/service_type": (("service",), lambda on, _, name: {"type": on.services.get(name).request_type}),
    "rosapi/services_for_type": (
        ("type",),
        lambda on, _, kind: {
            "services": _named(
                each for each in on.services.names() if on.services.get(each).request_type == _plain(kind)
            )
        },
    ),
    "rosapi/service_request_details": (("type",), _service("arguments")),
    "rosapi/service_response_details": (("type",), _service("reply")),
    "rosapi/nodes": ((), lambda on, _: {"nodes": _named(on.node_names())}),
    "rosapi/node_details": (("node",), _node),
    "rosapi/get_param_names": ((), lambda on, _: {"names": _named(on.parameters.names())}),
    "rosapi/get_param": (("name",), lambda on, _, name: {"value": encode(on.parameters.get(name)).decode()}),
    "rosapi/set_param": (("name", "value"), lambda _, change, *given: change("POST", *given)),
    "rosapi/delete_param": (("name",), lambda _, change, name: change("DELETE", name)),
    "rosapi/action_servers": ((), lambda *_: {"action_servers": []}),
}
"""Their arguments, and what answers them on the bus; the second argument changes a parameter."""
