"""Converts tool schemas to a form that every provider accepts: an object without references.

Tools may have any JSON Schema, and those of MCP servers contain references and alternatives. Some
providers, and the templates of local models, do not resolve ``$ref``. Most providers reject a
request in which a tool's schema is not an object with properties at the root. The tool itself
checks its arguments against its original schema; the simplified one only informs the model.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]

# Keywords whose values contain schemas: in an object with arbitrary names, or as one schema or a
# list. The values of all other keywords are data.
_TABLES = frozenset(("dependentSchemas", "patternProperties", "properties"))
_SCHEMAS = frozenset(
    """
    additionalItems additionalProperties allOf anyOf contains else if items not oneOf prefixItems
    propertyNames then unevaluatedItems unevaluatedProperties
    """.split()
)
# Some servers write null for keywords that are not set; for these two keywords, null is a valid
# value.
_MAY_BE_NULL = ("const", "default")
_DROPPED = frozenset("$anchor $comment $defs $id $ref $schema definitions title".split())
_TYPES = {str: "string", int: "integer", bool: "boolean"}
_CHOICES = ("allOf", "anyOf", "oneOf")
_NOT_AT_THE_TOP = frozenset((*_CHOICES, "enum", "not"))
# A few kilobytes of self-references can expand to gigabytes. Beyond these limits, references are
# left unresolved.
MAX_SCHEMAS = 2000
MAX_REFERENCES = 20


def simplify_schema(schema: Schema) -> Schema:
    """Return a tool's schema without references, titles, and alternatives at the root.

    The result is deterministic. A reference to an enclosing schema, to another document or to
    nothing is replaced with a more permissive schema.

    Args:
        schema: JSON Schema of the parameters; it is not changed.
    """
    return _merge_choices(_Resolver(schema).resolve(schema, ()))


class _Resolver:
    """A resolver that replaces references with the schemas to which they refer."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = MAX_SCHEMAS

    def resolve(self, node: Any, seen: tuple[str, ...]) -> Any:
        """Resolve a schema that was reached through the references ``seen``."""
        if not isinstance(node, dict):
            return node
        self._left -= 1
        node, seen = self._follow(node, seen)
        result = {}
        for key, value in node.items():
            if key in _DROPPED or (value is None and key not in _MAY_BE_NULL):
                continue
            result[key] = self._resolve_value(key, value, seen)
        # Some providers require the type of an enumeration, which many tools leave out.
        values = _get_list(result, "enum")
        types = {_TYPES.get(type(value), "") for value in values}
        if len(types) == 1 and "" not in types:
            result.setdefault("type", types.pop())
        return result

    def _follow(self, node: Schema, seen: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Return the schema at the end of a chain of references, and the references followed."""
        while isinstance(ref := node.get("$ref"), str):
            found = self._find(ref)
            beside = {key: value for key, value in node.items() if key != "$ref"}
            is_cut = self._left < 0 or len(seen) >= MAX_REFERENCES
            if ref in seen or is_cut:
                found = {key: found[key] for key in ("type", "description") if key in found}
            node = _merge(found, beside)
            seen = (*seen, ref)
        return node, seen

    def _resolve_value(self, key: str, value: Any, seen: tuple[str, ...]) -> Any:
        if key == "required":
            # In older drafts, and in schemas from some servers, `required` is true in the parameter
            # itself.
            return _get_required({key: value})
        if key in _TABLES and isinstance(value, dict):
            return {name: self.resolve(item, seen) for name, item in value.items()}
        if key not in _TABLES and key not in _SCHEMAS:
            return value
        if isinstance(value, list):
            return [self.resolve(item, seen) for item in value]
        return self.resolve(value, seen)

    def _find(self, ref: str) -> Schema:
        """Return the schema at a JSON pointer (RFC 6901), without fetching anything."""
        if ref != "#" and not ref.startswith("#/"):
            return {}
        # Nothing is fetched: a schema from a server could make hilum request any address.
        node: Any = self._root
        for part in ref.split("/")[1:]:
            # RFC 6901, section 4, requires this order, so that `~01` becomes `~1`.
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(name)] if isinstance(node, list) else node[name]
            except (LookupError, TypeError, ValueError):
                return {}
        return node if isinstance(node, dict) else {}


def _merge(first: Schema, second: Schema) -> Schema:
    """Return a schema with the keywords of two schemas, of which the second takes precedence."""
    merged = {**first, **second}
    properties = first.get("properties")
    more_properties = second.get("properties")
    if isinstance(properties, dict) and isinstance(more_properties, dict):
        merged["properties"] = {**properties, **more_properties}
    required = dict.fromkeys([*_get_required(first), *_get_required(second)])
    if required:
        merged["required"] = list(required)
    return merged


def _get_required(schema: Schema) -> list[str]:
    return [name for name in _get_list(schema, "required") if isinstance(name, str)]


def _get_list(schema: Schema, key: str) -> list[Any]:
    value = schema.get(key)
    if isinstance(value, list):
        return value
    return []


def _merge_choices(schema: Schema) -> Schema:
    """Return an object with the properties of all alternatives at the root."""
    top = {key: value for key, value in schema.items() if key not in _NOT_AT_THE_TOP}
    offered: dict[str, list[Any]] = {}
    for key in _CHOICES:
        options = []
        for option in _get_list(schema, key):
            if isinstance(option, dict):
                options.append(_merge_choices(option))
        # A parameter is required only if every alternative requires it.
        if key == "allOf":
            required = _required_of_any(options)
        else:
            required = _required_of_all(options)
        if required:
            top = _merge(top, {"required": required})
        for option in options:
            _offer_properties(option, offered)
    properties = {name: _choose(values) for name, values in offered.items()}
    own = top.get("properties")
    # The schema's own properties describe a parameter better than an alternative does.
    if isinstance(own, dict):
        properties |= own
    # The type is written twice: the first entry puts it first, and the second overrides any other
    # value.
    return {"type": "object"} | top | {"type": "object", "properties": properties}


def _required_of_any(options: list[Schema]) -> list[str]:
    return [name for option in options for name in _get_required(option)]


def _required_of_all(options: list[Schema]) -> list[str]:
    names = _required_of_any(options)
    return [name for name in names if all(name in _get_required(option) for option in options)]


def _offer_properties(option: Schema, offered: dict[str, list[Any]]) -> None:
    for name, value in option["properties"].items():
        values = offered.setdefault(name, [])
        if value not in values:
            values.append(value)


def _choose(values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    return {"anyOf": values}
