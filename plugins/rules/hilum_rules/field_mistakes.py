"""Says in plain words what is wrong with fields that a file or a model contains."""

from __future__ import annotations

import re

import msgspec

_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a number",
    "null": "nothing",
    "object": "fields with values",
    "str": "a text",
}


def describe_mistake(error: msgspec.DecodeError) -> str:
    """Return what is wrong, as the end of a sentence: ``'hash' is missing``.

    Args:
        error: The error of the library, whose own words name its types.
    """
    message, _, place = str(error).partition(" - at ")
    key = place.strip("`").removeprefix("$").lstrip(".")
    field = re.search(r"(missing required|unknown) field `([^`]*)`", message)
    if field:
        name = f"{key}.{field[2]}" if key else field[2]
        what = "is not one of its fields" if field[1] == "unknown" else "is missing"
        return f"{name!r} {what}"
    kinds = re.search(r"Expected `([^`]*)`, got `([^`]*)`", message)
    if kinds:
        subject = repr(key) if key else "it"
        return f"{subject} must be {_name_kinds(kinds[1])}, and is {_name_kinds(kinds[2])}"
    return f"{key!r} has a value that is not allowed" if key else "it is not valid JSON"


def _name_kinds(kinds: str) -> str:
    return " or ".join(_KINDS.get(kind.strip(), "another value") for kind in kinds.split("|"))
