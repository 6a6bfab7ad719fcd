"""The structure of an agent file's fields, checked strictly with cattrs.

Files for other programs are first translated into these fields (``hilum_agents.definitions.
loading``). Importing this module imports cattrs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NewType, TypeVar

import attrs
from cattrs import ClassValidationError, Converter
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn
from hilum.errors import similar_names
from hilum.frontmatter import Document, number, text

from hilum_agents.answers import FORMS
from hilum_agents.definitions.runner import Runner, read_runner
from hilum_agents.forms import Form, FormError, read_form

Table = TypeVar("Table")
# A positive integer.
Count = NewType("Count", int)
# A positive number.
Seconds = NewType("Seconds", float)
# A single-line string.
Line = NewType("Line", str)
# A file type that hilum recognizes.
Kind = NewType("Kind", str)
# Permission rules: a list or a single rule.
Rules = NewType("Rules", tuple[str, ...])
# The value of a key that no file may contain.
Refused = NewType("Refused", str)
_KINDS = ("agent", "local", "remote")
_REFUSED = {"refused": True}


@attrs.frozen
class Limits:
    """The table ``limits``; ``None`` means the default."""

    turns: Count | None = None
    timeout: Seconds | None = None
    token_limit: Count | None = None


@attrs.frozen
class PermissionRules:
    """The table ``permissions``."""

    deny: Rules = Rules(())
    ask: Rules = Rules(())
    allow: Refused | None = attrs.field(default=None, metadata=_REFUSED)


@attrs.frozen
class AnswerForm:
    """The field ``answer``: the name of an answer form, or a custom form."""

    name: str = ""
    form: Form | None = None


@attrs.frozen
class AgentFields:
    """The fields of an agent's file that have the same meaning in all dialects."""

    kind: Kind = Kind("agent")
    name: Line = Line("")
    title: Line = Line("")
    description: Line = Line("")
    version: Line = Line("")
    limits: Limits = Limits()
    permissions: PermissionRules = PermissionRules()
    answer: AnswerForm = AnswerForm()
    runner: Runner | None = None


FIELDS = tuple(field.name for field in attrs.fields(AgentFields))


class WrongField(NamedTuple):
    """A field whose value is unusable.

    Attributes:
        path: The keys that lead to the field, outermost first.
        message: The value found and the value expected, worded to follow the key in a message.
    """

    path: tuple[str, ...]
    message: str


def structure_fields(fields: Mapping[str, object]) -> tuple[AgentFields, list[WrongField]]:
    """Return the fields of a file, and a list of the unusable fields.

    An invalid field keeps its default, so that one mistake does not invalidate the other fields.

    Args:
        fields: Values, keyed by the names in ``FIELDS``.
    """
    try:
        return _converter.structure(fields, AgentFields), []
    except ClassValidationError as error:
        wrong = list(_wrong_fields(error, ()))
        # cattrs converts all fields or none, so the invalid fields are removed before another
        # attempt.
        right: object = fields
        for field in wrong:
            right = _without(right, field.path)
        return _converter.structure(right, AgentFields), wrong


def _wrong_fields(error: ClassValidationError, path: tuple[str, ...]) -> Iterator[WrongField]:
    with_note, without_note = error.group_exceptions()
    for inner, note in with_note:
        place = (*path, note.name)
        if isinstance(inner, ClassValidationError):
            yield from _wrong_fields(inner, place)
        else:
            yield WrongField(place, str(inner))
    for each in without_note:
        if isinstance(each, ForbiddenExtraKeysError):
            known = _known_keys(each.cl)
            for key in sorted(each.extra_fields):
                yield WrongField((*path, key), f"is not a known key ({_suggest(key, known)})")


def _suggest(name: str, known: Sequence[str]) -> str:
    """Return the known names that are most similar to a name, or all known names, for a message."""
    similar = similar_names(name, known, 1)
    if similar:
        return f"did you mean {similar[0]}?"
    return f"known: {', '.join(known)}"


def _without(value: object, path: Sequence[str]) -> object:
    """Return a copy of nested mappings without the value at a path."""
    if not isinstance(value, Mapping):
        return value
    key, *rest = path
    if not rest:
        return {name: inner for name, inner in value.items() if name != key}
    return {name: _without(inner, rest) if name == key else inner for name, inner in value.items()}


def _known_keys(table: type[Any]) -> list[str]:
    """Return the keys that a table may contain."""
    # Keys with metadata are always rejected, so they are not suggested.
    return [field.name for field in attrs.fields(table) if not field.metadata]


# --- values ---------------------------------------------------------------------------------------


def _written(value: object) -> str:
    """Return a value as text; lists and mappings are serialized, so that nothing is lost."""
    return text(Document({"value": value}, "", 1), "value")


def _above_zero(value: object) -> float:
    found = number(Document({"value": value}, "", 1), "value")
    if found is None or found <= 0:
        raise ValueError(f"must be a number above 0, not {_written(value)!r}")
    return found


def _count(value: object, _: object) -> Count:
    return Count(max(1, int(_above_zero(value))))


def _seconds(value: object, _: object) -> Seconds:
    return Seconds(_above_zero(value))


def _line(value: object, _: object) -> Line:
    return Line(" ".join(_written(value).split()))


def _kind(value: object, _: object) -> Kind:
    written = _written(value)
    if value is not None and written not in _KINDS:
        raise ValueError(f"must be agent, not {written!r}")
    return Kind(written or "agent")


def _rules(value: object, _: object) -> Rules:
    listed = value if isinstance(value, list) else [value]
    return Rules(tuple(str(rule) for rule in listed if rule is not None))


def _refuse(value: object, _: object) -> Refused:
    raise ValueError("cannot extend an agent's permissions")


def _answer(value: object, _: object) -> AnswerForm:
    if isinstance(value, Mapping):
        try:
            return AnswerForm(form=read_form(value))
        except FormError as error:
            raise ValueError(f"is not a valid answer form: {error}") from None
    name = _written(value)
    if name and name not in FORMS:
        similar = similar_names(name, FORMS, 1)
        hint = f" (did you mean {similar[0]}?)" if similar else ""
        raise ValueError(f"must be one of {', '.join(FORMS)} or a mapping, not {name!r}{hint}")
    return AnswerForm(name)


def _runner(value: object, _: object) -> Runner | None:
    return None if value is None else read_runner(value)


def _make_converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    hooks: dict[Any, Callable[[Any, Any], Any]] = {
        Count: _count,
        Seconds: _seconds,
        Line: _line,
        Kind: _kind,
        Rules: _rules,
        Refused: _refuse,
        AnswerForm: _answer,
        Runner | None: _runner,
    }
    for kind, hook in hooks.items():
        converter.register_structure_hook(kind, hook)
    for table in (Limits, PermissionRules):
        converter.register_structure_hook(table, _table_hook(table, converter))
    return converter


def _table_hook(table: type[Table], converter: Converter) -> Callable[[object, object], Table]:
    """Return a hook that structures a table and rejects everything except mappings."""
    structure = make_dict_structure_fn(table, converter)
    *first, last = _known_keys(table)

    def hook(value: object, _: object) -> Table:
        if value is None:
            return table()
        if not isinstance(value, Mapping):
            raise ValueError(
                f"must be a mapping with {', '.join(first)} and {last}, not {_written(value)!r}"
            )
        return structure(value, table)

    return hook


_converter = _make_converter()
