"""Find Git commands that show only what differs between the last commit, the index and the files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN, git_words, parse_options

from hilum_checks import git_folders, git_options

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

_INDEX = frozenset(("--cached", "--staged"))
_REVISION = re.compile(r"(?:HEAD|@|[A-Za-z](?:[\w/-]|\.(?!\.))*)(?:[~^]\d{0,3})*")
_FROM_HEAD = re.compile(r"(?:(?:HEAD|@)(?:[~^]\d{0,3})*)?")
# What may change a branch.
_CHANGES_BRANCHES = frozenset(("branch", "fetch"))
# Options that show no other files. With `-C`, Git would show how files differ from unchanged ones.
_DIFF_OPTION = re.compile(
    r"--cached|--staged|--stat|--numstat|--shortstat|--summary|--name-only|--name-status|--check|-p|-u"
    r"|--patch|-U\d*|--unified=\d+|-w|-b|--ignore-(?:all-space|space-change|blank-lines|space-at-eol)"
    r"|--no-renames|--no-color|--color(?:=\w+)?|--no-ext-diff|--minimal|--patience|--histogram"
    r"|--word-diff(?:=\w+)?|--exit-code|--quiet|-q|--diff-filter=[A-Za-z]+|-R|--no-prefix"
)
_SHOW_OPTION = re.compile(
    rf"{_DIFF_OPTION.pattern}|--oneline|--(?:format|pretty)=.+|--decorate|--no-decorate|--no-notes"
    r"|--abbrev-commit|--date=\w+"
)
# `git log -p -3` shows three commits.
_COUNT = re.compile(r"(?<=\s)(?:-n ?|-|--max-count=)(\d{1,3})(?=\s)")
_STATUS_OPTION = re.compile(r"-v|-vv|--verbose|-s|-sb|-b|--short|--branch|-u(?:no|normal|all)?")
_FRONT = frozenset(("--no-pager", "-P"))
# What changes neither the last commit nor, of a file that the sandbox hides, the index.
_KEEPS = frozenset("add branch diff fetch log ls-files rev-parse show stage status".split())
_INERT = frozenset("cd echo printf true : ls cat pwd head tail wc grep less".split())


def compares_files(command: CommandFacts) -> bool:
    """Return whether a command is `git diff` for all files of the working tree.

    To Git, the files that the sandbox hides look unchanged, so that this shows nothing of them.

    Args:
        command: The command.
    """
    words = git_words(command.words)
    return words[1:2] == ("diff",) and not any(
        word in (*_INDEX, "--merge-base", "--no-index") or not word.startswith("-")
        for word in words[2:]
    )


def searches_files(command: CommandFacts) -> bool:
    """Return whether a command is `git grep` for the files of the working tree, not for revisions.

    Args:
        command: The command.
    """
    words = git_words(command.words)
    if words[1:2] != ("grep",) or not {"--cached", "--no-index", "-f"}.isdisjoint(words):
        return False
    parsed = parse_options(words[2:], git_options.GREP)
    if parsed.unknown:
        return False
    named = parsed.operands if parsed.has("-e") else parsed.operands[1:]
    folder = git_folders.find_folder(command)
    return all(
        UNKNOWN not in word and os.path.lexists(os.path.join(folder, word)) for word in named
    )


def find_compared(command: CommandFacts, commands: Sequence[CommandFacts]) -> tuple[str, ...]:
    """Return the two revisions of which a command shows only how their files differ.

    Of a file that the sandbox hides, the working tree is as the index.

    Args:
        command: The command.
        commands: All commands of the call, one of which may commit or stage something else.

    Returns:
        The revisions, of which an empty one is the index; empty if the command may show more.
    """
    words = git_words(command.words)
    front = command.words[1 : len(command.words) - len(words) + 1]
    read = _READERS.get("".join(words[1:2]))
    if command.effects.program != "git" or read is None or not _FRONT.issuperset(front):
        return ()
    compared = read([word for word in words[2:] if word != "--"])
    if not compared or git_folders.find_git_folder(command) in ("", UNKNOWN):
        return ()
    revisions = [each for text in compared for each in re.split(r"\.{2,3}", text)]
    names_branch = not all(_FROM_HEAD.fullmatch(each) or each.startswith("-") for each in revisions)
    for other in commands:
        verb = git_words(other.words)[1:2] if other.effects.program == "git" else ()
        if names_branch and not _CHANGES_BRANCHES.isdisjoint(verb):
            return ()
    return compared if all(map(_keeps_index, commands)) else ()


def _read_diff(words: list[str]) -> tuple[str, ...]:
    revisions = [word for word in words if not word.startswith("-")]
    options = [word for word in words if word.startswith("-")]
    base = ""
    if len(revisions) == 1 and ".." in revisions[0]:
        dots = "..." if "..." in revisions[0] else ".."
        revisions = [each or "HEAD" for each in revisions[0].split(dots)]
        # `main...HEAD` is what was changed since the last commit that both have.
        base = dots.join(revisions) if dots == "..." else ""
    is_plain = all(map(_REVISION.fullmatch, revisions)) and all(
        map(_DIFF_OPTION.fullmatch, options)
    )
    is_staged = not _INDEX.isdisjoint(options)
    if not is_plain or len(revisions) > 2 or not (revisions or is_staged):
        return ()
    if base:
        return (base, revisions[1]) if len(revisions) == 2 and not is_staged else ()
    # Without a second one, Git compares with the index, or with the files, which look like it.
    return (*(revisions or ["HEAD"]), "")[:2]


def _read_status(words: list[str]) -> tuple[str, ...]:
    return ("HEAD", "") if all(map(_STATUS_OPTION.fullmatch, words)) else ()


def _read_show(words: list[str]) -> tuple[str, ...]:
    revisions = [word for word in words if not word.startswith("-")]
    options = [word for word in words if word.startswith("-")]
    is_plain = all(map(_REVISION.fullmatch, revisions)) and all(
        map(_SHOW_OPTION.fullmatch, options)
    )
    if not is_plain or len(revisions) > 1:
        return ()
    # Of a merge, Git shows only files that differ from each of the parents.
    revision = revisions[0] if revisions else "HEAD"
    return (f"{revision}^", revision)


def _read_log(words: list[str]) -> tuple[str, ...]:
    text = " ".join(words)
    ranges = [word for word in words if re.search(r"(?<!\.)\.\.(?!\.)", word)]
    if len(ranges) == 1:
        # `git log -p main..HEAD`, perhaps with a smaller number of commits.
        ends = [each or "HEAD" for each in ranges[0].split("..")]
        others = _COUNT.sub("", f" {' '.join(word for word in words if word not in ranges)} ")
        is_plain = all(map(_REVISION.fullmatch, ends))
        is_plain = is_plain and all(map(_SHOW_OPTION.fullmatch, others.split()))
        return ("..".join(ends), ends[1]) if is_plain and len(ends) == 2 else ()
    rest, found = _COUNT.subn("", f" {text} ")
    shown = _read_show(rest.split()) if found == 1 else ()
    count = "".join(_COUNT.findall(f" {text} "))
    return (f"-{count}", shown[1]) if shown and count != "1" else shown


_READERS: dict[str, Callable[[list[str]], tuple[str, ...]]] = {
    "diff": _read_diff,
    "status": _read_status,
    "show": _read_show,
    "log": _read_log,
}


def _keeps_index(command: CommandFacts) -> bool:
    """Return whether a command certainly stages nothing of files that the sandbox hides."""
    texts = (*command.command.assigned, *command.words)
    if any(text.startswith("GIT_") for text in texts) or command.command.wrapper:
        return False
    if any(".git" in access.path and access.kind != "read" for access in command.effects.files):
        return False
    if command.effects.program == "git":
        words = git_words(command.words)
        front = command.words[1 : len(command.words) - len(words) + 1]
        return _FRONT.issuperset(front) and not _KEEPS.isdisjoint(words[1:2])
    return command.effects.program in _INERT
