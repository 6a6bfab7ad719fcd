"""Define the structure of rule files, which cattrs validates strictly.

This module imports cattrs, so hilum loads it only with the first rule file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NewType, TypeVar

import attrs
from cattrs import (
    BaseValidationError,
    ClassValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationError,
)
from cattrs.gen import make_dict_structure_fn
from hilum.errors import similar_names

from hilum_guard.rules.matching import Rule, parse
from hilum_guard.rules.tool_names import KINDS

Table = TypeVar("Table")
Path = tuple[str | int, ...]
"""Keys and indexes that lead to a value, from the outermost."""
RuleList = NewType("RuleList", tuple[Rule | None, ...])
"""Rules, with None in place of each invalid rule, so that the others keep their numbers."""
RuleItem = NewType("RuleItem", object)
"""One rule in a list, or None."""
Forbidden = NewType("Forbidden", tuple[Rule, ...])
"""Rules that a project's file may not contain."""
Folder = NewType("Folder", str)
"""Absolute path of a workspace."""
Kind = NewType("Kind", str)
"""A session kind."""

_NO_WORKSPACES = (
    "a project's file applies only in its own folder, so it has no tables for folders; write the"
    " lists ask and deny at the top of this file, or move the table to a file of your own (hilum"
    " permissions deny RULE --workspace)"
)
_NO_TABLE = "is not a table; write the lists allow, ask, deny below it"


@attrs.frozen
class RuleLists:
    """The lists of rules in one table of the user's file."""

    allow: RuleList = RuleList(())
    ask: RuleList = RuleList(())
    deny: RuleList = RuleList(())


@attrs.frozen
class ProjectRuleLists:
    """The lists of rules in one table of a project's file, which can only ask and deny."""

    allow: Forbidden = Forbidden(())
    ask: RuleList = RuleList(())
    deny: RuleList = RuleList(())


Folders = NewType("Folders", dict[Folder, RuleLists])
Kinds = NewType("Kinds", dict[Kind, RuleLists])
ProjectKinds = NewType("ProjectKinds", dict[Kind, ProjectRuleLists])


@attrs.frozen
class UserRules(RuleLists):
    """The user's file."""

    workspace: Folders = attrs.field(factory=lambda: Folders({}))
    session: Kinds = attrs.field(factory=lambda: Kinds({}))


@attrs.frozen
class ProjectRules(ProjectRuleLists):
    """A project's file."""

    session: ProjectKinds = attrs.field(factory=lambda: ProjectKinds({}))


class Mistake(NamedTuple):
    """A value in a rule file that cannot be used.

    Attributes:
        path: The keys and indexes that lead to the value.
        message: The found and the expected value, as text that follows the position.
    """

    path: Path
    message: str


def structure_rules(data: Mapping[str, Any], kind: type[Table]) -> tuple[Table, list[Mistake]]:
    """Return the content of a rule file, and all mistakes in it.

    An invalid value is omitted, so that the other rules in the file apply.

    Args:
        data: The file as plain data.
        kind: ``UserRules`` or ``ProjectRules``.
    """
    try:
        return _converter.structure(data, kind), []
    except BaseValidationError as error:
        mistakes = list(_list_mistakes(error, ()))
    # cattrs structures all the data or none of it, so the remaining data is structured again.
    right: Any = data
    for mistake in mistakes:
        right = _leave_out(right, mistake.path)
    return _converter.structure(right, kind), mistakes


def _list_mistakes(error: BaseValidationError, path: Path) -> Iterator[Mistake]:
    """Yield the mistakes that a group of validation errors contains."""
    located: list[tuple[Exception, str | int]] = []
    others: list[Exception] = []
    if isinstance(error, ClassValidationError):
        with_name, others = error.group_exceptions()
        located = [(inner, note.name) for inner, note in with_name]
    elif isinstance(error, IterableValidationError):
        with_index, others = error.group_exceptions()
        located = [(inner, note.index) for inner, note in with_index]
    for inner in others:
        if not isinstance(inner, ForbiddenExtraKeysError):
            raise inner  # an error in hilum, not in the file
        known = [field.name for field in attrs.fields(inner.cl)]
        for unknown in sorted(inner.extra_fields):
            if inner.cl is ProjectRules and unknown == "workspace":
                yield Mistake((*path, unknown), _NO_WORKSPACES)
            else:
                yield Mistake((*path, unknown), _explain_unknown_key(unknown, known))
    for inner, key in located:
        if isinstance(inner, BaseValidationError):
            yield from _list_mistakes(inner, (*path, key))
        elif isinstance(inner, ValueError):
            yield Mistake((*path, key), str(inner).format(key=key))
        else:
            raise inner


def _explain_unknown_key(key: str, known: list[str]) -> str:
    # A mistyped `deny` must not be ignored silently.
    near = similar_names(key, known, 1)
    if near:
        return f"is unknown; did you mean {near[0]}?"
    return f"is unknown; known: {', '.join(known)}"


def _leave_out(value: Any, path: Path) -> Any:
    """Return a copy of plain data without the value at a path; None replaces a list item."""
    key, *rest = path
    if isinstance(value, list) and isinstance(key, int):
        return [*value[:key], None, *value[key + 1 :]]
    if not rest:
        return {name: inner for name, inner in value.items() if name != key}
    if key not in value:  # already removed because of an outer mistake
        return value
    return {**value, key: _leave_out(value[key], tuple(rest))}


# --- values ---------------------------------------------------------------------------------------


def _escape(text: str) -> str:
    """Return text from a file, escaped for a message that is formatted with the key."""
    return text.replace("{", "{{").replace("}", "}}")


def _structure_rule(value: Any, _: Any) -> Rule | None:
    if value is None:  # None replaces an invalid rule
        return None
    if not isinstance(value, str):
        shown = _escape(repr(value))
        raise ValueError(
            f'found {shown}, expected a rule in quotes, for example "write_file(docs/**)"'
        )
    try:
        return parse(value, "ask")  # the key of the list determines the effect
    except ValueError as error:
        raise ValueError(_escape(str(error))) from None


def _structure_list(value: Any, _: Any) -> tuple[Rule | None, ...]:
    if not isinstance(value, list):
        found = _escape(repr(value))
        raise ValueError(f'found {found}, expected a list: {{key}} = ["write_file(docs/**)"]')
    rules: list[Any] = _converter.structure(value, list[RuleItem])
    return tuple(rules)


def _refuse(value: Any, _: Any) -> tuple[Rule, ...]:
    raise ValueError(
        "only the user may allow: delete it, or move it to a file of your own (hilum"
        " permissions allow)"
    )


def _structure_folder(value: str, _: Any) -> str:
    if not os.path.isabs(os.path.expanduser(value)):
        raise ValueError("is not an absolute path; write the full path of the folder")
    return value


def _structure_kind(value: str, _: Any) -> str:
    if value not in KINDS:
        near = similar_names(value, KINDS, 1)
        hint = f"the kinds are {', '.join(KINDS)}"
        if near:
            hint = f"did you mean {near[0]}?"
        raise ValueError(f"is not a kind of session; {_escape(hint)}")
    return value


def _make_tables_hook(kind: Any, example: str) -> Callable[[Any, Any], Any]:
    """Return a hook that structures a table of tables."""

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError(f"is not a table; write [{example}] and the lists below it")
        return _converter.structure(value, kind)

    return structure


def _make_lists_hook(table: type[Table], converter: Converter) -> Callable[[Any, Any], Table]:
    """Return a hook that structures a table of lists."""
    structure_table = make_dict_structure_fn(table, converter)

    def structure(value: Any, _: Any) -> Table:
        if not isinstance(value, Mapping):
            raise ValueError(_NO_TABLE)
        return structure_table(value, table)

    return structure


def _make_converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    hooks: dict[Any, Callable[[Any, Any], Any]] = {
        RuleItem: _structure_rule,
        RuleList: _structure_list,
        Forbidden: _refuse,
        Folder: _structure_folder,
        Kind: _structure_kind,
        Folders: _make_tables_hook(dict[Folder, RuleLists], 'workspace."/path/of/the/folder"'),
        Kinds: _make_tables_hook(dict[Kind, RuleLists], "session.shared"),
        ProjectKinds: _make_tables_hook(dict[Kind, ProjectRuleLists], "session.shared"),
    }
    for kind, hook in hooks.items():
        converter.register_structure_hook(kind, hook)
    # A hook for a class is also used for its subclasses, so each class needs its own hook.
    for table in (RuleLists, ProjectRuleLists, UserRules, ProjectRules):
        converter.register_structure_hook(table, _make_lists_hook(table, converter))
    return converter


_converter = _make_converter()
