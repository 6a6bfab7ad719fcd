"""JSON Schema, and checked arguments, from a function's signature and Google-style docstring."""

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
# A string without an end reaches to the end of the text, as it does for a decoder; so the search
# stays linear.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


class SignatureError(Exception):
    """A function's signature or docstring does not say what a caller must know."""


class Signature(msgspec.Struct, frozen=True):
    """What a function takes.

    Attributes:
        struct: The parameters as a struct type.
        schema: The same as JSON Schema.
        injected: Parameters that are filled in by type, each with what was registered for its type.
    """

    struct: type[msgspec.Struct]
    schema: dict[str, Any]
    injected: dict[str, Any]

    @property
    def takes(self) -> str:
        """The names of the parameters, for a message."""
        required = self.schema.get("required", ())
        names = [
            name if name in required else f"{name} (optional)" for name in self.schema["properties"]
        ]
        return ", ".join(names) or "none"

    def convert(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Check arguments, and give them as the types that the function declares.

        Raises:
            msgspec.ValidationError: They do not fit; the message names the place.
        """
        try:
            return msgspec.structs.asdict(msgspec.convert(dict(raw), self.struct))
        except msgspec.ValidationError:
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
    """Read a function. A ``functools.partial`` stands for a method with its ``self``.

    Args:
        function: The function.
        name: What to call it; its own name by default.
        injected: Types whose parameters are filled in by the caller.
        error: Makes what to raise of a message.

    Raises:
        SignatureError: A parameter has no annotation, is ``*args`` or ``**kwargs``, or only the
            docstring knows it.
    """
    inner = function.func if isinstance(function, functools.partial) else function
    name = name or inner.__name__
    wanted = dict[Any, Any](injected or {})
    hints = typing.get_type_hints(inner, include_extras=True)
    described = split_docstring(inspect.getdoc(inner) or "")[1]
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    inject: dict[str, Any] = {}
    for parameter in inspect.signature(inner).parameters.values():
        key = parameter.name
        hint = hints.get(parameter.name)
        if key == "self" and inner is not function:
            continue
        if hint in wanted:
            inject[key] = wanted[hint]
            continue
        if hint is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise error(
                f"{name}: parameter {key!r} needs a type annotation and must not be *args or"
                " **kwargs."
            )
        text = described.pop(key, "")
        if text:
            hint = typing.Annotated[hint, msgspec.Meta(description=text)]
        fields.append(
            (key, hint) if parameter.default is parameter.empty else (key, hint, parameter.default)
        )
    unknown = ", ".join(key for key in described if key not in inject)
    if unknown:
        raise error(f"{name}: the docstring describes {unknown}, which the function does not take.")
    struct = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    (top,), types = msgspec.json.schema_components([struct])
    schema = types.pop(top["$ref"].removeprefix("#/$defs/"))
    del schema["title"]
    if types:
        schema["$defs"] = types
    return Signature(struct, _shorten(schema), inject)


# Defaults that say no more than that the parameter may be left out.
_EMPTY_DEFAULTS: tuple[Any, ...] = (None, False, "", [], {})


def _shorten(schema: Any) -> Any:
    """Return a schema without what costs tokens in every request and tells a model nothing.

    Titles repeat names. ``null`` as an alternative and empty defaults repeat that a parameter is
    optional, which follows from ``required``. What a function accepts does not change: its struct
    decides that.
    """
    if isinstance(schema, list):
        return [_shorten(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shortened: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            shortened[key] = {name: _shorten(item) for name, item in value.items()}
        elif key == "title":
            continue
        elif key == "default":
            if not any(
                value is empty or (value == empty and type(value) is type(empty))
                for empty in _EMPTY_DEFAULTS
            ):
                shortened[key] = value
        elif key == "enum":
            shortened[key] = value
        else:
            shortened[key] = _shorten(value)
    alternatives = shortened.get("anyOf", [])
    some = [each for each in alternatives if each != {"type": "null"}]
    if len(alternatives) == 2 and len(some) == 1:
        del shortened["anyOf"]
        shortened |= some[0]
    return shortened


def _unquote(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Parse arguments that a model wrote as JSON inside a string where a list or an object was
    expected.
    """

    def parse(value: Any) -> Any:
        if (
            isinstance(value, str)
            and value[:1] in ("[", "{")
            and nesting(value) <= MAX_UNQUOTED_DEPTH
        ):
            with suppress(msgspec.DecodeError):
                return msgspec.json.decode(value)
        return value

    return {key: parse(value) for key, value in raw.items()}


def nesting(text: str) -> int:
    """Return how deep lists and objects of a JSON text are nested, without decoding it: decoders
    recurse.

    Text that is not valid JSON is measured up to where a decoder would stop at least.
    """
    opening = text.count("[") + text.count("{")
    if opening <= MAX_UNQUOTED_DEPTH:
        return opening  # an upper bound will do: it is below every limit
    depth = deepest = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in "]}":
            depth -= 1
    return deepest


def split_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring into the description and what it says of each parameter."""
    sections = re.split(
        r"^(Args|Arguments|Returns|Raises|Yields|Example|Examples|Note):\s*$",
        doc,
        flags=re.MULTILINE,
    )
    bodies = dict(zip(sections[1::2], sections[2::2], strict=True))
    entries = textwrap.dedent(bodies.get("Args") or bodies.get("Arguments", ""))
    found = re.findall(r"^(\w+)[^:\n]*:(.*(?:\n(?!\S).*)*)", entries, re.MULTILINE)
    return sections[0].strip(), {name: " ".join(text.split()) for name, text in found}
