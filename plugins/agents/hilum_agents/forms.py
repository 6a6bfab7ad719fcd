"""Parses custom answer forms in agent files, describes them to the model, and checks answers.

A form maps field names to kinds of values: ``text``, ``number``, ``integer``, ``boolean``, ``path``
(of an existing file), ``line`` (a line number in the file that a ``path`` field of the same mapping
names), a choice of words (``pass | fail``), a list whose single entry is the kind of its items, or
another mapping. A field whose name ends in ``?`` is optional.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

# A parsed form. Each value is a known kind, a choice, a list with one entry, or a nested form.
Form = dict[str, object]

# These limits prevent a project file from making the type, or its sketch in the prompt, arbitrarily
# large.
MAX_FIELDS = 60
MAX_DEPTH = 5
_MAX_SHOWN = 60
_PATH = "path of a file"
_LINE = "number of a line in that file"
_KINDS: dict[str, Any] = {
    "text": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "path": Annotated[str, msgspec.Meta(min_length=1, description=_PATH)],
    "line": Annotated[int, msgspec.Meta(ge=1, description=_LINE)],
}
_ALIASES = {
    "string": "text",
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "file": "path",
    "": "text",
}
_SKETCHES: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
}


class FormError(ValueError):
    """Raised for an invalid form; the message names the field and the reason."""


# --- parsing --------------------------------------------------------------------------------------


def read_form(value: Mapping[str, object]) -> Form:
    """Parse a form.

    Args:
        value: Field names and kinds, as parsed from front matter.

    Raises:
        FormError: The form is invalid.
    """
    if not value:
        raise FormError("it has no fields")
    return _Parser().parse_mapping(value, "", 1)


class _Parser:
    """A parser for one form that also counts the form's fields."""

    def __init__(self) -> None:
        self._fields = 0

    def parse_mapping(self, value: Mapping[str, object], place: str, depth: int) -> Form:
        """Parse a mapping at a field path, which is empty or ends with a dot."""
        found: Form = {}
        for key, inner in value.items():
            name = str(key).strip()
            self._fields += 1
            if self._fields > MAX_FIELDS or depth > MAX_DEPTH:
                raise FormError(
                    f"it has more than {MAX_FIELDS} fields or is more than {MAX_DEPTH} levels deep"
                )
            if not re.fullmatch(r"[^\W\d][\w-]{0,63}\??", name):
                raise FormError(
                    f"{name[:_MAX_SHOWN]!r} is not a valid name (letters, digits, _ and -)"
                )
            bare = name.removesuffix("?")
            if bare in found or f"{bare}?" in found:
                raise FormError(f"{name!r} occurs twice")
            found[name] = self._parse_kind(inner, f"{place}{bare}", depth)
        return found

    def _parse_kind(self, value: object, place: str, depth: int) -> object:
        if isinstance(value, Mapping):
            if not value:
                raise FormError(f"{place} has no fields")
            return self.parse_mapping(value, f"{place}.", depth + 1)
        if isinstance(value, list):
            if len(value) != 1:
                raise FormError(f"{place} must be a list with one entry, the kind of its values")
            if isinstance(value[0], list):
                raise FormError(f"{place} is a list of lists")
            return [self._parse_kind(value[0], place, depth)]
        return _parse_word("" if value is None else str(value).strip(), place)


def _parse_word(text: str, place: str) -> str:
    words = [word.strip() for word in text.split("|")]
    if len(words) > 1 and all(words):
        return " | ".join(dict.fromkeys(words))
    kind = _ALIASES.get(text.casefold(), text.casefold())
    if kind not in _KINDS:
        raise FormError(
            f"{place} is {text[:_MAX_SHOWN]!r}; it must be {', '.join(_KINDS)}, words separated by"
            " |, a list or a mapping"
        )
    return kind


def make_type(form: Mapping[str, object], name: str = "Answer") -> type[msgspec.Struct]:
    """Create the type that a form describes.

    Args:
        form: A form returned by ``read_form``.
        name: Name of the type, used in messages.
    """
    fields: list[Any] = []
    names = {}
    for number, (key, inner) in enumerate(form.items()):
        field = f"field_{number}"  # a form's field names need not be identifiers
        kind = _make_kind(inner, key)
        names[field] = key.removesuffix("?")
        if key.endswith("?"):
            fields.append((field, kind | msgspec.UnsetType, msgspec.UNSET))
        else:
            fields.append((field, kind))
    # With keyword-only fields, an optional field may precede a required one.
    return msgspec.defstruct(name, fields, rename=names, kw_only=True)


def _make_kind(kind: object, name: str) -> Any:
    if isinstance(kind, Mapping):
        return make_type(kind, name.removesuffix("?"))
    if isinstance(kind, list):
        return list[_make_kind(kind[0], name)]  # type: ignore[misc]
    text = str(kind)
    if " | " in text:
        return Literal[tuple(text.split(" | "))]
    return _KINDS[text]


# --- instructions ---------------------------------------------------------------------------------


def instructions(kind: type[msgspec.Struct]) -> str:
    """Return the instructions that tell a model to end its answer with a form."""
    return (
        "At the very end of your answer write one block for programs, in a fence that begins with"
        f" ```json: an object of this form, with your findings as values:\n\n{sketch(kind)}"
    )


def sketch(kind: Any) -> str:
    """Return a JSON sketch of a type: its field names and the kinds of their values."""
    origin = get_origin(kind)
    arguments = get_args(kind)
    if origin is Annotated:
        return next(_descriptions(kind))
    if origin is Literal:
        return " or ".join(f'"{word}"' for word in arguments)
    if origin is list:
        return f"[{sketch(arguments[0])}, ...]"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return "{" + ", ".join(map(_sketch_field, msgspec.structs.fields(kind))) + "}"
    if msgspec.UnsetType in arguments:
        return sketch(next(each for each in arguments if each is not msgspec.UnsetType))
    return _SKETCHES[kind]


def _sketch_field(field: msgspec.structs.FieldInfo) -> str:
    optional = "" if field.default is msgspec.NODEFAULT else " (optional)"
    return f'"{field.encode_name}": {sketch(field.type)}{optional}'


def _descriptions(kind: Any) -> Iterator[str]:
    """Yield the descriptions in a type's annotations."""
    for argument in get_args(kind):
        if isinstance(argument, msgspec.Meta) and argument.description:
            yield argument.description
        yield from _descriptions(argument)


# --- checking -------------------------------------------------------------------------------------


def wrong_places(
    answer: msgspec.Struct,
    check_place: Callable[..., Iterator[str]],
) -> Iterator[str]:
    """Yield problems with the files and line numbers in an answer.

    Args:
        answer: The answer, an instance of a type that ``make_type`` created.
        check_place: A function that yields the problems with a path and its lines.
    """
    paths: list[str] = []
    lines: list[int] = []
    for field in msgspec.structs.fields(answer):
        value = getattr(answer, field.name)
        descriptions = tuple(_descriptions(field.type))
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, msgspec.Struct):
                yield from wrong_places(each, check_place)
            elif isinstance(each, str) and _PATH in descriptions:
                paths.append(each)
            elif isinstance(each, int) and _LINE in descriptions:
                lines.append(each)
    # With several files in the same mapping, it is unknown to which file the lines refer.
    checked = lines if len(paths) == 1 else []
    for path in paths:
        yield from check_place(path, *checked)
