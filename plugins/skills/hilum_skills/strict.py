"""Whether a skill is valid by the letter of the Agent Skills specification: stricter than what
loads.
"""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

from hilum_frontmatter import Document, Problem, read

from hilum_skills.skill import (
    FILE,
    LONGEST_COMPATIBILITY,
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    find_file,
    load_skill,
)

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
MOST_LINES = 500
MOST_TOKENS = 5_000


def validate(path: str | os.PathLike[str]) -> list[Problem]:
    """Check a skill against the specification. Blocks.

    Args:
        path: Its folder, or its ``SKILL.md``.

    Returns:
        What breaks the specification (``fatal``), and what it only advises against.
    """
    given = Path(path)
    folder = given if given.is_dir() else given.parent
    file = find_file(folder)
    if not given.exists():
        return [Problem(1, f"There is no {given}.", fatal=True)]
    if file is None:
        return [Problem(1, f"There is no {FILE} in {folder}.", fatal=True)]
    skill = load_skill(file)
    if not skill.fields and skill.error:
        return [Problem(1, skill.error, fatal=True)]
    document = read(file.read_bytes())
    found = [problem._replace(fatal=True) for problem in document.problems]
    if file.name != FILE:
        found.append(Problem(1, f"The file must be called {FILE}.", fatal=True))
    found += _name(document, folder.resolve().name)
    found += _lengths(document)
    found += _others(document)
    lines = document.body.count("\n")
    if lines > MOST_LINES or len(document.body) // 4 > MOST_TOKENS:
        advice = (
            f"Instructions should stay below {MOST_LINES} lines and {MOST_TOKENS:,} tokens; move"
            " parts to other files."
        )
        found.append(Problem(document.line, advice))
    return sorted(found, key=lambda problem: (problem.line, not problem.fatal))


def _name(document: Document, folder: str) -> list[Problem]:
    value = document.fields.get("name")
    if not isinstance(value, str) or not value.strip():
        return [document.problem("name", "The name is missing.", fatal=True)]
    name = unicodedata.normalize("NFKC", value.strip())
    wrong = []
    if len(name) > LONGEST_NAME:
        wrong.append(f"The name has {len(name)} characters, more than {LONGEST_NAME}.")
    if name != name.lower():
        wrong.append("The name must be in lower case.")
    if not all(letter.isalnum() or letter == "-" for letter in name):
        wrong.append("The name may only have letters, digits and hyphens.")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        wrong.append("The name must neither begin nor end with a hyphen, nor have two in a row.")
    if name != unicodedata.normalize("NFKC", folder):
        wrong.append(f"The name {name!r} must be that of the folder, {folder!r}.")
    return [document.problem("name", message, fatal=True) for message in wrong]


def _lengths(document: Document) -> list[Problem]:
    found = []
    description = document.fields.get("description")
    if not isinstance(description, str) or not description.strip():
        found.append(document.problem("description", "The description is missing.", fatal=True))
    elif len(description) > LONGEST_DESCRIPTION:
        message = (
            f"The description has {len(description)} characters, more than {LONGEST_DESCRIPTION}."
        )
        found.append(document.problem("description", message, fatal=True))
    if "compatibility" in document.fields:
        value = document.fields["compatibility"]
        if not isinstance(value, str) or not 0 < len(value) <= LONGEST_COMPATIBILITY:
            message = f"compatibility must be a text of 1 to {LONGEST_COMPATIBILITY} characters."
            found.append(document.problem("compatibility", message, fatal=True))
    return found


def _others(document: Document) -> list[Problem]:
    found = [
        document.problem(key, f"The field {key!r} is not in the specification.", fatal=True)
        for key in document.fields
        if key not in FIELDS
    ]
    metadata = document.fields.get("metadata", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(value, str) for value in metadata.values()
    ):
        found.append(document.problem("metadata", "metadata must map texts to texts.", fatal=True))
    if "allowed-tools" in document.fields:
        tools = document.fields["allowed-tools"]
        if not isinstance(tools, str):
            found.append(
                document.problem(
                    "allowed-tools", "allowed-tools must be one text, split by spaces.", fatal=True
                )
            )
        elif "," in tools:
            found.append(
                document.problem(
                    "allowed-tools", "allowed-tools should be split by spaces, not commas."
                )
            )
    return found
