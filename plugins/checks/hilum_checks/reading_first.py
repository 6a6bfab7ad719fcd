"""Read orders to read a file before something is written or run: "read ⟦0⟧ first"."""

from __future__ import annotations

from collections.abc import Sequence

from hilum_checks import WORKSPACE, quoted_names
from hilum_checks.file_rules import patterns_of
from hilum_checks.label_scopes import TESTS, narrow_to_language
from hilum_checks.model import READS, WRITES, Paths, ReadFirst
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import Token

_READING = frozenset(
    "read consult study re-read reread review see check load 阅读 读取 查看 读".split()
)
_LOOKING = frozenset("read consult study re-read reread 阅读 读取 读".split())
_DOCUMENTS = (".md", ".mdc", ".txt", ".rst", ".adoc", ".pdf")
# How something is to be read, and words that do not change what it is.
_MANNER = frozenset(
    """
    read consult study re-read reread review see check follow load and fully completely carefully
    thoroughly whole entire entirely full in it them the root file files document documents guide guides
    documentation docs doc first always must end understand its that this for from to also please context
    instructions guidelines rules conventions top-level intended you agents need needs should whole relevant sections
    section of top bottom your every 阅读 读取 查看 读 先 必须 应 应先 请 文件 文档 完整
    """.split()
)
# What begins any work: "before starting", "before your first edit".
_BEGINNINGS = frozenset(
    """
    start starting begin beginning work working make making change changes changing code coding edit
    editing edits modify modifying write writing implement implementing implementation propose
    proposing touch touching generate generating update updating anything continuing proceeding
    task tasks act acting action development 修改 编辑 改动 开始 开发 编码 动手 实现 创建 新增
    """.split()
)
_BEGINNING_WORDS = _BEGINNINGS | frozenset(
    """
    any a an the new first your you on in to or and each every all this it project repo repository
    codebase feature features file files non-trivial session doing do with here source its them their
    significant substantial real actual planning plan plans package inside here behavior behaviour
    logic subsystem system module modules component components architecture below further
    代码 项目 文件 工作 任务 任何 功能 新 本 的 或
    """.split()
)
_SESSION_STARTS = frozenset(
    """
    at the start beginning of each every a new session sessions conversation task tasks work on
    first when starting begin before anything else
    """.split()
)


def read_before_writing(
    needed: Sequence[Token], before: Sequence[Token], scope: Scope
) -> tuple[ReadFirst, ...]:
    """Read "read ⟦0⟧ before editing ⟦1⟧": a check for each file that must be read.

    Args:
        needed: What must be read.
        before: What must wait for it.
        scope: What the rest of the rule says.
    """
    waiting = read_written(before, scope)
    return _combine(needed, waiting, scope)


def read_at_start(tokens: Sequence[Token], scope: Scope) -> tuple[ReadFirst, ...]:
    """Read "read ⟦0⟧ first" and "read ⟦0⟧ at the start of each session"."""
    at = max((at for at, token in enumerate(tokens) if token.role == "name"), default=-1)
    ending = [token.text for token in tokens[at + 1 :] if token.text != ","]
    # "⟦0⟧ - read this first".
    if ending[:1] == ["read"] and ending[1:2] in (["this"], ["it"], ["them"]):
        tokens = (tokens[at + 1], *tokens[: at + 1], *tokens[at + 3 :])
        at += 1
        ending = ending[2:]
    if not ending or not _SESSION_STARTS.issuperset(ending):
        return ()
    is_start = "first" in ending or "start" in ending or "beginning" in ending
    if not is_start or "not" in ending:
        return ()
    return _combine(tokens[: at + 1], _any_write(scope), scope)


def _combine(needed: Sequence[Token], waiting: Paths | None, scope: Scope) -> tuple[ReadFirst, ...]:
    """Return a check for each file that must be read."""
    names = _list_needed_files(needed)
    if not names or waiting is None:
        return ()
    # "Read the root ⟦0⟧ first", in a file of a nested folder.
    is_at_root = any(token.text == "root" for token in needed)
    files = [(f"/{name}",) if is_at_root else patterns_of([name], scope) for name in names]
    return tuple(ReadFirst(Paths(patterns, READS), waiting) for patterns in files)


def _list_needed_files(tokens: Sequence[Token]) -> list[str]:
    """Return the files that must be read; none if something else is said, too."""
    names = [token.word for token in tokens if token.role == "name"]
    words = [token.text for token in tokens if token.role not in ("name", "join")]
    is_order = bool(words) and not _READING.isdisjoint(words) and _MANNER.issuperset(words)
    # "Read ⟦0⟧ or ⟦1⟧" leaves a choice.
    if any(token.role == "join" and token.text in ("or", "或") for token in tokens):
        return []
    if not is_order or not all(quoted_names.is_path(name, named=True) for name in names):
        return []
    # "Check `status`" is no reading of a file.
    are_files = all("." in name or "/" in name for name in names)
    is_reading = not _LOOKING.isdisjoint(words)
    # To review a folder is work, and to check a document is to read it.
    are_documents = all(name.endswith(_DOCUMENTS) for name in names)
    return names if are_files and (is_reading or are_documents) else []


def read_written(tokens: Sequence[Token], scope: Scope) -> Paths | None:
    """Return the writes that must wait: "starting work", "editing ⟦0⟧", "writing tests"."""
    names = [token.word for token in tokens if token.role == "name"]
    words = [token.text for token in tokens if token.role not in ("name", "join")]
    if names:
        is_plain = _BEGINNING_WORDS.issuperset(words) and not _BEGINNINGS.isdisjoint(words)
        are_files = all(quoted_names.is_path(name, named=True) for name in names)
        return Paths(patterns_of(names, scope), WRITES) if is_plain and are_files else None
    is_about_tests = bool(words) and {"writing", "adding", "editing", "tests", "any", "new"} >= set(
        words
    )
    if is_about_tests and "tests" in words and scope.folder == WORKSPACE:
        return Paths(TESTS, WRITES)
    # "Before writing or reviewing Python".
    language = narrow_to_language(words)
    if language:
        words = [word for word in words if word not in (*language.words, "reviewing")]
    is_start = _BEGINNING_WORDS.issuperset(words) and not _BEGINNINGS.isdisjoint(words)
    if not is_start or (language and scope.folder != WORKSPACE):
        return None
    return Paths(language.files, WRITES) if language else _any_write(scope)


def _any_write(scope: Scope) -> Paths:
    """Return all writes but those of programs that install or build something."""
    everything = "**" if scope.folder == WORKSPACE else f"/{scope.folder}/**"
    return Paths((everything,), WRITES, (".git",), by_hand=True)
