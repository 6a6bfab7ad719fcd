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
    missing = re.search(r"missing required field `([^`]*)`", message)
    unknown = re.search(r"unknown field `([^`]*)`", message)
    kinds = re.search(r"Expected `([^`]*)`, got `([^`]*)`", message)
    if missing:
        return f"{_join(key, missing[1])!r} is missing"
    if unknown:
        return f"{_join(key, unknown[1])!r} is not one of its fields"
    if kinds and key:
        return f"{key!r} must be {_name_kinds(kinds[1])}, and is {_name_kinds(kinds[2])}"
    if kinds:
        return f"it must be {_name_kinds(kinds[1])}, and is {_name_kinds(kinds[2])}"
    if key:
        return f"{key!r} has a value that is not allowed"
    return "it is not valid JSON"


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _name_kinds(kinds: str) -> str:
    return " or ".join(_KINDS.get(kind.strip(), "another value") for kind in kinds.split("|"))
