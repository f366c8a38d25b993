"""The OpenAPI document (spec.openapis.org/oas/v3.1.0), made from the operations, services and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from growd import __version__
from growd.api.requests import JSON_TYPE
from growd.api.stream_formats import FORMATS, TOPICS_FORMATS
from growd.bus.fields import INT64_MAX, INT64_MIN, Field, Kind
from growd.bus.names import MAX_NAME, PATTERN
from growd.store.entries.photos import TYPES
from growd_web.answer_schemas import ANSWERS, form_schema, object_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from growd.api.operation import Body, Operation, Repeated
    from growd.bus.nodes import Bus
    from growd.bus.services import Service
    from growd.bus.topics import Topic

_NAME = {"type": "string", "pattern": PATTERN, "maxLength": MAX_NAME}
STREAMED: Final = {"stream": FORMATS, "topics": TOPICS_FORMATS}
MEDIA: Final = {"photo": [*TYPES], "page": ["text/html"]}
REFUSALS = {
    400: "Invalid name, body or value, or the service refused",
    403: "Only growd's node may set this parameter or publish on this topic",
    404: "Unknown name",
    406: "Accept allows none of the formats of a stream",
    408: "The body did not arrive in time",
    409: "The name needs ?new=true, or conflicts with a parameter of a node",
    411: "A form without a Content-Length",
    413: "The body is too large",
    415: "The Content-Type is not application/json, or a file is no photo",
    429: "Too many clients wait for messages, or too many logins failed",
    503: "It could not be saved, clients send too much at once, the database is not reachable, or growd is "
    "stopping",
    507: "There is no room for more parameters or photos",
}
SECURITY_SCHEMES: Final = {
    "basic": {"type": "http", "scheme": "basic", "description": "A user of the CouchDB, UTF-8 (RFC 7617)"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "AuthSession",
        "description": "The cookie of POST /_session, outside the API",
    },
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "If the CouchDB accepts tokens",
    },
}
LOGIN_REFUSALS: Final = {
    400: "A login that can't be read",
    401: "No login, or an invalid one",
    403: "The user lacks the required role",
    429: "Too many logins failed from this address",
    503: "The database could not check the login",
}
RELEASE: Final = {
    "description": "Releases a set point or an override",
    "type": "array",
    "items": {"type": "null"},
    "minItems": 1,
    "maxItems": 1,
}
TAGS: Final = {
    "param": "Parameters: a tree of names with JSON values",
    "service": "Services: calls with arguments and a reply",
    "topic": "Topics: what is measured, desired and commanded",
    "topic_stream": "The messages of a topic as they come",
    "stream": "The messages of many topics over one connection",
    "topic_data": "One message of a topic",
    "history": "Stored points and events of a range of time",
    "runs": "The runs of recipes",
    "run": "The record of a run",
    "journal": "Notes, measurements by hand and photos",
    "photo": "Photos of the journal and of cameras",
    "photos": "The photos that cameras took",
    "figures": "The figures of a run",
    "report": "The report of a run",
    "compare": "Several runs side by side",
    "setup": "Sensors and outputs of the configuration file",
    "setup_scan": "What is on the buses",
    "setup_trial": "A sensor or output that is not in the file yet",
    "simulation_report": "The report of the last simulation of a recipe",
    "node": "Nodes: the parts of growd",
    "session": "The login",
    "openapi.json": "The description of the API",
}
"""The tags of operations, which are their resources."""
PERMISSIONS: Final = {
    "": "It answers everybody.",
    "read": "With logins it needs the permission to read.",
    "operate": "With logins it needs the permission to operate.",
    "administer": "With logins it needs the permission to administer.",
}
BODY_REFUSALS: Final = (408, 413, 415, 503)  # of every operation that takes a body


def document(operations: Iterable[Operation], prefix: str, bus: Bus | None) -> dict[str, Any]:
    """The document, with a path for each service and topic."""
    paths: dict[str, Any] = {}
    for operation in operations:
        path = f"/{operation.resource}" + (f"/{{{operation.kind}}}" if operation.kind else "")
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation)
    if bus is not None:
        paths |= {
            f"/service/{quote(name)}": _service(bus.services.get(name)) for name in bus.services.names()
        }
        paths |= {f"/topic/{quote(name)}": _topic(bus.topics.get(name)) for name in bus.topics.names()}
    used = {each.resource for each in operations}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "growd",
            "version": __version__,
            "summary": "REST API 0.0.1 of a growing chamber",
            "description": "Parameters, services, topics and nodes of the chamber, and what it has stored.",
            "contact": {"name": "growd"},
        },
        "servers": [{"url": prefix}],
        "tags": [{"name": name, "description": words} for name, words in TAGS.items() if name in used],
        "paths": paths,
        "components": {
            "responses": {f"Refusal{status}": _refusal(doc) for status, doc in REFUSALS.items()},
            "schemas": {"Answer" + name.title(): schema for name, schema in ANSWERS.items()}
            | {name: schema for each in operations for name, schema in each.schemas().items()}
            | {"Error": object_of(**{name: {"type": "string"} for name in ("ERROR", "error", "reason")})},
        },
    }


def secured(described: dict[str, Any]) -> dict[str, Any]:
    """Add the login and its refusals to a document."""
    components = described["components"]
    components["securitySchemes"] = SECURITY_SCHEMES
    components["responses"] |= {f"Login{status}": _refusal(doc) for status, doc in LOGIN_REFUSALS.items()}
    for path in described["paths"].values():
        for operation in path.values():
            if "security" in operation:
                continue
            for status in LOGIN_REFUSALS:
                reference = {"$ref": f"#/components/responses/Login{status}"}
                operation["responses"].setdefault(str(status), reference)
    return described | {"security": [{name: []} for name in SECURITY_SCHEMES]}


def field_schema(field: Field) -> dict[str, Any]:
    """JSON Schema of what `Field.check` accepts."""
    if field.kind is Kind.FLOAT64:
        schema = _number_schema(field)
    elif field.kind is Kind.INT64:  # 3.0 is an integer, here and there
        schema = {"type": "integer", "minimum": INT64_MIN, "maximum": INT64_MAX} | _bounds(field)
    elif field.kind is Kind.BOOL:
        schema = {"type": "boolean"}
    elif field.choices:
        schema = {"type": "string", "enum": list(field.choices)}
    elif field.kind is Kind.STRING:
        schema = {"type": "string", "maxLength": field.max_length}
        if field.min_length:
            schema["minLength"] = field.min_length
    else:
        schema = {}
    if field.doc or field.unit:
        schema["description"] = f"{field.doc} ({field.unit})".lstrip() if field.unit else field.doc
    if field.unit:
        schema["x-unit"] = field.unit
    if not field.required:
        schema["default"] = field.default
    return schema


def _number_schema(field: Field) -> dict[str, Any]:
    """A number; where it takes flags, also true and false if 1 and 0 are in range."""
    if not field.takes_flags:
        return {"type": "number"} | _bounds(field)
    low, high = field.minimum, field.maximum
    fit = [flag for flag in (False, True) if (low is None or low <= flag) and (high is None or high >= flag)]
    if len(fit) == 1:
        return {"anyOf": [{"type": "number"} | _bounds(field), {"const": fit[0]}]}
    return {"type": ["number", "boolean"] if fit else "number"} | _bounds(field)


def _bounds(field: Field) -> dict[str, float]:
    bounds = {"minimum": field.minimum, "maximum": field.maximum}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _operation(operation: Operation) -> dict[str, Any]:
    parameters = [_query_parameter(field) for field in operation.query]
    if operation.kind:
        parameters.insert(0, _path_parameter(operation.kind))
    permission = "read" if operation.method == "GET" else "operate"
    permission = "administer" if operation.is_administrative else permission
    described: dict[str, Any] = {
        **_told(operation.summary, "" if operation.is_open else permission),
        "operationId": f"{operation.method.lower()}_{operation.resource}_{operation.kind}".strip("_"),
        "tags": [operation.resource],
        "parameters": parameters,
        "responses": _responses(operation.answer, _refusals(operation)),
    }
    if operation.body is not None:
        described["requestBody"] = _body(operation.body)
    if operation.is_open:
        described["security"] = []
    return described


def _told(summary: str, permission: str) -> dict[str, str]:
    return {"summary": summary, "description": f"{summary.rstrip('.')}. {PERMISSIONS[permission]}"}


def _refusals(operation: Operation) -> set[int]:
    refusals = set(operation.refusals)
    if operation.kind or operation.query or operation.body:
        refusals.add(400)
    if operation.body:
        refusals.update(BODY_REFUSALS)
    return refusals


def _service(service: Service) -> dict[str, Any]:
    """The path of one service: its description, and the call."""
    identifier = service.name.replace("/", "_")
    reply = _members(service.reply)
    reply["properties"]["success"] = {"const": True}
    permission = "administer" if service.is_administrative else "read" if service.only_reads else "operate"
    return {
        "get": {
            **_told(f"Describe {service.name}", "read"),
            "operationId": f"get_service_{identifier}",
            "tags": ["service"],
            "responses": _responses("service", {404}),
        },
        "post": {
            **_told(service.doc or f"Call {service.name}", permission),
            "operationId": f"call_{identifier}",
            "tags": ["service"],
            "requestBody": {
                "required": any(field.required for field in service.arguments),
                "content": {JSON_TYPE: {"schema": {"anyOf": _arguments(service)}}},
            },
            "responses": _responses("reply", {400, 404, 503, *BODY_REFUSALS}, reply),
        },
    }


def _topic(topic: Topic) -> dict[str, Any]:
    """The path of one topic: its description, and publishing if clients may do that.

    `x-message` is the message as an array of its type's constructor arguments.
    """
    identifier = topic.name.replace("/", "_")
    arguments = [field_schema(field) for field in topic.type.fields]
    body = {
        "type": "array",
        "prefixItems": [
            {"title": f.name, **schema} for f, schema in zip(topic.type.fields, arguments, strict=True)
        ],
        "items": {},  # generators of clients want it; maxItems leaves nothing for it
        "minItems": len(arguments),
        "maxItems": len(arguments),
    }
    operations: dict[str, Any] = {
        "get": {
            **_told(f"Describe {topic.name}", "read"),
            "operationId": f"get_topic_{identifier}",
            "tags": ["topic"],
            "responses": _responses("topic", {404}),
            "x-message": body,
        }
    }
    if topic.is_open:
        posted = {"anyOf": [body, RELEASE]} if topic.is_releasable else body
        operations["post"] = {
            **_told(f"Publish a {topic.type.name}", "operate"),
            "operationId": f"publish_{identifier}",
            "tags": ["topic"],
            "requestBody": {"required": True, "content": {JSON_TYPE: {"schema": posted}}},
            "responses": _responses("posted", {400, 404, *BODY_REFUSALS}),
        }
    return operations


def _arguments(service: Service) -> list[dict[str, Any]]:
    """The forms of arguments: by name, in order, and none if all are optional."""
    fields = service.arguments
    required = sum(field.required for field in fields)
    in_order: dict[str, Any] = {"type": "array", "items": {}, "maxItems": len(fields), "minItems": required}
    if fields:
        in_order["prefixItems"] = [field_schema(field) for field in fields]
    forms = [_members(fields), in_order]
    return forms if required else [*forms, {"type": "null"}]


def _body(body: Body) -> dict[str, Any]:
    types = body.json_types()
    schema: dict[str, Any] = _members(body.members) if body.members else {"type": types, "items": {}}
    if not body.required and not body.members:  # generators of clients make no optional body of several types
        schema = {"not": {"type": ["string", "number", "boolean"]}}
    if body.doc:
        schema["description"] = body.doc
    content = {JSON_TYPE: {"schema": schema}}
    if body.with_photos:
        content |= form_schema(schema)
    return {"required": body.required, "content": content}


def _members(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {field.name: field_schema(field) for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }


def _path_parameter(kind: str) -> dict[str, Any]:
    return {
        "name": kind,
        "in": "path",
        "required": True,
        "description": "a name, possibly with slashes; a slash may be written as / or %2F",
        "schema": _NAME,
    }


def _query_parameter(parameter: Field | Repeated) -> dict[str, Any]:
    described = {"name": parameter.name, "in": "query"}
    if isinstance(parameter, Field):
        return {**described, "required": parameter.required, "schema": field_schema(parameter)}
    field = parameter.field
    item = _NAME if parameter.is_name else field_schema(field)
    values = {"type": "array", "items": item, "maxItems": parameter.most}
    if parameter.least:
        values["minItems"] = parameter.least
    return {
        **described,
        "required": parameter.least > 0,
        "description": f"{field.doc}; repeat the parameter for several",
        "style": "form",
        "explode": True,
        "schema": values,
    }


def _responses(answer: str, refusals: set[int], schema: dict[str, Any] | None = None) -> dict[str, Any]:
    types = (
        [form.media[0] for form in STREAMED[answer]] if answer in STREAMED else MEDIA.get(answer, [JSON_TYPE])
    )
    done = {"schema": schema or {"$ref": f"#/components/schemas/Answer{answer.title()}"}}
    responses: dict[str, Any] = {
        "200": {"description": "Done", "content": dict.fromkeys(types, done)},
    }
    for status in sorted(refusals):
        responses[str(status)] = {"$ref": f"#/components/responses/Refusal{status}"}
    return responses


def _refusal(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": description, "content": {JSON_TYPE: {"schema": schema}}}
