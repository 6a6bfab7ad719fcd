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

__all__ = ["Signature", "SignatureError", "read", "split_docstring"]


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
        names = [name if name in required else f"{name} (optional)" for name in self.schema["properties"]]
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
        SignatureError: A parameter has no annotation, is ``*args`` or ``**kwargs``, or only the docstring knows it.
    """
    inner = function.func if isinstance(function, functools.partial) else function
    name, wanted = name or inner.__name__, dict[Any, Any](injected or {})
    hints = typing.get_type_hints(inner, include_extras=True)
    described = split_docstring(inspect.getdoc(inner) or "")[1]
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    inject: dict[str, Any] = {}
    for parameter in inspect.signature(inner).parameters.values():
        key, hint = parameter.name, hints.get(parameter.name)
        if key == "self" and inner is not function:
            continue
        if hint in wanted:
            inject[key] = wanted[hint]
            continue
        if hint is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise error(f"{name}: parameter {key!r} needs a type annotation and must not be *args or **kwargs.")
        if text := described.pop(key, ""):
            hint = typing.Annotated[hint, msgspec.Meta(description=text)]
        fields.append((key, hint) if parameter.default is parameter.empty else (key, hint, parameter.default))
    if unknown := ", ".join(key for key in described if key not in inject):
        raise error(f"{name}: the docstring describes {unknown}, which the function does not take.")
    struct = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    (top,), types = msgspec.json.schema_components([struct])
    schema = types.pop(top["$ref"].removeprefix("#/$defs/"))
    del schema["title"]
    return Signature(struct, schema | ({"$defs": types} if types else {}), inject)


def _unquote(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Parse arguments that a model wrote as JSON inside a string where a list or an object was expected."""

    def parse(value: Any) -> Any:
        if isinstance(value, str) and value[:1] in ("[", "{"):
            with suppress(msgspec.DecodeError):
                return msgspec.json.decode(value)
        return value

    return {key: parse(value) for key, value in raw.items()}


def split_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring into the description and what it says of each parameter."""
    sections = re.split(r"^(Args|Arguments|Returns|Raises|Yields|Example|Examples|Note):\s*$", doc, flags=re.MULTILINE)
    bodies = dict(zip(sections[1::2], sections[2::2], strict=True))
    entries = textwrap.dedent(bodies.get("Args") or bodies.get("Arguments", ""))
    found = re.findall(r"^(\w+)[^:\n]*:(.*(?:\n(?!\S).*)*)", entries, re.MULTILINE)
    return sections[0].strip(), {name: " ".join(text.split()) for name, text in found}
