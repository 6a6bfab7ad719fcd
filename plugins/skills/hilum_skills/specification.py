"""Checks a skill against the Agent Skills specification, which is stricter than ``load_skill``.

See https://agentskills.io/specification.
"""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Any, NewType, cast

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, override
from hilum.frontmatter import Document, Problem, read

from hilum_skills.skill import (
    MAX_COMPATIBILITY,
    MAX_DESCRIPTION,
    MAX_NAME,
    SKILL_FILE,
    find_skill_file,
    load_skill,
)
from hilum_skills.structure import InvalidValueError, make_converter, structure

MAX_LINES = 500
MAX_TOKENS = 5_000

Name = NewType("Name", str)
Description = NewType("Description", str)
Compatibility = NewType("Compatibility", str)
Metadata = NewType("Metadata", dict[str, str])
AllowedTools = NewType("AllowedTools", str)


@attrs.frozen
class SpecifiedFields:
    """The front matter of a skill, as the specification defines it."""

    name: Name
    description: Description
    license: Any = None
    compatibility: Compatibility = Compatibility("")
    metadata: Metadata = Metadata({})
    allowed_tools: AllowedTools = AllowedTools("")


_MISSING = {
    "name": "The name is missing.",
    "description": "The description is missing.",
}


def validate(path: str | os.PathLike[str]) -> list[Problem]:
    """Check a skill against the specification. Blocks.

    Args:
        path: The skill's folder or ``SKILL.md``.

    Returns:
        Violations of the specification (``fatal``), and deviations from its recommendations.
    """
    given = Path(path)
    if not given.exists():
        return [Problem(1, f"There is no {given}.", fatal=True)]
    folder = given if given.is_dir() else given.parent
    file = find_skill_file(folder)
    if file is None:
        return [Problem(1, f"There is no {SKILL_FILE} in {folder}.", fatal=True)]
    skill = load_skill(file)
    # The file could not be read, so checking its fields would only produce more errors.
    if not skill.fields and skill.error:
        return [Problem(1, skill.error, fatal=True)]
    document = read(file.read_bytes())
    found = [problem._replace(fatal=True) for problem in document.problems]
    if file.name != SKILL_FILE:
        found.append(Problem(1, f"The file must be called {SKILL_FILE}.", fatal=True))
    found += _check_fields(document, folder.resolve().name)
    found += _give_advice(document)
    return sorted(found, key=lambda problem: (problem.line, not problem.fatal))


def _check_fields(document: Document, folder: str) -> list[Problem]:
    """Return a problem for each field that violates the specification."""
    # Missing required fields are reported like invalid fields.
    fields = {"name": None, "description": None, **document.fields}
    _, mistakes = structure(_make_field_converter(folder), fields, SpecifiedFields)
    return [
        document.problem(
            key.replace("_", "-"),
            message or f"The field {key!r} is not in the specification.",
            fatal=True,
        )
        for key, message in mistakes
    ]


def _give_advice(document: Document) -> list[Problem]:
    advice = []
    tools = document.fields.get("allowed-tools")
    if isinstance(tools, str) and "," in tools:
        message = "allowed-tools should be separated by spaces, not commas."
        advice.append(document.problem("allowed-tools", message))
    # A token has about four characters.
    if document.body.count("\n") > MAX_LINES or len(document.body) // 4 > MAX_TOKENS:
        message = (
            f"Instructions should stay below {MAX_LINES} lines and {MAX_TOKENS:,} tokens; move"
            " parts to other files."
        )
        advice.append(Problem(document.line, message))
    return advice


def _make_field_converter(folder: str) -> Converter:
    """Create the converter for the fields of a skill in a folder with the given name."""
    converter = make_converter(
        {
            Name: lambda value, _: _check_name(value, folder),
            Description: _check_description,
            Compatibility: _check_compatibility,
            Metadata: _check_metadata,
            AllowedTools: _check_tools,
        }
    )
    hook = make_dict_structure_fn(
        SpecifiedFields,
        converter,
        _cattrs_forbid_extra_keys=True,
        allowed_tools=override(rename="allowed-tools"),
    )
    converter.register_structure_hook(SpecifiedFields, hook)
    return converter


def _check_name(value: object, folder: str) -> Name:
    if not isinstance(value, str) or not value.strip():
        raise InvalidValueError(_MISSING["name"])
    # The specification compares names in NFKC form: macOS may store file names decomposed, so equal
    # names may have different code points.
    name = unicodedata.normalize("NFKC", value.strip())
    has_bad_hyphen = name.startswith("-") or name.endswith("-") or "--" in name
    rules = {
        f"The name has {len(name)} characters, more than {MAX_NAME}.": len(name) > MAX_NAME,
        "The name must be in lowercase.": name != name.lower(),
        "The name must consist of letters, digits and hyphens.": not _has_only_name_letters(name),
        "The name must neither begin nor end with a hyphen, nor have two in a row.": has_bad_hyphen,
        f"The name {name!r} must match the folder's name, {folder!r}.": (
            name != unicodedata.normalize("NFKC", folder)
        ),
    }
    broken = [message for message, is_broken in rules.items() if is_broken]
    if broken:
        raise InvalidValueError(*broken)
    return Name(name)


def _has_only_name_letters(name: str) -> bool:
    return all(letter.isalnum() or letter == "-" for letter in name)


def _check_description(value: object, _: object) -> Description:
    if not isinstance(value, str) or not value.strip():
        raise InvalidValueError(_MISSING["description"])
    if len(value) > MAX_DESCRIPTION:
        raise InvalidValueError(
            f"The description has {len(value)} characters, more than {MAX_DESCRIPTION}."
        )
    return Description(value)


def _check_compatibility(value: object, _: object) -> Compatibility:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_COMPATIBILITY:
        raise InvalidValueError(
            f"compatibility must be a string of 1 to {MAX_COMPATIBILITY} characters."
        )
    return Compatibility(value)


def _check_metadata(value: object, _: object) -> Metadata:
    values = value.values() if isinstance(value, dict) else [None]
    if not all(isinstance(each, str) for each in values):
        raise InvalidValueError("metadata must map strings to strings.")
    return Metadata(cast("dict[str, str]", value))


def _check_tools(value: object, _: object) -> AllowedTools:
    if not isinstance(value, str):
        raise InvalidValueError("allowed-tools must be one string, with names separated by spaces.")
    return AllowedTools(value)
