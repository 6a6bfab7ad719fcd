"""The OpenAPI document, made from the table of operations and their types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from hilum import __version__

from hilum_serve.operations import NoQuery, Operation
from hilum_serve.problems import ErrorReply

SCHEMAS = "#/components/schemas/{name}"
MAX_SEEN = 2**53 - 1
_REASONS = {
    200: "Success",
    201: "Created",
    202: "Accepted",
    204: "Done",
    400: "The request has a mistake",
    401: "The token is missing, wrong or expired",
    403: "The user lacks the right, or the request comes from another site",
    404: "There is no such thing",
    405: "The path does not have this method",
    408: "The body did not arrive in time",
    409: "The session is busy, or has changed since the client last looked",
    413: "The body is too large",
    415: "The body is not JSON",
    421: "The Host header is not this server's address",
    428: "The header Hilum-Seen is missing",
    429: "Too many requests",
    431: "The headers are too large",
    503: "The server or the session cannot carry out the request now",
}
_IN_PATH = r"^[^/\u0000-\u001f]+$"
EVERYWHERE = (400, 401, 403, 404, 405, 421, 429, 431, 503)
"""Statuses of the checks that every operation passes."""


def list_errors(operation: Operation) -> list[int]:
    """Return the statuses of the errors that an operation can answer with."""
    statuses = {*EVERYWHERE, *operation.errors}
    if operation.changes:
        statuses.update((408, 413, 415))
    if operation.needs_seen:
        statuses.update((409, 428))
    return sorted(statuses)


def make_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of the operations."""
    types = list(_find_types(operations))
    schemas, components = msgspec.json.schema_components(types, ref_template=SCHEMAS)
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        method = operation.method.lower()
        paths.setdefault(operation.path, {})[method] = _describe(operation, by_type, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hilum serve",
            "version": __version__,
            "description": "Sessions of hilum over HTTP. Streams are described in docs/serve.md.",
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _find_types(operations: Iterable[Operation]) -> Iterable[Any]:
    found: dict[str, Any] = {repr(ErrorReply): ErrorReply}
    for operation in operations:
        for kind in (operation.query, operation.body, operation.returns):
            if kind is not None:
                found.setdefault(repr(kind), kind)
    return found.values()


def _describe(
    operation: Operation, schemas: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    """Return the description of one operation."""
    described: dict[str, Any] = {
        "operationId": operation.handler.__name__,
        "summary": operation.summary,
        "description": f"Needs the right `{operation.rights}`.",
        "parameters": [
            *_path_parameters(operation.path),
            *_query_parameters(operation, components),
        ],
    }
    if operation.needs_seen:
        described["parameters"].append(
            {
                "name": "Hilum-Seen",
                "in": "header",
                "required": True,
                "description": "Last sequence number of the session that the client has seen.",
                "schema": {"type": "integer", "minimum": 0, "maximum": MAX_SEEN},
            }
        )
    if operation.body is not None:
        schema = schemas[repr(operation.body)]
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    success: dict[str, Any] = {"description": _REASONS.get(operation.status, "Success")}
    if operation.returns is not None:
        schema = schemas[repr(operation.returns)]
        success["content"] = {"application/json": {"schema": schema}}
    elif operation.media:
        success["content"] = {media: {} for media in operation.media}
    error = {"content": {"application/json": {"schema": schemas[repr(ErrorReply)]}}}
    described["responses"] = {str(operation.status): success}
    for status in list_errors(operation):
        described["responses"][str(status)] = {"description": _REASONS[status], **error}
    return described


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "pattern": _IN_PATH},
        }
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _query_parameters(operation: Operation, components: dict[str, Any]) -> list[dict[str, Any]]:
    if operation.query is NoQuery:
        return []
    schema = components[operation.query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": member}
        for name, member in schema["properties"].items()
    ]
