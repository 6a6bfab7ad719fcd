"""Tools' schemas as every provider takes them: one object at the top, and no references.

Tools bring any JSON Schema, those of MCP servers with references and alternatives. Some providers,
and the templates of local models, know no ``$ref``; most refuse a request in which one tool's
schema is anything but an object with properties at the top. The tool itself checks its arguments
against the schema that it brought; here it only has to be understood.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

# Where schemas stand in a schema: by a name of the tool's own, and as one or a list. Everything
# else is data.
_TABLES = frozenset("dependentSchemas patternProperties properties".split())
_SCHEMAS = frozenset(
    """
    additionalItems additionalProperties allOf anyOf contains else if items not oneOf prefixItems propertyNames then
    unevaluatedItems unevaluatedProperties
    """.split()
)
_INSIDE = _TABLES | _SCHEMAS | {"required"}
# Some servers write null for what there is not.
_MAY_BE_NULL = ("const", "default")
_DROPPED = frozenset("$anchor $comment $defs $id $ref $schema definitions title".split())
_TYPES = {str: "string", int: "integer", bool: "boolean"}
_CHOICES = ("allOf", "anyOf", "oneOf")
_NOT_AT_THE_TOP = frozenset((*_CHOICES, "enum", "not"))
# A few kilobytes can refer to themselves so that they unfold to gigabytes: then the rest stays
# folded.
_MOST = 2000
_DEEPEST = 20


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's schema without references, titles, and alternatives at the top.

    The same one for the same schema.

    A reference to what contains it, to another document or to nothing becomes a schema that allows
    more.

    Args:
        schema: JSON Schema of the parameters; it is not changed.
    """
    return _one_object(_Unfolding(schema).schema(schema, ()))


class _Unfolding:
    """Puts what is referred to in the place of the reference."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _MOST

    def schema(self, node: Any, seen: tuple[str, ...]) -> Any:
        """Unfold a schema that stands behind the references ``seen``."""
        if not isinstance(node, dict):
            return node
        self._left -= 1
        while isinstance(ref := node.get("$ref"), str):
            found = self._find(ref)
            beside = {key: value for key, value in node.items() if key != "$ref"}
            if ref in seen or self._left < 0 or len(seen) >= _DEEPEST:
                found = {key: found[key] for key in ("type", "description") if key in found}
            node = _both(found, beside)
            seen = (*seen, ref)
        result = {
            key: self._value(key, value, seen) if key in _INSIDE else value
            for key, value in node.items()
            if key not in _DROPPED and (value is not None or key in _MAY_BE_NULL)
        }
        kinds = {_TYPES.get(type(value), "") for value in _list(result, "enum")}
        if len(kinds) == 1 and (kind := kinds.pop()):
            result.setdefault("type", kind)
        return result

    def _value(self, key: str, value: Any, seen: tuple[str, ...]) -> Any:
        if key == "required":  # older drafts, and some servers, say true at the parameter itself
            return _required({key: value})
        if key in _TABLES and isinstance(value, dict):
            return {name: self.schema(item, seen) for name, item in value.items()}
        if isinstance(value, list):
            return [self.schema(item, seen) for item in value]
        return self.schema(value, seen)

    def _find(self, ref: str) -> dict[str, Any]:
        """Return the part of the schema that a JSON pointer names; nothing is ever fetched."""
        node: Any = self._root if ref == "#" or ref.startswith("#/") else {}
        for part in ref.split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(name)] if isinstance(node, list) else node[name]
            except (LookupError, TypeError, ValueError):
                return {}
        return node if isinstance(node, dict) else {}


def _both(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that says what both say; where they differ, what the second says."""
    both = {**one, **two}
    if isinstance(first := one.get("properties"), dict) and isinstance(
        second := two.get("properties"), dict
    ):
        both["properties"] = {**first, **second}
    required = dict.fromkeys([*_required(one), *_required(two)])
    if required:
        both["required"] = list(required)
    return both


def _required(schema: dict[str, Any]) -> list[str]:
    return [name for name in _list(schema, "required") if isinstance(name, str)]


def _list(schema: dict[str, Any], key: str) -> list[Any]:
    if isinstance(value := schema.get(key), list):
        return value
    return []


def _one_object(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an object with properties: those of all alternatives at the top, of which only what
    all require is required.
    """
    top = {key: value for key, value in schema.items() if key not in _NOT_AT_THE_TOP}
    offered: dict[str, list[Any]] = {}
    for key in _CHOICES:
        options = [_one_object(option) for option in _list(schema, key) if isinstance(option, dict)]
        always = [name for option in options for name in _required(option)]
        if key != "allOf":
            always = [
                name for name in always if all(name in _required(option) for option in options)
            ]
        top = _both(top, {"required": always} if always else {})
        for option in options:
            for name, value in option["properties"].items():
                values = offered.setdefault(name, [])
                values += [] if value in values else [value]
    chosen = {
        name: values[0] if len(values) == 1 else {"anyOf": values}
        for name, values in offered.items()
    }
    own = top.get("properties")
    return (
        {"type": "object"}
        | top
        | {"type": "object", "properties": {**chosen, **(own if isinstance(own, dict) else {})}}
    )
