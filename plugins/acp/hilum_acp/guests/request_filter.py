"""Rules that state which parts of a request may pass, from which the formats are composed.

A rule is a function of a value and its place; it returns what may pass, and raises `RequestRefused`
for everything that it does not know. Nothing passes because nobody has thought of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

MAX_SHOWN = 200  # characters of a place in an error
FETCHES = "refers to a file on another server or in an account; hilum passes on only inline data"
_DATA_ADDRESS = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,")
IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
PDF = "application/pdf"
# Neither the address of a server nor that of a file can be written without these.
_NOT_BASE64 = (":", ".", "\\", "%")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class RequestRefused(ValueError):
    """A request contains something that is not passed on; the text names it."""


@attrs.define
class Files:
    """What happens to the inline files of a request.

    Attributes:
        are_kept: Whether they stay; they are left out where only the text is measured.
        found: The media type of each file, and its length in base64.
    """

    are_kept: bool = True
    found: list[tuple[str, int]] = attrs.field(factory=list)

    def take(self, media_type: str, content: str) -> str:
        """Record a file, and return what stays of it."""
        self.found.append((media_type, len(content)))
        return content if self.are_kept else ""


Rule = Callable[[Any, str, Files], Any]
"""Returns the part of a value at a place that may pass."""


def make_refusal(place: str, reason: str) -> RequestRefused:
    """Return the error for a part of a request."""
    shown = place if len(place) <= MAX_SHOWN else f"{place[:MAX_SHOWN]}…"
    return RequestRefused(f"`{shown}` {reason}.")


# --- single values --------------------------------------------------------------------------------


def scalar(value: Any, place: str, files: Files) -> Any:
    """Return a string, a number, a boolean or ``None``."""
    if isinstance(value, dict | list):
        raise make_refusal(place, "must be a single value")
    return value


def text(value: Any, place: str, files: Files) -> Any:
    """Return a string or ``None``."""
    if not isinstance(value, str | None):
        raise make_refusal(place, "must be a string")
    return value


def flag(value: Any, place: str, files: Files) -> Any:
    """Return a boolean or ``None``."""
    if not isinstance(value, bool | None):
        raise make_refusal(place, "must be true or false")
    return value


def data(value: Any, place: str, files: Files) -> Any:
    """Return anything: the arguments and results of the program's own tools, which only are text."""
    return value


def count(value: Any, place: str, files: Files) -> Any:
    """Return a positive integer or ``None``."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise make_refusal(place, "must be a positive integer")
    return value


def schema(value: Any, place: str, files: Files) -> Any:
    """Pass a JSON schema that refers only to itself."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            for name in _REFERENCES:
                target = found.get(name)
                if isinstance(target, str) and not target.startswith("#"):
                    raise make_refusal(f"{place}…{name}", "refers to another schema")
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found
    return value


def base64(value: Any, place: str, files: Files) -> Any:
    """Pass a text in base64."""
    if not isinstance(value, str):
        raise make_refusal(place, "must be a string")
    if any(sign in value for sign in _NOT_BASE64):
        raise make_refusal(place, FETCHES)
    return value


# --- files ----------------------------------------------------------------------------------------


def _check_media_type(value: Any, media_types: tuple[str, ...], place: str) -> None:
    # Seconds of audio and video cost as much as pages of text, and an SVG can refer to servers.
    if value not in media_types:
        shown = f"{value!r}"[:50]
        raise make_refusal(
            place, f"has the media type {shown}; it must be {' or '.join(media_types)}"
        )


def data_address(*media_types: str) -> Rule:
    """Return a rule that passes a ``data:`` address, which contains a file of one of some types."""

    def check(value: Any, place: str, files: Files) -> Any:
        if not isinstance(value, str):
            raise make_refusal(place, "must be a string")
        start = _DATA_ADDRESS.match(value)
        if start is None:
            raise make_refusal(place, FETCHES)
        _check_media_type(start["type"], media_types, place)
        content = base64(value[start.end() :], place, files)
        return start[0] + files.take(start["type"], content)

    return check


def typed_data(rule: Rule, type_name: str, *media_types: str) -> Rule:
    """Return a rule that passes an object with ``data`` of one of some types.

    Args:
        rule: The rule of the object.
        type_name: The field with the media type.
        media_types: The types.
    """

    def check(value: Any, place: str, files: Files) -> Any:
        kept = rule(value, place, files)
        if kept is None:
            return None
        _check_media_type(kept.get(type_name), media_types, f"{place}.{type_name}")
        if kept.get("data") is None:
            raise make_refusal(f"{place}.data", "is missing")
        return {**kept, "data": files.take(kept[type_name], kept["data"])}

    return check


# --- compositions ---------------------------------------------------------------------------------


def one_of(*values: str) -> Rule:
    """Return a rule that passes only some texts."""

    def check(value: Any, place: str, files: Files) -> Any:
        if not isinstance(value, str) or value not in values:
            raise make_refusal(place, f"must be {' or '.join(values)}")
        return value

    return check


def items(rule: Rule) -> Rule:
    """Return a rule for lists."""

    def check(value: Any, place: str, files: Files) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise make_refusal(place, "must be a list")
        return [rule(item, f"{place}[{number}]", files) for number, item in enumerate(value)]

    return check


def text_or(rule: Rule) -> Rule:
    """Return a rule for values that may also be a text."""

    def check(value: Any, place: str, files: Files) -> Any:
        return value if isinstance(value, str | None) else rule(value, place, files)

    return check


def fields(
    allowed: Mapping[str, Rule], dropped: str = "", rename: Callable[[str], str] | None = None
) -> Rule:
    """Return a rule for objects.

    Args:
        allowed: The rules of the fields.
        dropped: Names of fields that are left out, because they change nothing for the program.
        rename: Returns the name of a field in ``allowed``, for formats that know several.
    """
    names = frozenset(dropped.split())

    def check(value: Any, place: str, files: Files) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise make_refusal(place, "must be an object")
        kept: dict[str, Any] = {}
        for given, item in value.items():
            name = rename(given) if rename is not None else given
            inner = f"{place}.{given}" if place else given
            if name in kept:
                raise make_refusal(inner, "is given twice")
            if name in allowed:
                kept[name] = allowed[name](item, inner, files)
            # Many libraries send the fields that they do not use, without a value.
            elif item and name not in names:
                raise make_refusal(inner, "is not among the fields that hilum passes on to a model")
        return kept

    return check


def by_type(cases: Mapping[str, Rule], default: str = "", name: str = "type") -> Rule:
    """Return a rule for objects that a field distinguishes.

    Args:
        cases: The rules by the value of the field.
        default: The value that is meant if the field is missing.
        name: Name of the field.
    """

    def check(value: Any, place: str, files: Files) -> Any:
        if not isinstance(value, dict):
            raise make_refusal(place, "must be an object")
        kind = value.get(name, default)
        rule = cases.get(kind) if isinstance(kind, str) else None
        if rule is None:
            shown = f"{kind!r}"[:50]
            raise make_refusal(
                f"{place}.{name}", f"is {shown}, which hilum does not pass on to a model"
            )
        return rule(value, place, files)

    return check


def complete(rule: Rule, *required: str, one_of_these: tuple[str, ...] = ()) -> Rule:
    """Return a rule for objects that must have some fields.

    Args:
        rule: The rule of the object.
        required: The fields that must have a value.
        one_of_these: The fields of which one must contain something.
    """

    def check(value: Any, place: str, files: Files) -> Any:
        kept = rule(value, place, files)
        for name in required:
            if kept.get(name) is None:
                raise make_refusal(f"{place}.{name}", "is missing")
        if one_of_these and not any(kept.get(name) for name in one_of_these):
            raise make_refusal(place, f"has none of the fields {', '.join(one_of_these)}")
        return kept

    return check


def own_tools(rule: Callable[[dict[str, Any]], Rule | None]) -> Rule:
    """Return a rule for the list of tools, which leaves out those that the provider runs.

    Args:
        rule: Returns the rule of a tool that the program itself carries out.
    """

    def check(value: Any, place: str, files: Files) -> Any:
        kept: list[Any] = []
        for number, tool in enumerate(value if isinstance(value, list) else ()):
            found = rule(tool) if isinstance(tool, dict) else None
            if found is not None:
                kept.append(found(tool, f"{place}[{number}]", files))
        return kept

    return check
