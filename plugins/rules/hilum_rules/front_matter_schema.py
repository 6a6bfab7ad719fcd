"""The fields of rules files in each format, validated by strict cattrs.

Importing this module imports cattrs, so only files with front matter load it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NewType

import attrs
from cattrs import ClassValidationError, Converter, ForbiddenExtraKeysError
from hilum.frontmatter import Document, flag, globs, text

from hilum_rules.rule import Mode

Text = NewType("Text", str)
"""A string; other values are converted to strings."""
Globs = NewType("Globs", tuple[str, ...])
"""Patterns: a list, or a comma-separated string."""
Switch = NewType("Switch", bool)
"""A boolean."""


@attrs.frozen
class PlainFields:
    """The fields of plain Markdown files, which have none."""


# The attributes are named after the keys that the format defines.
@attrs.frozen
class CursorFields:
    """The fields of Cursor's ``.mdc`` files."""

    description: Text = Text("")
    globs: Globs = Globs(())
    alwaysApply: Switch = Switch(False)


@attrs.frozen
class ClaudeFields:
    """The fields of the files in ``.claude/rules``."""

    paths: Globs = Globs(())
    globs: Globs = Globs(())
    description: Text = Text("")


@attrs.frozen
class InstructionsFields:
    """The fields of GitHub's ``.instructions.md`` files."""

    applyTo: Globs = Globs(())
    description: Text = Text("")
    name: Text = Text("")
    excludeAgent: Text = Text("")


@attrs.frozen
class WindsurfFields:
    """The fields of the files in ``.windsurf/rules``."""

    trigger: Text = Text("")
    globs: Globs = Globs(())
    description: Text = Text("")


@attrs.frozen
class KiroFields:
    """The fields of the files in ``.kiro/steering``."""

    inclusion: Text = Text("")
    fileMatchPattern: Globs = Globs(())
    name: Text = Text("")
    description: Text = Text("")


Fields = (
    PlainFields | CursorFields | ClaudeFields | InstructionsFields | WindsurfFields | KiroFields
)
SCHEMAS: dict[str, type[Fields]] = {
    "mdc": CursorFields,
    "claude-rules": ClaudeFields,
    "instructions": InstructionsFields,
    "windsurf": WindsurfFields,
    "kiro": KiroFields,
}
# The modes that a word in the front matter names, in lower case.
_MODES = {
    "always": Mode.ALWAYS,
    "always_on": Mode.ALWAYS,
    "glob": Mode.AUTO,
    "filematch": Mode.AUTO,
    "model_decision": Mode.AGENT,
    "auto": Mode.AGENT,
    "manual": Mode.MANUAL,
}


_EVERYWHERE = frozenset(("*", "**", "**/*", "**/**", "/**"))


class Mistakes(NamedTuple):
    """The unusable fields in a file's front matter.

    Attributes:
        wrong: Messages about invalid values, by key.
        unknown: Keys that the format does not have.
    """

    wrong: dict[str, str]
    unknown: frozenset[str]


def structure_fields(values: Mapping[str, object], dialect: str) -> tuple[Fields, Mistakes]:
    """Return the fields of a file, and every mistake in them.

    A field with a mistake gets its default value.

    Args:
        values: The fields, with the values from the file.
        dialect: The format. A format without a schema has no fields.
    """
    schema = SCHEMAS.get(dialect, PlainFields)
    try:
        return _converter.structure(values, schema), Mistakes({}, frozenset())
    except ClassValidationError as error:
        mistakes = _find_mistakes(error)
        # cattrs structures all or nothing, so the invalid values are removed first.
        bad = mistakes.wrong.keys() | mistakes.unknown
        good = {key: value for key, value in values.items() if key not in bad}
        return _converter.structure(good, schema), mistakes


def _find_mistakes(error: ClassValidationError) -> Mistakes:
    with_notes, without_notes = error.group_exceptions()
    wrong = {note.name: str(mistake) for mistake, note in with_notes}
    unknown: set[str] = set()
    for mistake in without_notes:
        if isinstance(mistake, ForbiddenExtraKeysError):
            unknown |= mistake.extra_fields
    return Mistakes(wrong, frozenset(unknown))


def find_odd_values(values: Mapping[str, object], dialect: str) -> Iterator[tuple[str, str]]:
    """Yield the fields whose values have an unexpected type but are read anyway.

    Args:
        values: The fields, with the values from the file.
        dialect: The format.
    """
    for field in attrs.fields(SCHEMAS.get(dialect, PlainFields)):
        value = values.get(field.name)
        shown = text(_document(value), "value")[:40]
        is_text = field.type in ("Text", Text)
        is_patterns = field.type in ("Globs", Globs)
        if is_text and isinstance(value, list | dict):
            kind = "list" if isinstance(value, list) else "mapping"
            yield field.name, f"found the {kind} {shown!r}, expected a string; it is read as one."
        elif is_patterns and isinstance(value, dict) and any(value.values()):
            yield field.name, f"found the mapping {shown!r}, expected a pattern or a list of them."
        elif is_patterns and isinstance(value, str) and value.count("[") != value.count("]"):
            yield field.name, f"found {shown!r}, in which a bracket is not closed."


def find_mode(fields: Fields) -> tuple[Mode, tuple[str, ...]]:
    """Return when rules are active, and the patterns of the files that activate them."""
    match fields:
        case CursorFields(alwaysApply=True, globs=globs):
            return Mode.ALWAYS, globs
        case CursorFields(globs=globs, description=description) if globs or description:
            return Mode.AUTO if globs else Mode.AGENT, globs
        case InstructionsFields(applyTo=globs) if _EVERYWHERE.intersection(globs):
            return Mode.ALWAYS, globs
        case InstructionsFields(applyTo=globs, description=description) if globs or description:
            return Mode.AUTO if globs else Mode.AGENT, globs
        case CursorFields() | InstructionsFields():
            return Mode.MANUAL, ()
        case ClaudeFields(paths=paths, globs=globs) if paths or globs:
            return Mode.AUTO, paths or globs
        case WindsurfFields(trigger=word, globs=globs):
            return _find_named_mode(word, globs)
        case KiroFields(inclusion=word, fileMatchPattern=globs):
            return _find_named_mode(word, globs)
    return Mode.ALWAYS, ()


def _find_named_mode(word: str, globs: Globs) -> tuple[Mode, tuple[str, ...]]:
    """Return the mode that a word names; by default, globs decide."""
    mode = _MODES.get(word.strip().casefold(), Mode.AUTO)
    # Without patterns, no file could ever activate the rules.
    if mode is Mode.AUTO and not globs:
        return Mode.ALWAYS, ()
    return mode, globs if mode is Mode.AUTO else ()


def field_names(dialect: str) -> list[str]:
    """Return the keys that a format has."""
    return [field.name for field in attrs.fields(SCHEMAS.get(dialect, PlainFields))]


def _document(value: object) -> Document:
    return Document({"value": value}, "", 1)


def _structure_text(value: object, _: object) -> Text:
    return Text(text(_document(value), "value"))


def _structure_globs(value: object, _: object) -> Globs:
    return Globs(globs(_document(value), "value"))


def _structure_switch(value: object, _: object) -> Switch:
    written = _structure_text(value, _)
    is_on = flag(_document(value), "value")
    if is_on is None and written:
        raise ValueError(f"found {written[:40]!r}, expected true or false; it is read as false.")
    return Switch(bool(is_on))


def _make_converter() -> Converter:
    # Unknown keys are errors, so that a misspelled ``globs`` is reported.
    converter = Converter(forbid_extra_keys=True)
    hooks: dict[Any, Any] = {
        Text: _structure_text,
        Globs: _structure_globs,
        Switch: _structure_switch,
    }
    for kind, hook in hooks.items():
        converter.register_structure_hook(kind, hook)
    return converter


_converter = _make_converter()
