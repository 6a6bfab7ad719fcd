"""JSON Schema and argument checks from a function's signature and Google-style docstring."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

__all__ = ["Signature", "SignatureError", "nesting", "read", "split_docstring"]

MAX_UNQUOTED_DEPTH = 100
# An unterminated string extends to the end of the text, as for a decoder; this keeps the search
# linear.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


class SignatureError(Exception):
    """A function's signature or docstring lacks information that a caller needs."""


class Signature(msgspec.Struct, frozen=True):
    """The parameters of a function.

    Attributes:
        struct: The parameters as a struct type.
        schema: The parameters as JSON Schema.
        injected: Parameters that are injected by type, each with the object registered for the
            type.
    """

    struct: type[msgspec.Struct]
    schema: dict[str, Any]
    injected: dict[str, Any]

    @property
    def takes(self) -> str:
        """The names of the parameters, for a message."""
        required = self.schema.get("required", ())
        names = []
        for name in self.schema["properties"]:
            names.append(name if name in required else f"{name} (optional)")
        return ", ".join(names) or "none"

    def convert(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Check arguments, and convert them to the types that the function declares.

        Raises:
            msgspec.ValidationError: The arguments do not fit; the message names the argument.
        """
        try:
            return msgspec.structs.asdict(msgspec.convert(dict(raw), self.struct))
        except msgspec.ValidationError:
            # Quoted JSON is parsed only after a failure, so that a text parameter can receive text
            # that looks like JSON.
            with suppress(msgspec.ValidationError):
                return msgspec.structs.asdict(msgspec.convert(_unquote(raw), self.struct))
            raise


def read(
    function: Callable[..., Any],
    *,
    name: str = "",
    injected: Mapping[type, Any] | None = None,
    error: Callable[[str], Exception] = SignatureError,
) -> Signature:
    """Read the signature of a function.

    A ``functools.partial`` counts as a method bound to ``self``.

    Args:
        function: The function.
        name: The function's name in messages; by default, its own name.
        injected: Types whose parameters the caller injects.
        error: A function that creates the exception for a message.

    Raises:
        SignatureError: A parameter has no annotation, is ``*args`` or ``**kwargs``, or appears only
            in the docstring. The message lists every mistake.
    """
    inner = function.func if isinstance(function, functools.partial) else function
    name = name or inner.__name__
    wanted = dict[Any, Any](injected or {})
    hints = typing.get_type_hints(inner, include_extras=True)
    described = split_docstring(inspect.getdoc(inner) or "")[1]
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    inject: dict[str, Any] = {}
    problems = []
    for parameter in inspect.signature(inner).parameters.values():
        key = parameter.name
        hint = hints.get(key)
        if key == "self" and inner is not function:
            continue
        if hint in wanted:
            inject[key] = wanted[hint]
            continue
        if hint is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            described.pop(key, "")
            problems.append(
                f"parameter {key!r} needs a type annotation and must not be *args or **kwargs"
            )
            continue
        fields.append(_field(parameter, hint, described.pop(key, "")))
    unknown = ", ".join(key for key in described if key not in inject)
    if unknown:
        problems.append(f"the docstring describes {unknown}, which the function does not take")
    if problems:
        raise error(f"{name}: {'; '.join(problems)}.")
    # A misspelled optional argument must be an error, because ignoring it would change what the
    # call does.
    struct = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    return Signature(struct, _schema_of(struct), inject)


def _field(
    parameter: inspect.Parameter, hint: Any, description: str
) -> tuple[str, Any] | tuple[str, Any, Any]:
    """Return the struct field for a parameter."""
    if description:
        hint = typing.Annotated[hint, msgspec.Meta(description=description)]
    if parameter.default is parameter.empty:
        return parameter.name, hint
    return parameter.name, hint, parameter.default


def _schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a struct, with the referenced types in ``$defs``."""
    (top,), types = msgspec.json.schema_components([struct])
    schema: dict[str, Any] = types.pop(top["$ref"].removeprefix("#/$defs/"))
    del schema["title"]
    if types:
        schema["$defs"] = types
    shortened: dict[str, Any] = _shorten(schema)
    return shortened


# Default values that only mean that the parameter is optional.
_EMPTY_DEFAULTS: tuple[Any, ...] = (None, False, "", [], {})


def _shorten(schema: Any) -> Any:
    """Return a schema without the parts that cost tokens and do not help a model.

    Titles repeat names. ``null`` as an alternative and empty defaults only repeat that a parameter
    is optional, which ``required`` also shows. The shorter schema does not change what a function
    accepts, because its struct decides that.
    """
    if isinstance(schema, list):
        return [_shorten(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shortened: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" or (key == "default" and _is_empty(value)):
            continue
        if key in ("properties", "$defs"):
            # The keys in ``properties`` and ``$defs`` are names that the author chose, perhaps
            # "title".
            shortened[key] = {name: _shorten(item) for name, item in value.items()}
        elif key in ("default", "enum"):
            shortened[key] = value
        else:
            shortened[key] = _shorten(value)
    alternatives = shortened.get("anyOf", [])
    others = [each for each in alternatives if each != {"type": "null"}]
    if len(alternatives) == 2 and len(others) == 1:
        del shortened["anyOf"]
        shortened |= others[0]
    return shortened


def _is_empty(default: object) -> bool:
    """Return whether a default is empty. 0 is not empty, although 0 == False."""
    return any(type(default) is type(empty) and default == empty for empty in _EMPTY_DEFAULTS)


def _unquote(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Parse those arguments that are lists or objects written as JSON inside a string."""
    return {key: _parse_quoted(value) for key, value in raw.items()}


def _parse_quoted(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    if nesting(value) > MAX_UNQUOTED_DEPTH:
        return value
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(value)
    return value


def nesting(text: str) -> int:
    """Return the nesting depth of the lists and objects in a JSON text.

    The text is not decoded, because JSON decoders are recursive. Invalid JSON is measured at least
    up to the point where a decoder would stop.
    """
    opening = text.count("[") + text.count("{")
    if opening <= MAX_UNQUOTED_DEPTH:
        return opening  # this upper bound is enough, because it is below every limit
    depth = 0
    deepest = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in "]}":
            depth -= 1
    return deepest


def split_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring into the description and the descriptions of parameters."""
    sections = re.split(
        r"^(Args|Arguments|Returns|Raises|Yields|Example|Examples|Note):\s*$",
        doc,
        flags=re.MULTILINE,
    )
    bodies = dict(zip(sections[1::2], sections[2::2], strict=True))
    entries = textwrap.dedent(bodies.get("Args") or bodies.get("Arguments", ""))
    found = re.findall(r"^(\w+)[^:\n]*:(.*(?:\n(?!\S).*)*)", entries, re.MULTILINE)
    described = {name: " ".join(text.split()) for name, text in found}
    return sections[0].strip(), described
