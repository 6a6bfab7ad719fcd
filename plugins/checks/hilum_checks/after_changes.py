"""Read what must follow a change: "after changing ⟦0⟧, run ⟦1⟧", "update ⟦1⟧ when ⟦0⟧ changes".

It must have been done when the agent gives its final answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from hilum_checks import WORKSPACE, quoted_names
from hilum_checks.code_names import TEXTS
from hilum_checks.file_rules import patterns_of
from hilum_checks.label_scopes import narrow_to_language
from hilum_checks.model import WRITES, ChangedTogether, CommandBefore, Paths
from hilum_checks.preceding import read_needed
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import Token

_CHANGING = frozenset("write add create delete hand-edit save change changes".split())
_CHANGING_WORDS = frozenset(
    """
    a an the any all you your i in to of or and new file files it this every each them anything
    changes change changed folder directory under either is are been has have
    """.split()
)
# "After code changes", "after any change".
_ANY_CHANGE = frozenset(
    """
    code change changes changing edit edits editing modify modifying modification modifications any
    all every each the making make source files file a your you 修改 更改 改动 代码
    """.split()
)
_UPDATING = frozenset("the a also too accordingly always same file documentation docs it".split())


def read_following(
    needed: Sequence[Token], changed: Sequence[Token], scope: Scope
) -> tuple[CommandBefore | ChangedTogether, ...]:
    """Read "run ⟦0⟧ after changing ⟦1⟧": what must follow a change of some files.

    Args:
        needed: What must be run, or changed too.
        changed: The files whose change makes it necessary.
        scope: What the rest of the rule says.
    """
    paths = _read_changed(changed, scope)
    if paths is None:
        return ()
    commands = read_needed(needed, scope)
    if commands:
        return tuple(CommandBefore(each, None, paths) for each in commands)
    updated = _read_updated(needed, scope)
    return (ChangedTogether(updated, None, paths),) if updated else ()


def split_situation(tokens: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token]]:
    """Return the two parts of "after changing ⟦0⟧, run ⟦1⟧" without its first word."""
    for at in range(1, len(tokens)):
        is_comma = tokens[at].text in (",", "，")
        is_order = tokens[at].role == "verb" and tokens[at].text == "run"
        if is_comma and at + 1 < len(tokens) and tokens[at + 1].role != "name":
            return tokens[:at], tokens[at + 1 :]
        if is_order:
            return tokens[:at], tokens[at:]
    return tokens, ()


def _read_changed(tokens: Sequence[Token], scope: Scope) -> Paths | None:
    """Return the files whose change is meant."""
    names = [token.word for token in tokens if token.role == "name"]
    verbs = [token for token in tokens if token.role == "verb"]
    texts = {token.text for token in tokens if token.role not in ("name", "join")}
    if not names:
        return _read_any_change(texts, scope)
    is_change = bool(verbs) or bool(texts & {"changes", "changed", "change"})
    others = {token.text for token in tokens if token.role not in ("name", "join", "verb")}
    if not is_change or not {token.word for token in verbs} <= _CHANGING:
        return None
    if not others <= _CHANGING_WORDS:
        return None
    if not all(quoted_names.is_path(name, named=True) for name in names):
        return None
    are_files = all("." in name or "/" in name for name in names)
    return Paths(patterns_of(names, scope), WRITES) if are_files else None


def _read_any_change(texts: set[str], scope: Scope) -> Paths | None:
    """Read "after code changes" and "after editing Go files"."""
    language = narrow_to_language(texts)
    if language:
        texts = texts - language.words
    changing = ("chang", "edit", "modif", "修改", "更改", "改动")
    is_change = any(text.startswith(changing) for text in texts)
    if not is_change or not texts <= _ANY_CHANGE or scope.folder != WORKSPACE:
        return None
    if language:
        return Paths(language.files, WRITES)
    # A command that checks code has nothing to do after a change of the documentation.
    is_code = bool(texts & {"code", "source", "代码"})
    return Paths(("**",), WRITES, TEXTS if is_code else ())


def _read_updated(tokens: Sequence[Token], scope: Scope) -> Paths | None:
    """Read "update ⟦0⟧ too"."""
    names = [token.word for token in tokens if token.role == "name"]
    first = tokens[0] if tokens else None
    if first is None or (first.role, first.word) != ("verb", "write") or not names:
        return None
    others = {token.text for token in tokens[1:] if token.role not in ("name", "join")}
    is_choice = any(token.text in ("or", "或") for token in tokens)
    if is_choice or len(names) > 1 or not others <= _UPDATING:
        return None
    is_file = quoted_names.is_path(names[0], named=True) and ("." in names[0] or "/" in names[0])
    return Paths(patterns_of(names, scope), WRITES) if is_file else None
