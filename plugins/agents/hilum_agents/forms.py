"""Forms of answers that an agent's own file describes: read, told to the model, and held against
what it answers.

A form is a mapping of names to kinds of values: ``text``, ``number``, ``integer``, ``boolean``,
``path`` (of a file that exists), ``line`` (of the file beside it), words to choose from
(``pass | fail``), a list with one entry for many of that, or a mapping again. A name that ends in
``?`` may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

Form = dict[str, object]
"""A form as it was read: every value is a kind that is known, a list with one entry, or a form."""

MOST_FIELDS = 60
DEEPEST = 5
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


class BadForm(ValueError):
    """A form that cannot be used; says where and why."""


def read_form(value: Mapping[str, object]) -> Form:
    """Read a form as a file has it.

    Args:
        value: Names and kinds, as front matter gives them.

    Raises:
        BadForm: Something in it is no kind of value.
    """
    room = [MOST_FIELDS]
    if not value:
        raise BadForm("it names nothing")
    return _read_mapping(value, "", room, 1)


def _read_mapping(value: Mapping[str, object], place: str, room: list[int], depth: int) -> Form:
    found: Form = {}
    for key, inner in value.items():
        name = str(key).strip()
        room[0] -= 1
        if room[0] < 0 or depth > DEEPEST:
            raise BadForm(f"it has more than {MOST_FIELDS} names, or is more than {DEEPEST} deep")
        if not re.fullmatch(r"[^\W\d][\w-]{0,63}\??", name):
            raise BadForm(f"{name[:60]!r} is no name (letters, digits, _ and -)")
        if f"{name}?" in found or name.removesuffix("?") in found:
            raise BadForm(f"{name!r} stands twice")
        found[name] = _read_kind(inner, f"{place}{name.removesuffix('?')}", room, depth)
    return found


def _read_kind(value: object, place: str, room: list[int], depth: int) -> object:
    if isinstance(value, Mapping):
        if not value:
            raise BadForm(f"{place} names nothing")
        return _read_mapping(value, f"{place}.", room, depth + 1)
    if isinstance(value, list):
        if len(value) != 1:
            raise BadForm(f"{place} must be a list with one entry, which says what each of them is")
        if isinstance(value[0], list):
            raise BadForm(f"{place} is a list of lists")
        return [_read_kind(value[0], place, room, depth)]
    text = "" if value is None else str(value).strip()
    words = [word.strip() for word in text.split("|")]
    if len(words) > 1 and all(words):
        return " | ".join(dict.fromkeys(words))
    kind = _ALIASES.get(text.casefold(), text.casefold())
    if kind not in _KINDS:
        raise BadForm(
            f"{place} is {text[:60]!r}; it must be {', '.join(_KINDS)}, words with | between them,"
            " or a list"
        )
    return kind


def make_type(form: Mapping[str, object], name: str = "Answer") -> type[msgspec.Struct]:
    """Create the type that a form describes.

    Args:
        form: As ``read_form`` gives it.
        name: What the type is called in errors.
    """
    fields: list[Any] = []
    renamed = {}
    for number, (key, inner) in enumerate(form.items()):
        field = f"field_{number}"
        kind = _type(inner, key)
        renamed[field] = key.removesuffix("?")
        fields.append(
            (field, kind | msgspec.UnsetType, msgspec.UNSET) if key.endswith("?") else (field, kind)
        )
    return msgspec.defstruct(name, fields, rename=renamed, kw_only=True)


def _type(kind: object, name: str) -> Any:
    if isinstance(kind, Mapping):
        return make_type(kind, name.removesuffix("?"))
    if isinstance(kind, list):
        return list[_type(kind[0], name)]  # type: ignore[misc]
    text = str(kind)
    if " | " in text:
        return Literal[tuple(text.split(" | "))]
    return _KINDS[text]


# --- telling --------------------------------------------------------------------------------------


def instructions(kind: type[msgspec.Struct]) -> str:
    """Tell the model how its answer must end."""
    return (
        "At the very end of your answer stands one block for programs, in a fence that begins with"
        f" ```json: an object of this form, with what you found for values:\n\n{sketch(kind)}"
    )


def sketch(kind: Any) -> str:
    """Draw the form of a type: names, and what stands there."""
    if get_origin(kind) is Annotated:
        return next(_notes(kind))
    if get_origin(kind) is Literal:
        return " or ".join(f'"{word}"' for word in get_args(kind))
    if get_origin(kind) is list:
        return f"[{sketch(get_args(kind)[0])}, ...]"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        inner = (
            f'"{field.encode_name}":'
            f" {sketch(field.type)}{' (may be missing)' if _optional(field) else ''}"
            for field in msgspec.structs.fields(kind)
        )
        return "{" + ", ".join(inner) + "}"
    if msgspec.UnsetType in get_args(kind):
        return sketch(next(each for each in get_args(kind) if each is not msgspec.UnsetType))
    return {str: "text", int: "integer", float: "number", bool: "true or false"}[kind]


def _notes(kind: Any) -> Iterator[str]:
    """What is said of the values of a type, besides what they are."""
    for each in get_args(kind):
        if isinstance(each, msgspec.Meta) and each.description:
            yield each.description
        yield from _notes(each)


def _optional(field: msgspec.structs.FieldInfo) -> bool:
    return field.default is not msgspec.NODEFAULT


# --- checking -------------------------------------------------------------------------------------


def wrong_places(answer: msgspec.Struct, place: Callable[..., str]) -> Iterator[str]:
    """Return which files and lines of an answer there are not.

    Args:
        answer: Of a type that ``make_type`` made.
        place: Says what is wrong with a path and lines; empty if nothing is.
    """
    paths = list[str]()
    lines = list[int]()
    for field in msgspec.structs.fields(answer):
        value = getattr(answer, field.name)
        values = value if isinstance(value, list) else [value]
        notes = tuple(_notes(field.type))
        for each in values:
            if isinstance(each, msgspec.Struct):
                yield from wrong_places(each, place)
            elif isinstance(each, str) and _PATH in notes:
                paths.append(each)
            elif isinstance(each, int) and _LINE in notes:
                lines.append(each)
    for path in paths:
        # Lines belong to the file beside them; where there are several files nobody can tell to
        # which.
        wrong = place(path, *(lines if len(paths) == 1 else ()))
        if wrong:
            yield wrong
