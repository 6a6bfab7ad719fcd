"""Removes parts that are not JSON Schema from the schemas of tool arguments.

Model providers reject a whole request if a single schema contains an invalid keyword.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hilum_mcp.text_cleaning import MAX_DESCRIPTION, clean_text

# Maximum nesting depth, far deeper than any useful schema. A malicious schema must not exhaust the
# stack.
MAX_DEPTH = 40
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_DROPPED = object()


def repair_schema(schema: object, depth: int = 0) -> Any:
    """Return a schema without its invalid parts, or an empty one if nothing is valid.

    Args:
        schema: A schema from a server.
        depth: The nesting depth of the schema. Parts that are nested too deeply are removed.
    """
    # JSON Schema 2020-12, section 4.3.2: `true` and `false` are schemas, but providers require an
    # object at the top level.
    if isinstance(schema, bool) and depth:
        return schema
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return {}
    repaired: dict[str, Any] = {}
    for key, value in schema.items():
        repair = _KEYWORDS.get(key)
        if key == "items" and isinstance(value, list):  # before JSON Schema 2020-12
            repair = _repair_list
        kept = repair(value, depth) if repair else value
        if kept is not _DROPPED:
            repaired[key] = kept
    return repaired


def _repair_type(value: Any, _: int) -> Any:
    if not isinstance(value, list):
        return value if value in _TYPES else _DROPPED
    return [kind for kind in value if kind in _TYPES] or _DROPPED


def _repair_mapping(value: Any, depth: int) -> Any:
    if not isinstance(value, dict):
        return _DROPPED
    return {name: repair_schema(inner, depth + 1) for name, inner in value.items()}


def _repair_list(value: Any, depth: int) -> Any:
    # JSON Schema 2020-12 requires these arrays to be non-empty.
    if not isinstance(value, list) or not value:
        return _DROPPED
    return [repair_schema(inner, depth + 1) for inner in value]


def _repair_inner(value: Any, depth: int) -> Any:
    return repair_schema(value, depth + 1) if isinstance(value, dict | bool) else _DROPPED


def _repair_required(value: Any, _: int) -> Any:
    if not isinstance(value, list):
        return _DROPPED
    return list(dict.fromkeys(name for name in value if isinstance(name, str)))


def _repair_text(value: Any, _: int) -> Any:
    # The model reads these texts as well, so hidden instructions are also removed here.
    return clean_text(str(value), MAX_DESCRIPTION)


def _repair_number(value: Any, _: int) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else _DROPPED


def _repair_values(value: Any, _: int) -> Any:
    return value if isinstance(value, list) and value else _DROPPED


_GROUPS: dict[Callable[[Any, int], Any], str] = {
    _repair_type: "type",
    _repair_mapping: "$defs definitions dependentSchemas patternProperties properties",
    _repair_list: "allOf anyOf oneOf prefixItems",
    _repair_inner: "additionalItems additionalProperties contains else if items not propertyNames"
    " then",
    _repair_required: "required",
    _repair_text: "description title",
    _repair_number: "exclusiveMaximum exclusiveMinimum maxItems maxLength maxProperties maximum"
    " minItems minLength minProperties minimum multipleOf",
    _repair_values: "enum examples",
}
_KEYWORDS = {key: repair for repair, keys in _GROUPS.items() for key in keys.split()}
